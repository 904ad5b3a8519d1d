//! Findings that only the packets of a transfer show, and what a capture cannot show.
//!
//! Source: RFC 7323, 2018 (options), 2883 (duplicate SACK), 4821 (black holes), 9293 (windows).
//! Units: packets, bytes. Error: none; what they mean is said with the confidence.
//! Wrong when: the capture lost packets, or a load balancer spreads one connection over several routes.

use longhaul_model::report::v1::capture::{CapturePoint, CapturedFlow, TcpFlowDirection};
use longhaul_model::report::v1::flows::ObservedTransfer;
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};
use longhaul_model::units::Bytes;

/// The parameters of the findings.
struct CaptureTuning;

impl CaptureTuning {
    const MIN_ZERO_WINDOWS: u64 = 3;
    /// The minimum share of the retransmits that were not needed.
    const SPURIOUS_RATIO: f64 = 0.5;
    const MIN_SPURIOUS: u64 = 3;
    const BLOCKED_CONFIDENCE: f64 = 0.85;
    const RESET_CONFIDENCE: f64 = 0.75;
    const CERTAIN_CONFIDENCE: f64 = 0.95;
    const SPURIOUS_CONFIDENCE: f64 = 0.8;
}

/// Returns the findings of a captured transfer; none if it was not captured.
pub fn diagnose_capture(transfer: &ObservedTransfer) -> Vec<ReportFinding> {
    let causes = [
        diagnose_black_hole,
        diagnose_reset,
        diagnose_zero_window,
        diagnose_spurious,
        diagnose_options,
    ];
    causes.iter().filter_map(|cause| cause(transfer)).collect()
}

/// Returns the direction of the data of a flow, and that of its acknowledgements.
fn find_directions(
    transfer: &ObservedTransfer,
    flow: &CapturedFlow,
) -> Option<(TcpFlowDirection, TcpFlowDirection)> {
    let opener_sends = transfer.sends == is_local_opener(transfer, flow);
    let (data, back) =
        if opener_sends { (&flow.forward, &flow.reverse) } else { (&flow.reverse, &flow.forward) };
    Some((data.tcp?, back.tcp?))
}

fn is_local_opener(transfer: &ObservedTransfer, flow: &CapturedFlow) -> bool {
    let near = transfer
        .run
        .streams
        .iter()
        .map(|stream| if transfer.sends { &stream.sender } else { &stream.receiver });
    near.filter_map(|end| end.local.as_ref()).any(|local| *local == flow.opener)
}

/// Sums a counter over the data directions of the flows.
fn sum_counters(
    transfer: &ObservedTransfer,
    of: impl Fn(&TcpFlowDirection, &TcpFlowDirection) -> u64,
) -> u64 {
    let flows = transfer.captured_flows.iter();
    let ways = flows.filter_map(|flow| find_directions(transfer, flow));
    ways.fold(0, |sum, (data, back)| sum.saturating_add(of(&data, &back)))
}

fn diagnose_black_hole(transfer: &ObservedTransfer) -> Option<ReportFinding> {
    let ways = transfer.captured_flows.iter().filter_map(|flow| find_directions(transfer, flow));
    let payload = ways.filter_map(|(data, _)| data.blocked_payload_bytes).max()?;
    let summary = format!(
        "Segments of {payload} bytes never arrive, smaller ones do: a router drops packets over its MTU and its ICMP messages are lost"
    );
    let mut found =
        ReportFinding::new("mtu_black_hole", CaptureTuning::BLOCKED_CONFIDENCE, summary);
    found.support(format!(
        "a segment of {payload} bytes was repeated after timeouts and never acknowledged"
    ));
    found.advise("network", "Let ICMP \"fragmentation needed\" and \"packet too big\" pass");
    found.advise(
        "sender",
        "Until then: `sysctl -w net.ipv4.tcp_mtu_probing=1`, or a smaller MTU of the interface",
    );
    Some(found)
}

fn diagnose_reset(transfer: &ObservedTransfer) -> Option<ReportFinding> {
    let count = sum_counters(transfer, |data, back| {
        data.foreign_reset_packets.saturating_add(back.foreign_reset_packets)
    });
    if count == 0 {
        return None;
    }
    let summary = "The connection was reset by a device on the path, not by an end";
    let mut found = ReportFinding::new("foreign_reset", CaptureTuning::RESET_CONFIDENCE, summary);
    found.support("the hop limit of the reset is not that of its sender's other packets");
    found.advise("network", "Look for a firewall, a proxy or a NAT that ended the connection");
    Some(found)
}

fn diagnose_zero_window(transfer: &ObservedTransfer) -> Option<ReportFinding> {
    let count = sum_counters(transfer, |_, back| back.zero_window_packets);
    if count < CaptureTuning::MIN_ZERO_WINDOWS {
        return None;
    }
    let summary = "The receiver closed its window: its program did not read the data in time";
    let mut found = ReportFinding::new("zero_window", CaptureTuning::CERTAIN_CONFIDENCE, summary);
    found.support(format!("{count} packets advertise a window of zero"));
    found.advise("receiver", "Look for a slow disk, a busy CPU or a rate limit at the receiver");
    Some(found)
}

fn diagnose_spurious(transfer: &ObservedTransfer) -> Option<ReportFinding> {
    let duplicates = sum_counters(transfer, |data, _| data.duplicate_sack_packets);
    let repeated = sum_counters(transfer, |data, _| data.retransmitted_packets);
    let is_much = duplicates as f64 >= CaptureTuning::SPURIOUS_RATIO * repeated as f64;
    if duplicates < CaptureTuning::MIN_SPURIOUS || !is_much {
        return None;
    }
    let summary = "Most retransmits were not needed: the segments were late, not lost";
    let mut found =
        ReportFinding::new("spurious_retransmits", CaptureTuning::SPURIOUS_CONFIDENCE, summary);
    found.support(format!("{duplicates} duplicate SACKs for {repeated} retransmitted segments"));
    found.advise("network", "Look for reordering (parallel links without flow hashing) and jitter");
    Some(found)
}

/// Finds options that one end offered and the other end did not.
fn diagnose_options(transfer: &ObservedTransfer) -> Option<ReportFinding> {
    let handshakes = transfer.captured_flows.iter().filter_map(|flow| flow.handshake);
    let mut refused = handshakes.filter_map(|handshake| {
        let (offer, agreed) = (handshake.opener, handshake.agreed?);
        let options = [
            ("window scaling", offer.window_shift.is_some() && !agreed.window_scaling),
            ("SACK", offer.sack && !agreed.sack),
            ("timestamps", offer.timestamps && !agreed.timestamps),
        ];
        let missing: Vec<&str> = options.iter().filter(|it| it.1).map(|it| it.0).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    });
    let names = refused.next()?;
    let summary = format!("The client offered {names}, and the answer has none");
    let mut found =
        ReportFinding::new("options_refused", CaptureTuning::CERTAIN_CONFIDENCE, summary);
    found.advise(
        "network",
        "Capture at the server as well: if its answer has the options, a device on the path strips them",
    );
    found.advise("server", "Otherwise turn them on: `sysctl net.ipv4.tcp_window_scaling net.ipv4.tcp_sack net.ipv4.tcp_timestamps`");
    Some(found)
}

/// Returns true if the capture was taken far from both ends.
pub fn is_between(transfer: &ObservedTransfer) -> bool {
    transfer.captured_flows.iter().any(|flow| flow.capture_point == Some(CapturePoint::Between))
}

/// Lists what this capture of a transfer cannot show.
pub fn list_capture_caveats(transfer: &ObservedTransfer) -> Vec<ReportCaveat> {
    let flows = || transfer.captured_flows.iter();
    let mut caveats = Vec::new();
    if is_between(transfer) {
        let text = "the capture was taken between the ends: bytes in flight and RTTs are those of a part of the path";
        caveats.push(ReportCaveat::new("capture_between", text));
    }
    if flows().any(|flow| flow.capture_point.is_none()) {
        let text = "the packets do not tell where the capture was taken: it is judged as one at the sender";
        caveats.push(ReportCaveat::new("capture_point_unknown", text));
    }
    if flows().any(|flow| flow.handshake.is_none_or(|it| it.agreed.is_none())) {
        let text = "the handshake was not captured: the scale of the windows is unknown, so that a full window is not seen";
        caveats.push(ReportCaveat::new("no_handshake", text));
    }
    let unseen = sum_counters(transfer, |data, _| data.unseen_bytes);
    if unseen > 0 {
        let text = format!(
            "{} were acknowledged but not captured: the capture lost packets",
            Bytes(unseen)
        );
        caveats.push(ReportCaveat::new("capture_incomplete", text));
    }
    caveats
}
