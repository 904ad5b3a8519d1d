//! Captures that nobody requested, and captures that come too late.

use super::pair::{Pair, Side};
use super::{BOUND, plan};
use crate::session::SessionEnd;
use crate::wire::{Base64Bytes, ControlMessage};
use longhaul_model::report::v1::capture::CapturePlan;
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};

fn captured(far: bool) -> ThroughputPlan {
    let capture = CapturePlan { snap_bytes: None, packets: 100, last: false, far };
    ThroughputPlan {
        capture: Some(capture),
        ..plan(RunDirection::Forward, StopCondition::TimeUs(500_000))
    }
}

/// How the initiator ended, for each place at which the responder sent a piece of a capture.
fn ends(far: bool) -> Vec<Option<SessionEnd>> {
    let count = {
        let mut whole = Pair::new(captured(far), 5);
        whole.drive(BOUND);
        whole.messages_of(Side::Responder) + whole.messages_of(Side::Initiator)
    };
    let mut ends = Vec::new();
    for after in 0..=count {
        let mut pair = Pair::new(captured(far), 5);
        let bytes = Base64Bytes(vec![0; 10]);
        pair.inject_after(after, Side::Responder, ControlMessage::Capture { bytes });
        pair.drive(BOUND);
        if pair.injected() {
            ends.push(pair.closed()[0].clone());
        }
    }
    ends
}

fn is_violation(closed: Option<&SessionEnd>) -> bool {
    matches!(closed, Some(SessionEnd::PeerViolation { what, .. }) if what.contains("capture"))
}

#[test]
fn a_capture_that_nobody_asked_for_ends_the_session() {
    let unasked = ends(false);
    // Behind the last message the session is over, and what comes then is not read.
    let (_, unasked) = unasked.split_last().expect("places");
    assert!(unasked.iter().any(|it| is_violation(it.as_ref())), "{unasked:?}");
    assert!(!unasked.contains(&Some(SessionEnd::Finished)), "asked for none: {unasked:?}");
}

#[test]
fn a_capture_behind_the_results_comes_too_late() {
    let asked = ends(true);
    let first_good = asked.iter().position(|it| *it == Some(SessionEnd::Finished));
    let first_good = first_good.expect("a place for captures");
    assert!(asked[first_good..].iter().any(|it| is_violation(it.as_ref())), "{asked:?}");
}
