//! Cause: a transfer of another program is limited by something else.
//!
//! We would see: another limiter in most watches after the event than before it. Nobody but its
//! user knows the reasons of another program, so that the new limiter itself is the cause to remove.
//! Refuted by: the same limiter. Needs: watches of the transfer before and after. To do: what the
//! last watch with this limiter advises.
//! Wrong when: two limits are equally tight, or other files are transferred.

use super::cause_selection::weight;
use super::event_case::EventCase;
use super::event_format;
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::ReportFinding;

pub const CAUSE: &str = "transfer_limiter";

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let transfer = case.transfer()?;
    let (before, after) = (case.frequent_limiter(false)?, case.frequent_limiter(true)?);
    if before == after {
        return None;
    }
    let turns = case.find_state_changes(case.limiters(), PartialEq::eq);
    let turns = turns.into_iter().filter(|turn| turn.to == after && turn.from != after);
    let turn = turns.max_by(|a, b| case.rank_change(a).total_cmp(&case.rank_change(b)))?;
    let summary = format!(
        "{} has been limited by {} since {}, and by {} before",
        event_format::sanitize_name(&transfer.title()),
        name_limiter(after),
        event_format::format_time(turn.between_us[1]),
        name_limiter(before),
    );
    let mut found = case.candidate(CAUSE, weight::TRANSFER, turn.between_us, summary);
    let limited = case.evidence.throughput.iter().filter(|seen| {
        seen.at_us >= turn.between_us[1]
            && seen.direction().is_some_and(|(_, run)| run.limited_by == after)
    });
    let newest = limited.max_by_key(|seen| seen.at_us);
    for explained in newest.iter().flat_map(|seen| &seen.report.findings).take(1) {
        found.support(explained.summary.clone());
        found.supports.extend(explained.supports.iter().cloned());
        found.advice.extend(explained.advice.iter().cloned());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, EvidenceBuilder, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;

    fn sketch(pair: [&str; 2]) -> EvidenceBuilder {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.set_pair(pair[0], pair[1]);
        for hours in 1..4 {
            sketch.run_limited(-hours * HOUR, Limiter::PathCapacity);
            sketch.run(hours * HOUR, |report| {
                report.analysis.limited_by = Limiter::ReceiveWindow;
                let mut found = ReportFinding::new("receive_window", 0.9, "The window is full");
                found.advise("receiver", "Raise tcp_rmem");
                report.findings.push(found);
            });
        }
        sketch
    }

    #[test]
    fn a_new_limiter_of_a_transfer_is_named_with_its_time_and_remedy() {
        let found = sketch(["slac/rclone", "192.0.2.7"]).run_cause(find_candidate).expect("it");
        assert_eq!(
            found.summary,
            "rclone to 192.0.2.7 has been limited by the receive window since 2003-06-11 23:45 \
             UTC, and by the capacity of the path before"
        );
        assert_eq!(found.supports, ["The window is full"]);
        assert_eq!(found.advice[0].text, "Raise tcp_rmem");
        assert!((found.confidence_ratio - weight::TRANSFER).abs() < 1e-9);
    }

    #[test]
    fn bulk_runs_and_transfers_with_the_same_limiter_have_no_such_cause() {
        assert_eq!(sketch(["slac", "cesnet"]).run_cause(find_candidate), None);
        let mut same = event_test_builder::build_goodput_drop();
        same.set_pair("slac/rclone", "192.0.2.7");
        same.run_limited(-HOUR, Limiter::Loss).run_limited(HOUR, Limiter::Loss);
        assert_eq!(same.run_cause(find_candidate), None);
    }
}
