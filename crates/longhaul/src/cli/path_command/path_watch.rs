//! `longhaul path HOST --watch`: traces the route once per round until it is stopped, then reports.

use crate::cli::args::PathArgs;
use crate::cli::command_output;
use crate::cli::path_command::MIN_ROUND_US;
use crate::cli::path_command::hop_origins::HopOrigins;
use crate::cli::path_command::{archive_path_report, show_path_report};
use crate::command_failure::CommandFailure;
use jiff::Timestamp;
use longhaul_model::report::v1::path::{
    HopReply, ObservedHop, ObservedRoute, PathPlan, ProbeEcho, RoundTripSeries,
};
use longhaul_probe::path::{self, PathOutcome};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::number_format::or_absent;
use longhaul_report::path_text::{format_ms, protocol_name};
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The maximum delay of Ctrl-C between two rounds.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The number of latest rounds that figures and report are about: about three hours.
const MAX_ROUNDS: usize = 10_000;
/// The source ports and ICMP identifiers of watches: above the kernel's own choice (`ip-sysctl.rst`,
/// `ip_local_port_range`). All rounds are one flow, so that a load balancer sends them one way.
const FIRST_SOURCE_ID: u16 = 61_000;
const SOURCE_IDS: u32 = 4_000;
/// The maximum number of addresses per hop.
const MAX_HOP_ADDRESSES: usize = 16;

pub fn run(
    args: &PathArgs,
    mut plan: PathPlan,
    mut target: TargetHost,
    stop: &AtomicBool,
) -> Result<ExitCode, CommandFailure> {
    plan.round_trips.interval_us = args.interval.unwrap_or(MIN_ROUND_US);
    (plan.reverse, plan.mtu) = (false, false);
    let mut origins = HopOrigins::new(&args.output.archive, !args.no_names);
    let mut watch = PathWatch::default();
    let started_at = SystemTime::now();
    let round = plan_round(&plan);
    let source_id = FIRST_SOURCE_ID + (std::process::id() % SOURCE_IDS) as u16;
    let mut outcome = loop {
        let due = Instant::now() + Duration::from_micros(plan.round_trips.interval_us);
        let outcome = path::run(&target, &round, Some(source_id), stop, &mut |_| {})?;
        let stopped = stop.load(Ordering::Relaxed);
        let Some(route) = outcome.observation.route.as_ref().filter(|_| !stopped) else {
            break outcome;
        };
        origins.request_names(route);
        watch.add_round(route, started_at.elapsed().unwrap_or_default());
        watch.show(args, route, &mut origins)?;
        // The name may have several addresses.
        target.host.clone_from(&outcome.observation.address);
        let last = args.count.is_some_and(|rounds| watch.rounds >= rounds);
        if last || !wait_for_round(due, stop) {
            break outcome;
        }
    };
    outcome.responder.host.clone_from(&args.peer.host);
    outcome.started_at = started_at;
    outcome.duration = started_at.elapsed().unwrap_or_default();
    plan.round_trips.probes = watch.rounds;
    watch.write_observation(&mut plan, &mut outcome);
    let report = archive_path_report(args, plan, outcome, origins);
    // Ctrl-C is the usual end of a watch without a number of rounds.
    let interrupted = stop.load(Ordering::Relaxed) && args.count.is_some();
    show_path_report(args, &report, interrupted)
}

/// Returns the plan of one round: one probe per hop.
fn plan_round(plan: &PathPlan) -> PathPlan {
    let mut round = plan.clone();
    round.round_trips.probes = 0;
    if let Some(trace) = &mut round.trace {
        trace.probes = 1;
    }
    round
}

/// Waits until the next round is due. Returns false after Ctrl-C.
fn wait_for_round(due: Instant, stop: &AtomicBool) -> bool {
    while Instant::now() < due && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL.min(due.saturating_duration_since(Instant::now())));
    }
    !stop.load(Ordering::Relaxed)
}

/// The results of a watch.
#[derive(Debug, Default)]
struct PathWatch {
    rounds: u32,
    /// The hops by TTL, from 1.
    hops: Vec<WatchHopStats>,
    /// Round trips to the target.
    echoes: VecDeque<ProbeEcho>,
    /// The route of the latest round, with the probes of all rounds.
    latest: Option<ObservedRoute>,
}

/// One hop over the latest rounds.
#[derive(Debug, Default)]
struct WatchHopStats {
    /// `None`: no answer.
    rtts_ns: VecDeque<Option<u64>>,
    /// The latest answer of each address, the latest address first.
    answers: VecDeque<HopReply>,
}

impl PathWatch {
    fn add_round(&mut self, route: &ObservedRoute, at: Duration) {
        self.rounds += 1;
        let hops = self.hops.len().max(route.hops.len());
        // A target that answers at a lower TTL than before is on a shorter route.
        let hops = if route.reached { route.hops.len() } else { hops };
        self.hops.resize_with(hops, WatchHopStats::default);
        for (stats, hop) in self.hops.iter_mut().zip(&route.hops) {
            stats.add_round(hop);
        }
        let last = self.hops.last().filter(|_| route.reached);
        let rtt_ns = last.and_then(WatchHopStats::last_ns);
        push_latest(
            &mut self.echoes,
            ProbeEcho { at_us: at.as_micros() as u64, rtt_ns, ttl: None },
        );
        let before = self.latest.take().map_or((0, 0), |it| (it.probes_sent, it.discarded));
        self.latest = Some(ObservedRoute {
            at_us: 0,
            duration_us: at.as_micros() as u64,
            probes_sent: route.probes_sent + before.0,
            discarded: route.discarded + before.1,
            ..route.clone()
        });
    }

    /// Shows the hops: over the last table on a terminal, otherwise as lines.
    fn show(
        &self,
        args: &PathArgs,
        route: &ObservedRoute,
        origins: &mut HopOrigins,
    ) -> Result<(), CommandFailure> {
        if !args.output.shows_progress() {
            return Ok(());
        }
        let on_terminal = io::stdout().is_terminal();
        let title = if on_terminal {
            format!("{} ({}) by {},", args.peer.host, route.to, protocol_name(route.protocol))
        } else {
            Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
        };
        let mut lines =
            vec![format!("{title} round {}: last, min, avg, max ms, loss", self.rounds)];
        for (hop, ttl) in self.hops.iter().zip(1..) {
            let label = hop.label(on_terminal && !args.no_names, origins);
            lines.push(hop.format_line(ttl, &label).trim_end().to_owned());
        }
        if !on_terminal {
            return command_output::print_text(&(lines.join("\n") + "\n"));
        }
        // Each line overwrites the one before it, so nothing has to be restored at the end.
        let begin = if self.rounds == 1 { CLEAR_SCREEN } else { CURSOR_HOME };
        let text = lines.join(&format!("{CLEAR_LINE_END}\n"));
        command_output::print_unstyled(&format!("{begin}{text}{CLEAR_BELOW}\n"))
    }

    /// Writes the results of the watch into plan and observation.
    fn write_observation(self, plan: &mut PathPlan, outcome: &mut PathOutcome) {
        let Some(latest) = self.latest else {
            return;
        };
        plan.protocol = latest.protocol;
        let hops = self.hops.into_iter().zip(1..);
        let route = ObservedRoute {
            hops: hops.map(|(hop, ttl)| hop.into_observed(ttl)).collect(),
            ..latest
        };
        if self.echoes.iter().any(|echo| echo.rtt_ns.is_some()) {
            outcome.observation.round_trips = Some(RoundTripSeries {
                protocol: route.protocol,
                clock: "kernel_receive".to_owned(),
                packet_bytes: plan.round_trips.packet_bytes,
                sent: self.echoes.len() as u32,
                echoes: self.echoes.into(),
                duplicates: 0,
                reordered: 0,
                discarded: route.discarded,
            });
        }
        outcome.observation.route = Some(route);
    }
}

/// ECMA-48 control sequences, which every terminal has.
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";
const CURSOR_HOME: &str = "\x1b[H";
const CLEAR_LINE_END: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

impl WatchHopStats {
    fn add_round(&mut self, hop: &ObservedHop) {
        let answer = hop.answers.first();
        push_latest(&mut self.rtts_ns, answer.and_then(|it| it.rtts_ns.first().copied()));
        if let Some(answer) = answer {
            self.answers.retain(|other| other.address != answer.address);
            self.answers.truncate(MAX_HOP_ADDRESSES - 1);
            self.answers.push_front(HopReply { rtts_ns: Vec::new(), ..answer.clone() });
        }
    }

    fn last_ns(&self) -> Option<u64> {
        self.rtts_ns.back().copied().flatten()
    }

    /// Returns the name or address that answered last.
    fn label(&self, names: bool, origins: &mut HopOrigins) -> String {
        let Some(answer) = self.answers.front() else {
            return "*".to_owned();
        };
        let name = || origins.names.get(answer.address.parse().ok()?);
        names.then(name).flatten().unwrap_or_else(|| answer.address.clone())
    }

    /// Formats the hop: `hop address last min avg max loss`, 80 columns wide.
    fn format_line(&self, ttl: u8, label: &str) -> String {
        let answered = || self.rtts_ns.iter().flatten().copied();
        let count = answered().count() as u64;
        let mean = answered().sum::<u64>().checked_div(count);
        let times = [self.last_ns(), answered().min(), mean, answered().max()];
        let times = times.map(|time| format!("{:>8}", or_absent(time, format_ms))).concat();
        let loss = 100.0 - 100.0 * count as f64 / self.rtts_ns.len().max(1) as f64;
        format!("{ttl:>3} {label:<39.39}{times}{:>5}", format!("{loss:.0} %"))
    }

    /// Returns the hop as in a report: the latest address with all round trips.
    fn into_observed(self, ttl: u8) -> ObservedHop {
        let sent = self.rtts_ns.len() as u32;
        let mut answers = Vec::from(self.answers);
        if let Some(latest) = answers.first_mut() {
            latest.rtts_ns = self.rtts_ns.into_iter().flatten().collect();
        }
        ObservedHop { ttl, sent, answers, rate_limited: false }
    }
}

/// Adds a value and drops the oldest one beyond the maximum number of rounds.
fn push_latest<T>(values: &mut VecDeque<T>, value: T) {
    if values.len() == MAX_ROUNDS {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::path::ProbeProtocol;

    const MS: u64 = 1_000_000;

    /// A route whose hops answer after these milliseconds.
    fn route(rtts_ms: &[Option<u64>], reached: bool) -> ObservedRoute {
        let hop = |(rtt, ttl): (&Option<u64>, u8)| ObservedHop {
            ttl,
            sent: 1,
            answers: rtt.iter().map(|rtt| answer(ttl, rtt * MS)).collect(),
            rate_limited: false,
        };
        ObservedRoute {
            from: "192.0.2.100".to_owned(),
            to: "192.0.2.9".to_owned(),
            protocol: ProbeProtocol::Icmp,
            flow: String::new(),
            at_us: 0,
            duration_us: 0,
            hops: rtts_ms.iter().zip(1..).map(hop).collect(),
            reached,
            ended_by: String::new(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: rtts_ms.len() as u32,
            discarded: 0,
        }
    }

    fn answer(ttl: u8, rtt_ns: u64) -> HopReply {
        HopReply {
            address: format!("192.0.2.{ttl}"),
            name: None,
            autonomous_system: None,
            place: None,
            rtts_ns: vec![rtt_ns],
            reply_ttl: None,
            quoted_ttl: None,
            kind: "time_exceeded".to_owned(),
            mpls: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    #[test]
    fn figures_follow_the_answers() {
        let mut watch = PathWatch::default();
        for (rtt, second) in [Some(10), None, Some(30), Some(20)].into_iter().zip(1..) {
            watch.add_round(&route(&[Some(1), rtt], true), Duration::from_secs(second));
        }
        let line = watch.hops[1].format_line(2, "192.0.2.2");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["2", "192.0.2.2", "20.0", "10.0", "20.0", "30.0", "25", "%"]);
        assert_eq!(watch.echoes.len(), 4);
        assert_eq!((watch.echoes[1].at_us, watch.echoes[1].rtt_ns), (2_000_000, None));
        assert_eq!(watch.latest.map(|route| route.probes_sent), Some(8));
    }

    #[test]
    fn a_shorter_route_drops_hops_but_silence_does_not() {
        let mut watch = PathWatch::default();
        watch.add_round(&route(&[Some(1), Some(2), Some(3)], true), Duration::ZERO);
        watch.add_round(&route(&[Some(1)], false), Duration::ZERO);
        assert_eq!(watch.hops.len(), 3);
        watch.add_round(&route(&[Some(1), Some(2)], true), Duration::ZERO);
        assert_eq!(watch.hops.len(), 2);
    }

    #[test]
    fn every_hop_fits_a_line_of_80_columns() {
        let hop = WatchHopStats { rtts_ns: VecDeque::from([None]), ..WatchHopStats::default() };
        let address = "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ff01";
        let long = "a-router-with-a-long-name.of-some.example.net";
        for label in [address, long, "*"] {
            let line = hop.format_line(1, label);
            assert_eq!(line.chars().count(), 80, "{line}");
            assert!(line.starts_with("  1 ") && line.ends_with("100 %"), "{line}");
        }
    }

    #[test]
    fn memory_is_bounded_however_long_it_lasts() {
        let mut watch = PathWatch::default();
        for second in 0..MAX_ROUNDS as u64 + 10 {
            watch.add_round(&route(&[Some(1)], true), Duration::from_secs(second));
        }
        assert_eq!((watch.hops[0].rtts_ns.len(), watch.echoes.len()), (MAX_ROUNDS, MAX_ROUNDS));
    }
}
