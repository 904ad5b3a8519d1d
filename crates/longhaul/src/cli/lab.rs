//! `longhaul lab`: emulated long paths on this machine.

use super::args::{BackendArg, ExecArgs, LabCommand, LayingArgs, RunArgs, UpArgs};
use super::output;
use crate::fail::{Fail, HOST};
use crate::render::style::{CAVEAT, paint};
use longhaul_lab::engine::Host;
use longhaul_lab::run::{self, RunRequest};
use longhaul_lab::runtime::Backend;
use longhaul_lab::{catalogue, describe, standing};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

mod show;

pub fn run(command: LabCommand) -> Result<ExitCode, Fail> {
    match command {
        LabCommand::List { json } => list(json),
        LabCommand::Show { path, json } => {
            let path = catalogue::load(&path.path, &path.edits())?;
            if json {
                output::json(&show::json(&path))?;
            } else {
                output::text(&describe::describe(&path))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Run(args) => run_command(args),
        LabCommand::Up(args) => up(&args),
        LabCommand::Exec(args) => exec(args),
        LabCommand::Down { name, truth } => down(&name, truth.as_deref()),
    }
}

/// Sets up the path, runs the command, and returns the command's exit code.
fn run_command(args: RunArgs) -> Result<ExitCode, Fail> {
    let spec = catalogue::load(&args.path.path, &args.path.edits())?;
    let command = args.command.into_iter().map(Into::into).collect();
    let code = run::run(&RunRequest {
        truth: args.truth,
        publish: args.publish,
        backend: backend(&args.laying),
        dispersion: args.laying.dispersion,
        ..RunRequest::new(spec, command)
    })?;
    Ok(exit_code(code))
}

fn up(args: &UpArgs) -> Result<ExitCode, Fail> {
    let spec = catalogue::load(&args.path.path, &args.path.edits())?;
    let standing = standing::up(&spec, backend(&args.laying), args.laying.dispersion)?;
    output::text(&crate::render::runs::stands(&standing.key, &standing.name))?;
    for caveat in &standing.caveats {
        let told = format!("{} {caveat}\n", paint(CAVEAT, "caveat:"));
        let _ = anstream::stderr().write_all(told.as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}

fn exec(args: ExecArgs) -> Result<ExitCode, Fail> {
    let host = if args.far { Host::Far } else { Host::Near };
    let command: Vec<_> = args.command.into_iter().map(Into::into).collect();
    Ok(exit_code(standing::exec(&args.name, host, &command)?))
}

/// Stops the lab after writing the ground truth, so that a failure does not lose it.
fn down(name: &str, truth: Option<&Path>) -> Result<ExitCode, Fail> {
    if let Some(path) = truth {
        let document = format!("{:#}\n", standing::truth(name)?);
        std::fs::write(path, document).map_err(|e| {
            let mut fail = Fail::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some("the lab still stands; name another file"))
        })?;
    }
    standing::down(name)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the exit code of the user's command. A process cannot return one out of range.
fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn backend(args: &LayingArgs) -> Option<Backend> {
    args.backend.map(|asked| match asked {
        BackendArg::Tun => Backend::Tun,
        BackendArg::Packet => Backend::Packet,
    })
}

fn list(as_json: bool) -> Result<ExitCode, Fail> {
    let standing = standing::list()?;
    let pid_of = |key: &str| standing.iter().find(|s| s.key == key).map(|s| s.pid);
    let shipped = catalogue::shipped().map(|(key, name)| (key.to_owned(), name));
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
        output::json(&paths)?;
    } else {
        let standing: Vec<_> = standing
            .iter()
            .map(|s| {
                (
                    s.key.clone(),
                    format!("stands, pid {}, {}", s.pid, s.backend),
                )
            })
            .collect();
        output::text(&crate::render::runs::paths(shipped, &standing))?;
    }
    Ok(ExitCode::SUCCESS)
}
