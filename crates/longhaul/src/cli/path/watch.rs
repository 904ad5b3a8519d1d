//! `longhaul path HOST --watch`: probes all hops in rounds until it is stopped, then reports.
//!
//! - [`state`]: results per hop; [`mod@draw`]: the live table
//! - [`screen`]: the terminal and its keys, or plain lines without a terminal

mod draw;
mod screen;
mod state;

use super::asked::ROUND_US;
use super::origins::Origins;
use super::{filed, finish};
use crate::cli::args::PathArgs;
use crate::fail::Fail;
use crate::render::path::spoken;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::path::{
    Answer, Echoes, Hop, Observation, Plan, Protocol, Route, Trace,
};
use longhaul_probe::path::trace::{HopEcho, HopProber, TraceAsked};
use longhaul_probe::path::{self, Outcome, PathError};
use longhaul_probe::throughput::Target;
use screen::{Screen, Wish};
use state::{Heard, State};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The maximum delay of keys and Ctrl-C while no answer arrives.
const LOOK: Duration = Duration::from_millis(30);
/// The time between probes of the first round, which finds the route.
const FIRST_GAP: Duration = Duration::from_millis(10);
/// The number of round trips of the initial measurement.
const GREETING: u32 = 1;
/// The maximum lifetime of a prober; a watch has no limit.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// The packet size in the report; the prober chooses its own.
const PROBE_BYTES: u32 = 64;

pub fn run(
    args: &PathArgs,
    mut plan: Plan,
    target: &Target,
    stop: &AtomicBool,
) -> Result<ExitCode, Fail> {
    plan.round_trips.interval_us = args.interval.unwrap_or(ROUND_US);
    plan.round_trips.probes = GREETING;
    (plan.reverse, plan.mtu) = (false, false);
    let trace = plan.trace.take();
    let mut outcome = path::run(target, &plan, stop, &mut |_| {})?;
    plan.trace = trace;
    let begin = Instant::now();
    let (prober, protocol) = prober(&plan, target, &mut outcome)?;
    let mut watch = Watch {
        prober,
        state: State::new(args.max_hops, args.timeout),
        words: BTreeMap::new(),
        origins: Origins::new(&args.output.archive, !args.no_names),
        begin,
        every: Duration::from_micros(plan.round_trips.interval_us),
        most_rounds: args.count,
    };
    let title = format!(
        "{} ({}) by {}",
        args.host,
        outcome.observation.address,
        spoken(protocol)
    );
    let mut screen = Screen::open(args, title)?;
    let ended = watch.go(&mut screen, stop);
    drop(screen);
    ended?;
    plan.round_trips.probes = watch.state.rounds;
    let interrupted = stop.load(Ordering::Relaxed);
    watch.observe(&mut outcome, protocol);
    plan.protocol = protocol;
    let origins = watch.origins;
    let report = filed(args, plan, outcome, origins);
    finish(args, &report, interrupted)
}

/// Opens a prober for the requested protocol, or for UDP if a privilege is missing.
fn prober(
    plan: &Plan,
    target: &Target,
    outcome: &mut Outcome,
) -> Result<(HopProber, Protocol), Fail> {
    let address = &outcome.observation.address;
    let destination: IpAddr = address
        .parse()
        .map_err(|_| Fail::new(crate::fail::BUG, format!("{address} is not an address")))?;
    let mut asked = TraceAsked {
        destination,
        source: target.bind.address,
        device: target.bind.device.clone(),
        protocol: plan.protocol,
        port: plan.port,
        trace: plan.trace.clone().unwrap_or(Trace {
            most_hops: u8::MAX,
            probes: 1,
            timeout_us: plan.round_trips.timeout_us,
            confidence_ratio: None,
        }),
        most_time: LONGEST,
    };
    match HopProber::new(&asked) {
        Ok(prober) => Ok((prober, plan.protocol)),
        Err(why @ PathError::Privilege { .. }) if plan.protocol != Protocol::Udp => {
            let text = format!("{why}; hops are watched by UDP in its place");
            outcome.caveats.push(Caveat::new("protocol_replaced", text));
            asked.protocol = Protocol::Udp;
            asked.port = None;
            let prober = HopProber::new(&asked).map_err(|e| failed(&e))?;
            Ok((prober, Protocol::Udp))
        }
        Err(e) => Err(failed(&e)),
    }
}

fn failed(error: &PathError) -> Fail {
    Fail::from_error(error.exit_code(), error).hint(error.hint())
}

/// A watch in progress.
struct Watch {
    prober: HopProber,
    state: State,
    /// The latest answer of each hop and address, for the report.
    words: BTreeMap<(u8, IpAddr), HopEcho>,
    origins: Origins,
    begin: Instant,
    every: Duration,
    most_rounds: Option<u32>,
}

impl Watch {
    /// Runs rounds until the user, a signal or the maximum number of rounds ends the watch.
    fn go(&mut self, screen: &mut Screen, stop: &AtomicBool) -> Result<(), Fail> {
        let mut round_at = Duration::ZERO;
        let mut probe_at = Duration::ZERO;
        self.state.begin_round();
        while !stop.load(Ordering::Relaxed) {
            let now = self.begin.elapsed();
            self.state.expire(now);
            if self.is_over() {
                break;
            }
            if now >= round_at + self.every && !self.is_last() && !self.state.paused {
                screen.round_over(&self.state, &self.origins)?;
                self.state.begin_round();
                (round_at, probe_at) = (now, now);
            }
            if now >= probe_at && self.probe()? {
                probe_at = now + self.gap();
            }
            self.listen(probe_at.max(now))?;
            match screen.look(&mut self.state, &self.origins)? {
                Wish::Go => {}
                Wish::End => break,
            }
        }
        screen.round_over(&self.state, &self.origins)
    }

    fn is_last(&self) -> bool {
        self.most_rounds
            .is_some_and(|most| self.state.rounds >= most)
    }

    fn is_over(&self) -> bool {
        self.is_last() && self.state.is_quiet()
    }

    /// Returns the time between probes: spread over the round, except while finding the route.
    fn gap(&self) -> Duration {
        if self.state.rounds < 2 || self.state.reached.is_none() {
            return FIRST_GAP;
        }
        self.every / (u32::from(self.state.limit()) + 1)
    }

    fn probe(&mut self) -> Result<bool, Fail> {
        let Some(ttl) = self.state.next() else {
            return Ok(false);
        };
        self.prober.send(ttl).map_err(|e| failed(&e))?;
        self.state.sent(ttl, self.begin.elapsed());
        Ok(true)
    }

    /// Receives answers until the next probe or the next check for keys is due.
    fn listen(&mut self, probe_at: Duration) -> Result<(), Fail> {
        let look = Instant::now() + LOOK;
        let until = if self.state.next().is_some() {
            look.min(self.begin + probe_at)
        } else {
            look
        };
        while let Some(echo) = self.prober.poll(until).map_err(|e| failed(&e))? {
            self.heard(echo);
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    fn heard(&mut self, echo: HopEcho) {
        self.origins.names.ask(echo.address);
        let heard = Heard {
            ttl: echo.ttl,
            address: echo.address,
            rtt_ns: echo.rtt.as_nanos() as u64,
            reached: echo.address == self.prober.flow().destination,
        };
        self.state.heard(&heard, self.begin.elapsed());
        self.words.insert((echo.ttl, echo.address), echo);
    }

    /// Writes the results of the watch into the observation.
    fn observe(&self, outcome: &mut Outcome, protocol: Protocol) {
        outcome.duration = outcome.started_at.elapsed().unwrap_or(outcome.duration);
        let state = &self.state;
        let flow = self.prober.flow();
        let shown = usize::from(state.limit()).min(state.hops.len());
        let hops = (1..).zip(&state.hops[..shown]);
        let hops: Vec<Hop> = hops.map(|(ttl, seen)| self.hop(ttl, seen)).collect();
        let reached = state.reached.is_some();
        let observation: &mut Observation = &mut outcome.observation;
        observation.route = Some(Route {
            from: flow.source.to_string(),
            to: flow.destination.to_string(),
            protocol,
            flow: flow.words(),
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
            observation.round_trips = Some(Echoes {
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

    fn hop(&self, ttl: u8, seen: &state::Seen) -> Hop {
        let rtts: Vec<u64> = seen.history.iter().flatten().copied().collect();
        let sent = seen.history.len() as u32;
        let latest = seen.addresses.iter().rev().enumerate();
        let answers = latest.filter_map(|(place, address)| {
            let echo = self.words.get(&(ttl, *address))?;
            Some(Answer {
                address: address.to_string(),
                name: None,
                autonomous_system: None,
                place: None,
                rtts_ns: if place == 0 { rtts.clone() } else { Vec::new() },
                reply_ttl: echo.reply_ttl,
                quoted_ttl: echo.quoted_ttl,
                kind: echo.kind.word().to_owned(),
                mpls: echo.mpls.clone(),
                rewritten: echo.rewritten.clone(),
            })
        });
        Hop {
            ttl,
            sent,
            answers: answers.collect(),
            rate_limited: false,
        }
    }
}
