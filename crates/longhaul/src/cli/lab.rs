//! `longhaul lab`: emulated long paths on this machine.

use super::args::{BackendArg, LabCommand, RunArgs};
use super::output;
use crate::fail::Fail;
use longhaul_lab::run::{self, RunRequest};
use longhaul_lab::runtime::Backend;
use longhaul_lab::{catalogue, describe};
use serde_json::{Value, json};
use std::process::ExitCode;

mod show;

pub fn run(command: LabCommand) -> Result<ExitCode, Fail> {
    match command {
        LabCommand::List { json } => list(json),
        LabCommand::Show { path, json } => {
            let path = catalogue::load(&path.path, &path.sets)?;
            if json {
                output::json(&show::json(&path))?;
            } else {
                output::text(&describe::describe(&path))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Run(args) => run_command(args),
    }
}

/// Lays the path and runs the command; ends with the command's own exit code.
fn run_command(args: RunArgs) -> Result<ExitCode, Fail> {
    let spec = catalogue::load(&args.path.path, &args.path.sets)?;
    let command = args.command.into_iter().map(Into::into).collect();
    let code = run::run(&RunRequest {
        truth: args.laying.truth,
        backend: args.laying.backend.map(backend),
        dispersion: args.laying.dispersion,
        ..RunRequest::new(spec, command)
    })?;
    // A code out of range cannot come from a process.
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn backend(asked: BackendArg) -> Backend {
    match asked {
        BackendArg::Tun => Backend::Tun,
        BackendArg::Packet => Backend::Packet,
    }
}

fn list(as_json: bool) -> Result<ExitCode, Fail> {
    if as_json {
        let paths: Value = catalogue::shipped()
            .map(|(key, name)| json!({"key": key, "name": name}))
            .collect();
        output::json(&paths)?;
    } else {
        output::text(&crate::render::runs::paths(catalogue::shipped()))?;
    }
    Ok(ExitCode::SUCCESS)
}
