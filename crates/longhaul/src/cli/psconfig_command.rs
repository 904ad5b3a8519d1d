//! `longhaul psconfig convert`: a pSConfig template of perfSONAR as a watch file.

use crate::cli::command_output;
use crate::cli::watch_command::watch_file_failure;
use crate::command_failure::{CommandFailure, USAGE};
use clap::{Args, Subcommand};
use longhaul_agent::psconfig::convert_template;
use longhaul_agent::watch_file_reading::read_template_text;
use longhaul_probe::throughput::initiator_party;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/psconfig-examples.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PsconfigArgs {
    #[command(subcommand)]
    pub command: PsconfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum PsconfigCommand {
    /// Print the watch file of one host
    Convert(ConvertArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConvertArgs {
    /// Template in JSON: a file or a URL; `-` is standard input
    #[arg(value_name = "TEMPLATE")]
    pub template: PathBuf,
    /// Address, or name of an address or host in the template, that is this host; may be repeated
    /// [default: the name of this host]
    #[arg(long, value_name = "NAME")]
    pub agent: Vec<String>,
}

pub fn run(args: &PsconfigArgs) -> Result<ExitCode, CommandFailure> {
    let PsconfigCommand::Convert(args) = &args.command;
    let shown = args.template.display().to_string();
    let path = if shown == "-" { PathBuf::from("/dev/stdin") } else { args.template.clone() };
    let text = read_template_text(&path).map_err(|error| {
        CommandFailure::new(USAGE, format!("cannot read the template {shown}")).cause(&error)
    })?;
    let host = match &args.agent[..] {
        [] => vec![initiator_party(None).host],
        names => names.to_vec(),
    };
    let converted = convert_template(&shown, &text, &host).map_err(|it| watch_file_failure(&it))?;
    let mut file = String::new();
    for note in &converted.notes {
        // Writing to a string does not fail.
        let _ = writeln!(file, "# not taken: {note}");
    }
    let agent = serde_json::Value::from(converted.agent);
    let _ = write!(file, "[agent]\nname = {agent}\n\n[serve]\n\n{}", converted.tables);
    command_output::print_unstyled(&file)?;
    Ok(ExitCode::SUCCESS)
}
