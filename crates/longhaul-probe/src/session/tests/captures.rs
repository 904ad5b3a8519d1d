//! What sessions say of captures, to ends that know them and to ends that do not.

use super::pair::{Pair, Side};
use super::{BOUND, plan};
use crate::session::Closed;
use crate::wire::{CapturePart, Message, Packed, Versions};
use longhaul_model::report::v1::capture::CapturePlan;
use longhaul_model::report::v1::plan::{Direction, Plan, Stop};

fn captured(far: bool) -> Plan {
    let capture = CapturePlan {
        snap_bytes: None,
        packets: 100,
        last: false,
        far,
    };
    Plan {
        capture: Some(capture),
        ..plan(Direction::Forward, Stop::TimeUs(500_000))
    }
}

#[test]
fn a_far_end_that_knows_no_captures_is_asked_for_none_and_the_run_goes_on() {
    for most in [1, 2, 3] {
        let mut pair = Pair::new(captured(true), 5);
        pair.speak(Side::Responder, Versions { least: 1, most });
        pair.drive(BOUND);
        assert_eq!(pair.closed()[0], Some(Closed::Finished), "version {most}");
        assert!(pair.said_all());
    }
}

#[test]
fn a_capture_that_nobody_asked_for_ends_the_session() {
    for far in [false, true] {
        let part = Message::Capture(CapturePart {
            bytes: Packed(vec![0; 10]),
        });
        let mut pair = Pair::new(captured(far), 5);
        // Behind its results' first message a capture comes too late, too.
        let count = {
            let mut whole = Pair::new(captured(far), 5);
            whole.drive(BOUND);
            whole.messages_of(Side::Responder) + whole.messages_of(Side::Initiator)
        };
        pair.inject_after(count - 3, Side::Responder, part);
        pair.drive(BOUND);
        let initiator = pair.closed()[0].clone();
        let named = matches!(&initiator, Some(Closed::PeerViolation { what, .. })
            if what.contains("capture"));
        assert!(named, "{initiator:?}");
    }
}
