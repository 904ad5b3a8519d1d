//! `longhaul import`: imports the output of other programs into the archive.
//!
//! - [`import_reader`]: turns a file into reports

mod import_reader;

use super::args::ImportArgs;
use super::command_output;
use crate::command_failure::{BUG, CommandFailure};
use longhaul_model::report::v1::{AnyReport, ImportedReport};
use longhaul_store::{AppendOutcome, Archive, StoreError};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &ImportArgs) -> Result<ExitCode, CommandFailure> {
    let mut reports = Vec::new();
    for file in &args.files {
        reports.extend(import_reader::read_reports(file, args)?);
    }
    let states = if args.dry_run {
        vec!["not filed"; reports.len()]
    } else {
        archive_imports(&command_output::archive_path(&args.archive)?, &reports)?
    };
    if args.json {
        let rows = states.iter().zip(&reports);
        let rows = rows.map(|(state, report)| json!({"state": state, "report": report}));
        command_output::print_json(&Value::Array(rows.collect()))?;
    } else {
        let rows: Vec<_> = states.into_iter().zip(&reports).collect();
        command_output::print_document(&longhaul_report::imported_text::build_import_document(
            &rows,
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn archive_imports(
    path: &Path,
    reports: &[ImportedReport],
) -> Result<Vec<&'static str>, CommandFailure> {
    let mut archive = Archive::open(path)?;
    let file = |report| archive_import(&mut archive, report);
    reports.iter().map(file).collect()
}

fn archive_import(
    archive: &mut Archive,
    report: &ImportedReport,
) -> Result<&'static str, CommandFailure> {
    match archive.append(report) {
        Ok(AppendOutcome::New) => Ok("filed"),
        Ok(AppendOutcome::AlreadyStored) => Ok("already filed"),
        Err(StoreError::IdTaken { id }) => {
            // The same file under another name, or parsed by a newer longhaul.
            let same = |plan: &longhaul_model::report::v1::imported::ImportPlan| {
                plan.content_sha256 == report.plan.content_sha256 && plan.index == report.plan.index
            };
            match archive.find(&id)? {
                AnyReport::Imported(there) if same(&there.plan) => Ok("already filed"),
                _ => {
                    let text = format!("cannot import {id}: another run has this id");
                    Err(CommandFailure::new(BUG, text)
                        .hint(Some("give another time with `--at TIME`")))
                }
            }
        }
        Err(error) => Err(error.into()),
    }
}
