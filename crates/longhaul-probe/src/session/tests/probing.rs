//! Sessions of probes, back to back.

use super::BOUND;
use super::pair::{Fault, Pair, Side};
use crate::session::{SessionEnd, SessionState};
use crate::wire::{
    CollectTrains, ControlMessage, FilesRequest, PrepareMessage, ProbeBounds, SessionReply,
    SessionRequest,
};
use longhaul_model::report::v1::available::{TrainPlan, TrainPurpose, TrainSchedule};
use std::time::Duration;

fn bounds() -> ProbeBounds {
    ProbeBounds { flows: 1, most_bytes: 1_000_000, most_time_us: 30_000_000, dscp: None }
}

fn train(packets: u32) -> TrainPlan {
    TrainPlan {
        index: 0,
        purpose: TrainPurpose::Burst,
        packets,
        packet_bytes: 1500,
        schedule: TrainSchedule::BackToBack,
        pause_us: 0,
    }
}

fn asks() -> Vec<SessionRequest> {
    vec![
        SessionRequest::Arm(vec![train(17)]),
        SessionRequest::Collect(CollectTrains { wait_us: 60_000 }),
        SessionRequest::Send(vec![train(17)]),
        SessionRequest::Options,
    ]
}

#[test]
fn asks_and_answers_alternate_until_the_initiator_has_enough() {
    for one_way_ms in [0, 1, 86, 218] {
        let mut pair = Pair::probing(bounds(), asks(), one_way_ms);
        pair.drive(BOUND);
        let finished = [Some(SessionEnd::Finished), Some(SessionEnd::Finished)];
        assert_eq!(pair.closed(), finished, "{one_way_ms} ms");
        assert_eq!(pair.answers().len(), 4);
        assert_eq!(pair.answers()[0], SessionReply::Armed);
    }
}

#[test]
fn signs_of_life_hold_a_session_through_work_that_takes_long() {
    let mut pair = Pair::probing(bounds(), vec![SessionRequest::Send(vec![train(2500)])], 20);
    // A burst may take a minute at the slowest rate that is thought of.
    pair.work_for(Duration::from_secs(25));
    pair.drive(BOUND);
    let finished = [Some(SessionEnd::Finished), Some(SessionEnd::Finished)];
    assert_eq!(pair.closed(), finished);
}

#[test]
fn a_cut_at_every_step_on_either_side_closes_both_with_a_reason() {
    for fault in [Fault::Cut, Fault::Silence, Fault::Garbage] {
        for side in [Side::Initiator, Side::Responder] {
            cut_at_every_message(fault, side);
        }
    }
}

fn cut_at_every_message(fault: Fault, side: Side) {
    for message in 0.. {
        let mut pair = Pair::probing(bounds(), asks(), 20);
        pair.break_after(message, side, fault);
        pair.drive(BOUND);
        if !pair.broke() {
            assert!(message > 10, "a session has more messages than {message}");
            return;
        }
        for (end, closed) in ["initiator", "responder"].iter().zip(pair.closed()) {
            assert!(closed.is_some(), "{end} hangs: {fault:?} of {side:?} after {message}");
        }
    }
}

#[test]
fn trains_beyond_the_limits_are_answered_and_the_session_goes_on() {
    let asks = vec![
        SessionRequest::Send(vec![train(1_000_000)]),
        SessionRequest::Arm(Vec::new()),
        SessionRequest::Arm(vec![train(3)]),
    ];
    let mut pair = Pair::probing(bounds(), asks, 5);
    pair.drive(BOUND);
    let answers = pair.answers();
    let refused = |answer: &SessionReply, what: &str| matches!(answer, SessionReply::Failed(why) if why.contains(what));
    assert!(refused(&answers[0], "packets"), "{answers:?}");
    assert!(refused(&answers[1], "trains"), "{answers:?}");
    assert_eq!(answers[2], SessionReply::Armed);
}

#[test]
fn work_that_does_not_end_is_given_up_and_named() {
    let mut pair = Pair::probing(bounds(), vec![SessionRequest::Options], 5);
    pair.work_for(Duration::from_secs(1000));
    pair.drive(BOUND * 2);
    for closed in pair.closed() {
        let named = matches!(
            closed,
            Some(
                SessionEnd::TimedOut { step: SessionState::Working, .. }
                    | SessionEnd::PeerTimedOut { .. }
            )
        );
        assert!(named, "{closed:?}");
    }
}

#[test]
fn the_agreed_time_ends_a_session_of_many_asks() {
    let asks = vec![SessionRequest::Options; 1000];
    let brief = ProbeBounds { most_time_us: 3_000_000, ..bounds() };
    let mut pair = Pair::probing(brief, asks, 5);
    pair.drive(BOUND);
    assert!(pair.now() < Duration::from_secs(6), "{:?}", pair.now());
    let named = pair.closed().into_iter().flatten().any(
        |closed| matches!(&closed, SessionEnd::TimedOut { what, .. } if what.contains("agreed")),
    );
    assert!(named, "{:?}", pair.closed());
}

#[test]
fn the_agreed_time_also_ends_a_request_that_may_take_an_hour() {
    let begin = SessionRequest::Files(Box::new(FilesRequest::Begin {}));
    let brief = ProbeBounds { most_time_us: 3_000_000, ..bounds() };
    let mut pair = Pair::probing(brief, vec![begin], 5);
    pair.work_for(Duration::from_secs(1000));
    pair.drive(BOUND);
    assert!(pair.now() < Duration::from_secs(15), "{:?}", pair.now());
}

#[test]
fn messages_of_bulk_runs_are_violations_among_probes() {
    let prepare =
        ControlMessage::Prepare(PrepareMessage { origin_us: 0, idle_rtt_us: 1, same_host: false });
    // After hello, proof, probe and a few pings the responder times the path.
    for (after, extra) in [(5, prepare), (13, ControlMessage::Ping { number: 0 })] {
        let name = extra.name();
        let mut pair = Pair::probing(bounds(), asks(), 5);
        pair.inject_after(after, Side::Initiator, extra);
        pair.drive(BOUND);
        let responder = pair.closed()[1].clone();
        assert!(
            matches!(&responder, Some(SessionEnd::PeerViolation { what, .. }) if what.contains(name)),
            "{name}: {responder:?}"
        );
    }
}
