//! `longhaul path HOST`: measures the path, resolves names, then analyses, archives and shows it.
//!
//! - [`path_plan`]: builds the plan from options
//! - [`reverse_lookups`], [`hop_origins`]: names, AS numbers and places of hops
//! - [`path_history`]: earlier routes and the capacity of this path, from the archive
//! - [`path_progress`]: progress on stderr
//! - [`mod@path_watch`]: the live table of `--watch`

mod hop_origins;
mod path_history;
pub mod path_plan;
mod path_progress;
mod path_watch;
mod reverse_lookups;

use super::args::PathArgs;
use super::report_command::report_output;
use super::{interrupt, report_archiving};
use crate::cli::report_archiving::{RunEnvelope, timestamp_of};
use crate::command_failure::{CommandFailure, HOST, INTERRUPTED, PEER};
use hop_origins::HopOrigins;
use longhaul_analysis::path::conclude_path;
use longhaul_model::report::v1::path::{PathObservation, PathPlan};
use longhaul_model::report::v1::{ParentRun, PathReport};
use longhaul_probe::path::{self, PathOutcome};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::path_text::build_path_document;
use path_progress::PathProgressLines;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(args: &PathArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let plan = path_plan::plan_path(args)?;
    let target = path_plan::path_target(args)?;
    let stop = interrupt::install_stop_flag()?;
    if args.watch {
        return path_watch::run(args, plan, &target, &stop);
    }
    let report = run_path_measurement(args, plan, &target, &stop)?;
    show_path_report(args, &report, stop.load(Ordering::Relaxed))
}

/// Measures a path as part of another command: archives it without showing it. Ctrl-C exits.
pub fn measure_path(args: &PathArgs) -> Result<PathReport, CommandFailure> {
    let (plan, target) = (path_plan::plan_path(args)?, path_plan::path_target(args)?);
    run_path_measurement(args, plan, &target, &AtomicBool::new(false))
}

fn run_path_measurement(
    args: &PathArgs,
    plan: PathPlan,
    target: &TargetHost,
    stop: &AtomicBool,
) -> Result<PathReport, CommandFailure> {
    let mut origins = HopOrigins::new(&args.output.archive, !args.no_names);
    let mut live = PathProgressLines::new(args);
    let outcome = path::run(target, &plan, stop, &mut |progress| {
        if let Some(route) = progress.route.or(progress.observation.route.as_ref()) {
            origins.request_names(route);
        }
        live.show(progress);
    });
    live.finish();
    Ok(archive_path_report(args, plan, outcome?, origins))
}

/// Builds the report, and archives it unless `--no-save` is given.
fn archive_path_report(
    args: &PathArgs,
    plan: PathPlan,
    mut outcome: PathOutcome,
    origins: HopOrigins,
) -> PathReport {
    let run = RunEnvelope::new(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator.clone(),
        outcome.responder.clone(),
    );
    let mut caveats = outcome.caveats;
    caveats.extend(origins.annotate_routes(&mut outcome.observation));
    let mut own = outcome.load.take().map(|(plan, load)| {
        let part_of = ParentRun { id: run.id.clone(), index: 0 };
        report_archiving::build_throughput_report(plan, load, Some(part_of))
    });
    if let Some(load) = &mut own {
        report_archiving::archive_report(&args.output, load);
        if let Some(watch) = &mut outcome.observation.hop_load {
            watch.run_id = Some(load.run.id.clone());
        }
    }
    let (known, capacity) = path_history::load_path_history(args, plan.load.as_ref(), own.as_ref());
    let conclusion = conclude_path(&plan, &outcome.observation, &known, capacity);
    caveats.extend(conclusion.caveats);
    let mut report = run
        .report(plan, outcome.observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

/// Shows the report. Fails if the measurement was interrupted or nothing answered.
fn show_path_report(
    args: &PathArgs,
    report: &PathReport,
    interrupted: bool,
) -> Result<ExitCode, CommandFailure> {
    report_output::write_report(&args.output.form, report, |_| build_path_document(report))?;
    if interrupted {
        let fail = CommandFailure::new(INTERRUPTED, "the path measurement was interrupted");
        return Err(fail.hint(Some("see the results so far above")));
    }
    if has_any_answer(&report.observation) {
        return Ok(ExitCode::SUCCESS);
    }
    let who = format!("{} ({})", args.host, report.observation.address);
    Err(no_answer_failure(&who, &report.observation))
}

fn has_any_answer(seen: &PathObservation) -> bool {
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
fn no_answer_failure(who: &str, seen: &PathObservation) -> CommandFailure {
    let own = seen.missing.iter().filter(|missing| {
        // Checks that only a longhaul server can do say nothing about this host's privileges.
        ["route", "round_trips", "mtu"].contains(&missing.what.as_str())
    });
    let own: Vec<_> = own.collect();
    // Errors about a missing privilege contain the kernel's name for it.
    let barred = |why: &str| why.contains("CAP_NET_RAW");
    if !own.is_empty() && own.iter().all(|missing| barred(&missing.why)) {
        let mut fail = CommandFailure::new(HOST, format!("cannot probe {who} without privileges"));
        fail.causes.extend(own.iter().map(|missing| missing.why.clone()));
        return fail.hint(Some("run as root, or use --udp, which needs no privileges"));
    }
    let fail = CommandFailure::new(PEER, format!("no answer from any hop on the path to {who}"));
    fail.hint(Some(
        "try --udp or --tcp, because filters differ; check the address and the routes of this host",
    ))
}
