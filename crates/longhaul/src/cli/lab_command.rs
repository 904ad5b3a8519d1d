//! `longhaul lab`: emulated long paths on this machine.

use super::args::{LabBackendArg, LabCommand, LabExecArgs, LabRunArgs, LabSetupArgs, LabUpArgs};
use super::command_output;
use crate::command_failure::{CommandFailure, HOST};
use longhaul_lab::emulation_engine::LabHost;
use longhaul_lab::lab_run::{self, LabRunRequest};
use longhaul_lab::lab_runtime::LabBackend;
use longhaul_lab::{path_catalogue, path_description, persistent_lab};
use longhaul_report::style::{CAVEAT, paint};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

mod lab_path_json;

pub fn run(command: LabCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        LabCommand::List { json } => lab_list(json),
        LabCommand::Show { path, json } => {
            let path = path_catalogue::load_path(&path.path, &path.edits())?;
            if json {
                command_output::print_json(&lab_path_json::path_json(&path))?;
            } else {
                command_output::print_text(&path_description::describe_path(&path))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Run(args) => run_in_new_lab(args),
        LabCommand::Up(args) => lab_up(&args),
        LabCommand::Exec(args) => lab_exec(args),
        LabCommand::Down { name, truth } => lab_down(&name, truth.as_deref()),
    }
}

/// Sets up the path, runs the command, and returns the command's exit code.
fn run_in_new_lab(args: LabRunArgs) -> Result<ExitCode, CommandFailure> {
    let spec = path_catalogue::load_path(&args.path.path, &args.path.edits())?;
    let command = args.command.into_iter().map(Into::into).collect();
    let code = lab_run::run(&LabRunRequest {
        truth: args.truth,
        publish: args.publish,
        backend: choose_backend(&args.laying),
        dispersion: args.laying.dispersion,
        ..LabRunRequest::new(spec, command)
    })?;
    Ok(lab_exit_code(code))
}

fn lab_up(args: &LabUpArgs) -> Result<ExitCode, CommandFailure> {
    let spec = path_catalogue::load_path(&args.path.path, &args.path.edits())?;
    let standing =
        persistent_lab::start_lab(&spec, choose_backend(&args.laying), args.laying.dispersion)?;
    command_output::print_document(&super::run_list::build_lab_started_document(
        &standing.key,
        &standing.name,
    ))?;
    for caveat in &standing.caveats {
        let told = format!("{} {caveat}\n", paint(CAVEAT, "caveat:"));
        let _ = anstream::stderr().write_all(told.as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}

fn lab_exec(args: LabExecArgs) -> Result<ExitCode, CommandFailure> {
    let host = if args.far { LabHost::Far } else { LabHost::Near };
    let command: Vec<_> = args.command.into_iter().map(Into::into).collect();
    Ok(lab_exit_code(persistent_lab::exec_command(&args.name, host, &command)?))
}

/// Stops the lab after writing the ground truth, so that a failure does not lose it.
fn lab_down(name: &str, truth: Option<&Path>) -> Result<ExitCode, CommandFailure> {
    if let Some(path) = truth {
        let document = format!("{:#}\n", persistent_lab::read_truth(name)?);
        std::fs::write(path, document).map_err(|e| {
            let mut fail = CommandFailure::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some("name another file; the lab is still running"))
        })?;
    }
    persistent_lab::stop_lab(name)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the exit code of the user's command. A process cannot return one out of range.
fn lab_exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn choose_backend(args: &LabSetupArgs) -> Option<LabBackend> {
    args.backend.map(|asked| match asked {
        LabBackendArg::Tun => LabBackend::Tun,
        LabBackendArg::Packet => LabBackend::Packet,
    })
}

fn lab_list(as_json: bool) -> Result<ExitCode, CommandFailure> {
    let standing = persistent_lab::list_labs()?;
    let pid_of = |key: &str| standing.iter().find(|s| s.key == key).map(|s| s.pid);
    let shipped = path_catalogue::list_shipped_paths().map(|(key, name)| (key.to_owned(), name));
    if as_json {
        let mut paths: Vec<(String, String)> = shipped.collect();
        for own in &standing {
            if paths.iter().all(|(key, _)| *key != own.key) {
                paths.push((own.key.clone(), own.name.clone()));
            }
        }
        let paths: Value = paths
            .iter()
            .map(|(key, name)| json!({"key": key, "name": name, "pid": pid_of(key)}))
            .collect();
        command_output::print_json(&paths)?;
    } else {
        let standing: Vec<_> = standing
            .iter()
            .map(|s| (s.key.clone(), format!("running, pid {}, {}", s.pid, s.backend)))
            .collect();
        command_output::print_document(&super::run_list::build_lab_list(shipped, &standing))?;
    }
    Ok(ExitCode::SUCCESS)
}
