//! `longhaul available HOST`: sends probe trains both ways; analyses, archives and shows them.
//!
//! The analysis chooses the next trains, the prober sends them; neither depends on the other.

pub mod available_plan;
mod available_progress;
mod bulk_tcp_fallback;

use super::args::AvailableArgs;
use super::report_command::report_output;
use super::{command_output, option_resolution, report_archiving};
use crate::cli::report_archiving::RunEnvelope;
use crate::command_failure::{CommandFailure, PEER};
use available_progress::AvailableProgress;
use jiff::Timestamp;
use longhaul_analysis::available_bandwidth::{PriorPathFacts, ProbeSchedule, conclude_available};
use longhaul_model::report::v1::available::{
    AvailableMode, AvailableObservation, AvailablePlan, DirectionProbing, ProbeTrain,
};
use longhaul_model::report::v1::{AvailableReport, ReportCaveat, RunParty};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::probing::{EchoSeriesPlan, ProbeClient};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::available_text::build_available_document;
use longhaul_store::Archive;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The timeout of each step of connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of earlier runs used for tracking.
const MAX_EARLIER_RUNS: u32 = 100;
/// Packet sizes to try if a full packet does not pass: Ethernet's, and the minimum of IPv6.
const SMALLER_PACKETS: [u32; 2] = [1500, 1280];
/// The number of attempts with each packet size.
const TRIES_PER_SIZE: u32 = 2;

/// Observations of a measurement before their analysis.
struct AvailableMeasurement {
    plan: AvailablePlan,
    observation: AvailableObservation,
    initiator: RunParty,
    responder: RunParty,
    caveats: Vec<ReportCaveat>,
}

pub fn run(args: &AvailableArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let (started, begun) = (Timestamp::now(), Instant::now());
    let target = option_resolution::build_target(
        &args.host,
        args.port,
        &args.local,
        &args.token,
        CONNECT_TIMEOUT,
    )?;
    let mut progress = AvailableProgress::new(args);
    let plan = available_plan::plan_available(args);
    let seen = match args.tcp {
        Some(port) => bulk_tcp_fallback::measure_bulk_tcp(&target, port, plan, &mut progress)?,
        None => measure_directions(args, &target, plan, &mut progress).map_err(add_tcp_hint)?,
    };
    progress.finish();
    let history = load_earlier_runs(args);
    let conclusion = conclude_available(&seen.plan, &seen.observation, &history);
    let mut caveats = seen.caveats;
    caveats.extend(conclusion.caveats);
    let mut report = RunEnvelope::new(started, begun.elapsed(), seen.initiator, seen.responder)
        .report(seen.plan, seen.observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report_output::write_report(&args.output.form, &report, |_| build_available_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds a hint about `--tcp` if no longhaul server answers.
fn add_tcp_hint(error: ProbeError) -> CommandFailure {
    let no_longhaul = matches!(
        error,
        ProbeError::Connect { .. } | ProbeError::Tls { .. } | ProbeError::Timeout { .. }
    );
    let fail = CommandFailure::from(error);
    if !no_longhaul || fail.code != PEER {
        return fail;
    }
    let way_out =
        "if longhaul cannot run there, use `--tcp PORT` of a service that accepts bulk data";
    let hint =
        fail.hint.as_ref().map_or_else(|| way_out.to_owned(), |hint| format!("{hint}; {way_out}"));
    fail.hint(Some(hint))
}

/// Measures both directions, one after the other.
fn measure_directions(
    args: &AvailableArgs,
    target: &TargetHost,
    mut plan: AvailablePlan,
    progress: &mut AvailableProgress,
) -> Result<AvailableMeasurement, ProbeError> {
    let mut prober = open_train_prober(target, &plan)?;
    let spent = find_packet_size(args, &mut prober, &mut plan)?;
    let mut caveats = Vec::new();
    clamp_to_granted_bytes(&prober, &mut plan, &mut caveats);
    progress.print_budget(&plan);
    let mut observation = AvailableObservation {
        idle_rtt_us: prober.idle_rtt().map(saturating_micros),
        loopback: prober.loopback(),
        ..AvailableObservation::default()
    };
    if plan.forward {
        let seen = measure_direction(&mut prober, &plan, true, spent, progress)?;
        observation.forward = Some(seen);
    }
    if plan.reverse {
        let seen = measure_direction(&mut prober, &plan, false, spent, progress)?;
        observation.reverse = Some(seen);
    }
    let (initiator, responder) = prober.parties();
    let seen = AvailableMeasurement {
        plan,
        observation,
        initiator: initiator.clone(),
        responder: responder.clone(),
        caveats,
    };
    prober.close();
    Ok(seen)
}

fn open_train_prober(target: &TargetHost, plan: &AvailablePlan) -> Result<ProbeClient, ProbeError> {
    use longhaul_probe::plan_limits::{MAX_PROBE_BYTES, MAX_PROBING_US};
    let bounds = longhaul_probe::probing::ProbeBounds {
        flows: 1,
        most_bytes: MAX_PROBE_BYTES,
        most_time_us: MAX_PROBING_US,
        dscp: plan.dscp,
    };
    ProbeClient::open(target, bounds)
}

/// Finds a packet size that passes in both directions. Returns the bytes spent in each direction.
fn find_packet_size(
    args: &AvailableArgs,
    prober: &mut ProbeClient,
    plan: &mut AvailablePlan,
) -> Result<u64, ProbeError> {
    // One burst of jumbo frames costs more than a light run may spend.
    let known = match plan.mode {
        AvailableMode::Light => None,
        AvailableMode::Quick | AvailableMode::Careful => prober.path_mtu_bytes(),
    };
    let first = args.packet_bytes.or(known).unwrap_or(plan.packet_bytes);
    let smaller = SMALLER_PACKETS.into_iter().filter(|size| *size < first);
    let mut spent = 0;
    for packet_bytes in std::iter::once(first.min(9000)).chain(smaller) {
        for _ in 0..TRIES_PER_SIZE {
            let one = EchoSeriesPlan {
                interval: Duration::from_secs(1),
                packet_bytes,
                dscp: plan.dscp,
                max_time: Duration::from_millis(1),
            };
            let never = AtomicBool::new(false);
            let result = prober.run_echoes(&one, &never, &mut |_| {})?;
            spent += u64::from(result.sent) * u64::from(packet_bytes);
            if result.answered > 0 {
                plan.packet_bytes = packet_bytes;
                return Ok(spent);
            }
        }
    }
    // No probe was answered: the trains will show what happens to packets.
    Ok(spent)
}

/// Limits the budget to the bytes granted by the server.
fn clamp_to_granted_bytes(
    prober: &ProbeClient,
    plan: &mut AvailablePlan,
    caveats: &mut Vec<ReportCaveat>,
) {
    let directions = u64::from(plan.forward) + u64::from(plan.reverse);
    let Some(bounds) = prober.bounds() else {
        return;
    };
    let granted = bounds.most_bytes / directions.max(1);
    if granted < plan.most_bytes {
        plan.most_bytes = granted;
        let text = format!(
            "the server limits anonymous clients to {} per direction",
            longhaul_model::units::Bytes(granted)
        );
        if plan.shaper_time_us.is_some() {
            caveats.push(ReportCaveat::new("budget_cut", text));
        }
    }
}

/// Measures one direction, round by round.
fn measure_direction(
    prober: &mut ProbeClient,
    plan: &AvailablePlan,
    forward: bool,
    spent: u64,
    progress: &mut AvailableProgress,
) -> Result<DirectionProbing, ProbeError> {
    let mut probing = DirectionProbing { probe_bytes: spent, ..DirectionProbing::default() };
    let left = AvailablePlan { most_bytes: plan.most_bytes.saturating_sub(spent), ..plan.clone() };
    let facts = PriorPathFacts {
        idle_rtt_us: prober.idle_rtt().map(saturating_micros),
        interface_bps: prober.direction_facts(forward).interface_bps,
        path_mtu_bytes: Some(plan.packet_bytes),
    };
    let mut course = ProbeSchedule::new(&left, facts);
    while let Some(wanted) = course.next() {
        let trains =
            if forward { prober.send_trains(&wanted)? } else { prober.receive_trains(&wanted)? };
        course.record(&trains);
        probing.trains.extend(trains);
        probing.probe_bytes = spent + count_train_bytes(&probing.trains);
        probing.duration_us = train_span_us(&probing.trains);
        progress.print_round(forward, &probing);
    }
    let facts = prober.direction_facts(forward);
    probing.interface_bps = facts.interface_bps;
    probing.receive_clock.clone_from(&facts.receive_clock);
    probing.overflowed = facts.overflowed;
    Ok(probing)
}

fn count_train_bytes(trains: &[ProbeTrain]) -> u64 {
    let one = |train: &ProbeTrain| train.sent_ns.len() as u64 * u64::from(train.packet_bytes);
    trains.iter().map(one).sum()
}

/// Returns the time from the first packet to the last, on the sender's clock.
fn train_span_us(trains: &[ProbeTrain]) -> u64 {
    let sound = || trains.iter().filter(|train| !train.sent_ns.is_empty());
    let first = sound().map(|train| train.sent_at_ns).min();
    let last =
        sound().map(|train| train.sent_at_ns + train.sent_ns.last().copied().unwrap_or(0)).max();
    last.zip(first).map_or(0, |(last, first)| last.saturating_sub(first) / 1000)
}

/// Loads earlier runs on the path. If the archive cannot be read, there is no tracked estimate.
fn load_earlier_runs(args: &AvailableArgs) -> Vec<AvailableReport> {
    if args.output.no_save {
        return Vec::new();
    }
    command_output::archive_path(&args.output.archive)
        .ok()
        .and_then(|path| Archive::open_existing(&path).ok()?)
        .and_then(|archive| archive.recent_reports(Some(&args.host), MAX_EARLIER_RUNS).ok())
        .unwrap_or_default()
}

fn saturating_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
