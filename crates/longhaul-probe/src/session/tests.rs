//! Two sessions back to back in virtual time, and what becomes of them when something goes wrong.

mod captures;
mod pair;
mod probing;

use super::{
    SessionAction, SessionEnd, SessionEvent, SessionInput, SessionRole, SessionState, next_state,
};
use crate::probe_error::TokenFailure;
use crate::wire::{
    AnonymousLimits, ControlMessage, DirectionResult, MAX_FRAME_BYTES, MAX_RESULT_BYTES,
    ProtocolVersions, RunProposal, StreamResult,
};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use pair::{Fault, Pair, Side};
use std::collections::BTreeSet;
use std::time::Duration;

/// The longest that any cut session may hold its place: deadline of the longest step and the run.
const BOUND: Duration = Duration::from_secs(60);

/// Small messages, one of each kind but `bye`, which always ends the session.
const MESSAGES: [&str; 18] = [
    r#"{"hello":{"versions":{"least":4,"most":5},"longhaul":""}}"#,
    r#"{"proof":{}}"#,
    r#"{"welcome":{"party":{"host":""}}}"#,
    r#"{"probe":{"bounds":{"flows":1,"most_bytes":1,"most_time_us":1},"party":{"host":""}}}"#,
    r#"{"accept":{"nonce":"00000000000000000000000000000000"}}"#,
    r#""opened""#,
    r#"{"ping":{"number":0}}"#,
    r#"{"pong":{"number":0,"at_us":0}}"#,
    r#"{"prepare":{"origin_us":0,"idle_rtt_us":0,"same_host":false}}"#,
    r#""prepared""#,
    r#""go""#,
    r#"{"interval":{"elapsed_us":0}}"#,
    r#""sent""#,
    r#""stop""#,
    r#""drained""#,
    r#"{"capture":{"bytes":""}}"#,
    r#"{"ask":"options"}"#,
    r#"{"answer":"armed"}"#,
];

const LOCAL_EVENTS: [SessionEvent<'static>; 11] = [
    SessionEvent::Admitted,
    SessionEvent::StreamsOpen,
    SessionEvent::Timed,
    SessionEvent::TimedToAsk,
    SessionEvent::EngineReady,
    SessionEvent::StartTime,
    SessionEvent::AllSent,
    SessionEvent::AllDrained,
    SessionEvent::Asked,
    SessionEvent::Done,
    SessionEvent::Ending,
];

/// All states, in order.
const STATES: [SessionState; 12] = [
    SessionState::Greeting,
    SessionState::Proving,
    SessionState::Negotiating,
    SessionState::Opening,
    SessionState::Timing,
    SessionState::Ready,
    SessionState::Running,
    SessionState::Draining,
    SessionState::Exchanging,
    SessionState::Asking,
    SessionState::Working,
    SessionState::Closed,
];

fn plan(direction: RunDirection, stop: StopCondition) -> ThroughputPlan {
    ThroughputPlan { direction, stop, streams: 2, ..ThroughputPlan::default() }
}

fn sample_messages() -> Vec<ControlMessage> {
    let read = |text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (plan, party, boot_proof) = (ThroughputPlan::default(), RunParty::default(), None);
    let (end, caveats) = (StreamEnd::default(), Vec::new());
    let mut messages: Vec<ControlMessage> = MESSAGES.into_iter().map(read).collect();
    messages.extend([
        ControlMessage::Propose(Box::new(RunProposal { plan, party, boot_proof })),
        ControlMessage::Stream(Box::new(StreamResult { forward: true, index: 0, end })),
        ControlMessage::End(Box::new(DirectionResult {
            forward: true,
            end: EndObservation::default(),
            caveats,
        })),
    ]);
    messages
}

#[test]
fn every_step_of_the_table_is_in_the_golden_file() {
    let messages = sample_messages();
    let mut events: Vec<(String, SessionEvent<'_>)> =
        LOCAL_EVENTS.map(|event| (format!("{event:?}"), event)).into();
    for message in &messages {
        let (first, rest) = (message.name()[..1].to_uppercase(), &message.name()[1..]);
        events.push((format!("{first}{rest}"), SessionEvent::Message(message)));
    }
    let mut table = BTreeSet::new();
    for role in [SessionRole::Client, SessionRole::Server] {
        for state in STATES {
            for (name, event) in &events {
                if let Some(to) = next_state(role, state, *event) {
                    table.insert(format!("{role:?}: {state:?} --{name}--> {to:?}"));
                }
            }
        }
    }
    let golden = include_str!("../../tests/golden/session-table.txt");
    let golden: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    assert_eq!(table, golden);
}

#[test]
fn the_document_lists_every_message_and_every_state() {
    let document = include_str!("../../../../docs/protocol.md");
    for message in sample_messages() {
        let name = message.name();
        assert!(document.contains(&format!("| `{name}` |")), "message {name}");
    }
    for state in STATES {
        assert!(document.contains(&format!("| `{state:?}` |")), "state {state:?}");
    }
    for (name, value) in [("64 KiB", MAX_FRAME_BYTES), ("4 MiB", MAX_RESULT_BYTES)] {
        assert!(document.contains(&format!("{name} ({value} bytes)")), "{name}");
    }
}

#[test]
fn whole_runs_finish_at_both_ends_on_short_and_long_paths() {
    let stops = [
        StopCondition::TimeUs(2_000_000),
        StopCondition::Bytes(1 << 20),
        StopCondition::Blocks(100),
    ];
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        for stop in stops {
            for one_way_ms in [0, 1, 86, 218] {
                let mut pair = Pair::new(plan(direction, stop), one_way_ms);
                pair.drive(BOUND);
                let reasons = pair.closed();
                let finished = [Some(SessionEnd::Finished), Some(SessionEnd::Finished)];
                assert_eq!(reasons, finished, "{direction:?} {stop:?} {one_way_ms} ms");
                assert_eq!(pair.results(), if direction == RunDirection::Both { 6 } else { 3 });
            }
        }
    }
}

#[test]
fn set_up_costs_six_round_trips_however_many_streams() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(1_000_000)), 218);
    pair.drive(BOUND);
    let went = pair.went_at().expect("payload flowed");
    // Welcome, plan, streams (two: connect, and the word that all are there), timing, engines.
    let spaced_pings = Duration::from_millis(50);
    assert!(went < Duration::from_millis(436 * 6) + spaced_pings, "{went:?}");
}

#[test]
fn a_cut_at_every_step_on_either_side_closes_both_with_a_reason() {
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        for fault in [Fault::Cut, Fault::Silence, Fault::Garbage] {
            for side in [Side::Initiator, Side::Responder] {
                cut_at_every_message(direction, fault, side);
            }
        }
    }
}

fn cut_at_every_message(direction: RunDirection, fault: Fault, side: Side) {
    let plan = plan(direction, StopCondition::TimeUs(2_000_000));
    for message in 0.. {
        let mut pair = Pair::new(plan.clone(), 20);
        pair.break_after(message, side, fault);
        pair.drive(BOUND);
        if !pair.broke() {
            assert!(message > 10, "a run has more messages than {message}");
            return;
        }
        let [initiator, responder] = pair.closed();
        let place = format!("{direction:?} {fault:?} of {side:?} after {message}");
        assert!(initiator.is_some(), "initiator hangs: {place}");
        assert!(responder.is_some(), "responder hangs: {place}");
        let last_word = message + 1 == pair.messages_of(side);
        if !last_word && fault != Fault::Garbage {
            let both_well = [initiator, responder].iter().all(|c| *c == Some(SessionEnd::Finished));
            assert!(!both_well || pair.said_all(), "nothing noticed: {place}");
        }
    }
}

#[test]
fn an_unexpected_message_is_a_violation_by_name() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(1_000_000)), 5);
    pair.inject_after(1, Side::Responder, ControlMessage::Ping { number: 0 });
    pair.drive(BOUND);
    let [initiator, _] = pair.closed();
    assert!(
        matches!(&initiator, Some(SessionEnd::PeerViolation { what, .. }) if what.contains("`ping`")),
        "{initiator:?}"
    );
}

#[test]
fn tokens_decide_who_gets_in() {
    let strangers = Some(AnonymousLimits::default());
    let no = TokenFailure::Missing;
    let cases = [
        (None, None, strangers, None),
        (Some("secret"), Some("secret"), None, None),
        (Some("secret"), Some("secret"), strangers, None),
        (None, Some("secret"), strangers, None),
        (None, Some("secret"), None, Some(no)),
        (Some("guess"), Some("secret"), None, Some(TokenFailure::Wrong)),
        (Some("guess"), Some("secret"), strangers, Some(TokenFailure::Wrong)),
        (Some("secret"), None, strangers, Some(TokenFailure::Unproven)),
    ];
    for (ours, theirs, strangers, trouble) in cases {
        let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(500_000)), 5);
        pair.with_tokens(ours, theirs, strangers);
        pair.drive(BOUND);
        let expected = match trouble {
            None => SessionEnd::Finished,
            Some(failure) => SessionEnd::Token(failure),
        };
        let [initiator, responder] = pair.closed();
        assert_eq!(initiator, Some(expected), "{ours:?} {theirs:?}");
        assert!(responder.is_some());
    }
}

#[test]
fn somebody_in_the_middle_without_the_token_is_found_out() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(500_000)), 5);
    pair.with_tokens(Some("secret"), Some("secret"), Some(AnonymousLimits::default()));
    pair.in_the_middle();
    pair.drive(BOUND);
    assert_eq!(pair.closed()[0], Some(SessionEnd::Token(TokenFailure::Wrong)));
    assert_eq!(pair.closed()[1], Some(SessionEnd::PeerTokenWrong));
}

#[test]
fn other_versions_part_with_both_named() {
    let newer = ProtocolVersions { least: 7, most: 9 };
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(500_000)), 5);
    pair.speak(Side::Responder, newer);
    pair.drive(BOUND);
    assert_eq!(pair.closed()[0], Some(SessionEnd::VersionDiffers { theirs: newer }));
    assert!(!ProtocolVersions::OURS.overlaps(newer));
    assert!(ProtocolVersions { least: 1, most: 8 }.overlaps(newer));
}

#[test]
fn the_newest_version_of_both_ends_is_used() {
    for (theirs, version) in [((4, 4), 4), ((4, 5), 5), ((5, 9), 5)] {
        let theirs = ProtocolVersions { least: theirs.0, most: theirs.1 };
        let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(500_000)), 5);
        pair.speak(Side::Responder, theirs);
        pair.drive(BOUND);
        assert_eq!(pair.version(Side::Initiator), Some(version), "{theirs}");
    }
}

#[test]
fn plans_beyond_the_limits_are_refused_by_name() {
    let absurd = [
        ("streams", ThroughputPlan { streams: 1_000_000, ..ThroughputPlan::default() }),
        ("streams", ThroughputPlan { streams: 17, ..ThroughputPlan::default() }),
        (
            "time",
            ThroughputPlan { stop: StopCondition::TimeUs(31_000_000), ..ThroughputPlan::default() },
        ),
        ("interval_us", ThroughputPlan { interval_us: 0, ..ThroughputPlan::default() }),
    ];
    for (option, plan) in absurd {
        let mut pair = Pair::new(plan, 5);
        pair.drive(BOUND);
        let [initiator, responder] = pair.closed();
        assert!(
            matches!(&initiator, Some(SessionEnd::PeerRefused { what }) if what.contains(option)),
            "{initiator:?}"
        );
        assert!(matches!(responder, Some(SessionEnd::WeRefused { .. })));
    }
}

#[test]
fn a_deep_socket_buffer_does_not_hold_a_timed_run() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(2_000_000)), 50);
    pair.never_drain();
    pair.drive(BOUND);
    assert_eq!(pair.closed(), [Some(SessionEnd::Finished), Some(SessionEnd::Finished)]);
    assert!(pair.now() < Duration::from_secs(6), "{:?}", pair.now());
}

#[test]
fn a_run_by_bytes_waits_for_the_last_one_but_not_for_ever() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::Bytes(1 << 30)), 50);
    pair.never_drain();
    pair.drive(BOUND);
    let [initiator, responder] = pair.closed();
    for closed in [initiator, responder] {
        let named = matches!(
            closed,
            Some(
                SessionEnd::TimedOut { step: SessionState::Draining, .. }
                    | SessionEnd::PeerTimedOut { .. }
            )
        );
        assert!(named, "{closed:?}");
    }
}

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn an_interrupted_run_ends_in_order_at_both_ends_soon_after() {
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        for stop in [StopCondition::TimeUs(20_000_000), StopCondition::Bytes(1 << 40)] {
            for one_way_ms in [0, 86, 218] {
                let mut pair = Pair::new(plan(direction, stop), one_way_ms);
                pair.interrupt_at(second(6));
                pair.drive(BOUND);
                let finished = [Some(SessionEnd::Finished), Some(SessionEnd::Finished)];
                assert_eq!(pair.closed(), finished, "{direction:?} {stop:?} {one_way_ms} ms");
                assert_eq!(pair.results(), if direction == RunDirection::Both { 6 } else { 3 });
                assert!(pair.now() < second(9), "{:?}", pair.now());
            }
        }
    }
}

#[test]
fn an_interrupt_at_any_moment_closes_both_with_a_reason() {
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        for at_ms in (0..4000).step_by(30) {
            let mut pair = Pair::new(plan(direction, StopCondition::TimeUs(1_000_000)), 86);
            pair.interrupt_at(Duration::from_millis(at_ms));
            pair.drive(BOUND);
            let closed = pair.closed();
            assert!(closed.iter().all(Option::is_some), "{direction:?} {at_ms} ms: {closed:?}");
            let went = pair.went_at().is_some();
            let place = format!("{direction:?} {at_ms} ms");
            assert_eq!(closed[0] == Some(SessionEnd::Finished), went, "{place}: {closed:?}");
        }
    }
}

#[test]
fn a_server_that_does_not_end_an_interrupted_run_is_given_up_after_ten_seconds() {
    for direction in [RunDirection::Forward, RunDirection::Reverse] {
        for fault in [Fault::Silence, Fault::Garbage] {
            let mut pair = Pair::new(plan(direction, StopCondition::TimeUs(25_000_000)), 20);
            // All that it says until payload flows, and a heartbeat.
            pair.break_after(14, Side::Responder, fault);
            pair.interrupt_at(second(3));
            pair.drive(BOUND);
            let [initiator, _] = pair.closed();
            assert!(pair.broke());
            assert!(initiator.is_some_and(|it| it != SessionEnd::Finished), "{direction:?}");
            assert!(pair.went_at().is_some() && pair.now() <= second(3) + BOUND / 2);
        }
    }
}

#[test]
fn a_run_goes_on_while_payload_moves_and_waits_for_delayed_messages() {
    // The way back of the payload is full.
    for (direction, receiver) in
        [(RunDirection::Forward, Side::Responder), (RunDirection::Reverse, Side::Initiator)]
    {
        // No heartbeat passes in 25 s; the next retransmission comes 20 s or too long after.
        for (until, is_waited_for) in [(second(45), true), (second(90), false)] {
            let mut pair = Pair::new(plan(direction, StopCondition::TimeUs(25_000_000)), 20);
            pair.break_after(0, receiver, Fault::Delay(until));
            pair.drive(second(120));
            let closed = pair.closed();
            let is_finished = closed == [const { Some(SessionEnd::Finished) }; 2];
            assert_eq!(is_finished, is_waited_for, "{direction:?}: {closed:?}");
            assert!(pair.now() < second(100), "{:?}", pair.now());
        }
    }
}

#[test]
fn a_closed_session_wants_nothing_and_does_nothing() {
    let mut pair = Pair::new(plan(RunDirection::Forward, StopCondition::TimeUs(500_000)), 5);
    pair.drive(BOUND);
    let session = pair.session(Side::Initiator);
    assert_eq!(session.next_deadline(), None);
    let nothing: Vec<SessionAction> = Vec::new();
    assert_eq!(session.handle(BOUND * 2, SessionInput::Tick), nothing);
    assert_eq!(session.handle(BOUND * 2, SessionInput::Message(ControlMessage::Go)), nothing);
}
