//! `longhaul watch [FILE]`: runs the agent. With `--check`, prints the forecast of a watch file, or
//! all its errors.

mod init_command;
mod token_command;

use crate::cli::args::{ArchiveArgs, LogArgs};
use crate::cli::{command_output, header_analysis, serve_command};
use crate::command_failure::{CommandFailure, USAGE};
use clap::{Args, Subcommand};
use etcetera::BaseStrategy;
use init_command::InitArgs;
use longhaul_agent::agent::{self, AgentOptions, ServerExtensions};
use longhaul_agent::watch::watch_file::WatchFile;
use longhaul_agent::watch::watch_forecast::build_forecast;
use longhaul_agent::watch_cost;
use longhaul_agent::watch_file_reading::{read_watch_file, watch_folder};
use longhaul_config::{ConfigProblem, ConfigProblems};
use longhaul_report::number_format::count_of;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use token_command::TokenCommandArgs;

const EXAMPLES: &str = include_str!("help/watch-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/watch-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct WatchArgs {
    #[command(subcommand)]
    pub command: Option<WatchCommand>,
    /// Check the file and show its cost, without measuring
    #[arg(long)]
    pub check: bool,
    /// Watch file [default: longhaul/watch.toml in the XDG configuration folder, else
    /// /etc/longhaul/watch.toml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Watch what a pSConfig template of perfSONAR, a file or a URL, has for this host
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "file")]
    pub psconfig: Option<PathBuf>,
    /// Name of this host in a file that several hosts share [default: the name of the agent in
    /// the file]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Print JSON; the agent prints one object per line
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Write the files of a fleet from a list of its hosts
    Init(InitArgs),
    /// Create, list and revoke named tokens of the agent
    Token(TokenCommandArgs),
}

/// The system-wide file, used if the user has none.
const MACHINE_FILE: &str = "/etc/longhaul/watch.toml";

pub fn run(args: &WatchArgs) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        Some(WatchCommand::Init(init)) => return init_command::run(init),
        Some(WatchCommand::Token(token)) => return token_command::run(token),
        None => {}
    }
    let named = args.psconfig.as_ref().or(args.file.as_ref());
    let path = named.cloned().map_or_else(find_default_file, Ok)?;
    let parsed = read_watch_file(&path, args.agent.as_deref())?;
    if let Ok(WatchFile { serve: Some(serve), .. }) = &parsed {
        serve_command::build_section_handlers(serve, watch_folder(&path))
            .map_err(|why| CommandFailure::new(USAGE, format!("[serve]: {why}")))?;
    }
    for note in parsed.iter().flat_map(|file| &file.notes) {
        command_output::print_caveat(note);
    }
    match parsed {
        Ok(file) if !args.check => run_agent(args, path, file),
        Ok(file) => {
            let costs = build_forecast(&file);
            command_output::print_json_or_document(
                args.json,
                &watch_cost::watch_cost_to_json(&path.display().to_string(), &file, &costs),
                &watch_cost::build_watch_cost_document(&file, &costs),
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) if args.json => {
            command_output::print_json(&problems_json(&problems))?;
            Ok(ExitCode::from(USAGE))
        }
        Err(problems) => Err(watch_file_failure(&problems)),
    }
}

fn run_agent(args: &WatchArgs, path: PathBuf, file: WatchFile) -> Result<ExitCode, CommandFailure> {
    let folder = watch_folder(&path).to_owned();
    let named = file.agent.archive.as_ref().map(|path| folder.join(path));
    let archive = command_output::archive_path(&ArchiveArgs { archive: named })?;
    let agent = args.agent.clone();
    let log_format = args.log.format(args.json, std::io::stdout().is_terminal());
    let server = ServerExtensions {
        build_handlers: serve_command::build_section_handlers,
        header_analysis: header_analysis::analyse_headers,
    };
    let options = AgentOptions { path, folder, agent, archive, log_format, server };
    agent::run(&options, file)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of the user's file, or else the system-wide one.
fn find_default_file() -> Result<PathBuf, CommandFailure> {
    let folders = etcetera::base_strategy::Xdg::new();
    let own = folders.map(|it| it.config_dir().join("longhaul").join("watch.toml"));
    let own = own.ok().filter(|path| path.is_file());
    let path = own.unwrap_or_else(|| PathBuf::from(MACHINE_FILE));
    if path.is_file() {
        return Ok(path);
    }
    let fail = CommandFailure::new(USAGE, "cannot find the default watch file");
    Err(fail
        .hint(Some("name one with `longhaul watch FILE`; see docs/watch-file.md for the format")))
}

pub fn watch_file_failure(problems: &ConfigProblems) -> CommandFailure {
    let number = problems.list.len() + problems.left_out;
    let what = count_of(number as u64, "problem");
    CommandFailure::new(USAGE, format!("{what} in {}\n{problems}", problems.file))
        .hint(Some("see docs/watch-file.md for all keys"))
}

fn problems_json(problems: &ConfigProblems) -> serde_json::Value {
    let problem = |it: &ConfigProblem| {
        let file = it.file.as_ref().unwrap_or(&problems.file);
        json!({ "file": file, "line": it.line, "key": it.key, "problem": it.what, "advice": it.advice })
    };
    let list: Vec<_> = problems.list.iter().map(problem).collect();
    json!({ "file": problems.file, "problems": list, "left_out": problems.left_out })
}

#[cfg(test)]
mod tests {
    use crate::cli::args::CliArgs;
    use clap::Parser;
    use longhaul_agent::agent::build_run_command;
    use longhaul_agent::watch::measure_jobs::build_jobs;
    use longhaul_agent::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};
    use std::ffi::OsString;
    use std::path::Path;

    #[test]
    fn every_kind_is_a_command_that_the_program_understands() {
        for kind in [
            "kind = \"throughput\"\ntime = \"2 s\"\nstreams = 4\nwindow = \"1 MiB\"\nrate = \"50 Mbit/s\"",
            "kind = \"path\"\nprotocol = \"udp\"",
            "kind = \"available\"\nmode = \"careful\"",
            "kind = \"tune\"\ncongestion_control = \"bbr\"",
            "kind = \"load\"\nscavenger = true\nrate = \"1 Gbit/s\"",
            "kind = \"host\"",
        ] {
            let text = format!(
                "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\naddress = \"192.0.2.7\"\nport = 5300\n\
                 token_file = \"b.token\"\n[[target]]\nhost = \"b\"\n\
                 [[measure]]\nname = \"m\"\nevery = \"1 d\"\n{kind}\n"
            );
            let look = |_: &Path| SecretFileState::Private;
            let here = WatchFileContext { agent: None, check_secret: &look };
            let file = parse_watch_file("w", &text, &here).expect("right");
            let jobs = build_jobs(&file, None, 1);
            assert!(!jobs.is_empty(), "{kind}");
            for job in &jobs {
                let made = build_run_command(job, &file, Path::new("/etc/lh"), Path::new("/a.db"));
                let words = made.expect("the host is there").arguments;
                let typed = std::iter::once(OsString::from("longhaul")).chain(words);
                CliArgs::try_parse_from(typed).unwrap_or_else(|error| panic!("{kind}: {error}"));
            }
        }
    }
}
