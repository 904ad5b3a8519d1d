//! `longhaul tune HOST`: runs probe after probe, then analyses, archives and shows the scan.
//!
//! - [`asked`]: builds the plan from options
//! - [`history`]: earlier scans of the path in the archive
//! - [`course`]: the scan in progress; [`attempt`]: one probe
//! - [`guided`], [`grid`]: the choice of the next probe
//! - [`progress`]: progress on stderr; [`files`]: CSV and plots

pub mod asked;
pub mod attempt;
mod course;
pub mod files;
mod grid;
mod guided;
pub mod history;
mod progress;

use super::args::TuneArgs;
use super::{filing, interrupt, output};
use crate::fail::{Fail, INTERRUPTED, PEER};
use crate::render;
use course::{Course, Halt};
use jiff::Timestamp;
use longhaul_analysis::scan::conclude;
use longhaul_model::report::v1::scan::Search;
use longhaul_model::report::v1::{Kind, Run, SCHEMA, Scan};
use longhaul_probe::throughput;
use std::process::ExitCode;

/// Reasons for the end of a scan that can be resumed.
const FAR_END_GONE: &str = "far_end_gone";
const CUT_OFF: &str = "interrupted";

pub fn run(args: &TuneArgs) -> Result<ExitCode, Fail> {
    let plan = asked::plan(args)?;
    let target = asked::target(args)?;
    let stop = interrupt::stop_flag()?;
    let idle_rtt = throughput::round_trip(&target)?;
    let mut course = Course::begin(args, (plan, target), idle_rtt, stop);
    let ended = match course.plan.search {
        Search::Guided => guided::search(&mut course, idle_rtt),
        Search::Grid => grid::scan(&mut course),
    };
    course.told.leave();
    match ended {
        Ok(stopped_by) => finish(course, stopped_by),
        Err(halt) => break_off(course, halt),
    }
}

/// Archives and shows a completed scan.
fn finish(mut course: Course<'_>, stopped_by: &str) -> Result<ExitCode, Fail> {
    if course.runs.is_empty() {
        return Err(no_result(&mut course));
    }
    let args = course.args;
    let keep = course.saving();
    let mut report = report(course, stopped_by);
    if keep {
        filing::keep(&args.archive, &mut report);
    }
    show(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Reports an interrupted scan. Its probes are archived, and the same command resumes it.
fn break_off(course: Course<'_>, halt: Halt) -> Result<ExitCode, Fail> {
    let (stopped_by, fail) = match halt {
        Halt::FarEndGone(fail) => (FAR_END_GONE, fail),
        Halt::Interrupted => (CUT_OFF, Fail::new(INTERRUPTED, "the scan was interrupted")),
    };
    if course.runs.is_empty() {
        return Err(fail);
    }
    let args = course.args;
    let probes = course.runs.len();
    let hint = if course.saving() {
        let probes = render::figures::count_of(probes as u64, "finished probe");
        format!("{probes} in the archive: the same command goes on with the scan")
    } else {
        "nothing was kept: the same command begins anew".to_owned()
    };
    show(args, &report(course, stopped_by))?;
    Err(fail.hint(Some(hint)))
}

/// Returns the failure of the last probe if no probe gave a result.
fn no_result(course: &mut Course<'_>) -> Fail {
    let none = || Fail::new(PEER, "no probe gave a result");
    course.last_failure.take().unwrap_or_else(none)
}

fn report(course: Course<'_>, stopped_by: &str) -> Scan {
    let Course {
        plan,
        begun,
        began,
        mut observation,
        runs,
        mut caveats,
        ..
    } = course;
    observation.cells.sort_by_key(|cell| cell.index);
    let conclusion = conclude(&plan, &observation, &runs, stopped_by);
    caveats.extend(conclusion.caveats);
    let first = &runs[0].run;
    let lasted = Timestamp::now().duration_since(began).as_micros();
    Scan {
        schema: SCHEMA.to_owned(),
        kind: Kind::Scan,
        run: Run {
            id: begun.id,
            started_at: begun.started_at,
            duration_us: u64::try_from(lasted).unwrap_or(0),
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            initiator: first.initiator.clone(),
            responder: first.responder.clone(),
            part_of: None,
        },
        plan,
        observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats,
    }
}

fn show(args: &TuneArgs, report: &Scan) -> Result<(), Fail> {
    output::report(report, render::scan::report, args.json)?;
    files::write(&args.files, report)
}
