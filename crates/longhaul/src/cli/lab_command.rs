//! `longhaul lab`: emulated long paths on this machine.

use crate::cli::command_output;
use crate::command_failure::CommandFailure;
use clap::{Args, Subcommand};
use longhaul_lab::lab_run::{self, LabRunRequest};
use longhaul_lab::lab_runtime::LabBackend;
use longhaul_lab::path_spec::PathSpec;
use longhaul_lab::{path_catalogue, path_description, sysctl_guard};
use longhaul_report::document::ReportDocument;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/lab-examples.txt").trim_ascii_end();

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the shipped paths
    List {
        /// Print JSON
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Show a path: hops, delays, rates and the limits of the lab
    Show {
        #[command(flatten)]
        path: LabPathArgs,
    },
    /// Set up a path, run a command on its near host, and remove the path
    Run(LabRunArgs),
    /// Restore settings of this machine that a killed lab has left
    Clean,
}

/// Which path, with which changes.
#[derive(Debug, Args)]
pub struct LabPathArgs {
    /// Name of a shipped path, or a TOML file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Change a value of the path, such as hops.3.forward.loss=0.001; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Start at this time of the path, after its earlier events
    #[arg(long, value_name = "TIME")]
    pub begin_at: Option<String>,
}

impl LabPathArgs {
    /// Returns the changes to the path, in order.
    pub fn edits(&self) -> Vec<String> {
        let begin = self.begin_at.iter().map(|at| format!("begin_at={at}"));
        self.sets.iter().cloned().chain(begin).collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabRunArgs {
    #[command(flatten)]
    pub path: LabPathArgs,
    /// Attach the hosts in this way: tun or packet
    #[arg(long, env = "LONGHAUL_LAB_BACKEND", hide = true, value_parser = parse_backend)]
    pub backend: Option<LabBackend>,
    /// Write the ground truth to this file, as JSON
    #[arg(long, value_name = "FILE", env = "LONGHAUL_LAB_TRUTH", hide_env_values = true)]
    pub truth: Option<PathBuf>,
    /// Make this TCP port of the near host reachable on 127.0.0.1; may be repeated
    #[arg(long, value_name = "PORT")]
    pub publish: Vec<u16>,
    /// Command and arguments to run on the near host
    #[arg(value_name = "CMD", required = true, last = true, num_args = 1..)]
    pub command: Vec<String>,
}

fn parse_backend(text: &str) -> Result<LabBackend, String> {
    let known = [LabBackend::Tun, LabBackend::Packet];
    let found = known.into_iter().find(|backend| backend.name() == text);
    found.ok_or_else(|| "write tun or packet".to_owned())
}

pub fn run(command: LabCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        LabCommand::List { json } => lab_list(json)?,
        LabCommand::Show { path } => {
            command_output::print_text(&path_description::describe_path(&load_path(&path)?))?;
        }
        LabCommand::Run(args) => return run_in_new_lab(args),
        LabCommand::Clean => clean_up()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Restores the settings that killed labs have left.
fn clean_up() -> Result<(), CommandFailure> {
    let stale = sysctl_guard::find_stale_sysctls();
    sysctl_guard::restore_stale_sysctls(&stale)?;
    let restored = stale.iter().flat_map(|left| &left.originals);
    let lines: Vec<String> =
        restored.map(|(name, value)| format!("restored        {name} = {value}\n")).collect();
    let text = if lines.is_empty() { "nothing to restore\n".to_owned() } else { lines.concat() };
    command_output::print_text(&text)
}

/// Returns a line about settings that a killed lab has left, if there are any.
pub fn describe_stale_lab() -> Option<String> {
    let stale = sysctl_guard::find_stale_sysctls();
    let names = stale.iter().flat_map(|left| &left.originals).map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.collect();
    let changed = names.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "a killed lab has left {changed} changed on this machine; restore: longhaul lab clean"
        )
    })
}

fn load_path(args: &LabPathArgs) -> Result<PathSpec, CommandFailure> {
    Ok(path_catalogue::load_path(&args.path, &args.edits())?)
}

/// Sets up the path, runs the command, and returns the command's exit code.
fn run_in_new_lab(args: LabRunArgs) -> Result<ExitCode, CommandFailure> {
    let spec = load_path(&args.path)?;
    let command = args.command.into_iter().map(Into::into).collect();
    let code = lab_run::run(&LabRunRequest {
        spec,
        command,
        truth: args.truth,
        publish: args.publish,
        backend: args.backend,
    })?;
    // A process cannot return an exit code out of range.
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Prints the shipped paths with their names.
fn lab_list(as_json: bool) -> Result<(), CommandFailure> {
    let shipped = path_catalogue::list_shipped_paths();
    if as_json {
        let paths: Value = shipped.map(|(key, name)| json!({"key": key, "name": name})).collect();
        return command_output::print_json(&paths);
    }
    let mut page = ReportDocument::default();
    for (key, name) in shipped {
        page.fact(key, name);
    }
    command_output::print_document(&page)
}
