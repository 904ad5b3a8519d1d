//! `longhaul lab`: emulated long paths on this machine.

use crate::cli::command_output;
use crate::command_failure::CommandFailure;
use clap::{Args, Subcommand};
use longhaul_lab::emulation_engine::LabHost;
use longhaul_lab::lab_run::{self, LabRunRequest};
use longhaul_lab::lab_runtime::LabBackend;
use longhaul_lab::path_spec::PathSpec;
use longhaul_lab::{path_catalogue, path_description, persistent_lab};
use longhaul_report::document::ReportDocument;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  longhaul lab list
  longhaul lab show la-geneva
  longhaul lab run la-geneva -- longhaul test far
  longhaul lab run la-geneva --set hops.3.forward.loss=0.001 -- longhaul test far
  longhaul lab run slac-daresbury -- ping -c 5 far
  longhaul lab run slac-cesnet --begin-at 61s -- longhaul test far
  longhaul lab run slac-cesnet --publish 5280 -- longhaul watch watch.toml

In the lab, the hosts are called near and far; far also has the name of the
path, as in `longhaul test slac-cesnet`. The command runs on near, and
`longhaul serve` runs on far. LONGHAUL_LAB_TRUTH names the file for the ground
truth.";

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the shipped and the running paths
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
    /// Set up a path that stays until `lab down`
    Up(LabUpArgs),
    /// Run a command in a running path
    Exec(LabExecArgs),
    /// Remove a running path
    Down {
        /// Name of the running path, as shown by `lab list`
        #[arg(value_name = "NAME")]
        name: String,
        /// Write the ground truth to this file, as JSON
        #[arg(long, value_name = "FILE", env = "LONGHAUL_LAB_TRUTH", hide_env_values = true)]
        truth: Option<PathBuf>,
    },
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
    #[command(flatten)]
    pub setup: LabSetupArgs,
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

#[derive(Debug, Args)]
pub struct LabUpArgs {
    #[command(flatten)]
    pub path: LabPathArgs,
    #[command(flatten)]
    pub setup: LabSetupArgs,
}

/// How a lab is set up.
#[derive(Debug, Args)]
pub struct LabSetupArgs {
    /// Keep the spacing of packets as exact as possible, for dispersion measurements
    #[arg(long)]
    pub dispersion: bool,
    /// Attach the hosts in this way: tun or packet
    #[arg(long, env = "LONGHAUL_LAB_BACKEND", hide = true, value_parser = parse_backend)]
    pub backend: Option<LabBackend>,
}

fn parse_backend(text: &str) -> Result<LabBackend, String> {
    let known = [LabBackend::Tun, LabBackend::Packet];
    let found = known.into_iter().find(|backend| backend.name() == text);
    found.ok_or_else(|| "write tun or packet".to_owned())
}

#[derive(Debug, Args)]
pub struct LabExecArgs {
    /// Name of the running path
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Run on the far host instead of the near host
    #[arg(long)]
    pub far: bool,
    /// Command and arguments
    #[arg(value_name = "CMD", required = true, last = true, num_args = 1..)]
    pub command: Vec<String>,
}

pub fn run(command: LabCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        LabCommand::List { json } => lab_list(json)?,
        LabCommand::Show { path } => {
            command_output::print_text(&path_description::describe_path(&load_path(&path)?))?;
        }
        LabCommand::Run(args) => return run_in_new_lab(args),
        LabCommand::Up(args) => lab_up(&args)?,
        LabCommand::Exec(args) => return lab_exec(args),
        LabCommand::Down { name, truth } => lab_down(&name, truth.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load_path(args: &LabPathArgs) -> Result<PathSpec, CommandFailure> {
    Ok(path_catalogue::load_path(&args.path, &args.edits())?)
}

/// Sets up the path, runs the command, and returns the command's exit code.
fn run_in_new_lab(args: LabRunArgs) -> Result<ExitCode, CommandFailure> {
    let spec = load_path(&args.path)?;
    let command = args.command.into_iter().map(Into::into).collect();
    let code = lab_run::run(&LabRunRequest {
        truth: args.truth,
        publish: args.publish,
        dispersion: args.setup.dispersion,
        backend: args.setup.backend,
        ..LabRunRequest::new(spec, command)
    })?;
    Ok(lab_exit_code(code))
}

fn lab_up(args: &LabUpArgs) -> Result<(), CommandFailure> {
    let LabSetupArgs { dispersion, backend } = args.setup;
    let lab = persistent_lab::start_lab(&load_path(&args.path)?, backend, dispersion)?;
    let key = &lab.key;
    let mut page = ReportDocument::default();
    page.paragraph(format!("{key} is up: {}", lab.name));
    page.command(format!("longhaul lab exec {key} --far -- longhaul serve &"));
    page.command(format!("longhaul lab exec {key} -- longhaul test far"));
    page.command(format!("longhaul lab down {key}"));
    command_output::print_document(&page)?;
    for caveat in &lab.caveats {
        command_output::print_caveat(caveat);
    }
    Ok(())
}

fn lab_exec(args: LabExecArgs) -> Result<ExitCode, CommandFailure> {
    let host = if args.far { LabHost::Far } else { LabHost::Near };
    let command: Vec<_> = args.command.into_iter().map(Into::into).collect();
    Ok(lab_exit_code(persistent_lab::exec_command(&args.name, host, &command)?))
}

/// Stops the lab after writing the ground truth, so that a failure does not lose it.
fn lab_down(name: &str, truth: Option<&Path>) -> Result<(), CommandFailure> {
    if let Some(path) = truth {
        let document = format!("{:#}\n", persistent_lab::read_truth(name)?);
        let hint = "name another file; the lab is still running";
        command_output::write_file(path, &document, hint)?;
    }
    Ok(persistent_lab::stop_lab(name)?)
}

/// Returns the exit code of the user's command. A process cannot return one out of range.
fn lab_exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Prints the shipped paths with their names, then the running ones with their state.
fn lab_list(as_json: bool) -> Result<(), CommandFailure> {
    let running = persistent_lab::list_labs()?;
    let mut shipped: Vec<(String, String)> =
        path_catalogue::list_shipped_paths().map(|(key, name)| (key.to_owned(), name)).collect();
    if as_json {
        for own in &running {
            if shipped.iter().all(|(key, _)| *key != own.key) {
                shipped.push((own.key.clone(), own.name.clone()));
            }
        }
        let pid_of = |key: &str| running.iter().find(|lab| lab.key == key).map(|lab| lab.pid);
        let paths: Value = shipped
            .iter()
            .map(|(key, name)| json!({"key": key, "name": name, "pid": pid_of(key)}))
            .collect();
        return command_output::print_json(&paths);
    }
    let mut page = ReportDocument::default();
    for (key, name) in &shipped {
        page.fact(key, name);
    }
    if !running.is_empty() {
        page.gap();
    }
    for lab in &running {
        page.fact(&lab.key, format!("running, pid {}, {}", lab.pid, lab.backend));
    }
    command_output::print_document(&page)
}
