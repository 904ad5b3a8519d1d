//! `longhaul path HOST --watch`: traces the route once per round until it is stopped, then reports.

use crate::cli::args::PathArgs;
use crate::cli::command_output;
use crate::cli::path_command::hop_origins::HopOrigins;
use crate::cli::path_command::{MIN_ROUND_US, archive_path_report, show_path_report};
use crate::cli::report_archiving::format_rfc3339;
use crate::command_failure::CommandFailure;
use jiff::Timestamp;
use longhaul_model::report::v1::path::{
    ObservedHop, ObservedRoute, PathPlan, ProbeEcho, RoundTripSeries,
};
use longhaul_probe::path::{self, PathOutcome};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use longhaul_report::document::ReportDocument;
use longhaul_report::path_text::{hop_table, protocol_name};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The maximum delay of Ctrl-C between two rounds.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of rounds that figures and report are about: about three hours.
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
    stop: &StopFlag,
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
        watch.show(args, &mut origins)?;
        // The name may have several addresses.
        target.chosen.clone_from(&outcome.chosen);
        let last = args.count.is_some_and(|rounds| watch.rounds >= rounds);
        if last || !wait_for_round(due, stop) {
            break outcome;
        }
    };
    outcome.started_at = started_at;
    outcome.duration = started_at.elapsed().unwrap_or_default();
    plan.round_trips.probes = watch.rounds;
    watch.write_observation(&mut plan, &mut outcome);
    let report = archive_path_report(args, plan, outcome, origins);
    show_path_report(args, &report)
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
    /// Round trips to the target.
    echoes: Vec<ProbeEcho>,
    /// The route of the latest round, with the answers of all rounds.
    route: Option<ObservedRoute>,
}

impl PathWatch {
    /// Adds a round. After [`MAX_ROUNDS`] the figures begin anew.
    fn add_round(&mut self, route: &ObservedRoute, at: Duration) {
        let at_us = at.as_micros() as u64;
        if self.echoes.len() == MAX_ROUNDS {
            *self = PathWatch { rounds: self.rounds, ..PathWatch::default() };
        }
        self.rounds += 1;
        let last = route.hops.last().filter(|_| route.reached);
        let answer = last.and_then(|hop| hop.answers.first());
        let rtt_ns = answer.and_then(|answer| answer.rtts_ns.first().copied());
        self.echoes.push(ProbeEcho { at_us, rtt_ns, ttl: None });
        let mut latest = ObservedRoute { at_us: 0, duration_us: at_us, ..route.clone() };
        if let Some(before) = self.route.take() {
            latest.probes_sent += before.probes_sent;
            latest.discarded += before.discarded;
            add_earlier_hops(&mut latest, before.hops);
        }
        self.route = Some(latest);
    }

    fn show(&self, args: &PathArgs, origins: &mut HopOrigins) -> Result<(), CommandFailure> {
        let Some(mut route) = self.route.clone().filter(|_| args.output.shows_progress()) else {
            return Ok(());
        };
        origins.annotate_route(&mut route);
        let mut page = ReportDocument::default();
        page.paragraph(format!(
            "{} ({}) by {}, {}, round {}",
            args.peer.host_name(),
            route.to,
            protocol_name(route.protocol),
            format_rfc3339(Timestamp::now()),
            self.rounds
        ));
        hop_table::write_hop_table(&mut page, &route, &[]);
        command_output::print_live_document(&page)
    }

    fn write_observation(self, plan: &mut PathPlan, outcome: &mut PathOutcome) {
        let Some(route) = self.route else {
            return;
        };
        plan.protocol = route.protocol;
        if self.echoes.iter().any(|echo| echo.rtt_ns.is_some()) {
            outcome.observation.round_trips = Some(RoundTripSeries {
                protocol: route.protocol,
                clock: "kernel_receive".to_owned(),
                packet_bytes: plan.round_trips.packet_bytes,
                sent: self.echoes.len() as u32,
                echoes: self.echoes,
                duplicates: 0,
                reordered: 0,
                discarded: route.discarded,
            });
        }
        outcome.observation.route = Some(route);
    }
}

/// Adds the answers of earlier rounds to the hops of the latest one. A route that was cut off keeps
/// its later hops.
fn add_earlier_hops(latest: &mut ObservedRoute, earlier: Vec<ObservedHop>) {
    for (place, before) in earlier.into_iter().enumerate() {
        let Some(hop) = latest.hops.get_mut(place) else {
            if !latest.reached {
                latest.hops.push(before);
            }
            continue;
        };
        hop.sent += before.sent;
        for mut answer in before.answers {
            let new = hop.answers.iter_mut().find(|new| new.address == answer.address);
            match new {
                Some(new) => {
                    answer.rtts_ns.append(&mut new.rtts_ns);
                    new.rtts_ns = answer.rtts_ns;
                }
                None => hop.answers.push(answer),
            }
        }
        hop.answers.truncate(MAX_HOP_ADDRESSES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::path::{HopReply, ProbeProtocol};

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
        assert_eq!(watch.echoes.len(), 4);
        assert_eq!((watch.echoes[1].at_us, watch.echoes[1].rtt_ns), (2_000_000, None));
        let route = watch.route.expect("a route");
        assert_eq!(route.probes_sent, 8);
        let hop = &route.hops[1];
        assert_eq!((hop.sent, hop.answers.len()), (4, 1));
        assert_eq!(hop.answers[0].rtts_ns, [10 * MS, 30 * MS, 20 * MS]);
    }

    #[test]
    fn a_shorter_route_drops_hops_but_silence_does_not() {
        let mut watch = PathWatch::default();
        let hops = |watch: &PathWatch| watch.route.as_ref().map(|route| route.hops.len());
        watch.add_round(&route(&[Some(1), Some(2), Some(3)], true), Duration::ZERO);
        watch.add_round(&route(&[Some(1)], false), Duration::ZERO);
        assert_eq!(hops(&watch), Some(3));
        watch.add_round(&route(&[Some(1), Some(2)], true), Duration::ZERO);
        assert_eq!(hops(&watch), Some(2));
    }

    #[test]
    fn memory_is_bounded_however_long_it_lasts() {
        let mut watch = PathWatch::default();
        for second in 0..MAX_ROUNDS as u64 + 10 {
            watch.add_round(&route(&[Some(1)], true), Duration::from_secs(second));
        }
        assert_eq!((watch.rounds as usize, watch.echoes.len()), (MAX_ROUNDS + 10, 10));
        let route = watch.route.expect("a route");
        assert_eq!(route.hops[0].answers[0].rtts_ns.len(), 10);
    }
}
