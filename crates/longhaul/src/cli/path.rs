//! `longhaul path HOST`: measures the path, resolves names, then analyses, archives and shows it.
//!
//! - [`asked`]: builds the plan from options
//! - [`names`], [`origins`]: names, AS numbers and places of hops
//! - [`history`]: earlier routes and the capacity of this path, from the archive
//! - [`live`]: progress on stderr
//! - [`mod@watch`]: the live table of `--watch`

pub mod asked;
mod history;
mod live;
mod names;
mod origins;
mod watch;

use super::args::PathArgs;
use super::{filing, interrupt, output};
use crate::fail::{Fail, HOST, INTERRUPTED, PEER};
use crate::render;
use jiff::Timestamp;
use live::Live;
use longhaul_analysis::path::conclude;
use longhaul_model::report::v1::path::{Observation, Plan};
use longhaul_model::report::v1::{Kind, PartOf, Path, SCHEMA};
use longhaul_probe::path::{self, Outcome};
use longhaul_probe::throughput::Target;
use origins::Origins;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(args: &PathArgs) -> Result<ExitCode, Fail> {
    let plan = asked::plan(args)?;
    let target = asked::target(args)?;
    let stop = interrupt::stop_flag()?;
    if args.watch {
        return watch::run(args, plan, &target, &stop);
    }
    let report = looked(args, plan, &target, &stop)?;
    finish(args, &report, stop.load(Ordering::Relaxed))
}

/// Measures a path as part of another command: archives it without showing it. Ctrl-C exits.
pub fn look(args: &PathArgs) -> Result<Path, Fail> {
    let (plan, target) = (asked::plan(args)?, asked::target(args)?);
    looked(args, plan, &target, &AtomicBool::new(false))
}

fn looked(args: &PathArgs, plan: Plan, target: &Target, stop: &AtomicBool) -> Result<Path, Fail> {
    let mut origins = Origins::new(&args.output.archive, !args.no_names);
    let mut live = Live::new(args);
    let outcome = path::run(target, &plan, stop, &mut |progress| {
        if let Some(route) = progress.route.or(progress.observation.route.as_ref()) {
            origins.ask(route);
        }
        live.show(progress);
    });
    live.finish();
    Ok(filed(args, plan, outcome?, origins))
}

/// Builds the report, and archives it unless `--no-save` is given.
fn filed(args: &PathArgs, plan: Plan, mut outcome: Outcome, origins: Origins) -> Path {
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let id = filing::run_id(started);
    let mut caveats = outcome.caveats;
    caveats.extend(origins.settle(&mut outcome.observation));
    let own = outcome.load.take().map(|(plan, load)| {
        let part_of = PartOf {
            id: id.clone(),
            index: 0,
        };
        filing::throughput(plan, load, Some(part_of))
    });
    let mut own = own;
    if let Some(load) = &mut own {
        if !args.output.no_save {
            filing::keep(&args.output.archive, load);
        }
        if let Some(watch) = &mut outcome.observation.hop_load {
            watch.run_id = Some(load.run.id.clone());
        }
    }
    let (known, capacity) = history::of(args, plan.load.as_ref(), own.as_ref());
    let conclusion = conclude(&plan, &outcome.observation, &known, capacity);
    caveats.extend(conclusion.caveats);
    let mut told = Vec::new();
    filing::add_caveats(&mut told, caveats);
    let mut report = Path {
        schema: SCHEMA.to_owned(),
        kind: Kind::Path,
        run: filing::run(
            (id, started),
            outcome.duration,
            (outcome.initiator, outcome.responder),
        ),
        plan,
        observation: outcome.observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats: told,
    };
    if !args.output.no_save {
        filing::keep(&args.output.archive, &mut report);
    }
    report
}

/// Shows the report. Fails if the measurement was interrupted or nothing answered.
fn finish(args: &PathArgs, report: &Path, interrupted: bool) -> Result<ExitCode, Fail> {
    output::report(report, render::path::report, args.output.json)?;
    if interrupted {
        let fail = Fail::new(INTERRUPTED, "the look at the path was interrupted");
        return Err(fail.hint(Some("what was seen until then is shown and kept")));
    }
    if anything_answered(&report.observation) {
        return Ok(ExitCode::SUCCESS);
    }
    let who = format!("{} ({})", args.host, report.observation.address);
    Err(silence(&who, &report.observation))
}

fn anything_answered(seen: &Observation) -> bool {
    let echoes = [&seen.round_trips, &seen.round_trips_reverse];
    let mut echoes = echoes.into_iter().flatten().flat_map(|e| &e.echoes);
    let routes = [&seen.route, &seen.route_reverse];
    let mut hops = routes.into_iter().flatten().flat_map(|route| &route.hops);
    let mut probes = seen.mtu.iter().flat_map(|search| &search.probes);
    echoes.any(|echo| echo.rtt_ns.is_some())
        || hops.any(|hop| !hop.answers.is_empty())
        || probes.any(|probe| probe.arrived > 0)
        || seen.options.is_some()
        || seen.hop_load.is_some()
}

/// Returns the failure if nothing answered: a missing privilege, or no reply.
fn silence(who: &str, seen: &Observation) -> Fail {
    let own = seen.missing.iter().filter(|missing| {
        // Checks that only a longhaul server can do say nothing about this host's privileges.
        ["route", "round_trips", "mtu"].contains(&missing.what.as_str())
    });
    let own: Vec<_> = own.collect();
    // Errors about a missing privilege contain the kernel's name for it.
    let barred = |why: &str| why.contains("CAP_NET_RAW");
    if !own.is_empty() && own.iter().all(|missing| barred(&missing.why)) {
        let mut fail = Fail::new(HOST, format!("{who} cannot be probed without privilege"));
        fail.causes
            .extend(own.iter().map(|missing| missing.why.clone()));
        return fail.hint(Some(
            "run it as root, or probe by --udp, which asks for none",
        ));
    }
    let fail = Fail::new(PEER, format!("nothing answered on the way to {who}"));
    fail.hint(Some(
        "try --udp or --tcp, for filters differ; check the address and this host's routes",
    ))
}
