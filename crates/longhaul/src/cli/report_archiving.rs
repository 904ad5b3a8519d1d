//! Turns finished measurements into reports and archives them.

use super::args::OutputArgs;
use super::{command_output, invocation};
use jiff::Timestamp;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::observation::{EndObservation, ProgramInfo, ThroughputObservation};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{
    ParentRun, Report, ReportCaveat, ReportContent, RunEnvironment, RunInfo, RunParty,
    ThroughputReport,
};
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::throughput::ThroughputOutcome;
use longhaul_report::run_header::create_run_header;
pub use longhaul_report::run_header::{format_rfc3339, generate_run_id};
use longhaul_report::style::{HINT, paint};
use longhaul_store::{Archive, PathSelector, StoreError};
use std::time::{Duration, SystemTime};

/// Builds the report of a throughput run: observations and analysis.
pub fn build_throughput_report(
    plan: ThroughputPlan,
    outcome: ThroughputOutcome,
    part_of: Option<ParentRun>,
) -> ThroughputReport {
    let plan = ThroughputPlan { stop: outcome.stop, ..plan };
    let conclusion = conclude_throughput(&plan, &outcome.observation);
    let started = timestamp_of(outcome.started_at);
    let caveats = [outcome.caveats, conclusion.caveats].concat();
    let mut observation = outcome.observation;
    end_mut(&mut observation, true).program = Some(ProgramInfo {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(invocation::redacted_command_line()),
        log: Vec::new(),
    });
    let run = create_run_info(started, outcome.duration, outcome.initiator, outcome.responder);
    Report::new(RunInfo { part_of, ..run }, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats)
}

/// Returns the end of this host if `near`, otherwise of the server.
pub fn end_mut(observation: &mut ThroughputObservation, near: bool) -> &mut EndObservation {
    let ends = &mut observation.ends;
    if observation.forward == near { &mut ends.sender } else { &mut ends.receiver }
}

/// Returns the header of a run of its own, with a new id.
pub fn create_run_info(
    started: Timestamp,
    duration: Duration,
    initiator: RunParty,
    responder: RunParty,
) -> RunInfo {
    let environment = RunEnvironment::of_run(&initiator, &responder, lab_name().as_deref());
    let run = create_run_header(started, duration, initiator, responder);
    RunInfo { environment: Some(environment), ..run }
}

/// The maximum length of the name of an emulated path.
const MAX_LAB_NAME_CHARS: usize = 64;

/// Returns the name of the emulated path that this command runs on.
fn lab_name() -> Option<String> {
    let name = std::env::var(longhaul_lab::lab_run::LAB_VARIABLE).ok()?;
    (!name.is_empty()).then(|| sanitize_line(&name, MAX_LAB_NAME_CHARS))
}

/// Returns the environment of this command's measurements, unless they are made on loopback.
pub fn own_environment() -> RunEnvironment {
    lab_name().map_or(RunEnvironment::Network, RunEnvironment::Lab)
}

pub fn saturating_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Converts a wall-clock time; the current time if it is out of range.
pub fn timestamp_of(moment: SystemTime) -> Timestamp {
    Timestamp::try_from(moment).unwrap_or_else(|_| Timestamp::now())
}

/// Returns the latest reports of the path of a run: to the same address, under the same name, and
/// in the same environment.
pub fn earlier_runs<R: ReportContent>(
    archive: &Archive,
    run: &RunInfo,
    limit: u32,
) -> Result<Vec<R>, StoreError> {
    let environment = run.environment.as_ref().map(ToString::to_string);
    let path = PathSelector {
        host: Some(&run.responder.host),
        address: run.responder.address.as_deref(),
        environment: environment.as_deref(),
    };
    archive.recent_reports(&path, limit)
}

/// The caveat of a run that is not in the archive.
pub const NOT_ARCHIVED: &str = "not_archived";

/// Archives the report before it is shown. A failure is reported on stderr and as a caveat in the
/// report; it changes neither the result nor the exit code. Does nothing with `--no-save`.
pub fn archive_report<P, O, A>(args: &OutputArgs, report: &mut Report<P, O, A>)
where
    Report<P, O, A>: ReportContent,
{
    if args.no_save {
        return;
    }
    let appended = command_output::archive_path(&args.archive).and_then(|path| {
        let mut archive = Archive::open(&path)?;
        Ok(archive.append(report)?)
    });
    let Err(fail) = appended else {
        return;
    };
    let text = format!("cannot archive this run: {}", fail.chain());
    command_output::print_caveat(&text);
    if let Some(hint) = &fail.hint {
        command_output::print_note(&format!("{} {hint}", paint(HINT, "hint:")));
    }
    report.caveats.push(ReportCaveat::new(NOT_ARCHIVED, text));
}
