//! Cause: the MTU of the path changed.
//!
//! We would see: another path MTU in searches before and after the event; perhaps a size that is
//! dropped silently. Refuted by: a larger MTU although the path became worse.
//! Needs: `longhaul path --mtu` before and after. To do: find the hop that refuses the old size.
//!
//! Units: bytes of IP. Wrong when: probes of one size were lost by chance at every attempt.

use super::cause_selection::weight;
use super::change_evidence::EvidenceReport;
use super::event_case::EventCase;
use super::event_format;
use super::state_change::{StateChange, StateReading};
use longhaul_model::report::v1::{PathReport, ReportFinding, ThroughputReport};

/// Tolerance: a TCP option more or less.
const TOLERANCE_BYTES: u32 = 12;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    find_by_mtu_search(case).or_else(|| find_by_segments(case))
}

fn find_by_mtu_search(case: &EventCase) -> Option<ReportFinding> {
    let reading = |seen: &EvidenceReport<PathReport>| {
        let mtu = seen.report.analysis.path_mtu.as_ref()?;
        Some(StateReading { at_us: seen.at_us, value: (mtu.bytes, mtu.black_hole) })
    };
    let readings = case.evidence.paths.iter().filter_map(reading).collect();
    let turn = case.nearest_state_change(readings, PartialEq::eq)?;
    let ((old, _), (new, hole)) = (turn.from, turn.to);
    let text = format!(
        "The path MTU changed {} from {old} B to {new} B",
        event_format::format_time_span(turn.between_us)
    );
    let proven = hole && case.is_worse() == Some(true) && turn.lasted;
    let mut found = create_mtu_candidate(case, &turn, text, [old, new], proven);
    if hole {
        found.support("larger packets are lost without an ICMP message");
    }
    Some(found)
}

/// Segments of bulk runs are as large as the path allows, unless a size was requested.
fn find_by_segments(case: &EventCase) -> Option<ReportFinding> {
    let reading = |seen: &EvidenceReport<ThroughputReport>| {
        let streams = &seen.direction()?.0.streams;
        let least = streams.iter().filter_map(|s| s.sender.mss_bytes).min()?;
        seen.report
            .plan
            .mss_bytes
            .is_none()
            .then_some(StateReading { at_us: seen.at_us, value: least })
    };
    let readings = case.evidence.throughput.iter().filter_map(reading).collect();
    let turn = case.nearest_state_change(readings, |a, b| a.abs_diff(*b) <= TOLERANCE_BYTES)?;
    let (old, new) = (turn.from, turn.to);
    let text = format!(
        "The MSS of bulk runs changed {} from {old} B to {new} B, and so did the path MTU",
        event_format::format_time_span(turn.between_us)
    );
    Some(create_mtu_candidate(case, &turn, text, [old, new], false))
}

fn create_mtu_candidate<T>(
    case: &EventCase,
    turn: &StateChange<T>,
    text: String,
    [old, new]: [u32; 2],
    proven: bool,
) -> ReportFinding {
    let mut found = case.candidate("path_mtu", weight::LINK, turn.between_us, text);
    let worse = case.is_worse() == Some(true);
    found.confidence_ratio *= match turn.lasted && (new < old) == worse {
        _ if proven => 1.0,
        true => 0.9,
        false => 0.0,
    };
    if worse {
        let text = format!("Find the hop after which packets of {old} B are lost");
        found.advise("path", text).command =
            Some(format!("longhaul path {} --mtu", case.event.pair.to));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn consistency(before: u32, after: u32) -> Option<f64> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.mtu(-HOUR, before).mtu(HOUR, after);
        sketch.consistency(find_candidate, weight::LINK)
    }

    #[test]
    fn a_smaller_one_explains_a_fall_and_a_larger_one_does_not() {
        assert_eq!(consistency(9000, 1400), Some(0.9));
        assert_eq!(consistency(1400, 9000), Some(0.0));
        assert_eq!(consistency(1500, 1500), None);
    }

    #[test]
    fn segments_of_bulk_runs_show_it_too() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, bytes) in [(-HOUR, 1448), (HOUR, 1148)] {
            sketch.run(at, |report| {
                report.observation.streams.push(event_test_builder::build_stream(bytes));
            });
        }
        let found = sketch.run_cause(find_candidate).expect("a candidate");
        assert!((found.confidence_ratio - 0.9 * weight::LINK).abs() < 1e-9);
        assert!(found.summary.contains("from 1448 B to 1148 B"), "{}", found.summary);
    }
}
