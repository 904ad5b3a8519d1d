//! Sessions of our own wire with a hostile peer: runs and probes, in both roles.

use crate::field_extremes::{FieldAttack, FieldAttacks, extend_messages};
use crate::hostile_course::{
    CourseVictim, PeerAttack, PeerScript, choose_sequel, frame_text, honest_peer, write_attack,
};
use crate::type_samples::make_samples;
use crate::{CourseRecord, run_measured};
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::capture::CapturePlan;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd, StreamSample};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::splitmix::SplitMix64;
use longhaul_probe::engine::EngineResult;
use longhaul_probe::secure::{AuthToken, make_proof};
use longhaul_probe::session::{
    EXCHANGE_TIMEOUT, STEP_TIMEOUT, Session, SessionAction, SessionEnd, SessionInput,
    SessionPurpose, SessionRole, SessionSetup, SessionState, TransferProgress,
};
use longhaul_probe::session_driver::SessionResults;
use longhaul_probe::throughput::join_results;
use longhaul_probe::wire::{
    AnonymousLimits, Base64Bytes, ByeReason, ControlMessage, DirectionResult, FrameSplitter,
    HelloMessage, IntervalCounters, MAX_FRAME_BYTES, MAX_RESULT_BYTES, PrepareMessage, ProbeBounds,
    ProbeProposal, ProtocolVersions, RunProposal, SessionNonce, SessionReply, SessionRequest,
    StreamResult, TokenProof, WelcomeMessage, encode_frame,
};
use serde_json::Value;
use std::time::Duration;

const EXPORTER: [u8; 32] = [7; 32];
const TOKEN: &str = "a token of more than sixteen characters";
const STREAMS: u32 = 2;
/// The bytes that each stream of this end sends and receives.
const STREAM_BYTES: u64 = 1_000_000;
const RUN_TIME: Duration = Duration::from_secs(1);
/// The requests of a probe session.
const REQUESTS: usize = 2;
const PROBING_TIME: Duration = Duration::from_secs(30);

/// The longest course: six steps before the payload, the run and the longest silence in it (20
/// round trips of the longest step), the grace period of four, and the exchange of results.
const MAX_COURSE: Duration = STEP_TIMEOUT
    .saturating_mul(6)
    .saturating_add(RUN_TIME)
    .saturating_add(STEP_TIMEOUT.saturating_mul(20 + 4 + 1))
    .saturating_add(EXCHANGE_TIMEOUT);
/// The memory of a session beyond that of the message that is being read.
const SERVER_BUDGET: usize = 4 << 20;
const CLIENT_BUDGET: usize = 160 << 20;

/// A session that is attacked.
pub struct SessionScene {
    role: SessionRole,
    purpose: SessionPurpose,
    has_token: bool,
    script: PeerScript,
    messages: Vec<ControlMessage>,
}

impl SessionScene {
    pub fn script(&self) -> &PeerScript {
        &self.script
    }
}

fn plan(direction: RunDirection) -> ThroughputPlan {
    let stop = StopCondition::TimeUs(RUN_TIME.as_micros() as u64);
    ThroughputPlan { direction, stop, streams: STREAMS, ..ThroughputPlan::default() }
}

fn purposes() -> Vec<SessionPurpose> {
    let run = |plan| SessionPurpose::Run(Box::new(plan));
    let forward = || plan(RunDirection::Forward);
    let capture = CapturePlan { snap_bytes: None, packets: 100, last: false, far: true };
    let bounds = ProbeBounds {
        flows: 1,
        most_bytes: 1_000_000,
        most_time_us: PROBING_TIME.as_micros() as u64,
        dscp: None,
    };
    vec![
        run(forward()),
        run(plan(RunDirection::Reverse)),
        run(plan(RunDirection::Both)),
        run(ThroughputPlan { capture: Some(capture), ..forward() }),
        run(ThroughputPlan { transport: RunTransport::Udp { rate_bps: 1_000_000 }, ..forward() }),
        run(ThroughputPlan { stop: StopCondition::Bytes(STREAM_BYTES), ..forward() }),
        SessionPurpose::Probe(bounds),
    ]
}

pub fn list_scenes() -> Vec<SessionScene> {
    let mut scenes = Vec::new();
    for role in [SessionRole::Client, SessionRole::Server] {
        for (number, purpose) in purposes().into_iter().enumerate() {
            let has_token = number % 2 == 1;
            let messages = match role {
                SessionRole::Client => server_messages(&purpose, has_token),
                SessionRole::Server => client_messages(&purpose, has_token),
            };
            let frame = |message| encode_frame(message, MAX_RESULT_BYTES).expect("small");
            let script = messages.iter().map(|(due, message)| (*due as u8, frame(message)));
            let script = script.collect();
            let messages = messages.into_iter().map(|(_, message)| message).collect();
            scenes.push(SessionScene { role, purpose, has_token, script, messages });
        }
    }
    scenes
}

fn proof(prover: SessionRole, has_token: bool) -> Option<String> {
    let token = AuthToken::new(TOKEN).filter(|_| has_token);
    token.map(|token| make_proof(&token, prover, &EXPORTER))
}

fn hello() -> ControlMessage {
    ControlMessage::Hello(HelloMessage {
        versions: ProtocolVersions::OURS,
        longhaul: "honest".to_owned(),
    })
}

fn run_plan(purpose: &SessionPurpose) -> Option<&ThroughputPlan> {
    match purpose {
        SessionPurpose::Run(plan) => Some(plan),
        SessionPurpose::Probe(_) => None,
    }
}

fn flows(plan: &ThroughputPlan, forward: bool) -> bool {
    plan.direction == RunDirection::Both || (plan.direction == RunDirection::Forward) == forward
}

/// The messages of an honest server.
fn server_messages(
    purpose: &SessionPurpose,
    has_token: bool,
) -> Vec<(SessionState, ControlMessage)> {
    let welcome = ControlMessage::Welcome(WelcomeMessage {
        token_proof: proof(SessionRole::Server, has_token),
        party: RunParty::default(),
        boot_proof: None,
        limits: None,
    });
    let mut messages = vec![
        (SessionState::Greeting, hello()),
        (SessionState::Proving, welcome),
        (SessionState::Negotiating, ControlMessage::Accept { nonce: SessionNonce([3; 16]) }),
        (SessionState::Opening, ControlMessage::Opened),
    ];
    let pong = |number| ControlMessage::Pong { number, at_us: 1000 };
    messages.extend((0..8).map(|number| (SessionState::Timing, pong(number))));
    let Some(plan) = run_plan(purpose) else {
        let answer = || ControlMessage::Answer(Box::new(SessionReply::Armed));
        messages.extend((0..REQUESTS).map(|_| (SessionState::Working, answer())));
        return messages;
    };
    messages.push((SessionState::Ready, ControlMessage::Prepared));
    messages.push((SessionState::Running, interval()));
    if flows(plan, false) {
        messages.push((SessionState::Running, ControlMessage::Sent));
    }
    if flows(plan, true) {
        messages.push((SessionState::Draining, ControlMessage::Drained));
    }
    let results = server_results(plan);
    messages.extend(results.into_iter().map(|result| (SessionState::Exchanging, result)));
    messages
}

fn interval() -> ControlMessage {
    let bytes = Some(STREAM_BYTES / 2);
    let counters = IntervalCounters { elapsed_us: 1, sent_bytes: bytes, received_bytes: bytes };
    ControlMessage::Interval(counters)
}

fn stream_end() -> StreamEnd {
    StreamEnd {
        bytes: STREAM_BYTES,
        duration_us: RUN_TIME.as_micros() as u64,
        samples: vec![StreamSample { at_us: 900_000, bytes: 900_000, ..StreamSample::default() }],
        ..StreamEnd::default()
    }
}

fn server_results(plan: &ThroughputPlan) -> Vec<ControlMessage> {
    let capture = plan.capture.filter(|capture| capture.far);
    let mut results: Vec<ControlMessage> = capture
        .map(|_| ControlMessage::Capture { bytes: Base64Bytes(vec![1; 10]) })
        .into_iter()
        .collect();
    for forward in [true, false].into_iter().filter(|forward| flows(plan, *forward)) {
        for index in 0..plan.streams {
            let result = StreamResult { forward, index, end: stream_end() };
            results.push(ControlMessage::Stream(Box::new(result)));
        }
        let bytes = STREAM_BYTES * u64::from(plan.streams);
        let end = EndObservation { bytes, ..EndObservation::default() };
        let result = DirectionResult { forward, end, caveats: Vec::new() };
        results.push(ControlMessage::End(Box::new(result)));
    }
    results
}

/// The messages of an honest client.
fn client_messages(
    purpose: &SessionPurpose,
    has_token: bool,
) -> Vec<(SessionState, ControlMessage)> {
    let token_proof = proof(SessionRole::Client, has_token);
    let (party, boot_proof) = (RunParty::default(), None);
    let ping = (SessionState::Timing, ControlMessage::Ping { number: 0 });
    let over = ControlMessage::Bye(ByeReason::Finished);
    let mut messages = vec![
        (SessionState::Greeting, hello()),
        (SessionState::Proving, ControlMessage::Proof(TokenProof { token_proof })),
    ];
    let plan = match purpose {
        SessionPurpose::Run(plan) => plan.as_ref().clone(),
        SessionPurpose::Probe(bounds) => {
            let probe = ProbeProposal { bounds: bounds.clone(), party, boot_proof };
            messages.push((SessionState::Negotiating, ControlMessage::Probe(Box::new(probe))));
            messages.extend([ping, (SessionState::Timing, ControlMessage::Go)]);
            let ask = || ControlMessage::Ask(SessionRequest::Options);
            messages.extend((0..REQUESTS).map(|_| (SessionState::Asking, ask())));
            messages.push((SessionState::Asking, over));
            return messages;
        }
    };
    let (sends, receives) = (flows(&plan, true), flows(&plan, false));
    let propose = RunProposal { plan, party, boot_proof };
    let prepare = PrepareMessage { origin_us: 0, idle_rtt_us: 20_000, same_host: false };
    messages.extend([
        (SessionState::Negotiating, ControlMessage::Propose(Box::new(propose))),
        ping,
        (SessionState::Timing, ControlMessage::Prepare(prepare)),
        (SessionState::Ready, ControlMessage::Go),
        (SessionState::Running, interval()),
    ]);
    if sends {
        messages.push((SessionState::Running, ControlMessage::Sent));
    }
    if receives {
        messages.push((SessionState::Draining, ControlMessage::Drained));
    }
    messages.push((SessionState::Exchanging, over));
    messages
}

/// A session with its driver and an engine of straw.
struct SessionVictim<'a> {
    scene: &'a SessionScene,
    session: Session,
    splitter: FrameSplitter,
    running_since: Option<Duration>,
    stopped: bool,
    requests: usize,
    closed: Option<SessionEnd>,
}

impl<'a> SessionVictim<'a> {
    fn new(scene: &'a SessionScene) -> SessionVictim<'a> {
        let setup = SessionSetup {
            token: AuthToken::new(TOKEN).filter(|_| scene.has_token),
            exporter: EXPORTER,
            party: RunParty::default(),
            boot_proof: None,
            same_address: false,
        };
        let session = match scene.role {
            SessionRole::Client => Session::client(setup, scene.purpose.clone()),
            SessionRole::Server => Session::server(setup, Some(AnonymousLimits::default()), 128),
        };
        let splitter = FrameSplitter::new(MAX_FRAME_BYTES);
        let mut victim = SessionVictim {
            scene,
            session,
            splitter,
            running_since: None,
            stopped: false,
            requests: 0,
            closed: None,
        };
        victim.feed(Duration::ZERO, SessionInput::Start);
        victim
    }

    fn feed(&mut self, now: Duration, input: SessionInput) {
        for action in self.session.handle(now, input) {
            self.act(now, action);
        }
    }

    fn act(&mut self, now: Duration, action: SessionAction) {
        let answer = match action {
            SessionAction::Send(ControlMessage::Accept { .. }) | SessionAction::OpenStreams(_) => {
                SessionInput::StreamsOpen
            }
            SessionAction::Send(message @ ControlMessage::Bye(_)) => {
                assert!(encode_frame(&message, MAX_FRAME_BYTES).is_ok(), "{message:?}");
                return;
            }
            SessionAction::Admit(_) => SessionInput::Admitted(SessionNonce([3; 16])),
            SessionAction::StartEngine(_) => SessionInput::EngineReady,
            SessionAction::Collect if self.scene.role == SessionRole::Server => {
                let plan = run_plan(&self.scene.purpose).cloned().unwrap_or_default();
                SessionInput::Results(server_results(&plan))
            }
            SessionAction::Ask(_) => SessionInput::Answer(Box::new(SessionReply::Armed)),
            SessionAction::Go => {
                self.running_since = Some(now);
                return;
            }
            SessionAction::StopEngine | SessionAction::StopSending => {
                self.stopped = true;
                return;
            }
            SessionAction::Close(closed) => {
                assert_eq!(self.closed.replace(closed), None, "closed twice");
                return;
            }
            _ => return,
        };
        self.feed(now, answer);
    }

    fn own_results(&self) -> SessionResults {
        let end = || EngineResult {
            streams: vec![stream_end(); STREAMS as usize],
            end: EndObservation {
                bytes: STREAM_BYTES * u64::from(STREAMS),
                ..EndObservation::default()
            },
            caveats: Vec::new(),
        };
        let plan = run_plan(&self.scene.purpose);
        let way = |forward| plan.filter(|plan| flows(plan, forward)).map(|_| end());
        SessionResults { sender: way(true), receiver: way(false) }
    }

    /// Accepts the results as a client does, and concludes from them.
    fn check_results(&mut self) {
        let (SessionPurpose::Run(plan), SessionRole::Client) =
            (&self.scene.purpose, self.scene.role)
        else {
            return;
        };
        let own = self.own_results();
        let directions = self.session.take_results().directions;
        let Ok((observation, _)) = join_results(plan, own, directions, &self.session) else {
            return;
        };
        if observation.check_counts().is_err() {
            return;
        }
        let both = [Some(&observation), observation.reverse.as_deref()];
        for stream in both.into_iter().flatten().flat_map(|way| &way.streams) {
            let copies = stream.receiver.udp.map_or(1, |_| 2);
            assert!(stream.receiver.bytes <= stream.sender.bytes * copies, "more than was sent");
        }
        conclude_throughput(plan, &observation);
    }
}

impl CourseVictim for SessionVictim<'_> {
    fn state(&self) -> u8 {
        self.session.state() as u8
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.session.next_deadline()
    }

    fn is_moving(&self) -> bool {
        matches!(self.session.state(), SessionState::Running | SessionState::Draining)
    }

    fn receive(&mut self, now: Duration, mut bytes: &[u8]) {
        self.feed(now, SessionInput::BytesReceived);
        while !bytes.is_empty() && self.closed.is_none() {
            self.splitter.set_limit(self.session.max_message_bytes());
            match self.splitter.next_message(&mut bytes) {
                Ok(Some(message)) => self.feed(now, SessionInput::Message(message)),
                Ok(None) => return,
                Err(error) => self.feed(now, SessionInput::Garbage(error.to_string())),
            }
        }
    }

    fn lose_peer(&mut self, now: Duration) {
        self.feed(now, SessionInput::Cut("reset".to_owned()));
    }

    fn pass_time(&mut self, now: Duration) {
        self.feed(now, SessionInput::Tick);
        if let (true, Some(since)) = (self.is_moving(), self.running_since) {
            let ran = now.saturating_sub(since).min(RUN_TIME);
            let bytes = Some(ran.as_micros() as u64);
            let interval = IntervalCounters {
                elapsed_us: ran.as_micros() as u64,
                sent_bytes: bytes,
                received_bytes: bytes,
            };
            let sent = ran == RUN_TIME || self.stopped;
            let drained = sent && self.session.state() == SessionState::Draining;
            self.feed(now, SessionInput::Progress(TransferProgress { interval, sent, drained }));
        }
        let client = self.scene.role == SessionRole::Client;
        if client && self.session.state() == SessionState::Asking {
            self.requests += 1;
            self.feed(
                now,
                match self.requests {
                    ..=REQUESTS => SessionInput::Ask(Box::new(SessionRequest::Options)),
                    _ => SessionInput::NoMoreRequests,
                },
            );
        }
    }

    fn reason(&self) -> Option<String> {
        self.closed.as_ref().map(|closed| format!("{closed:?}"))
    }
}

/// The scenes, and all changes of all messages.
pub struct SessionAttacks {
    scenes: Vec<SessionScene>,
    attacks: FieldAttacks,
}

impl SessionAttacks {
    pub fn new() -> SessionAttacks {
        let scenes = list_scenes();
        let honest = scenes.iter().flat_map(|scene| &scene.messages);
        let honest = honest.map(|message| serde_json::to_value(message).expect("JSON"));
        let messages = extend_messages(honest.collect(), make_samples::<ControlMessage>());
        SessionAttacks { attacks: FieldAttacks::new::<ControlMessage>(&messages), scenes }
    }

    /// Plans the course with this number, and drives it.
    pub fn run(&self, number: usize) -> CourseRecord {
        let random = &mut SplitMix64::new(number as u64);
        let attack = self.attacks.choose(number, random);
        let bytes = write_attack(attack, random);
        let (scene, after) = self.choose_place(attack, random);
        let is_result = matches!(message_name(&attack.message), Some("stream" | "end"));
        if is_result && random.below(2) == 0 {
            return run_scene(scene, &lying_script(scene, &bytes), &honest_peer(&scene.script));
        }
        let attack = PeerAttack { after, bytes, then: choose_sequel(random) };
        run_scene(scene, &scene.script, &attack)
    }

    /// Returns a place in which such a message is due, or any place.
    fn choose_place(
        &self,
        attack: &FieldAttack,
        random: &mut SplitMix64,
    ) -> (&SessionScene, usize) {
        let name = message_name(&attack.message);
        let mut places = Vec::new();
        for scene in &self.scenes {
            let due = |place: &usize| Some(scene.messages[*place].name()) == name;
            let due = (0..scene.messages.len()).filter(due);
            places.extend(due.map(|place| (scene, place)));
        }
        if places.is_empty() || random.below(4) == 0 {
            let scene = &self.scenes[random.below(self.scenes.len())];
            return (scene, random.below(scene.messages.len() + 1));
        }
        places[random.below(places.len())]
    }
}

/// Returns the script with this result in the place of all results of its kind.
fn lying_script(scene: &SessionScene, frame: &[u8]) -> PeerScript {
    let lie: Option<Value> = frame.get(4..).and_then(|text| serde_json::from_slice(text).ok());
    let told = |message: &ControlMessage, bytes: &Vec<u8>| {
        let mut lie = lie.clone()?;
        let honest = serde_json::to_value(message).ok()?;
        let kind = message.name();
        for key in ["forward", "index"] {
            if let Some(value) = honest[kind].get(key) {
                *lie.get_mut(kind)?.get_mut(key)? = value.clone();
            }
        }
        Some(frame_text(lie.to_string().as_bytes())).filter(|it| it != bytes)
    };
    let script = scene.script.iter().zip(&scene.messages);
    script
        .map(|((due, bytes), message)| {
            (*due, told(message, bytes).unwrap_or_else(|| bytes.clone()))
        })
        .collect()
}

fn message_name(message: &Value) -> Option<&str> {
    message.as_str().or_else(|| message.as_object()?.keys().next().map(String::as_str))
}

/// Runs a client whose server has more samples of each stream than an engine keeps.
pub fn run_endless_results() -> CourseRecord {
    let mut scene = list_scenes().swap_remove(0);
    let samples = vec![StreamSample::default(); 90_000];
    let end = StreamEnd { samples, ..StreamEnd::default() };
    let (due, _) = scene.script.pop().expect("the end of the results");
    scene.script.truncate(scene.script.len() - STREAMS as usize);
    let streams = 16;
    scene.script.extend((0..streams).map(|index| {
        let result = StreamResult { forward: true, index, end: end.clone() };
        let message = ControlMessage::Stream(Box::new(result));
        (due, encode_frame(&message, MAX_RESULT_BYTES).expect("within the limit"))
    }));
    let plan = ThroughputPlan { streams, ..plan(RunDirection::Forward) };
    scene.purpose = SessionPurpose::Run(Box::new(plan));
    run_scene(&scene, &scene.script, &honest_peer(&scene.script))
}

pub fn run_scene(scene: &SessionScene, script: &PeerScript, attack: &PeerAttack) -> CourseRecord {
    let budget = match scene.role {
        SessionRole::Client => CLIENT_BUDGET,
        SessionRole::Server => SERVER_BUDGET,
    };
    let mut victim = SessionVictim::new(scene);
    let record = run_measured(&mut victim, script, attack, MAX_COURSE, budget);
    if victim.closed == Some(SessionEnd::Finished) {
        victim.check_results();
    }
    record
}
