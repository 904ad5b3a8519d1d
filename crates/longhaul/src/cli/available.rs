//! `longhaul available HOST`: sends probe trains both ways; analyses, archives and shows them.
//!
//! The analysis chooses the next trains, the prober sends them; neither depends on the other.

pub mod asked;
mod bulk;
mod progress;

use super::args::AvailableArgs;
use super::{filing, output, resolve};
use crate::fail::{Fail, PEER};
use jiff::Timestamp;
use longhaul_analysis::available::{Course, Facts, conclude};
use longhaul_model::report::v1::available::{Mode, Observation, Plan, Probing, Train};
use longhaul_model::report::v1::{Available, Caveat, Kind, Party, SCHEMA};
use longhaul_probe::error::ProbeError;
use longhaul_probe::probing::{EchoSeries, Prober};
use longhaul_probe::throughput::Target;
use longhaul_store::Archive;
use progress::Progress;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The timeout of each step of connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of earlier runs used for tracking.
const HISTORY: u32 = 100;
/// Packet sizes to try if a full packet does not pass: Ethernet's, and the minimum of IPv6.
const SMALLER_PACKETS: [u32; 2] = [1500, 1280];
/// The number of attempts with each packet size.
const TRIES: u32 = 2;

/// Observations of a measurement before their analysis.
struct Seen {
    plan: Plan,
    observation: Observation,
    initiator: Party,
    responder: Party,
    caveats: Vec<Caveat>,
}

pub fn run(args: &AvailableArgs) -> Result<ExitCode, Fail> {
    let (started, begun) = (Timestamp::now(), Instant::now());
    let target = resolve::target(
        (&args.host, args.port),
        &args.local,
        &args.token,
        CONNECT_TIMEOUT,
    )?;
    let mut progress = Progress::new(args);
    let plan = asked::plan(args);
    let seen = match args.tcp {
        Some(port) => bulk::measure(&target, port, plan, &mut progress)?,
        None => measure(args, &target, plan, &mut progress).map_err(explained)?,
    };
    progress.finish();
    let history = history(args);
    let conclusion = conclude(&seen.plan, &seen.observation, &history);
    let mut caveats = seen.caveats;
    caveats.extend(conclusion.caveats);
    let mut report = Available {
        schema: SCHEMA.to_owned(),
        kind: Kind::Available,
        run: filing::run(
            (filing::run_id(started), started),
            begun.elapsed(),
            (seen.initiator, seen.responder),
        ),
        plan: seen.plan,
        observation: seen.observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats,
    };
    if !args.output.no_save {
        filing::keep(&args.output.archive, &mut report);
    }
    output::report(&report, crate::render::available::report, args.output.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds a hint about `--tcp` if no longhaul server answers.
fn explained(error: ProbeError) -> Fail {
    let no_longhaul = matches!(
        error,
        ProbeError::Connect { .. } | ProbeError::Tls { .. } | ProbeError::Timeout { .. }
    );
    let fail = Fail::from(error);
    if !no_longhaul || fail.code != PEER {
        return fail;
    }
    let way_out = "where no longhaul can run, give `--tcp PORT` of a service that takes bulk data";
    let hint = fail
        .hint
        .as_ref()
        .map_or_else(|| way_out.to_owned(), |hint| format!("{hint}; {way_out}"));
    fail.hint(Some(hint))
}

/// Measures both directions, one after the other.
fn measure(
    args: &AvailableArgs,
    target: &Target,
    mut plan: Plan,
    progress: &mut Progress,
) -> Result<Seen, ProbeError> {
    let mut prober = open(target, &plan)?;
    let spent = fit(args, &mut prober, &mut plan)?;
    let mut caveats = Vec::new();
    hold_back(&prober, &mut plan, &mut caveats);
    progress.budget(&plan);
    let mut observation = Observation {
        idle_rtt_us: prober.idle_rtt().map(micros),
        loopback: prober.loopback(),
        ..Observation::default()
    };
    if plan.forward {
        let seen = direction(&mut prober, &plan, (true, spent), progress)?;
        observation.forward = Some(seen);
    }
    if plan.reverse {
        let seen = direction(&mut prober, &plan, (false, spent), progress)?;
        observation.reverse = Some(seen);
    }
    let (initiator, responder) = prober.parties();
    let seen = Seen {
        plan,
        observation,
        initiator: initiator.clone(),
        responder: responder.clone(),
        caveats,
    };
    prober.close();
    Ok(seen)
}

fn open(target: &Target, plan: &Plan) -> Result<Prober, ProbeError> {
    use longhaul_probe::limits::{LONGEST_PROBING_US, MOST_PROBE_BYTES};
    let bounds = longhaul_probe::probing::Bounds {
        flows: 1,
        most_bytes: MOST_PROBE_BYTES,
        most_time_us: LONGEST_PROBING_US,
        dscp: plan.dscp,
    };
    Prober::open(target, bounds)
}

/// Finds a packet size that passes in both directions. Returns the bytes spent in each direction.
fn fit(args: &AvailableArgs, prober: &mut Prober, plan: &mut Plan) -> Result<u64, ProbeError> {
    // One burst of jumbo frames costs more than a light run may spend.
    let known = match plan.mode {
        Mode::Light => None,
        Mode::Quick | Mode::Careful => prober.path_mtu_bytes(),
    };
    let first = args.packet_bytes.or(known).unwrap_or(plan.packet_bytes);
    let smaller = SMALLER_PACKETS.into_iter().filter(|size| *size < first);
    let mut spent = 0;
    for packet_bytes in std::iter::once(first.min(9000)).chain(smaller) {
        for _ in 0..TRIES {
            let one = EchoSeries {
                interval: Duration::from_secs(1),
                packet_bytes,
                dscp: plan.dscp,
                most_time: Duration::from_millis(1),
            };
            let never = AtomicBool::new(false);
            let result = prober.echo(&one, &never, &mut |_| {})?;
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
fn hold_back(prober: &Prober, plan: &mut Plan, caveats: &mut Vec<Caveat>) {
    let directions = u64::from(plan.forward) + u64::from(plan.reverse);
    let Some(bounds) = prober.bounds() else {
        return;
    };
    let granted = bounds.most_bytes / directions.max(1);
    if granted < plan.most_bytes {
        plan.most_bytes = granted;
        let text = format!(
            "the far end grants {} each way to whoever shows no token",
            longhaul_model::units::Bytes(granted)
        );
        if plan.shaper_time_us.is_some() {
            caveats.push(Caveat::new("budget_cut", text));
        }
    }
}

/// Measures one direction, round by round.
fn direction(
    prober: &mut Prober,
    plan: &Plan,
    (forward, spent): (bool, u64),
    progress: &mut Progress,
) -> Result<Probing, ProbeError> {
    let mut probing = Probing {
        probe_bytes: spent,
        ..Probing::default()
    };
    let left = Plan {
        most_bytes: plan.most_bytes.saturating_sub(spent),
        ..plan.clone()
    };
    let facts = Facts {
        idle_rtt_us: prober.idle_rtt().map(micros),
        interface_bps: prober.facts(forward).interface_bps,
        path_mtu_bytes: Some(plan.packet_bytes),
    };
    let mut course = Course::new(&left, facts);
    while let Some(wanted) = course.next() {
        let trains = if forward {
            prober.send_trains(&wanted)?
        } else {
            prober.receive_trains(&wanted)?
        };
        course.record(&trains);
        probing.trains.extend(trains);
        probing.probe_bytes = spent + bytes(&probing.trains);
        probing.duration_us = span_us(&probing.trains);
        progress.round(forward, &probing);
    }
    let facts = prober.facts(forward);
    probing.interface_bps = facts.interface_bps;
    probing.receive_clock.clone_from(&facts.receive_clock);
    probing.overflowed = facts.overflowed;
    Ok(probing)
}

fn bytes(trains: &[Train]) -> u64 {
    let one = |train: &Train| train.sent_ns.len() as u64 * u64::from(train.packet_bytes);
    trains.iter().map(one).sum()
}

/// Returns the time from the first packet to the last, on the sender's clock.
fn span_us(trains: &[Train]) -> u64 {
    let sound = || trains.iter().filter(|train| !train.sent_ns.is_empty());
    let first = sound().map(|train| train.sent_at_ns).min();
    let last = sound()
        .map(|train| train.sent_at_ns + train.sent_ns.last().copied().unwrap_or(0))
        .max();
    last.zip(first)
        .map_or(0, |(last, first)| last.saturating_sub(first) / 1000)
}

/// Loads earlier runs on the path. If the archive cannot be read, there is no tracked estimate.
fn history(args: &AvailableArgs) -> Vec<Available> {
    if args.output.no_save {
        return Vec::new();
    }
    output::archive_path(&args.output.archive)
        .ok()
        .and_then(|path| Archive::open_existing(&path).ok()?)
        .and_then(|archive| archive.availables(&args.host, HISTORY).ok())
        .unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
