//! `longhaul path HOST --watch`: probes all hops in rounds until it is stopped, then reports.
//!
//! - [`watch_state`]: results per hop; [`mod@watch_table`]: the live table
//! - [`watch_screen`]: the terminal and its keys, or plain lines without a terminal

mod watch_screen;
mod watch_state;
mod watch_table;

use super::hop_origins::HopOrigins;
use super::path_plan::MIN_ROUND_US;
use super::{archive_path_report, show_path_report};
use crate::cli::args::PathArgs;
use crate::command_failure::CommandFailure;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{
    HopReply, ObservedHop, ObservedRoute, PathObservation, PathPlan, ProbeProtocol,
    RoundTripSeries, TracePlan,
};
use longhaul_probe::path::route_trace::{HopEcho, HopProber, TraceRequest};
use longhaul_probe::path::{self, PathError, PathOutcome};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::path_text::protocol_name;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch_screen::{UserRequest, WatchScreen};
use watch_state::{WatchAnswer, WatchState};

/// The maximum delay of keys and Ctrl-C while no answer arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(30);
/// The time between probes of the first round, which finds the route.
const DISCOVERY_GAP: Duration = Duration::from_millis(10);
/// The number of round trips of the initial measurement.
const INITIAL_ROUND_TRIPS: u32 = 1;
/// The maximum lifetime of a prober; a watch has no limit.
const MAX_PROBER_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// The packet size in the report; the prober chooses its own.
const PROBE_BYTES: u32 = 64;

pub fn run(
    args: &PathArgs,
    mut plan: PathPlan,
    target: &TargetHost,
    stop: &AtomicBool,
) -> Result<ExitCode, CommandFailure> {
    plan.round_trips.interval_us = args.interval.unwrap_or(MIN_ROUND_US);
    plan.round_trips.probes = INITIAL_ROUND_TRIPS;
    (plan.reverse, plan.mtu) = (false, false);
    let trace = plan.trace.take();
    let mut outcome = path::run(target, &plan, stop, &mut |_| {})?;
    plan.trace = trace;
    let begin = Instant::now();
    let (prober, protocol) = open_hop_prober(&plan, target, &mut outcome)?;
    let mut watch = PathWatch {
        prober,
        state: WatchState::new(args.max_hops, args.timeout),
        latest_answers: BTreeMap::new(),
        origins: HopOrigins::new(&args.output.archive, !args.no_names),
        begin,
        round_interval: Duration::from_micros(plan.round_trips.interval_us),
        most_rounds: args.count,
    };
    let title =
        format!("{} ({}) by {}", args.host, outcome.observation.address, protocol_name(protocol));
    let mut screen = WatchScreen::open(args, title)?;
    let ended = watch.run_rounds(&mut screen, stop);
    drop(screen);
    ended?;
    plan.round_trips.probes = watch.state.rounds;
    let interrupted = stop.load(Ordering::Relaxed);
    watch.write_observation(&mut outcome, protocol);
    plan.protocol = protocol;
    let origins = watch.origins;
    let report = archive_path_report(args, plan, outcome, origins);
    show_path_report(args, &report, interrupted)
}

/// Opens a prober for the requested protocol, or for UDP if a privilege is missing.
fn open_hop_prober(
    plan: &PathPlan,
    target: &TargetHost,
    outcome: &mut PathOutcome,
) -> Result<(HopProber, ProbeProtocol), CommandFailure> {
    let address = &outcome.observation.address;
    let destination: IpAddr = address.parse().map_err(|_| {
        CommandFailure::new(crate::command_failure::BUG, format!("{address} is not an address"))
    })?;
    let mut asked = TraceRequest {
        destination,
        source: target.bind.address,
        device: target.bind.device.clone(),
        protocol: plan.protocol,
        port: plan.port,
        trace: plan.trace.clone().unwrap_or(TracePlan {
            most_hops: u8::MAX,
            probes: 1,
            timeout_us: plan.round_trips.timeout_us,
            confidence_ratio: None,
        }),
        max_time: MAX_PROBER_TIME,
    };
    match HopProber::new(&asked) {
        Ok(prober) => Ok((prober, plan.protocol)),
        Err(why @ PathError::Privilege { .. }) if plan.protocol != ProbeProtocol::Udp => {
            let text = format!("{why}; hops are probed by UDP instead");
            outcome.caveats.push(ReportCaveat::new("protocol_replaced", text));
            asked.protocol = ProbeProtocol::Udp;
            asked.port = None;
            let prober = HopProber::new(&asked).map_err(|e| path_failure(&e))?;
            Ok((prober, ProbeProtocol::Udp))
        }
        Err(e) => Err(path_failure(&e)),
    }
}

fn path_failure(error: &PathError) -> CommandFailure {
    CommandFailure::from_error(error.exit_code(), error).hint(error.hint())
}

/// A watch in progress.
struct PathWatch {
    prober: HopProber,
    state: WatchState,
    /// The latest answer of each hop and address, for the report.
    latest_answers: BTreeMap<(u8, IpAddr), HopEcho>,
    origins: HopOrigins,
    begin: Instant,
    round_interval: Duration,
    most_rounds: Option<u32>,
}

impl PathWatch {
    /// Runs rounds until the user, a signal or the maximum number of rounds ends the watch.
    fn run_rounds(
        &mut self,
        screen: &mut WatchScreen,
        stop: &AtomicBool,
    ) -> Result<(), CommandFailure> {
        let mut round_at = Duration::ZERO;
        let mut probe_at = Duration::ZERO;
        self.state.begin_round();
        while !stop.load(Ordering::Relaxed) {
            let now = self.begin.elapsed();
            self.state.expire(now);
            if self.is_over() {
                break;
            }
            if now >= round_at + self.round_interval && !self.is_last_round() && !self.state.paused
            {
                screen.print_round(&self.state, &self.origins)?;
                self.state.begin_round();
                (round_at, probe_at) = (now, now);
            }
            if now >= probe_at && self.send_probe()? {
                probe_at = now + self.probe_gap();
            }
            self.receive_answers(probe_at.max(now))?;
            match screen.update(&mut self.state, &self.origins)? {
                UserRequest::Continue => {}
                UserRequest::Quit => break,
            }
        }
        screen.print_round(&self.state, &self.origins)
    }

    fn is_last_round(&self) -> bool {
        self.most_rounds.is_some_and(|most| self.state.rounds >= most)
    }

    fn is_over(&self) -> bool {
        self.is_last_round() && self.state.has_no_outstanding()
    }

    /// Returns the time between probes: spread over the round, except while finding the route.
    fn probe_gap(&self) -> Duration {
        if self.state.rounds < 2 || self.state.reached.is_none() {
            return DISCOVERY_GAP;
        }
        self.round_interval / (u32::from(self.state.last_ttl()) + 1)
    }

    fn send_probe(&mut self) -> Result<bool, CommandFailure> {
        let Some(ttl) = self.state.next_ttl() else {
            return Ok(false);
        };
        self.prober.send(ttl).map_err(|e| path_failure(&e))?;
        self.state.record_sent(ttl, self.begin.elapsed());
        Ok(true)
    }

    /// Receives answers until the next probe or the next check for keys is due.
    fn receive_answers(&mut self, probe_at: Duration) -> Result<(), CommandFailure> {
        let look = Instant::now() + POLL_INTERVAL;
        let until =
            if self.state.next_ttl().is_some() { look.min(self.begin + probe_at) } else { look };
        while let Some(echo) = self.prober.poll(until).map_err(|e| path_failure(&e))? {
            self.record_answer(echo);
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    fn record_answer(&mut self, echo: HopEcho) {
        self.origins.names.request(echo.address);
        let heard = WatchAnswer {
            ttl: echo.ttl,
            address: echo.address,
            rtt_ns: echo.rtt.as_nanos() as u64,
            reached: echo.address == self.prober.flow().destination,
        };
        self.state.record_answer(&heard, self.begin.elapsed());
        self.latest_answers.insert((echo.ttl, echo.address), echo);
    }

    /// Writes the results of the watch into the observation.
    fn write_observation(&self, outcome: &mut PathOutcome, protocol: ProbeProtocol) {
        outcome.duration = outcome.started_at.elapsed().unwrap_or(outcome.duration);
        let state = &self.state;
        let flow = self.prober.flow();
        let shown = usize::from(state.last_ttl()).min(state.hops.len());
        let hops = (1..).zip(&state.hops[..shown]);
        let hops: Vec<ObservedHop> = hops.map(|(ttl, seen)| self.build_hop(ttl, seen)).collect();
        let reached = state.reached.is_some();
        let observation: &mut PathObservation = &mut outcome.observation;
        observation.route = Some(ObservedRoute {
            from: flow.source.to_string(),
            to: flow.destination.to_string(),
            protocol,
            flow: flow.describe(),
            at_us: 0,
            duration_us: self.begin.elapsed().as_micros() as u64,
            hops,
            reached,
            ended_by: if reached { "reached" } else { "silent" }.to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: self.prober.sent(),
            discarded: self.prober.discarded(),
        });
        if reached {
            observation.round_trips = Some(RoundTripSeries {
                protocol,
                clock: "kernel_receive".to_owned(),
                packet_bytes: PROBE_BYTES,
                sent: state.echoes.len() as u32,
                echoes: state.echoes.clone(),
                duplicates: 0,
                reordered: 0,
                discarded: self.prober.discarded(),
            });
        }
    }

    fn build_hop(&self, ttl: u8, seen: &watch_state::WatchHopStats) -> ObservedHop {
        let rtts: Vec<u64> = seen.history.iter().flatten().copied().collect();
        let sent = seen.history.len() as u32;
        let latest = seen.addresses.iter().rev().enumerate();
        let answers = latest.filter_map(|(place, address)| {
            let echo = self.latest_answers.get(&(ttl, *address))?;
            Some(HopReply {
                address: address.to_string(),
                name: None,
                autonomous_system: None,
                place: None,
                rtts_ns: if place == 0 { rtts.clone() } else { Vec::new() },
                reply_ttl: echo.reply_ttl,
                quoted_ttl: echo.quoted_ttl,
                kind: echo.kind.as_str().to_owned(),
                mpls: echo.mpls.clone(),
                rewritten: echo.rewritten.clone(),
            })
        });
        ObservedHop { ttl, sent, answers: answers.collect(), rate_limited: false }
    }
}
