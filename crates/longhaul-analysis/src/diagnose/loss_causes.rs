//! Random loss on a path that is not full.
//!
//! We would see: retransmits while the RTT stays near its idle value, and a goodput near what this
//! loss allows. Refuted by: a queue before the losses, losses in clusters with a goodput far above
//! that bound (a policer), or drops counted by the hosts themselves.
//! Needs: retransmits, RTT. To do: look for the faulty link; meanwhile use a congestion control
//! that does not treat loss as congestion, or more streams.
//!
//! Source: Mathis 1997; RFC 9438. Units: bit/s. Error: our experiment gave 1.3 × the bound.
//! Wrong when: a queue too short to be seen overflows.
//!
//! # Reordering
//!
//! Reordering: retransmits were spurious because packets only overtook each other.
//!
//! We would see: the receiver reporting duplicates (DSACK) for a good part of the retransmits, or
//! many segments out of order with little loss. Refuted by: retransmits that were needed.
//! Needs: `tcpi_dsack_dups`, `tcpi_reord_seen`, `tcpi_rcv_ooopack`. To do: per-flow load balancing.
//!
//! Source: RFC 2883; thresholds from measurements. Units: segments. Wrong when: acknowledgements,
//! not data, were lost (spurious timeouts).
//!
//! # Retransmission timeouts
//!
//! Retransmission timeouts that stopped the flow.
//!
//! We would see: `tcpi_total_rto_time` taking a noticeable part of the run, or stalled intervals.
//! Refuted by: its absence; on kernels before 6.7 only stalls can be seen. Needs: that counter.
//! To do: find what drops whole bursts or the last segments of one.
//!
//! Source: Linux `struct tcp_info`. Units: shares of the run. Wrong when: the far end was down.
//!
//! # Drops by the hosts
//!
//! Packets dropped by the hosts themselves.
//!
//! We would see: drop counters of an interface, or the kernel's own counters of a full or pruned
//! receive queue, growing during the run. Refuted by: constant counters.
//! Needs: interface and protocol counters before and after. To do: rings, backlog, memory.
//!
//! Source: TCPRcvQDrop, PruneCalled, TCPBacklogDrop, TCPMemoryPressures of /proc/net/netstat.
//! Units: packets or events. Wrong when: other traffic of the host is the one dropped.

use super::{
    DiagnosisCase, build_finding, describe_state_share, format_whole_percent, name_of_host, to_rate,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::policer_fit;
use crate::limit::run_reading::is_drop_counter;
use crate::throughput::{self, read_protocol_counter};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{EndObservation, ObservedStream, TcpReading};
use longhaul_model::report::v1::plan::RunTransport;

/// The range of goodput relative to the bound that supports random loss.
const NEAR_BOUND: std::ops::RangeInclusive<f64> = 0.3..=super::BEYOND_CHANCE;
/// The minimum share of a state that is reported.
const MIN_REPORTED_SHARE: f64 = 0.01;

pub fn diagnose_random_loss(case: &DiagnosisCase) -> Option<ReportFinding> {
    let lost = case.scene.retransmitted_segments;
    let loss = case.scene.loss_ratio.or(case.analysis.totals.loss_ratio)?;
    let bound = case.analysis.bounds.iter().find(|b| b.limiter == Limiter::Loss);
    let allows =
        bound.map_or(String::new(), |b| format!("; the loss bound is {}", to_rate(b.rate_bps)));
    if case.scene.plan.transport != RunTransport::Tcp {
        return Some(describe_datagram_loss(case, loss));
    }
    let summary = format!(
        "Random loss of {:.3} % ({lost} segments) without queueing: at {} RTT, TCP reaches {}{allows}",
        loss * 100.0,
        case.rtt_text(),
        case.goodput(),
    );
    let mut found = build_finding(case, "random_loss", summary);
    for state in [IntervalState::Loss, IntervalState::Recovering] {
        if case.verdict.shares.state(state) >= MIN_REPORTED_SHARE {
            found.support(describe_state_share(case, state));
        }
    }
    if let Some(bound) = bound {
        let ratio = case.goodput_bps() as f64 / bound.rate_bps.max(1) as f64;
        let text = format!("goodput is {ratio:.1} × the bound of random loss");
        found.add_evidence(NEAR_BOUND.contains(&ratio), text);
    }
    if policer_fit::is_nearly_even(&case.scene) {
        found.contradict("the rate is nearly constant: a policer with a small bucket looks alike");
    } else if case.scene.has_unseen_bursts() {
        found.contradict(
            "a policer with a bucket of a few packets would drop bursts alike, but not paced streams",
        );
    }
    add_loss_advice(case, &mut found);
    Some(found)
}

fn describe_datagram_loss(case: &DiagnosisCase, loss: f64) -> ReportFinding {
    let summary = format!(
        "Random loss of {:.3} % of the datagrams: {} arrived, at a rate that varies as random loss makes it",
        loss * 100.0,
        case.goodput(),
    );
    let mut found = build_finding(case, "random_loss", summary);
    add_loss_advice(case, &mut found);
    found
}

fn add_loss_advice(case: &DiagnosisCase, found: &mut ReportFinding) {
    found.advise("path", "Check the error counters of every interface on the path: dirty fibre, weak optics, duplex mismatch or an overrun device");
    found.advise("receiver", "Check the receiver's own interface first").command =
        case.receiver().host.interface.as_ref().map(|interface| {
            format!("ethtool -S {} | grep -iE 'err|drop|crc|miss'", interface.name)
        });
    if !case.scene.bbr && case.scene.plan.transport == RunTransport::Tcp {
        let text = "As a workaround, use BBR: it does not slow down for random loss";
        found.advise("sender", text).command = Some(case.repeat_command("-C", "bbr"));
    }
}

/// The minimum share of spurious retransmits.
const NEEDLESS_RATIO: f64 = 0.3;
/// The minimum share of segments out of order.
const DISORDER_RATIO: f64 = 0.01;
/// The minimum ratio of out-of-order segments to losses. Every lost segment puts up to a window of
/// others out of order; beyond this, and if the sender saw it too, it is reordering.
const DISORDER_PER_LOSS: u64 = 1000;
const MIN_SEGMENTS: u64 = 10;

pub fn diagnose_reordering(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let sum = |of: &dyn Fn(&ObservedStream) -> Option<u64>| -> u64 {
        streams.iter().filter_map(of).fold(0, u64::saturating_add)
    };
    let sender =
        |of: fn(&TcpReading) -> Option<u64>| sum(&|s| of(throughput::last_tcp_info(&s.sender)?));
    let receiver =
        |of: fn(&TcpReading) -> Option<u64>| sum(&|s| of(throughput::last_tcp_info(&s.receiver)?));
    let duplicates = sender(|t| t.dsack_duplicates);
    // Losses put segments out of order, too: without the sender's counters nothing tells them apart.
    let again = case.scene.totals.retransmitted_segments?;
    let disordered = receiver(|t| t.out_of_order_segments);
    let arrived = receiver(|t| t.segments_in);
    let needless = duplicates as f64 / again.max(1) as f64;
    let disorder = disordered as f64 / arrived.max(1) as f64;
    // Without disorder at the receiver, spurious retransmits were loss probes that a busy host
    // acknowledged too late.
    let by_dsack =
        duplicates >= MIN_SEGMENTS && needless > NEEDLESS_RATIO && disordered >= MIN_SEGMENTS;
    // After every loss a window of segments counts as out of order, and the sender's first repair
    // of it may look like reordering.
    let overtaken = again == 0
        || (sender(|t| t.reordering_seen) >= MIN_SEGMENTS
            && disordered >= again.saturating_mul(DISORDER_PER_LOSS));
    let by_disorder = disordered >= MIN_SEGMENTS && disorder > DISORDER_RATIO && overtaken;
    if !by_dsack && !by_disorder {
        return None;
    }
    let summary = format!(
        "Packet reordering: {} of the retransmissions were spurious, {:.2} % of the segments arrived out of order",
        format_whole_percent(needless.min(1.0)),
        disorder.min(1.0) * 100.0,
    );
    let mut found = build_finding(case, "reordering", summary);
    found.confidence_ratio = 0.7;
    found.support(format!(
        "{duplicates} duplicates reported by the receiver, {again} segments retransmitted"
    ));
    let text = "Look for per-packet load balancing, or a link aggregation that splits flows";
    found.advise("path", text);
    Some(found)
}

const MIN_TIMEOUT_RATIO: f64 = 0.05;

pub fn diagnose_timeouts(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let readings = streams.iter().filter_map(|s| {
        let tcp = throughput::last_tcp_info(&s.sender)?;
        Some((
            tcp.timeout_us? as f64 / s.sender.duration_us.max(1) as f64,
            tcp.timeouts.unwrap_or(0),
        ))
    });
    let (share, count) = readings.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0));
    let stalled = case.verdict.shares.state(IntervalState::StalledRto);
    if share.max(stalled) <= MIN_TIMEOUT_RATIO {
        return None;
    }
    let summary = format!(
        "Retransmission timeouts (RTO) stalled the flow for {} of the run in the worst stream ({count} timeouts)",
        format_whole_percent(share.max(stalled).min(1.0)),
    );
    let mut found = build_finding(case, "timeouts", summary);
    found.confidence_ratio = 0.8;
    found.advise("path", "Whole windows or the tails of bursts are lost: look for a policer, a shallow buffer, or slow-start overshoot (limit the window to about 1.5 × BDP)");
    Some(found)
}

/// Kernel counters that show that this host dropped or pruned received data.
const DROP_COUNTERS: [&str; 5] =
    ["TCPRcvQDrop", "PruneCalled", "RcvPruned", "TCPBacklogDrop", "TCPMemoryPressures"];

pub fn diagnose_host_drops(case: &DiagnosisCase) -> Option<ReportFinding> {
    let ends = [(case.sender(), "sender"), (case.receiver(), "receiver")];
    let (end, place, mut counted) = ends
        .into_iter()
        .map(|(end, place)| (end, place, list_drop_counters(end)))
        .find(|(_, _, counted)| !counted.is_empty())?;
    counted.truncate(4);
    let host = name_of_host(&end.host, place);
    let summary = format!("{host} ({place}) dropped packets itself: {}", counted.join(", "));
    let mut found = build_finding(case, "host_drops", summary);
    found.confidence_ratio = if case.scene.is_dropped_by_hosts() { 0.9 } else { 0.5 };
    found.support(format!("{} segments retransmitted in total", case.scene.retransmitted_segments));
    add_drop_advice(end, place, &mut found);
    Some(found)
}

fn list_drop_counters(end: &EndObservation) -> Vec<String> {
    let kernel = DROP_COUNTERS.iter().map(|name| (*name, read_protocol_counter(end, name)));
    let interface = end.interface.iter().filter(|(name, _)| is_drop_counter(name));
    let all = kernel.chain(interface.map(|(name, grown)| (name.as_str(), *grown)));
    all.filter(|(_, grown)| *grown > 0).map(|(name, grown)| format!("{name} {grown}")).collect()
}

fn add_drop_advice(end: &EndObservation, place: &str, found: &mut ReportFinding) {
    let memory = read_protocol_counter(end, "TCPMemoryPressures") > 0
        || read_protocol_counter(end, "PruneCalled") > 0;
    let dropped = end.interface.iter().any(|(name, grown)| *grown > 0 && is_drop_counter(name));
    if memory {
        found
            .advise(place, "The kernel is short of TCP memory: raise net.ipv4.tcp_mem (in pages), or request smaller buffers")
            .command = Some(String::from("sysctl net.ipv4.tcp_mem"));
    }
    if dropped {
        let text = "Use larger rings; on a virtual device, a longer txqueuelen";
        found.advise(place, text).command = end
            .host
            .interface
            .as_ref()
            .map(|interface| format!("ethtool -G {} rx 8192 tx 8192", interface.name));
    }
    if !memory && !dropped {
        found.advise(place, "Raise the backlog between interface and TCP").command =
            Some(String::from("sysctl -w net.core.netdev_max_backlog=30000"));
    }
}
