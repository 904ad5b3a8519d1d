//! The server's part of iperf3's protocol on virtual time: right order, every deadline, any bytes.

use longhaul_iperf3::iperf3_messages::{
    Iperf3Error, MAX_PARAMETER_BYTES, StreamResults, TestParameters, TestResults, TestState,
    encode_message,
};
use longhaul_iperf3::server_protocol::{
    DONE_TIMEOUT, DRAIN_TIMEOUT, OVERTIME, PARAMETERS_TIMEOUT, RESULTS_TIMEOUT, SILENCE_TIMEOUT,
    STREAM_TIMEOUT, ServerAction, ServerInput, ServerProtocol, ServerStep, ServerTestEnd,
};
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(3600);

fn parameters() -> Vec<u8> {
    let asked =
        TestParameters { tcp: true, time: Some(2), omit: Some(1), ..TestParameters::default() };
    encode_message(&asked, MAX_PARAMETER_BYTES).expect("small")
}

fn results() -> TestResults {
    TestResults {
        streams: vec![StreamResults { id: 1, ..StreamResults::default() }],
        ..TestResults::default()
    }
}

fn framed_results() -> Vec<u8> {
    encode_message(&results(), 1 << 16).expect("small")
}

/// What brings a server from one step to the next.
type Way = fn(&mut Stage);

/// A server and what it did.
struct Stage {
    server: ServerProtocol,
    now: Duration,
    sent: Vec<u8>,
    asked: Vec<&'static str>,
    closed: Option<ServerTestEnd>,
}

impl Stage {
    fn new(most_bytes: Option<u64>) -> Stage {
        let mut stage = Stage {
            server: ServerProtocol::new(LONGEST, most_bytes),
            now: Duration::ZERO,
            sent: Vec::new(),
            asked: Vec::new(),
            closed: None,
        };
        stage.feed(ServerInput::Start);
        stage
    }

    fn feed(&mut self, input: ServerInput<'_>) {
        for action in self.server.handle(self.now, input) {
            match action {
                ServerAction::Send(bytes) => self.sent.extend(bytes),
                ServerAction::Admit(_) => self.asked.push("admit"),
                ServerAction::Run => self.asked.push("run"),
                ServerAction::Stop => self.asked.push("stop"),
                ServerAction::Collect => self.asked.push("collect"),
                ServerAction::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                }
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.feed(ServerInput::Bytes(bytes));
    }

    /// On its way to `step`.
    fn at(step: ServerStep) -> Stage {
        let mut stage = Stage::new(None);
        let ways: [(ServerStep, Way); 8] = [
            (ServerStep::Parameters, |_| {}),
            (ServerStep::Admitting, |stage| stage.bytes(&parameters())),
            (ServerStep::Opening, |stage| {
                stage.feed(ServerInput::Admitted);
            }),
            (ServerStep::Running, |stage| {
                stage.feed(ServerInput::StreamsOpen);
            }),
            (ServerStep::Draining, |stage| {
                stage.bytes(&[TestState::TestEnd.byte()]);
            }),
            (ServerStep::Results, |stage| {
                stage.feed(ServerInput::Drained);
            }),
            (ServerStep::Collecting, |stage| {
                stage.bytes(&framed_results());
            }),
            (ServerStep::Farewell, |stage| {
                stage.feed(ServerInput::Ready(Box::new(results())));
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
        self.feed(ServerInput::Tick);
    }
}

#[test]
fn a_test_goes_through_its_steps_in_order() {
    let mut stage = Stage::at(ServerStep::Farewell);
    assert_eq!(stage.asked, ["admit", "run", "stop", "collect"]);
    stage.bytes(&[TestState::Done.byte()]);
    assert_eq!(stage.closed, Some(ServerTestEnd::Finished));
    let mut stage = Stage::at(ServerStep::Opening);
    stage.feed(ServerInput::StreamsOpen);
    assert_eq!(stage.sent, [TestState::TestStart.byte(), TestState::TestRunning.byte()]);
    let mut stage = Stage::at(ServerStep::Collecting);
    stage.feed(ServerInput::Ready(Box::new(results())));
    let expected = [framed_results(), vec![TestState::DisplayResults.byte()]].concat();
    assert_eq!(stage.sent, expected);
}

#[test]
fn what_is_glued_waits_for_its_step() {
    let mut stage = Stage::new(None);
    stage.bytes(&[parameters(), vec![TestState::ClientTerminate.byte()]].concat());
    assert_eq!(stage.server.step(), ServerStep::Admitting);
    stage.feed(ServerInput::Admitted);
    assert_eq!(stage.closed, Some(ServerTestEnd::ClientTerminated));
    let mut stage = Stage::at(ServerStep::Draining);
    stage.feed(ServerInput::Drained);
    stage.bytes(&[framed_results(), vec![TestState::Done.byte()]].concat());
    stage.feed(ServerInput::Ready(Box::new(results())));
    assert_eq!(stage.closed, Some(ServerTestEnd::Finished));
}

#[test]
fn every_step_ends_by_its_deadline_with_a_number_that_clients_print() {
    for (step, time, code) in [
        (ServerStep::Parameters, PARAMETERS_TIMEOUT, Iperf3Error::Parameters),
        (ServerStep::Admitting, PARAMETERS_TIMEOUT, Iperf3Error::Parameters),
        (ServerStep::Opening, STREAM_TIMEOUT, Iperf3Error::Stream),
        (ServerStep::Results, RESULTS_TIMEOUT, Iperf3Error::Results),
    ] {
        let mut stage = Stage::at(step);
        assert_eq!(stage.server.next_deadline(), Some(time), "{step:?}");
        stage.outlive();
        assert_eq!(stage.sent[0], TestState::ServerError.byte(), "{step:?}");
        assert_eq!(stage.sent[1..5], code.code().to_be_bytes(), "{step:?}");
        assert!(stage.closed.is_some());
        assert_eq!(stage.server.next_deadline(), None);
    }
    let mut stage = Stage::at(ServerStep::Draining);
    assert!(stage.server.next_deadline() <= Some(DRAIN_TIMEOUT));
    stage.outlive();
    assert_eq!(stage.sent, [TestState::ExchangeResults.byte()]);
    let mut stage = Stage::at(ServerStep::Farewell);
    assert_eq!(stage.server.next_deadline(), Some(DONE_TIMEOUT));
    stage.outlive();
    assert_eq!(stage.closed, Some(ServerTestEnd::Finished));
}

#[test]
fn a_test_that_does_not_end_is_ended() {
    let mut stage = Stage::at(ServerStep::Running);
    // Two seconds, and one that is omitted.
    assert_eq!(stage.server.next_deadline(), Some(Duration::from_secs(3) + OVERTIME));
    stage.outlive();
    assert_eq!(stage.sent, [TestState::ServerTerminate.byte()]);
    let mut silent = Stage::new(None);
    let endless = TestParameters { num: Some(1 << 40), ..TestParameters::default() };
    silent.bytes(&encode_message(&endless, MAX_PARAMETER_BYTES).expect("small"));
    silent.feed(ServerInput::Admitted);
    silent.feed(ServerInput::StreamsOpen);
    silent.now = Duration::from_secs(100);
    silent.feed(ServerInput::Moved(1));
    assert_eq!(silent.server.next_deadline(), Some(silent.now + SILENCE_TIMEOUT));
    silent.outlive();
    assert!(matches!(silent.closed, Some(ServerTestEnd::Refused(Iperf3Error::Silence, _))));
}

#[test]
fn more_bytes_than_are_allowed_end_a_test() {
    let mut stage = Stage::new(Some(1000));
    stage.bytes(&parameters());
    stage.feed(ServerInput::Admitted);
    stage.feed(ServerInput::StreamsOpen);
    stage.feed(ServerInput::Moved(1000));
    assert_eq!(stage.closed, None);
    stage.feed(ServerInput::Moved(1001));
    assert!(matches!(stage.closed, Some(ServerTestEnd::Terminated(_))));
}

#[test]
fn who_is_busy_or_gone_says_so() {
    let mut stage = Stage::at(ServerStep::Admitting);
    stage.feed(ServerInput::Busy("full".to_owned()));
    assert_eq!(stage.sent, [TestState::AccessDenied.byte()]);
    let mut stage = Stage::at(ServerStep::Running);
    stage.feed(ServerInput::Gone("reset".to_owned()));
    let closed = stage.closed.expect("closed").to_string();
    assert_eq!(closed, "lost while running: reset");
}
