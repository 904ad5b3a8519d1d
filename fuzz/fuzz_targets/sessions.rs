//! Both roles of both protocols as state machines: any inputs in any order, at any times, and two
//! ends that exchange messages over a path that delays, changes, repeats and loses them. No panic,
//! few actions for each input, and every session ends once its deadlines have passed.

#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::json_edits::edit_value;
use longhaul_iperf3::client_run::{ClientAction, ClientInput, ClientProtocol};
use longhaul_iperf3::iperf3_messages::{Iperf3Error, TestCookie, TestParameters, TestResults};
use longhaul_iperf3::server_protocol::{ServerAction, ServerInput, ServerProtocol};
use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_probe::secure::AuthToken;
use longhaul_probe::session::{
    Session, SessionAction, SessionInput, SessionPurpose, SessionSetup, SessionState,
    TransferProgress,
};
use longhaul_probe::wire::{
    AnonymousLimits, ControlMessage, FrameSplitter, IntervalCounters, MAX_FRAME_BYTES,
    MAX_RESULT_BYTES, ProbeBounds, SessionNonce, SessionReply, SessionRequest, encode_frame,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// The actions in answer to one input, own results apart.
const MAX_ACTIONS: usize = 16;
/// The longest run or probe session, with its exchange of results.
const MAX_LIFE: Duration = Duration::from_secs(86_400 + 3600);
/// The messages on the way in one direction; further ones are lost.
const MAX_IN_FLIGHT: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((&course, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Unstructured::new(rest);
    // A course stops where the input ends.
    let _ = match course % 5 {
        0 => receive_frames(rest),
        1 => run_one_end(&mut input),
        2 => run_two_ends(&mut input),
        3 => run_iperf3_server(&mut input),
        _ => run_iperf3_client(&mut input),
    };
});

/// A session with its clock, and a driver that does at once what it is told, or nothing.
struct SessionDriver {
    session: Session,
    now: Duration,
    obeys: bool,
    closes: u32,
    outbox: VecDeque<ControlMessage>,
}

impl SessionDriver {
    fn new(session: Session, obeys: bool) -> SessionDriver {
        let mut driver = SessionDriver {
            session,
            now: Duration::ZERO,
            obeys,
            closes: 0,
            outbox: VecDeque::new(),
        };
        driver.feed(SessionInput::Start);
        driver
    }

    fn feed(&mut self, input: SessionInput) {
        let results = match &input {
            SessionInput::Results(results) => results.len(),
            _ => 0,
        };
        let actions = self.session.handle(self.now, input);
        assert!(actions.len() <= MAX_ACTIONS + results, "{actions:?}");
        assert!(self.closes == 0 || actions.is_empty(), "{actions:?} after the end");
        let answers: Vec<_> = actions.into_iter().filter_map(|it| self.carry_out(it)).collect();
        if self.obeys {
            answers.into_iter().for_each(|answer| self.feed(answer));
        }
    }

    fn carry_out(&mut self, action: SessionAction) -> Option<SessionInput> {
        Some(match action {
            SessionAction::Admit(_) => SessionInput::Admitted(SessionNonce([0; 16])),
            SessionAction::OpenStreams(_) => SessionInput::StreamsOpen,
            SessionAction::StartEngine(_) => SessionInput::EngineReady,
            SessionAction::Collect => SessionInput::Results(Vec::new()),
            SessionAction::Ask(_) => SessionInput::Answer(Box::new(SessionReply::Armed)),
            SessionAction::Answer(answer) => {
                read_times(&answer);
                SessionInput::Ask(Box::new(SessionRequest::Options))
            }
            SessionAction::Send(message) => {
                encode_frame(&message, MAX_RESULT_BYTES).expect("own messages are small");
                if self.outbox.len() < MAX_IN_FLIGHT {
                    self.outbox.push_back(message);
                }
                return None;
            }
            SessionAction::Close(_) => {
                self.closes += 1;
                return None;
            }
            _ => return None,
        })
    }

    /// Lets time pass as a driver would, without another word from the peer.
    fn outlive_peer(mut self) {
        let began = self.now;
        self.feed(SessionInput::Progress(progress(true, true, 0)));
        while let Some(deadline) = self.session.next_deadline() {
            self.now = self.now.max(deadline);
            self.feed(SessionInput::Tick);
            assert!(self.now < began + MAX_LIFE, "a session that never ends");
        }
        assert_eq!((self.session.state(), self.closes), (SessionState::Closed, 1));
    }
}

/// Reads what a far end says of times.
fn read_times(answer: &SessionReply) {
    let times: Vec<_> = match answer {
        SessionReply::Seen(seen) => seen.trains.iter().map(|train| &train.times).collect(),
        SessionReply::Sent(sent) => sent.trains.iter().map(|train| &train.times).collect(),
        _ => Vec::new(),
    };
    times.into_iter().for_each(|times| drop(times.decode()));
}

fn progress(sent: bool, drained: bool, bytes: u64) -> TransferProgress {
    let interval = IntervalCounters { received_bytes: Some(bytes), ..IntervalCounters::default() };
    TransferProgress { interval, sent, drained }
}

fn setup(has_token: bool) -> SessionSetup {
    SessionSetup {
        token: AuthToken::new("a token of some length").filter(|_| has_token),
        exporter: [0; 32],
        party: RunParty::default(),
        boot_proof: Some("boot".to_owned()),
        same_address: false,
    }
}

fn probe_bounds() -> ProbeBounds {
    ProbeBounds { flows: 1, most_bytes: 1_000_000, most_time_us: 10_000_000, dscp: None }
}

fn choose_client(input: &mut Unstructured<'_>) -> Result<Session> {
    let direction =
        *input.choose(&[RunDirection::Forward, RunDirection::Reverse, RunDirection::Both])?;
    let stop = *input.choose(&[
        StopCondition::TimeUs(2_000_000),
        StopCondition::Bytes(1 << 20),
        StopCondition::Blocks(100),
    ])?;
    let until_stopped = input.arbitrary()?;
    let plan =
        ThroughputPlan { direction, stop, streams: 2, until_stopped, ..ThroughputPlan::default() };
    let purpose = match input.ratio(1, 3)? {
        true => SessionPurpose::Probe(probe_bounds()),
        false => SessionPurpose::Run(Box::new(plan)),
    };
    Ok(Session::client(setup(input.arbitrary()?), purpose))
}

fn choose_server(input: &mut Unstructured<'_>) -> Result<Session> {
    let limits = AnonymousLimits::default();
    let strict = AnonymousLimits { rate_bps: Some(1_000_000), bytes: Some(1000), ..limits };
    let limits = *input.choose(&[Some(limits), Some(strict), None])?;
    Ok(Session::server(setup(input.arbitrary()?), limits, 128))
}

/// The bytes of a peer, cut into pieces, go to sessions of a run and of probes.
fn receive_frames(bytes: &[u8]) -> Result<()> {
    let Some((&cut, frames)) = bytes.split_first() else {
        return Ok(());
    };
    let mut decoder = FrameSplitter::new(MAX_FRAME_BYTES);
    let run = SessionPurpose::Run(Box::default());
    let probes = SessionPurpose::Probe(probe_bounds());
    let mut sessions = [
        Session::client(setup(false), run),
        Session::client(setup(false), probes),
        Session::server(setup(false), Some(AnonymousLimits::default()), 128),
    ]
    .map(|session| SessionDriver::new(session, true));
    for mut piece in frames.chunks(usize::from(cut).max(1)) {
        while let Some(input) = next_input(&mut decoder, &mut piece) {
            for driver in &mut sessions {
                driver.now += Duration::from_millis(3);
                driver.feed(input.clone());
            }
        }
    }
    sessions.into_iter().for_each(SessionDriver::outlive_peer);
    Ok(())
}

/// Returns what a driver makes of the next bytes; after garbage, nothing.
fn next_input(decoder: &mut FrameSplitter, piece: &mut &[u8]) -> Option<SessionInput> {
    if piece.is_empty() {
        return None;
    }
    match decoder.next_message(piece) {
        Ok(message) => message.map(SessionInput::Message),
        Err(error) => {
            *piece = &[];
            Some(SessionInput::Garbage(error.to_string()))
        }
    }
}

/// Small messages of every kind.
const MESSAGES: [&str; 26] = [
    r#"{"hello":{"versions":{"least":4,"most":4},"longhaul":""}}"#,
    r#"{"proof":{}}"#,
    r#"{"proof":{"token_proof":"00"}}"#,
    r#"{"welcome":{"party":{"host":""}}}"#,
    r#"{"welcome":{"party":{"host":""},"limits":{"seconds":30,"streams":16,"concurrent":4,"rate_bps":1000,"bytes":1000}}}"#,
    r#"{"probe":{"bounds":{"flows":1,"most_bytes":1,"most_time_us":1},"party":{"host":""}}}"#,
    r#"{"accept":{"nonce":"00000000000000000000000000000000"}}"#,
    r#""opened""#,
    r#"{"ping":{"number":0}}"#,
    r#"{"pong":{"number":0,"at_us":0}}"#,
    r#"{"prepare":{"origin_us":0,"idle_rtt_us":0,"same_host":false}}"#,
    r#""prepared""#,
    r#""go""#,
    r#"{"interval":{"elapsed_us":0,"sent_bytes":1,"received_bytes":1}}"#,
    r#""sent""#,
    r#""stop""#,
    r#""drained""#,
    r#"{"capture":{"bytes":"AAAA"}}"#,
    r#"{"ask":"options"}"#,
    r#"{"ask":{"send":[{"index":0,"purpose":"burst","packets":10,"packet_bytes":1500,"schedule":{"rate_bps":1000000},"pause_us":0}]}}"#,
    r#"{"ask":{"collect":{"wait_us":1000}}}"#,
    r#"{"answer":"armed"}"#,
    r#"{"answer":{"sent":{"trains":[{"index":0,"micro_burst_packets":1,"times":{"first_ns":0,"steps":[0,1,-1]}}]}}}"#,
    r#"{"bye":"finished"}"#,
    r#"{"bye":{"refused":"no"}}"#,
    r#"{"end":{"forward":true,"end":{},"caveats":[]}}"#,
];

fn choose_message(input: &mut Unstructured<'_>) -> Result<Option<ControlMessage>> {
    let number = usize::from(u8::arbitrary(input)?) % (MESSAGES.len() + 2);
    let mut value = match (MESSAGES.get(number), number - number.min(MESSAGES.len())) {
        (Some(text), _) => serde_json::from_str(text).expect("a message"),
        (None, 0) => json!({"propose": {"plan": ThroughputPlan::default(), "party": {"host": ""}}}),
        (None, _) => json!({"stream": {"forward": true, "index": 0, "end": {}}}),
    };
    change_message(&mut value, input)
}

/// Changes one of four messages.
fn change_message(
    value: &mut Value,
    input: &mut Unstructured<'_>,
) -> Result<Option<ControlMessage>> {
    if input.ratio(1, 4)? {
        edit_value(value, input)?;
    }
    Ok(ControlMessage::deserialize(ForeignDeserializer(&*value)).ok())
}

fn choose_input(input: &mut Unstructured<'_>) -> Result<SessionInput> {
    Ok(match u8::arbitrary(input)? % 24 {
        0 => SessionInput::BytesReceived,
        1 => SessionInput::Admitted(SessionNonce([7; 16])),
        2 => SessionInput::NotAdmitted("no".to_owned()),
        3 => SessionInput::StreamsOpen,
        4 => SessionInput::EngineReady,
        5 | 6 => SessionInput::Progress(progress(
            input.arbitrary()?,
            input.arbitrary()?,
            input.arbitrary()?,
        )),
        7 => SessionInput::Results(choose_message(input)?.into_iter().collect()),
        8 => SessionInput::Ask(Box::new(SessionRequest::Options)),
        9 => SessionInput::Answer(Box::new(SessionReply::Armed)),
        10 => SessionInput::NoMoreRequests,
        11 => SessionInput::Interrupted,
        12 => SessionInput::Cut("cut".to_owned()),
        13 => SessionInput::Failed("failed".to_owned()),
        14 | 15 => SessionInput::Tick,
        _ => choose_message(input)?.map_or(SessionInput::BytesReceived, SessionInput::Message),
    })
}

/// Returns some milliseconds, or rarely up to a day.
fn choose_pause(input: &mut Unstructured<'_>) -> Result<Duration> {
    let short = u16::arbitrary(input)?;
    let unit_ms = if short % 16 == 15 { 1300 } else { 1 };
    Ok(Duration::from_millis(u64::from(short / 16) * unit_ms))
}

/// One end receives any inputs, whether its driver has been asked for them or not.
fn run_one_end(input: &mut Unstructured<'_>) -> Result<()> {
    let session = match input.arbitrary()? {
        true => choose_client(input)?,
        false => choose_server(input)?,
    };
    let mut driver = SessionDriver::new(session, input.arbitrary()?);
    let mut run = |driver: &mut SessionDriver| -> Result<()> {
        while !input.is_empty() {
            driver.now += choose_pause(input)?;
            driver.feed(choose_input(input)?);
        }
        Ok(())
    };
    let end = run(&mut driver);
    driver.outlive_peer();
    end
}

/// Two ends with a path between them.
fn run_two_ends(input: &mut Unstructured<'_>) -> Result<()> {
    let mut ends = [
        SessionDriver::new(choose_client(input)?, true),
        SessionDriver::new(choose_server(input)?, true),
    ];
    let end = exchange_messages(&mut ends, input);
    ends.into_iter().for_each(SessionDriver::outlive_peer);
    end
}

fn exchange_messages(ends: &mut [SessionDriver; 2], input: &mut Unstructured<'_>) -> Result<()> {
    while !input.is_empty() {
        let step = u8::arbitrary(input)?;
        let (from, to) = (usize::from(step >> 7), usize::from(step >> 7 ^ 1));
        let message = ends[from].outbox.pop_front();
        let feed = match (step % 16, message) {
            (0, message) => {
                let pause = choose_pause(input)?;
                ends.iter_mut().for_each(|end| end.now += pause);
                message.map(|message| ends[from].outbox.push_front(message));
                Some(SessionInput::Tick)
            }
            (1, _) => Some(choose_input(input)?),
            (2, Some(message)) => {
                let mut value = serde_json::to_value(&message).expect("JSON");
                change_message(&mut value, input)?.map(SessionInput::Message)
            }
            (3, Some(message)) => {
                ends[from].outbox.push_front(message.clone());
                Some(SessionInput::Message(message))
            }
            (4, _) => Some(SessionInput::Progress(progress(true, true, u64::from(step)))),
            (5, None) => Some(SessionInput::Interrupted),
            (_, message) => message.map(SessionInput::Message),
        };
        if let Some(feed) = feed {
            ends[to].now += Duration::from_millis(1);
            ends[to].feed(feed);
        }
    }
    Ok(())
}

/// Returns bytes as an iperf3 peer sends them: states, framed JSON, or anything.
fn choose_iperf3_bytes(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let framed = |value: &Value| encode_frame(value, MAX_RESULT_BYTES).unwrap_or_default();
    Ok(match u8::arbitrary(input)? % 5 {
        0 => vec![b'a'; 37],
        1 => {
            let parameters = TestParameters { tcp: true, ..TestParameters::default() };
            let mut value = serde_json::to_value(parameters).expect("JSON");
            edit_value(&mut value, input)?;
            framed(&value)
        }
        2 => {
            let mut value = serde_json::to_value(TestResults::default()).expect("JSON");
            edit_value(&mut value, input)?;
            framed(&value)
        }
        3 => vec![*input.choose(&[1, 2, 4, 9, 10, 11, 12, 13, 14, 15, 16, 254, 255])?],
        _ => {
            let count = usize::from(u8::arbitrary(input)? % 64).min(input.len());
            input.bytes(count)?.to_vec()
        }
    })
}

struct Iperf3ServerDriver {
    server: ServerProtocol,
    now: Duration,
    obeys: bool,
    closes: u32,
}

impl Iperf3ServerDriver {
    fn feed(&mut self, input: ServerInput<'_>) {
        let actions = self.server.handle(self.now, input);
        assert!(actions.len() <= MAX_ACTIONS, "{actions:?}");
        assert!(self.closes == 0 || actions.is_empty(), "{actions:?} after the end");
        let answers: Vec<_> = actions.into_iter().filter_map(|it| self.carry_out(&it)).collect();
        if self.obeys {
            for answer in answers {
                self.feed(answer);
                self.feed(ServerInput::StreamsOpen);
            }
        }
    }

    fn carry_out(&mut self, action: &ServerAction) -> Option<ServerInput<'static>> {
        Some(match action {
            ServerAction::Admit(_) => ServerInput::Admitted,
            ServerAction::Run => ServerInput::Moved(1),
            ServerAction::Stop => ServerInput::Drained,
            ServerAction::Collect => ServerInput::Ready(Box::default()),
            ServerAction::Close(_) => {
                self.closes += 1;
                return None;
            }
            ServerAction::Send(_) => return None,
        })
    }
}

fn run_iperf3_server(input: &mut Unstructured<'_>) -> Result<()> {
    let longest = Duration::from_secs(3600);
    let mut driver = Iperf3ServerDriver {
        server: ServerProtocol::new(longest, Some(1 << 30)),
        now: Duration::ZERO,
        obeys: input.arbitrary()?,
        closes: 0,
    };
    driver.feed(ServerInput::Start);
    let mut run = |driver: &mut Iperf3ServerDriver| -> Result<()> {
        while !input.is_empty() {
            driver.now += choose_pause(input)?;
            let bytes = choose_iperf3_bytes(input)?;
            driver.feed(match u8::arbitrary(input)? % 16 {
                0 => ServerInput::Gone("cut".to_owned()),
                1 => ServerInput::Admitted,
                2 => ServerInput::Busy("busy".to_owned()),
                3 => ServerInput::StreamJoined,
                4 => ServerInput::StreamsOpen,
                5 => ServerInput::Moved(input.arbitrary()?),
                6 => ServerInput::Drained,
                7 => ServerInput::Ready(Box::default()),
                8 => ServerInput::Failed(Iperf3Error::Duration, "failed".to_owned()),
                9 => ServerInput::Terminate("stopped".to_owned()),
                10 => ServerInput::Tick,
                _ => ServerInput::Bytes(&bytes),
            });
        }
        Ok(())
    };
    let end = run(&mut driver);
    let began = driver.now;
    while driver.closes == 0 {
        driver.now = driver.now.max(driver.server.next_deadline().expect("each step has one"));
        driver.feed(ServerInput::Tick);
        assert!(driver.now < began + MAX_LIFE, "a test that never ends");
    }
    end
}

fn run_iperf3_client(input: &mut Unstructured<'_>) -> Result<()> {
    let greeting = Duration::from_secs(10);
    let cookie = TestCookie([b'a'; 37]);
    let mut client = ClientProtocol::new(cookie, TestParameters::default(), greeting);
    let (mut now, mut closes, obeys) = (Duration::ZERO, 0, input.arbitrary()?);
    let mut feed = |client: &mut ClientProtocol, now: Duration, input: ClientInput<'_>| {
        let mut actions = client.handle(now, input);
        while let Some(action) = actions.pop() {
            assert!(actions.len() <= MAX_ACTIONS, "{actions:?}");
            let answer = match action {
                ClientAction::OpenStreams => ClientInput::StreamsOpen,
                ClientAction::Go => ClientInput::Moved { bytes: 1, over: true },
                ClientAction::Collect => ClientInput::Collected(Box::default()),
                ClientAction::Close(_) => {
                    closes += 1;
                    continue;
                }
                ClientAction::Send(_) | ClientAction::Ready => continue,
            };
            if obeys {
                actions.extend(client.handle(now, answer));
            }
        }
    };
    feed(&mut client, now, ClientInput::Start);
    let mut run = |client: &mut ClientProtocol, now: &mut Duration| -> Result<()> {
        while !input.is_empty() {
            *now += choose_pause(input)?;
            let bytes = choose_iperf3_bytes(input)?;
            let next = match u8::arbitrary(input)? % 16 {
                0 => ClientInput::Cut("cut".to_owned()),
                1 => ClientInput::StreamsOpen,
                2 => ClientInput::Moved { bytes: input.arbitrary()?, over: input.arbitrary()? },
                3 => ClientInput::Collected(Box::default()),
                4 => ClientInput::Failed("failed".to_owned()),
                5 => ClientInput::Interrupted,
                6 => ClientInput::Tick,
                _ => ClientInput::Bytes(&bytes),
            };
            feed(client, *now, next);
        }
        Ok(())
    };
    let end = run(&mut client, &mut now);
    let began = now;
    while let Some(deadline) = client.next_deadline() {
        now = now.max(deadline);
        feed(&mut client, now, ClientInput::Tick);
        assert!(now < began + MAX_LIFE, "a test that never ends");
    }
    assert_eq!(closes, 1, "closed once");
    end
}
