//! Tests of iperf3's protocol with a hostile peer, in both roles.

use crate::field_extremes::{FieldAttacks, extend_messages};
use crate::hostile_course::{
    CourseVictim, PeerAttack, PeerScript, choose_sequel, frame_text, write_attack,
};
use crate::type_samples::make_samples;
use crate::{CourseRecord, run_measured};
use longhaul_iperf3::client_run::{
    self, ClientAction, ClientInput, ClientProtocol, ClientStep, ClientTestEnd, JoinContext,
    join_ends,
};
use longhaul_iperf3::iperf3_messages::{
    StreamResults, TestCookie, TestParameters, TestResults, TestState, stream_id,
};
use longhaul_iperf3::server_protocol::{
    self, OVERTIME, ServerAction, ServerInput, ServerProtocol, ServerStep, ServerTestEnd,
};
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::plan::{RunDirection, ThroughputPlan};
use longhaul_model::splitmix::SplitMix64;
use longhaul_probe::engine::EngineResult;
use longhaul_probe::session_driver::SessionResults;
use std::time::Duration;

/// More than two, whose counts could still be added up without an overflow.
const STREAMS: usize = 3;
const STREAM_BYTES: i64 = 1_000_000;
const RUN_TIME: Duration = Duration::from_secs(1);
const GREETING: Duration = Duration::from_secs(10);
/// The longest test that the server grants.
const MAX_TEST: Duration = Duration::from_secs(30);
const MAX_TEST_BYTES: u64 = 10_000_000;

/// The longest course of a client: each of its waits once.
const MAX_CLIENT_COURSE: Duration = GREETING
    .saturating_add(client_run::STEP_TIMEOUT.saturating_mul(4))
    .saturating_add(client_run::SILENCE_TIMEOUT.saturating_mul(2))
    .saturating_add(client_run::RESULTS_TIMEOUT.saturating_mul(3));
/// The longest course of a server.
const MAX_SERVER_COURSE: Duration = server_protocol::PARAMETERS_TIMEOUT
    .saturating_add(server_protocol::STREAM_TIMEOUT)
    .saturating_add(MAX_TEST)
    .saturating_add(OVERTIME)
    .saturating_add(server_protocol::DRAIN_TIMEOUT)
    .saturating_add(server_protocol::RESULTS_TIMEOUT.saturating_mul(2))
    .saturating_add(server_protocol::DONE_TIMEOUT);
const SERVER_BUDGET: usize = 4 << 20;
const CLIENT_BUDGET: usize = 16 << 20;

/// A test that is attacked.
pub struct TestScene {
    is_client: bool,
    direction: RunDirection,
    script: PeerScript,
}

impl TestScene {
    pub fn script(&self) -> &PeerScript {
        &self.script
    }

    fn plan(&self) -> ThroughputPlan {
        ThroughputPlan {
            direction: self.direction,
            streams: STREAMS as u32,
            ..ThroughputPlan::default()
        }
    }
}

fn results(direction: RunDirection) -> TestResults {
    let ways = if direction == RunDirection::Both { 2 } else { 1 };
    let stream = |index| StreamResults {
        id: stream_id(index),
        bytes: STREAM_BYTES,
        start_time: Some(0.0),
        end_time: Some(RUN_TIME.as_secs_f64()),
        ..StreamResults::default()
    };
    TestResults { streams: (0..ways * STREAMS).map(stream).collect(), ..TestResults::default() }
}

fn parameters(direction: RunDirection) -> TestParameters {
    TestParameters {
        tcp: true,
        time: Some(1),
        parallel: Some(STREAMS as i64),
        reverse: direction == RunDirection::Reverse,
        bidirectional: direction == RunDirection::Both,
        ..TestParameters::default()
    }
}

fn frame(message: &impl serde::Serialize) -> Vec<u8> {
    frame_text(&serde_json::to_vec(message).expect("JSON"))
}

pub fn list_scenes() -> Vec<TestScene> {
    let mut scenes = Vec::new();
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        let state = |state: TestState| vec![state.byte()];
        let script = vec![
            (ClientStep::Greeting as u8, state(TestState::ParameterExchange)),
            (ClientStep::Asking as u8, state(TestState::CreateStreams)),
            (ClientStep::Opening as u8, state(TestState::TestStart)),
            (ClientStep::Starting as u8, state(TestState::TestRunning)),
            (ClientStep::Ending as u8, state(TestState::ExchangeResults)),
            (ClientStep::Exchanging as u8, frame(&results(direction))),
            (ClientStep::Leaving as u8, state(TestState::DisplayResults)),
        ];
        scenes.push(TestScene { is_client: true, direction, script });
        let script = vec![
            (ServerStep::Parameters as u8, frame(&parameters(direction))),
            (ServerStep::Running as u8, state(TestState::TestEnd)),
            (ServerStep::Results as u8, frame(&results(direction))),
            (ServerStep::Farewell as u8, state(TestState::Done)),
        ];
        scenes.push(TestScene { is_client: false, direction, script });
    }
    scenes
}

/// A client with its driver and an engine of straw.
struct ClientVictim {
    client: ClientProtocol,
    direction: RunDirection,
    running_since: Option<Duration>,
    closed: Option<ClientTestEnd>,
}

impl ClientVictim {
    fn new(scene: &TestScene) -> ClientVictim {
        let cookie = TestCookie([b'a'; 37]);
        let client = ClientProtocol::new(cookie, parameters(scene.direction), GREETING);
        let (direction, running_since, closed) = (scene.direction, None, None);
        let mut victim = ClientVictim { client, direction, running_since, closed };
        victim.feed(Duration::ZERO, ClientInput::Start);
        victim
    }

    fn feed(&mut self, now: Duration, input: ClientInput<'_>) {
        for action in self.client.handle(now, input) {
            match action {
                ClientAction::Send(_) | ClientAction::Ready => {}
                ClientAction::OpenStreams => self.feed(now, ClientInput::StreamsOpen),
                ClientAction::Go => self.running_since = Some(now),
                ClientAction::Collect => {
                    let own = Box::new(results(self.direction));
                    self.feed(now, ClientInput::Collected(own));
                }
                ClientAction::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                }
            }
        }
    }
}

impl CourseVictim for ClientVictim {
    fn state(&self) -> u8 {
        self.client.step() as u8
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.client.next_deadline()
    }

    fn is_moving(&self) -> bool {
        self.client.step() == ClientStep::Running
    }

    fn receive(&mut self, now: Duration, bytes: &[u8]) {
        self.feed(now, ClientInput::Bytes(bytes));
    }

    fn lose_peer(&mut self, now: Duration) {
        self.feed(now, ClientInput::Cut("reset".to_owned()));
    }

    fn pass_time(&mut self, now: Duration) {
        if let (true, Some(since)) = (self.is_moving(), self.running_since) {
            let ran = now.saturating_sub(since);
            let bytes = ran.min(RUN_TIME).as_micros() as u64;
            self.feed(now, ClientInput::Moved { bytes, over: ran >= RUN_TIME });
        }
        self.feed(now, ClientInput::Tick);
    }

    fn reason(&self) -> Option<String> {
        self.closed.as_ref().map(|closed| format!("{closed:?}"))
    }
}

/// A server with its driver.
struct ServerVictim {
    server: ServerProtocol,
    direction: RunDirection,
    closed: Option<ServerTestEnd>,
}

impl ServerVictim {
    fn new(scene: &TestScene) -> ServerVictim {
        let server = ServerProtocol::new(MAX_TEST, Some(MAX_TEST_BYTES));
        let mut victim = ServerVictim { server, direction: scene.direction, closed: None };
        victim.feed(Duration::ZERO, ServerInput::Start);
        victim
    }

    fn feed(&mut self, now: Duration, input: ServerInput<'_>) {
        for action in self.server.handle(now, input) {
            match action {
                ServerAction::Send(_) | ServerAction::Run => {}
                ServerAction::Admit(_) => {
                    self.feed(now, ServerInput::Admitted);
                    self.feed(now, ServerInput::StreamsOpen);
                }
                ServerAction::Stop => self.feed(now, ServerInput::Drained),
                ServerAction::Collect => {
                    let own = Box::new(results(self.direction));
                    self.feed(now, ServerInput::Ready(own));
                }
                ServerAction::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                }
            }
        }
    }
}

impl CourseVictim for ServerVictim {
    fn state(&self) -> u8 {
        self.server.step() as u8
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.server.next_deadline()
    }

    fn is_moving(&self) -> bool {
        self.server.step() == ServerStep::Running
    }

    fn receive(&mut self, now: Duration, bytes: &[u8]) {
        self.feed(now, ServerInput::Bytes(bytes));
    }

    fn lose_peer(&mut self, now: Duration) {
        self.feed(now, ServerInput::Gone("reset".to_owned()));
    }

    fn pass_time(&mut self, now: Duration) {
        if self.is_moving() {
            // For ever, but no more than is allowed.
            self.feed(now, ServerInput::Moved(now.as_millis() as u64));
        }
        self.feed(now, ServerInput::Tick);
    }

    fn reason(&self) -> Option<String> {
        self.closed.as_ref().map(|closed| format!("{closed:?}"))
    }
}

/// The scenes, and all changes of both kinds of objects.
pub struct Iperf3Attacks {
    scenes: Vec<TestScene>,
    asked: FieldAttacks,
    told: FieldAttacks,
}

impl Iperf3Attacks {
    pub fn new() -> Iperf3Attacks {
        let asked = serde_json::to_value(parameters(RunDirection::Forward)).expect("JSON");
        let told = serde_json::to_value(results(RunDirection::Forward)).expect("JSON");
        let asked = extend_messages(vec![asked], make_samples::<TestParameters>());
        let told = extend_messages(vec![told], make_samples::<TestResults>());
        Iperf3Attacks {
            scenes: list_scenes(),
            asked: FieldAttacks::new::<TestParameters>(&asked),
            told: FieldAttacks::new::<TestResults>(&told),
        }
    }

    /// Plans the course with this number, and drives it.
    pub fn run(&self, number: usize) -> CourseRecord {
        let random = &mut SplitMix64::new(number as u64);
        let scene = &self.scenes[random.below(self.scenes.len())];
        let (asks, tells) = if scene.is_client { (None, 5) } else { (Some(0), 2) };
        let (after, bytes) = match (random.below(3), asks) {
            (0, _) => {
                // Any bytes, in the place of a state or of a length.
                let after = random.below(scene.script.len() + 1);
                let bytes = (0..=random.below(12)).map(|_| random.next_u64() as u8);
                (after, bytes.collect())
            }
            (1, Some(asks)) => (asks, write_attack(self.asked.choose(number / 3, random), random)),
            _ => (tells, write_attack(self.told.choose(number / 3, random), random)),
        };
        let then = choose_sequel(random);
        run_scene(scene, &PeerAttack { after, bytes, then })
    }
}

pub fn run_scene(scene: &TestScene, attack: &PeerAttack) -> CourseRecord {
    if !scene.is_client {
        let mut victim = ServerVictim::new(scene);
        let bound = MAX_SERVER_COURSE;
        return run_measured(&mut victim, &scene.script, attack, bound, SERVER_BUDGET);
    }
    let mut victim = ClientVictim::new(scene);
    let bound = MAX_CLIENT_COURSE;
    let record = run_measured(&mut victim, &scene.script, attack, bound, CLIENT_BUDGET);
    if victim.closed == Some(ClientTestEnd::Finished) {
        check_results(scene, victim.client.take_results());
    }
    record
}

/// Accepts the server's results as a run does.
fn check_results(scene: &TestScene, told: Option<TestResults>) {
    let plan = scene.plan();
    let known = JoinContext { plan: &plan, host: "far", idle_rtt: None, same_host: false };
    let bytes = STREAM_BYTES as u64;
    let stream = StreamEnd { bytes, duration_us: 1_000_000, ..StreamEnd::default() };
    let end = || EngineResult {
        streams: vec![stream.clone(); STREAMS],
        end: EndObservation { bytes: bytes * STREAMS as u64, ..EndObservation::default() },
        caveats: Vec::new(),
    };
    let own = SessionResults {
        sender: (scene.direction != RunDirection::Reverse).then(end),
        receiver: (scene.direction != RunDirection::Forward).then(end),
    };
    let Some(Ok(observation)) = told.map(|told| join_ends(&known, own, &told)) else {
        return;
    };
    if observation.forward {
        if observation.check_direction().is_err() {
            return;
        }
        for stream in &observation.streams {
            assert!(stream.receiver.bytes <= stream.sender.bytes, "more than was sent");
        }
    }
    longhaul_analysis::throughput::conclude_throughput(&plan, &observation);
}
