//! `longhaul available HOST`: sends probe trains both ways; analyses, archives and shows them.
//!
//! The analysis chooses the next trains, the prober sends them; neither depends on the other.

mod paced_steps;

use crate::cli::args::{OutputArgs, PeerArgs};
use crate::cli::iperf3_server::Iperf3ServerArgs;
use crate::cli::progress_lines::{StatusLine, print_statement};
use crate::cli::value_parsers::{accept_micros, accept_size, parse_dscp};
use crate::cli::{interrupt, option_resolution, report_archiving, report_command};
use crate::command_failure::{self, CommandFailure};
use clap::Args;
use jiff::Timestamp;
use longhaul_analysis::available_bandwidth::{
    PriorPathFacts, ProbeSchedule, budget_of_mode, conclude_available,
};
use longhaul_model::report::v1::available::{
    AvailableMode, AvailableObservation, AvailablePlan, DirectionProbing, ProbeTrain,
};
use longhaul_model::report::v1::{AvailableReport, Report, ReportCaveat};
use longhaul_model::units::Bytes;
use longhaul_probe::plan_limits;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::probing::{EchoSeriesPlan, ProbeBounds, ProbeClient};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use longhaul_report::available_text::{build_available_document, format_probe_bytes};
use longhaul_report::number_format::{count_of, format_micros};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const EXAMPLES: &str = include_str!("help/available-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/available-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Probes")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct AvailableArgs {
    /// Send at most 58 kB and for 1 s in each direction
    #[arg(long, group = "mode")]
    pub light: bool,
    /// Measure for about 2 s in each direction (the default)
    #[arg(long, group = "mode")]
    pub quick: bool,
    /// Send more trains, for narrower intervals
    #[arg(long, group = "mode")]
    pub careful: bool,
    /// Measure only forward: this host sends
    #[arg(long, group = "direction")]
    pub forward: bool,
    /// Measure only reverse: the server sends
    #[arg(short = 'R', long, group = "direction")]
    pub reverse: bool,
    /// Maximum bytes in each direction, with headers [default: by mode]
    #[arg(long, value_name = "SIZE", value_parser = accept_size(10_000..=plan_limits::MAX_PROBE_BYTES))]
    pub bytes: Option<u64>,
    /// DSCP of the probes: a name (CS1, EF) or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = parse_dscp)]
    pub dscp: Option<u8>,
    /// Look for a large token bucket: send at full rate for up to TIME [default: 20 s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "20s", value_parser = accept_micros(1_000_000..=60_000_000),
    )]
    pub shaper: Option<u64>,

    #[command(flatten)]
    pub server: Iperf3ServerArgs,
    #[command(flatten)]
    pub peer: PeerArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// Packet sizes to try if a full packet does not pass: Ethernet's, and the minimum of IPv6.
const SMALLER_PACKETS: [u32; 2] = [1500, 1280];
/// The number of attempts with each packet size.
const TRIES_PER_SIZE: u32 = 2;

pub fn run(args: &AvailableArgs) -> Result<ExitCode, CommandFailure> {
    let stop = interrupt::install_stop_flag()?;
    let mut report = match (args.server.iperf3, option_resolution::peer_target(&args.peer)?) {
        (true, target) => paced_steps::measure_from_one_end(args, &target, &stop)?,
        (false, target) => match measure_available(args, &target, &stop) {
            Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {
                paced_steps::measure_from_one_end(args, &target, &stop)?
            }
            measured => measured?,
        },
    };
    report_archiving::archive_report(&args.output, &mut report);
    report_command::write_run(&args.output, &report, build_available_document(&report))?;
    command_failure::require_peer(&report.caveats)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the requested directions, one after the other.
fn measure_available(
    args: &AvailableArgs,
    target: &TargetHost,
    stop: &StopFlag,
) -> Result<AvailableReport, ProbeError> {
    let (started, begun) = (Timestamp::now(), Instant::now());
    let mut plan = plan_available(args);
    let bounds = ProbeBounds {
        flows: 1,
        most_bytes: plan_limits::MAX_PROBE_BYTES,
        most_time_us: plan_limits::MAX_PROBING_US,
        dscp: plan.dscp,
    };
    let mut prober = ProbeClient::open(target, bounds, stop)?;
    let spent = find_packet_size(&mut prober, &mut plan)?;
    let mut caveats = Vec::new();
    clamp_to_granted_bytes(&prober, &mut plan, &mut caveats);
    print_statement(&args.output, &describe_budget(&plan));
    let mut line = StatusLine::new(args.output.shows_progress());
    let mut observation = AvailableObservation {
        idle_rtt_us: prober.idle_rtt().map(report_archiving::saturating_micros),
        loopback: prober.loopback(),
        ..AvailableObservation::default()
    };
    let mut ended = Ok(());
    for (forward, planned) in [(true, plan.forward), (false, plan.reverse)] {
        if !planned || ended.is_err() {
            continue;
        }
        let mut probing = DirectionProbing { probe_bytes: spent, ..DirectionProbing::default() };
        ended = measure_direction(&mut prober, &plan, forward, &mut probing, &mut line);
        let part = if forward { &mut observation.forward } else { &mut observation.reverse };
        *part = Some(probing).filter(|probing| ended.is_ok() || !probing.trains.is_empty());
    }
    if let Err(error) = ended {
        if observation.forward.is_none() && observation.reverse.is_none() {
            return Err(error);
        }
        caveats.push(early_end_caveat(&error));
    }
    let (initiator, responder) = prober.parties();
    let (initiator, responder) = (initiator.clone(), responder.clone());
    prober.close();
    line.clear();
    let conclusion = conclude_available(&plan, &observation);
    caveats.extend(conclusion.caveats);
    let run = report_archiving::create_run_info(started, begun.elapsed(), initiator, responder);
    Ok(Report::new(run, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats))
}

/// Finds a packet size that passes in both directions. Returns the bytes spent in each direction.
fn find_packet_size(prober: &mut ProbeClient, plan: &mut AvailablePlan) -> Result<u64, ProbeError> {
    // One burst of jumbo frames costs more than a light run may spend.
    let known = match plan.mode {
        AvailableMode::Light => None,
        AvailableMode::Quick | AvailableMode::Careful => prober.path_mtu_bytes(),
    };
    let first = known.unwrap_or(plan.packet_bytes);
    let smaller = SMALLER_PACKETS.into_iter().filter(|size| *size < first);
    let mut spent = 0;
    for packet_bytes in std::iter::once(first.min(9000)).chain(smaller) {
        for _ in 0..TRIES_PER_SIZE {
            let one = EchoSeriesPlan {
                interval: Duration::from_secs(1),
                packet_bytes,
                max_time: Duration::from_millis(1),
            };
            let never = AtomicBool::new(false);
            let result = prober.run_echoes(&one, &never, &mut |_| {})?;
            spent += u64::from(result.sent) * u64::from(packet_bytes);
            if result.echoes.iter().any(|echo| echo.rtt_ns.is_some()) {
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
        if plan.shaper_time_us.is_some() {
            let limit = Bytes(granted);
            let text = format!("the server limits anonymous clients to {limit} per direction");
            caveats.push(ReportCaveat::new("budget_cut", text));
        }
    }
}

/// Returns the caveat of an estimate from the trains until an interruption or the loss of the peer.
pub fn early_end_caveat(error: &ProbeError) -> ReportCaveat {
    match error {
        ProbeError::Interrupted { .. } => {
            let text = "interrupted: the estimate is from the trains until then";
            ReportCaveat::new(ReportCaveat::INTERRUPTED, text)
        }
        error => {
            let text = format!("the probing ended early: {error}");
            ReportCaveat::new(ReportCaveat::PEER_LOST, text)
        }
    }
}

/// Measures one direction, round by round. `probing` has the bytes spent so far, and after an error
/// the trains until then.
fn measure_direction(
    prober: &mut ProbeClient,
    plan: &AvailablePlan,
    forward: bool,
    probing: &mut DirectionProbing,
    line: &mut StatusLine,
) -> Result<(), ProbeError> {
    let spent = probing.probe_bytes;
    let left = AvailablePlan { most_bytes: plan.most_bytes.saturating_sub(spent), ..plan.clone() };
    let facts = PriorPathFacts {
        idle_rtt_us: prober.idle_rtt().map(report_archiving::saturating_micros),
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
        line.draw(&format_round(forward, probing));
        let facts = prober.direction_facts(forward);
        probing.interface_bps = facts.interface_bps;
        probing.receive_clock.clone_from(&facts.receive_clock);
        probing.overflowed = facts.overflowed;
    }
    Ok(())
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

/// The extra budget of a search for a large token bucket.
const MAX_BUCKET_BYTES: u64 = 200_000_000;
/// The packet size if nothing better is known: Ethernet's.
const DEFAULT_PACKET_BYTES: u32 = 1500;

/// Builds the plan from the options.
fn plan_available(args: &AvailableArgs) -> AvailablePlan {
    let mode = match (args.light, args.careful) {
        (true, _) => AvailableMode::Light,
        (_, true) => AvailableMode::Careful,
        _ => AvailableMode::Quick,
    };
    let most = budget_of_mode(mode);
    let bucket_bytes = args.shaper.map_or(0, |_| MAX_BUCKET_BYTES);
    AvailablePlan {
        mode,
        forward: !args.reverse,
        reverse: !args.forward,
        packet_bytes: DEFAULT_PACKET_BYTES,
        most_bytes: args.bytes.unwrap_or(most.most_bytes + bucket_bytes),
        most_time_us: most.most_time_us,
        // Seeded by the kernel's random numbers. Every JSON reader holds 53 bits exactly.
        seed: RandomState::new().hash_one(0_u8) >> 11,
        dscp: args.dscp,
        uncooperative: None,
        shaper_time_us: args.shaper,
    }
}

/// Describes the budget of each direction.
fn describe_budget(plan: &AvailablePlan) -> String {
    let way = match (plan.forward, plan.reverse) {
        (true, true) => "per direction",
        (false, _) => "reverse",
        (true, false) => "forward",
    };
    format!(
        "budget: at most {} and {}, {way}; packets of {}",
        format_probe_bytes(plan.most_bytes),
        format_micros(plan.most_time_us + plan.shaper_time_us.unwrap_or(0)),
        count_of(u64::from(plan.packet_bytes), "byte"),
    )
}

/// Formats the progress of a direction.
fn format_round(forward: bool, probing: &DirectionProbing) -> String {
    format!(
        "{}: {}, {}, {}",
        if forward { "forward" } else { "reverse" },
        count_of(probing.trains.len() as u64, "train"),
        format_probe_bytes(probing.probe_bytes),
        format_micros(probing.duration_us),
    )
}
