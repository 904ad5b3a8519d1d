//! `longhaul report`: shows archived results.
//!
//! - [`events`], [`routes`]: events found by an agent; traces over time
//! - [`case`], [`mod@site`], [`asymmetry`], [`compare`]: comparisons of runs; [`gather`] reads the
//!   runs, [`sets`] selects them, [`written`] writes the report

mod asymmetry;
mod case;
mod compare;
mod events;
mod gather;
mod routes;
mod sets;
mod site;
mod written;

use super::args::{ArchiveArgs, ReportCommand, ScanFilesArgs};
use super::{load, output, tune};
use crate::fail::{ARCHIVE, Fail, USAGE};
use crate::render;
use longhaul_model::report::v1::AnyReport;
use longhaul_store::{Archive, Entry};
use serde_json::{Value, json};
use std::process::ExitCode;

pub fn run(command: ReportCommand) -> Result<ExitCode, Fail> {
    match command {
        ReportCommand::List {
            limit,
            json,
            archive,
        } => list(limit, json, &archive),
        ReportCommand::Show {
            id,
            json,
            files,
            archive,
        } => show(&id, json, &files, &archive),
        ReportCommand::Case(args) => case::run(&args),
        ReportCommand::Site(args) => site::run(&args),
        ReportCommand::Asymmetry(args) => asymmetry::run(&args),
        ReportCommand::Compare(args) => compare::run(&args),
        ReportCommand::Routes(args) => routes::run(&args),
        ReportCommand::Events(args) => events::list(&args),
        ReportCommand::Event { id, json, archive } => events::one(&id, json, &archive),
    }
}

fn list(limit: u32, as_json: bool, args: &ArchiveArgs) -> Result<ExitCode, Fail> {
    let path = output::archive_path(args)?;
    // A missing file means that there is no run yet, which is not a failure.
    let entries = match Archive::open_existing(&path)? {
        Some(archive) => archive.list(limit)?,
        None => Vec::new(),
    };
    if as_json {
        output::json(&Value::Array(entries.iter().map(entry_json).collect()))?;
    } else if entries.is_empty() {
        output::text(&format!("no run is archived in {} yet\n", path.display()))?;
    } else {
        output::text(&render::runs::list(&entries))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(
    id: &str,
    as_json: bool,
    files: &ScanFilesArgs,
    args: &ArchiveArgs,
) -> Result<ExitCode, Fail> {
    let path = output::archive_path(args)?;
    let archive = Archive::open_existing(&path)?.ok_or_else(|| {
        Fail::new(ARCHIVE, format!("there is no archive {}", path.display())).hint(Some(
            "`longhaul test HOST` makes one; `--archive FILE` names another",
        ))
    })?;
    let report = archive.find(id)?;
    output::report(&report, render::any, as_json)?;
    let curves = !files.plot_curves.is_empty() || !files.plot_asymmetry.is_empty();
    match &report {
        AnyReport::Scan(scan) => tune::files::write(files, scan)?,
        AnyReport::Load(report) if !curves => {
            load::files::write(&files.plot, files.csv.as_deref(), report)?;
        }
        AnyReport::Load(_) => {
            let what = "loads have one picture, which `--plot FILE` draws";
            return Err(Fail::new(USAGE, what));
        }
        _ if tune::files::any(files) => {
            return Err(Fail::new(
                USAGE,
                "only scans and loads can be written as CSV or drawn, and this run is neither",
            ));
        }
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the indexed columns under their names in the report.
fn entry_json(entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "started_at": entry.started_at,
        "kind": entry.kind,
        "initiator": entry.initiator_host,
        "responder": entry.responder_host,
        "responder_address": entry.responder_address,
        "streams": entry.streams,
        "goodput_bps": entry.goodput_bps,
        "limited_by": entry.limited_by,
        "analysis_version": entry.analysis_version,
        "parts": entry.parts,
    })
}
