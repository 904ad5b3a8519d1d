//! `longhaul test HOST`: measure → conclude → archive → show.

use super::args::TestArgs;
use super::{output, resolve};
use crate::fail::{EXPECTATION_MISSED, Fail};
use crate::render::live::{Flow, Live, Moment};
use crate::render::style::{CAVEAT, HINT, paint};
use jiff::Timestamp;
use longhaul_analysis::throughput::conclude;
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Kind, Run, SCHEMA, Throughput};
use longhaul_probe::throughput::{
    self, Family, FlowProgress, LocalBind, Outcome, Progress, Target,
};
use longhaul_store::Archive;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

pub fn run(args: &TestArgs) -> Result<ExitCode, Fail> {
    let mut plan = resolve::plan(args)?;
    let now = Timestamp::now();
    plan.start_at_us = resolve::start_at_us(args, now)?;
    let target = target(args)?;
    let lines = !args.quiet && !args.json && std::io::stderr().is_terminal();
    let mut live = Live::new(lines);
    let outcome = throughput::run(&target, &plan, &mut |now| live.show(moment(now)))?;
    live.finish();
    let mut report = assemble(plan, outcome);
    if !args.no_save {
        archive(args, &mut report);
    }
    output::report(&report, args.json)?;
    Ok(judge(args, &report))
}

fn moment(progress: &Progress) -> Moment {
    // Only where this end sends does it know what was sent again, and the RTT under load.
    let flow = |flow: &FlowProgress, sends: bool| Flow {
        received_bytes: flow.received_bytes.unwrap_or_default(),
        received_at: flow.received_at.unwrap_or_default(),
        retransmits: flow.retransmits.filter(|_| sends),
        rtt: flow.rtt.filter(|_| sends),
    };
    let directions = [
        ("forward", &progress.forward, true),
        ("reverse", &progress.reverse, false),
    ];
    Moment {
        elapsed: progress.elapsed,
        flows: directions
            .into_iter()
            .filter_map(|(name, of, sends)| Some((name, flow(of.as_ref()?, sends))))
            .collect(),
    }
}

fn target(args: &TestArgs) -> Result<Target, Fail> {
    Ok(Target {
        host: args.host.clone(),
        port: args.port,
        family: match (args.ipv4, args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        bind: LocalBind {
            address: args.bind,
            device: args.bind_dev.clone(),
        },
        token: resolve::token(&args.token)?.map(|token| token.as_str().to_owned()),
        connect_timeout: args.connect_timeout,
    })
}

/// What was seen, with what follows from it.
fn assemble(plan: Plan, outcome: Outcome) -> Throughput {
    let conclusion = conclude(&plan, &outcome.observation);
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let mut caveats = outcome.caveats;
    for caveat in conclusion.caveats {
        if !caveats.contains(&caveat) {
            caveats.push(caveat);
        }
    }
    Throughput {
        schema: SCHEMA.to_owned(),
        kind: Kind::Throughput,
        run: Run {
            id: run_id(started),
            started_at: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            duration_us: u64::try_from(outcome.duration.as_micros()).unwrap_or(u64::MAX),
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            initiator: outcome.initiator,
            responder: outcome.responder,
        },
        plan,
        observation: outcome.observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats,
    }
}

/// The start to the second, so that ids sort by time, and 24 random bits against twins.
fn run_id(started: Timestamp) -> String {
    // Its keys come from the kernel's random numbers.
    let random = RandomState::new().hash_one(started.as_nanosecond());
    format!(
        "{}-{:06x}",
        started.strftime("%Y%m%dT%H%M%SZ"),
        random & 0xFF_FFFF
    )
}

/// Appends the run before it is shown. A failure costs the entry: it is told on stderr and in
/// the report that is shown, and changes neither result nor exit code.
fn archive(args: &TestArgs, report: &mut Throughput) {
    let appended = output::archive_path(&args.archive).and_then(|path| {
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

/// Tells every expectation that was missed.
fn judge(args: &TestArgs, report: &Throughput) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for expectation in &args.expect {
        if let Some(found) = expectation.missed(report) {
            let told = format!(
                "{} expected {expectation}; {found}\n",
                paint(CAVEAT, "missed:")
            );
            let _ = anstream::stderr().write_all(told.as_bytes());
            code = ExitCode::from(EXPECTATION_MISSED);
        }
    }
    code
}
