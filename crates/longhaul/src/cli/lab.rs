//! `longhaul lab`: emulated long paths on this machine.

use super::args::LabCommand;
use super::output;
use crate::fail::Fail;
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
