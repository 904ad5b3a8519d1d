//! The server's part of iperf3's protocol on virtual time: right order, every deadline, any bytes.

use longhaul_probe::iperf3::server::{
    Action, Closed, DRAIN_TIME, FAREWELL_TIME, Input, OVERTIME, PARAMETERS_TIME, RESULTS_TIME,
    SILENCE, STREAM_TIME, Server, Step,
};
use longhaul_probe::iperf3::wire::{
    MOST_PARAMETER_BYTES, Parameters, Results, State, StreamResults, Trouble, encode,
};
use proptest::prelude::*;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(3600);

fn parameters() -> Vec<u8> {
    let asked = Parameters {
        tcp: true,
        time: Some(2),
        omit: Some(1),
        ..Parameters::default()
    };
    encode(&asked, MOST_PARAMETER_BYTES).expect("small")
}

fn results() -> Results {
    Results {
        streams: vec![StreamResults {
            id: 1,
            ..StreamResults::default()
        }],
        ..Results::default()
    }
}

fn framed_results() -> Vec<u8> {
    encode(&results(), 1 << 16).expect("small")
}

/// What brings a server from one step to the next.
type Way = fn(&mut Stage);

/// A server and what it did.
struct Stage {
    server: Server,
    now: Duration,
    sent: Vec<u8>,
    asked: Vec<&'static str>,
    closed: Option<Closed>,
}

impl Stage {
    fn new(most_bytes: Option<u64>) -> Stage {
        let mut stage = Stage {
            server: Server::new(LONGEST, most_bytes),
            now: Duration::ZERO,
            sent: Vec::new(),
            asked: Vec::new(),
            closed: None,
        };
        stage.feed(Input::Start);
        stage
    }

    fn feed(&mut self, input: Input<'_>) {
        for action in self.server.handle(self.now, input) {
            match action {
                Action::Send(bytes) => self.sent.extend(bytes),
                Action::Admit(_) => self.asked.push("admit"),
                Action::Run => self.asked.push("run"),
                Action::Stop => self.asked.push("stop"),
                Action::Collect(_) => self.asked.push("collect"),
                Action::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                }
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.feed(Input::Bytes(bytes));
    }

    /// On its way to `step`.
    fn at(step: Step) -> Stage {
        let mut stage = Stage::new(None);
        let ways: [(Step, Way); 8] = [
            (Step::Parameters, |_| {}),
            (Step::Admitting, |stage| stage.bytes(&parameters())),
            (Step::Opening, |stage| stage.feed(Input::Admitted)),
            (Step::Running, |stage| stage.feed(Input::StreamsOpen)),
            (Step::Draining, |stage| {
                stage.bytes(&[State::TestEnd.byte()]);
            }),
            (Step::Results, |stage| stage.feed(Input::Drained)),
            (Step::Collecting, |stage| stage.bytes(&framed_results())),
            (Step::Farewell, |stage| {
                stage.feed(Input::Ready(Box::new(results())));
            }),
        ];
        for (reached, way) in ways {
            way(&mut stage);
            assert_eq!(stage.server.step(), reached);
            if reached == step {
                break;
            }
        }
        stage.sent.clear();
        stage
    }

    /// Time passes until the deadline of this step.
    fn outlive(&mut self) {
        self.now = self.server.next_deadline().expect("each step has one");
        self.feed(Input::Tick);
    }
}

#[test]
fn a_test_goes_through_its_steps_in_order() {
    let mut stage = Stage::at(Step::Farewell);
    assert_eq!(stage.asked, ["admit", "run", "stop", "collect"]);
    stage.bytes(&[State::Done.byte()]);
    assert_eq!(stage.closed, Some(Closed::Finished));
    let mut stage = Stage::at(Step::Opening);
    stage.feed(Input::StreamsOpen);
    assert_eq!(
        stage.sent,
        [State::TestStart.byte(), State::TestRunning.byte()]
    );
    let mut stage = Stage::at(Step::Collecting);
    stage.feed(Input::Ready(Box::new(results())));
    let expected = [framed_results(), vec![State::DisplayResults.byte()]].concat();
    assert_eq!(stage.sent, expected);
}

#[test]
fn what_is_glued_waits_for_its_step() {
    let mut stage = Stage::new(None);
    stage.bytes(&[parameters(), vec![State::ClientTerminate.byte()]].concat());
    assert_eq!(stage.server.step(), Step::Admitting);
    stage.feed(Input::Admitted);
    assert_eq!(stage.closed, Some(Closed::ClientTerminated));
    let mut stage = Stage::at(Step::Draining);
    stage.feed(Input::Drained);
    stage.bytes(&[framed_results(), vec![State::Done.byte()]].concat());
    stage.feed(Input::Ready(Box::new(results())));
    assert_eq!(stage.closed, Some(Closed::Finished));
}

#[test]
fn every_step_ends_by_its_deadline_with_a_number_that_clients_print() {
    for (step, time, code) in [
        (Step::Parameters, PARAMETERS_TIME, Trouble::Parameters),
        (Step::Admitting, PARAMETERS_TIME, Trouble::Parameters),
        (Step::Opening, STREAM_TIME, Trouble::Stream),
        (Step::Results, RESULTS_TIME, Trouble::Results),
    ] {
        let mut stage = Stage::at(step);
        assert_eq!(stage.server.next_deadline(), Some(time), "{step:?}");
        stage.outlive();
        assert_eq!(stage.sent[0], State::ServerError.byte(), "{step:?}");
        assert_eq!(stage.sent[1..5], code.code().to_be_bytes(), "{step:?}");
        assert!(stage.closed.is_some());
        assert_eq!(stage.server.next_deadline(), None);
    }
    let mut stage = Stage::at(Step::Draining);
    assert!(stage.server.next_deadline() <= Some(DRAIN_TIME));
    stage.outlive();
    assert_eq!(stage.sent, [State::ExchangeResults.byte()]);
    let mut stage = Stage::at(Step::Farewell);
    assert_eq!(stage.server.next_deadline(), Some(FAREWELL_TIME));
    stage.outlive();
    assert_eq!(stage.closed, Some(Closed::Finished));
}

#[test]
fn a_test_that_does_not_end_is_ended() {
    let mut stage = Stage::at(Step::Running);
    // Two seconds, and one that is omitted.
    assert_eq!(
        stage.server.next_deadline(),
        Some(Duration::from_secs(3) + OVERTIME)
    );
    stage.outlive();
    assert_eq!(stage.sent, [State::ServerTerminate.byte()]);
    let mut silent = Stage::new(None);
    let endless = Parameters {
        num: Some(1 << 40),
        ..Parameters::default()
    };
    silent.bytes(&encode(&endless, MOST_PARAMETER_BYTES).expect("small"));
    silent.feed(Input::Admitted);
    silent.feed(Input::StreamsOpen);
    silent.now = Duration::from_secs(100);
    silent.feed(Input::Moved(1));
    assert_eq!(silent.server.next_deadline(), Some(silent.now + SILENCE));
    silent.outlive();
    assert!(matches!(
        silent.closed,
        Some(Closed::Refused(Trouble::Silence, _))
    ));
}

#[test]
fn more_bytes_than_are_allowed_end_a_test() {
    let mut stage = Stage::new(Some(1000));
    stage.bytes(&parameters());
    stage.feed(Input::Admitted);
    stage.feed(Input::StreamsOpen);
    stage.feed(Input::Moved(1000));
    assert_eq!(stage.closed, None);
    stage.feed(Input::Moved(1001));
    assert!(matches!(stage.closed, Some(Closed::Terminated(_))));
}

#[test]
fn who_is_busy_or_gone_says_so() {
    let mut stage = Stage::at(Step::Admitting);
    stage.feed(Input::Busy("full".to_owned()));
    assert_eq!(stage.sent, [State::AccessDenied.byte()]);
    let mut stage = Stage::at(Step::Running);
    stage.feed(Input::Gone("reset".to_owned()));
    let closed = stage.closed.expect("closed").to_string();
    assert_eq!(closed, "lost while running: reset");
}

proptest! {
    #[test]
    fn any_bytes_at_any_step_end_in_bounded_time(
        steps in 0_usize..8,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        piece in 1_usize..40,
    ) {
        let all = [
            Step::Parameters, Step::Admitting, Step::Opening, Step::Running, Step::Draining,
            Step::Results, Step::Collecting, Step::Farewell,
        ];
        let mut stage = Stage::at(all[steps]);
        for piece in bytes.chunks(piece) {
            stage.bytes(piece);
        }
        let mut wakes = 0;
        while stage.closed.is_none() {
            stage.outlive();
            wakes += 1;
            prop_assert!(wakes < 10, "a test that never ends");
        }
        prop_assert!(stage.now < LONGEST);
    }
}
