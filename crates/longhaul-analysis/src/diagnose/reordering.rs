//! Reordering: retransmits were spurious because packets only overtook each other.
//!
//! We would see: the receiver reporting duplicates (DSACK) for a good part of the retransmits, or
//! many segments out of order with little loss. Refuted by: retransmits that were needed.
//! Needs: `tcpi_dsack_dups`, `tcpi_reord_seen`, `tcpi_rcv_ooopack`. To do: per-flow load balancing.
//!
//! Source: RFC 2883; thresholds from measurements. Units: segments. Wrong when: acknowledgements,
//! not data, were lost (spurious timeouts).

use super::{DiagnosisCase, build_finding, format_whole_percent};
use crate::throughput::run_totals;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::{ObservedStream, TcpReading};

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
        |of: fn(&TcpReading) -> Option<u64>| sum(&|s| of(run_totals::last_tcp_info(&s.sender)?));
    let receiver =
        |of: fn(&TcpReading) -> Option<u64>| sum(&|s| of(run_totals::last_tcp_info(&s.receiver)?));
    let duplicates = sender(|t| t.dsack_duplicates);
    let again = case.scene.retransmitted_segments;
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
    found.advise(
        "path",
        "Look for per-packet load balancing, or a link aggregation that splits flows",
    );
    Some(found)
}
