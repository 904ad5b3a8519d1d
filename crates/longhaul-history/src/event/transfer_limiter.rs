//! Causes: a transfer of another program is limited by something else, or bulk runs by random loss.
//!
//! We would see: another limiter in most watches after the event than before it. Nobody but its
//! user knows the reasons of another program, so that the new limiter itself is the cause to remove.
//! Of our own runs that is true of random loss only: it is a fault of the path, where other limiters
//! are effects. Refuted by: the same limiter, or a change for the better. Needs: watches or bulk runs
//! before and after. To do: what the last one with this limiter advises.
//! Wrong when: two limits are equally tight, or other files are transferred; a policer with a small
//! bucket is taken for random loss.

use super::cause_selection::weight;
use super::event_case::{EventCase, TRANSFER_QUANTITIES};
use super::event_format;
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;

pub const CAUSE: &str = "transfer_limiter";
pub const LOSS_CAUSE: &str = "random_loss";

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let (before, after) = (case.frequent_limiter(false)?, case.frequent_limiter(true)?);
    let is_loss = after == Limiter::Loss
        && case.is_worse() == Some(true)
        && TRANSFER_QUANTITIES.contains(&case.event.quantity);
    let (cause, subject) = match case.transfer() {
        Some(transfer) => {
            (CAUSE, format!("{} has", event_format::sanitize_name(&transfer.title())))
        }
        None if is_loss => (LOSS_CAUSE, String::from("Bulk runs have")),
        None => return None,
    };
    if before == after {
        return None;
    }
    let turns = case.find_state_changes(case.limiters(), PartialEq::eq);
    let turns = turns.into_iter().filter(|turn| turn.to == after && turn.from != after);
    let turn = turns.max_by(|a, b| case.rank_change(a).total_cmp(&case.rank_change(b)))?;
    let summary = format!(
        "{subject} been limited by {} since {}, and by {} before",
        name_limiter(after),
        event_format::format_time(turn.between_us[1]),
        name_limiter(before),
    );
    let mut found = case.candidate(cause, weight::TRANSFER, turn.between_us, summary);
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
    fn random_loss_since_the_event_is_a_fault_of_the_path() {
        let limited = |before, after| {
            let mut sketch = event_test_builder::build_goodput_drop();
            sketch.run_limited(-HOUR, before).run_limited(HOUR, after);
            sketch.run_cause(find_candidate)
        };
        let found = limited(Limiter::PathCapacity, Limiter::Loss).expect("a candidate");
        assert_eq!(found.cause, "random_loss");
        assert!(found.summary.starts_with("Bulk runs have been limited by"), "{}", found.summary);
        assert_eq!(limited(Limiter::Loss, Limiter::Loss), None);
        assert_eq!(limited(Limiter::Loss, Limiter::PathCapacity), None);
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
