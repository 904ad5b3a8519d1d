//! `longhaul import`: imports the output of other programs into the archive.
//!
//! - [`reading`]: turns a file into reports

mod reading;

use super::args::ImportArgs;
use super::output;
use crate::fail::{BUG, Fail};
use crate::render;
use longhaul_model::report::v1::{AnyReport, Imported};
use longhaul_store::{Appended, Archive, StoreError};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &ImportArgs) -> Result<ExitCode, Fail> {
    let mut reports = Vec::new();
    for file in &args.files {
        reports.extend(reading::reports(file, args)?);
    }
    let states = if args.dry_run {
        vec!["not filed"; reports.len()]
    } else {
        file_all(&output::archive_path(&args.archive)?, &reports)?
    };
    if args.json {
        let rows = states.iter().zip(&reports);
        let rows = rows.map(|(state, report)| json!({"state": state, "report": report}));
        output::json(&Value::Array(rows.collect()))?;
    } else {
        let rows: Vec<_> = states.into_iter().zip(&reports).collect();
        output::text(&render::imported::filed(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn file_all(path: &Path, reports: &[Imported]) -> Result<Vec<&'static str>, Fail> {
    let mut archive = Archive::open(path)?;
    let file = |report| file_one(&mut archive, report);
    reports.iter().map(file).collect()
}

fn file_one(archive: &mut Archive, report: &Imported) -> Result<&'static str, Fail> {
    match archive.append(report) {
        Ok(Appended::New) => Ok("filed"),
        Ok(Appended::Already) => Ok("already filed"),
        Err(StoreError::IdTaken { id }) => {
            // The same file under another name, or parsed by a newer longhaul.
            let same = |plan: &longhaul_model::report::v1::imported::Plan| {
                plan.content_sha256 == report.plan.content_sha256 && plan.index == report.plan.index
            };
            match archive.find(&id)? {
                AnyReport::Imported(there) if same(&there.plan) => Ok("already filed"),
                _ => {
                    let text = format!("cannot file {id}: another run has this id");
                    Err(Fail::new(BUG, text).hint(Some("another --at makes another id")))
                }
            }
        }
        Err(error) => Err(error.into()),
    }
}
