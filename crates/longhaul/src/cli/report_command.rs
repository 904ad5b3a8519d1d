//! `longhaul report`: shows archived results.
//!
//! - [`event_reports`], [`route_tables`]: events found by an agent; traces over time
//! - [`case_report`], [`mod@site_report`], [`asymmetry_report`], [`compare_report`]: comparisons of runs; [`run_collection`] reads the
//!   runs, [`run_sets`] selects them, [`report_output`] writes the report

mod asymmetry_report;
mod case_report;
mod compare_report;
mod event_reports;
pub mod report_output;
mod route_tables;
mod run_collection;
mod run_sets;
mod site_report;

use super::args::{ArchiveArgs, ReportCommand, ReportOutputArgs, ScanFilesArgs};
use super::{command_output, load_command, tune_command};
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_model::report::v1::AnyReport;
use longhaul_store::{Archive, RunEntry};
use serde_json::{Value, json};
use std::process::ExitCode;

pub fn run(command: ReportCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        ReportCommand::List { limit, json, archive } => list_archived_runs(limit, json, &archive),
        ReportCommand::Show { id, written, files, archive } => {
            show_run(&id, &written, &files, &archive)
        }
        ReportCommand::Case(args) => case_report::run(&args),
        ReportCommand::Site(args) => site_report::run(&args),
        ReportCommand::Asymmetry(args) => asymmetry_report::run(&args),
        ReportCommand::Compare(args) => compare_report::run(&args),
        ReportCommand::Routes(args) => route_tables::run(&args),
        ReportCommand::Events(args) => event_reports::list_found_events(&args),
        ReportCommand::Event { id, json, archive } => {
            event_reports::show_event(&id, json, &archive)
        }
    }
}

fn list_archived_runs(
    limit: u32,
    as_json: bool,
    args: &ArchiveArgs,
) -> Result<ExitCode, CommandFailure> {
    let path = command_output::archive_path(args)?;
    // A missing file means that there is no run yet, which is not a failure.
    let entries = match Archive::open_existing(&path)? {
        Some(archive) => archive.list(limit)?,
        None => Vec::new(),
    };
    if as_json {
        command_output::print_json(&Value::Array(entries.iter().map(entry_json).collect()))?;
    } else if entries.is_empty() {
        command_output::print_text(&format!("no runs in {} yet\n", path.display()))?;
    } else {
        command_output::print_text(&super::run_list::build_run_list(&entries).text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_run(
    id: &str,
    written: &ReportOutputArgs,
    files: &ScanFilesArgs,
    args: &ArchiveArgs,
) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(written)?;
    let archive = report_output::open_existing_archive(args)?;
    let report = archive.find(id)?;
    report_output::write_report(written, &report, |_| longhaul_report::build_document(&report))?;
    let curves = !files.plot_curves.is_empty() || !files.plot_asymmetry.is_empty();
    match &report {
        AnyReport::Scan(scan) => tune_command::scan_files::write_scan_files(files, scan)?,
        AnyReport::Load(report) if !curves => {
            load_command::load_files::write_load_files(&files.plot, files.csv.as_deref(), report)?;
        }
        AnyReport::Load(_) => {
            let what = "cannot draw this plot: loads have only the one of `--plot FILE`";
            return Err(CommandFailure::new(USAGE, what));
        }
        _ if tune_command::scan_files::any_file_requested(files) => {
            return Err(CommandFailure::new(
                USAGE,
                "cannot write CSV or plots: this run is neither a scan nor a load",
            ));
        }
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the indexed columns under their names in the report.
fn entry_json(entry: &RunEntry) -> Value {
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
