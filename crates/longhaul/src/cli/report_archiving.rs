//! Turns finished measurements into reports and archives them.

use super::args::OutputArgs;
use super::{command_output, invocation};
use jiff::Timestamp;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::observation::{EndObservation, ProgramInfo, ThroughputObservation};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{
    ParentRun, Report, ReportCaveat, ReportContent, RunInfo, RunParty, ThroughputReport,
};
use longhaul_probe::throughput::ThroughputOutcome;
use longhaul_report::style::{CAVEAT, HINT, paint};
use longhaul_store::Archive;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Builds the report of a throughput run: observations and analysis.
pub fn build_throughput_report(
    plan: ThroughputPlan,
    outcome: ThroughputOutcome,
    part_of: Option<ParentRun>,
) -> ThroughputReport {
    let conclusion = conclude_throughput(&plan, &outcome.observation);
    let started = timestamp_of(outcome.started_at);
    let caveats = [outcome.caveats, conclusion.caveats].concat();
    let mut observation = outcome.observation;
    initiator_end_mut(&mut observation).program = Some(ProgramInfo {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(invocation::redacted_command_line()),
        log: Vec::new(),
    });
    let run = RunEnvelope {
        part_of,
        ..RunEnvelope::new(started, outcome.duration, outcome.initiator, outcome.responder)
    };
    run.report(plan, observation, conclusion.analysis).with_notes(conclusion.findings, caveats)
}

/// Returns the data of the initiator, which is this program.
fn initiator_end_mut(observation: &mut ThroughputObservation) -> &mut EndObservation {
    if observation.forward { &mut observation.ends.sender } else { &mut observation.ends.receiver }
}

/// The header of a report by this program. All commands make their reports from one.
#[derive(Debug, Clone)]
pub struct RunEnvelope {
    pub id: String,
    pub started: Timestamp,
    pub duration: Duration,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub part_of: Option<ParentRun>,
}

impl RunEnvelope {
    /// Returns the header of a run of its own, with a new id.
    pub fn new(
        started: Timestamp,
        duration: Duration,
        initiator: RunParty,
        responder: RunParty,
    ) -> RunEnvelope {
        RunEnvelope {
            id: generate_run_id(started),
            started,
            duration,
            initiator,
            responder,
            part_of: None,
        }
    }

    /// Returns the report, still without findings and caveats.
    pub fn report<P, O, A>(self, plan: P, observation: O, analysis: A) -> Report<P, O, A>
    where
        Report<P, O, A>: ReportContent,
    {
        let run = RunInfo {
            id: self.id,
            started_at: format_rfc3339(self.started),
            duration_us: u64::try_from(self.duration.as_micros()).unwrap_or(u64::MAX),
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            initiator: self.initiator,
            responder: self.responder,
            part_of: self.part_of,
        };
        Report::new(run, plan, observation, analysis)
    }
}

/// Converts a wall-clock time; the current time if it is out of range.
pub fn timestamp_of(moment: SystemTime) -> Timestamp {
    Timestamp::try_from(moment).unwrap_or_else(|_| Timestamp::now())
}

/// Formats a time in UTC, to the second.
pub fn format_rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Creates a run id: the start time to the second, so that ids sort by time, and 24 random bits.
pub fn generate_run_id(started: Timestamp) -> String {
    // The hasher's keys are kernel random numbers.
    let random = RandomState::new().hash_one(started.as_nanosecond());
    format!("{}-{:06x}", started.strftime("%Y%m%dT%H%M%SZ"), random & 0xFF_FFFF)
}

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
    let why = std::iter::once(fail.message).chain(fail.causes).collect::<Vec<_>>().join(": ");
    let text = format!("cannot archive this run: {why}");
    let hint = fail.hint.map(|hint| format!("{} {hint}\n", paint(HINT, "hint:")));
    let told = format!("{} {text}\n{}", paint(CAVEAT, "caveat:"), hint.unwrap_or_default());
    let _ = anstream::stderr().write_all(told.as_bytes());
    report.caveats.push(ReportCaveat::new("not_archived", text));
}
