//! Turns finished measurements into reports and archives them.

use super::args::ArchiveArgs;
use super::{command_output, invocation};
use crate::render::style::{CAVEAT, HINT, paint};
use jiff::Timestamp;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::observation::{EndObservation, ProgramInfo, ThroughputObservation};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{
    ParentRun, Report, ReportCaveat, ReportKind, RunInfo, RunParty, SCHEMA, ThroughputReport,
};
use longhaul_probe::throughput::ThroughputOutcome;
use longhaul_store::Archive;
use longhaul_store::archived_report::ArchivedReport;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::time::Duration;

/// Builds the report of a throughput run: observations and analysis.
pub fn build_throughput_report(
    plan: ThroughputPlan,
    outcome: ThroughputOutcome,
    part_of: Option<ParentRun>,
) -> ThroughputReport {
    let conclusion = conclude_throughput(&plan, &outcome.observation);
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let mut caveats = outcome.caveats;
    add_caveats(&mut caveats, conclusion.caveats);
    let mut observation = outcome.observation;
    initiator_end_mut(&mut observation).program = Some(ProgramInfo {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(invocation::redacted_command_line()),
        log: Vec::new(),
    });
    ThroughputReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Throughput,
        run: RunInfo {
            part_of,
            ..describe_standalone_run(
                (generate_run_id(started), started),
                outcome.duration,
                (outcome.initiator, outcome.responder),
            )
        },
        plan,
        observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats,
    }
}

/// Returns the data of the initiator, which is this program.
fn initiator_end_mut(observation: &mut ThroughputObservation) -> &mut EndObservation {
    if observation.forward {
        &mut observation.ends.sender
    } else {
        &mut observation.ends.receiver
    }
}

/// Describes a run of this program that is not part of another one.
pub fn describe_standalone_run(
    (id, started): (String, Timestamp),
    lasted: Duration,
    (initiator, responder): (RunParty, RunParty),
) -> RunInfo {
    RunInfo {
        id,
        started_at: format_rfc3339(started),
        duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        initiator,
        responder,
        part_of: None,
    }
}

/// Adds the caveats that are not in the list yet.
pub fn add_caveats(caveats: &mut Vec<ReportCaveat>, more: Vec<ReportCaveat>) {
    for caveat in more {
        if !caveats.contains(&caveat) {
            caveats.push(caveat);
        }
    }
}

/// Formats a time in UTC, to the second.
pub fn format_rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Creates a run id: the start time to the second, so that ids sort by time, and 24 random bits.
pub fn generate_run_id(started: Timestamp) -> String {
    // The hasher's keys are kernel random numbers.
    let random = RandomState::new().hash_one(started.as_nanosecond());
    format!(
        "{}-{:06x}",
        started.strftime("%Y%m%dT%H%M%SZ"),
        random & 0xFF_FFFF
    )
}

/// Archives the report before it is shown. A failure is reported on stderr and as a caveat in the
/// report; it changes neither the result nor the exit code.
pub fn archive_report<P, O, A>(args: &ArchiveArgs, report: &mut Report<P, O, A>)
where
    Report<P, O, A>: ArchivedReport,
{
    let appended = command_output::archive_path(args).and_then(|path| {
        let mut archive = Archive::open(&path)?;
        Ok(archive.append(report)?)
    });
    let Err(fail) = appended else {
        return;
    };
    let why = std::iter::once(fail.message)
        .chain(fail.causes)
        .collect::<Vec<_>>()
        .join(": ");
    let text = format!("cannot archive this run: {why}");
    let hint = fail
        .hint
        .map(|hint| format!("{} {hint}\n", paint(HINT, "hint:")));
    let told = format!(
        "{} {text}\n{}",
        paint(CAVEAT, "caveat:"),
        hint.unwrap_or_default()
    );
    let _ = anstream::stderr().write_all(told.as_bytes());
    report.caveats.push(ReportCaveat::new("not_archived", text));
}
