//! `longhaul record`: claims of records, checked.
//!
//! - [`airports`]: where cities are
//! - [`claim_file`]: claims as people write them down

mod airports;
mod claim_file;
#[cfg(test)]
mod tests;

use super::args::RecordCommand;
use super::output;
use crate::fail::{EXPECTATION_MISSED, Fail, USAGE};
use crate::render;
use airports::Airports;
use longhaul_analysis::claim;
use longhaul_model::report::v1::claim::{Checked, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(command: RecordCommand) -> Result<ExitCode, Fail> {
    match command {
        RecordCommand::Check { files, json } => check(&files, json),
    }
}

fn check(files: &[PathBuf], as_json: bool) -> Result<ExitCode, Fail> {
    let airports = Airports::read();
    let mut all = Vec::new();
    for file in files {
        for claim in claim_file::read(file)? {
            let checked = claim::check(&claim, &airports).map_err(|e| wrong(file, &e))?;
            all.push(checked);
        }
    }
    if as_json {
        output::json(&json!(all))?;
    } else {
        output::text(&render::claim::text(&all))?;
    }
    Ok(if all.iter().any(is_wrong) {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

fn is_wrong(checked: &Checked) -> bool {
    let mut checks = checked.checks.iter();
    checks.any(|check| check.verdict >= Verdict::Differs)
}

fn wrong(file: &Path, error: &claim::Problem) -> Fail {
    let mut fail = Fail::from_error(USAGE, error);
    fail.message = format!("{}: {}", file.display(), fail.message);
    fail.hint(Some(
        "print figures with their unit, as in `4.92 GB`, `1001 s`, `6.25 Gbit/s`",
    ))
}
