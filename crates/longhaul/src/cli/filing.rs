//! Turns finished measurements into reports and archives them.

use super::args::ArchiveArgs;
use super::{called, output};
use crate::render::style::{CAVEAT, HINT, paint};
use jiff::Timestamp;
use longhaul_analysis::throughput::conclude;
use longhaul_model::report::v1::observation::{End, Observation, Program};
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Kind, PartOf, Party, Report, Run, SCHEMA, Throughput};
use longhaul_probe::throughput::Outcome;
use longhaul_store::Archive;
use longhaul_store::filed::Filed;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::time::Duration;

/// Builds the report of a throughput run: observations and analysis.
pub fn throughput(plan: Plan, outcome: Outcome, part_of: Option<PartOf>) -> Throughput {
    let conclusion = conclude(&plan, &outcome.observation);
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let mut caveats = outcome.caveats;
    add_caveats(&mut caveats, conclusion.caveats);
    let mut observation = outcome.observation;
    near_end(&mut observation).program = Some(Program {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(called::command()),
        log: Vec::new(),
    });
    Throughput {
        schema: SCHEMA.to_owned(),
        kind: Kind::Throughput,
        run: Run {
            part_of,
            ..run(
                (run_id(started), started),
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
fn near_end(observation: &mut Observation) -> &mut End {
    if observation.forward {
        &mut observation.ends.sender
    } else {
        &mut observation.ends.receiver
    }
}

/// Describes a run of this program that is not part of another one.
pub fn run(
    (id, started): (String, Timestamp),
    lasted: Duration,
    (initiator, responder): (Party, Party),
) -> Run {
    Run {
        id,
        started_at: rfc3339(started),
        duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        initiator,
        responder,
        part_of: None,
    }
}

/// Adds the caveats that are not in the list yet.
pub fn add_caveats(caveats: &mut Vec<Caveat>, more: Vec<Caveat>) {
    for caveat in more {
        if !caveats.contains(&caveat) {
            caveats.push(caveat);
        }
    }
}

/// Formats a time in UTC, to the second.
pub fn rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Creates a run id: the start time to the second, so that ids sort by time, and 24 random bits.
pub fn run_id(started: Timestamp) -> String {
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
pub fn keep<P, O, A>(args: &ArchiveArgs, report: &mut Report<P, O, A>)
where
    Report<P, O, A>: Filed,
{
    let appended = output::archive_path(args).and_then(|path| {
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
    let text = format!("this run is not in the archive: {why}");
    let hint = fail
        .hint
        .map(|hint| format!("{} {hint}\n", paint(HINT, "hint:")));
    let told = format!(
        "{} {text}\n{}",
        paint(CAVEAT, "caveat:"),
        hint.unwrap_or_default()
    );
    let _ = anstream::stderr().write_all(told.as_bytes());
    report.caveats.push(Caveat::new("not_archived", text));
}
