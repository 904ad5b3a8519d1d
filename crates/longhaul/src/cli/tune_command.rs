//! `longhaul tune HOST`: runs probe after probe, then analyses, archives and shows the scan.
//!
//! - [`scan_plan`]: builds the plan from options
//! - [`scan_history`]: earlier scans of the path in the archive
//! - [`active_scan`]: the scan in progress; [`probe_attempt`]: one probe
//! - [`guided_search`], [`grid_scan`]: the choice of the next probe
//! - [`scan_progress`]: progress on stderr; [`scan_files`]: CSV and plots

mod active_scan;
mod grid_scan;
mod guided_search;
pub mod probe_attempt;
pub mod scan_files;
pub mod scan_history;
pub mod scan_plan;
mod scan_progress;

use super::args::TuneArgs;
use super::report_command::report_output;
use super::{interrupt, report_archiving};
use crate::cli::report_archiving::RunEnvelope;
use crate::command_failure::{CommandFailure, INTERRUPTED, PEER};
use active_scan::{ActiveScan, ScanHalt};
use jiff::Timestamp;
use longhaul_analysis::scan::conclude_scan;
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::SearchMode;
use longhaul_probe::throughput;
use longhaul_report::scan_text::build_scan_document;
use std::process::ExitCode;

/// Reasons for the end of a scan that can be resumed.
const FAR_END_GONE: &str = "far_end_gone";
const CUT_OFF: &str = "interrupted";

pub fn run(args: &TuneArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let plan = scan_plan::plan_scan(args)?;
    let target = scan_plan::scan_target(args)?;
    let stop = interrupt::install_stop_flag()?;
    let idle_rtt = throughput::measure_connect_rtt(&target)?;
    let mut course = ActiveScan::begin(args, plan, target, idle_rtt, stop);
    let ended = match course.plan.search {
        SearchMode::Guided => guided_search::search_all_directions(&mut course, idle_rtt),
        SearchMode::Grid => grid_scan::scan_grid(&mut course),
    };
    course.progress.clear_line();
    match ended {
        Ok(stopped_by) => finish_scan(course, stopped_by),
        Err(halt) => abort_scan(course, halt),
    }
}

/// Archives and shows a completed scan.
fn finish_scan(mut course: ActiveScan<'_>, stopped_by: &str) -> Result<ExitCode, CommandFailure> {
    if course.runs.is_empty() {
        return Err(no_result_failure(&mut course));
    }
    let args = course.args;
    let keep = course.is_archiving();
    let mut report = build_scan_report(course, stopped_by);
    if keep {
        report_archiving::archive_report(&args.output, &mut report);
    }
    show_scan(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Reports an interrupted scan. Its probes are archived, and the same command resumes it.
fn abort_scan(course: ActiveScan<'_>, halt: ScanHalt) -> Result<ExitCode, CommandFailure> {
    let (stopped_by, fail) = match halt {
        ScanHalt::FarEndGone(fail) => (FAR_END_GONE, fail),
        ScanHalt::Interrupted => {
            (CUT_OFF, CommandFailure::new(INTERRUPTED, "the scan was interrupted"))
        }
    };
    if course.runs.is_empty() {
        return Err(fail);
    }
    let args = course.args;
    let probes = course.runs.len();
    let hint = if course.is_archiving() {
        let probes = longhaul_report::number_format::count_of(probes as u64, "finished probe");
        format!("run the same command again to resume the scan ({probes} archived)")
    } else {
        "run the same command again for a new scan; nothing was archived".to_owned()
    };
    show_scan(args, &build_scan_report(course, stopped_by))?;
    Err(fail.hint(Some(hint)))
}

/// Returns the failure of the last probe if no probe gave a result.
fn no_result_failure(course: &mut ActiveScan<'_>) -> CommandFailure {
    let none = || CommandFailure::new(PEER, "no probe has a result");
    course.last_failure.take().unwrap_or_else(none)
}

fn build_scan_report(course: ActiveScan<'_>, stopped_by: &str) -> ScanReport {
    let ActiveScan {
        plan,
        entry: begun,
        started_at: began,
        mut observation,
        runs,
        mut caveats,
        ..
    } = course;
    observation.cells.sort_by_key(|cell| cell.index);
    let conclusion = conclude_scan(&plan, &observation, &runs, stopped_by);
    caveats.extend(conclusion.caveats);
    let first = &runs[0].run;
    let run = RunEnvelope {
        id: begun.id,
        started: began,
        duration: Timestamp::now().duration_since(began).unsigned_abs(),
        initiator: first.initiator.clone(),
        responder: first.responder.clone(),
        part_of: None,
    };
    run.report(plan, observation, conclusion.analysis).with_notes(conclusion.findings, caveats)
}

fn show_scan(args: &TuneArgs, report: &ScanReport) -> Result<(), CommandFailure> {
    report_output::write_report(&args.output.form, report, |_| build_scan_document(report))?;
    scan_files::write_scan_files(&args.files, report)
}
