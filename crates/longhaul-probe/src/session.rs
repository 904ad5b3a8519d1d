//! One session: the permitted messages, their order and their deadlines. No socket, no clock.
//!
//! [`Session::handle`] takes an input and the time, and returns actions; [`Session::next_deadline`]
//! is the time by which it must be called again. The whole protocol is the one `match` in [`next_state`];
//! everything else computes the content of messages. The drivers ([`crate::throughput`],
//! [`crate::measurement_server`]) only move bytes and start engines.
//!
//! Times are offsets from the start of the session on this host's own clock.
//!
//! # Clock offset
//!
//! RTT and clock offset from exchanges on the idle control connection.
//!
//! The exchange with the minimum RTT had the least queueing: its offset is used, and half its RTT
//! bounds the error, however the path's delay is split between the directions. Wrong when the two
//! clocks run at different rates: 50 ppm are 0.5 ms in ten seconds.

mod client_session;
mod probe_requests;
mod server_session;
mod session_end;
mod state_table;

/// The number of exchanges before a run.
const MAX_EXCHANGES: u32 = 8;
/// The interval between pings: they do not wait for answers, so that timing costs one round trip.
const PING_INTERVAL: Duration = Duration::from_millis(5);

/// The best exchange so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub rtt: Duration,
    /// The server's clock minus the client's, in microseconds.
    pub offset_us: i64,
}

impl ClockReading {
    /// Computes the reading from local send and receive times, and the server's clock in between.
    pub fn from_exchange(sent: Duration, responder_us: u64, received: Duration) -> ClockReading {
        let middle_us = (sent + received).as_micros() as i64 / 2;
        ClockReading {
            rtt: received.saturating_sub(sent),
            offset_us: (responder_us.min(i64::MAX as u64) as i64).saturating_sub(middle_us),
        }
    }

    #[must_use]
    pub fn better_of(self, other: Option<ClockReading>) -> ClockReading {
        match other {
            Some(other) if other.rtt <= self.rtt => other,
            _ => self,
        }
    }

    /// Returns half the width of the offset's uncertainty.
    pub fn error(self) -> Duration {
        self.rtt / 2
    }

    /// Converts a local time to the server's clock; zero if that clock was not running yet.
    pub fn to_server_us(self, here: Duration) -> u64 {
        let us = (here.as_micros() as i64).saturating_add(self.offset_us);
        u64::try_from(us).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
mod transfer_phase;

pub use client_session::{ServerDirection, ServerResults};
pub use session_end::SessionEnd;
pub use state_table::{SessionEvent, SessionRole, SessionState, next_state};
pub(crate) use transfer_phase::sends_payload;

use crate::secure::{AuthToken, ExporterKey, make_proof};
use crate::wire::{
    AnonymousLimits, ByeReason, ControlMessage, HelloMessage, IntervalCounters, MAX_FRAME_BYTES,
    MAX_RESULT_BYTES, ProbeBounds, ProtocolVersions, SessionNonce, SessionReply, SessionRequest,
    TokenProof,
};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use std::time::Duration;

/// The timeout for a step that costs the peer a few round trips.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time that a connection may stay unproved.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between heartbeats while payload flows.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout without a byte from the peer on the control connection (or 20 round trips, if longer).
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);
/// The time that a peer counts as alive after payload moved, even if no heartbeat passes. On a full
/// path the control connection loses its packets, and payload moves on.
const PAYLOAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit of the time that a message may take after payload, if none passed during it.
const BACKOFF_TIMEOUT: Duration = Duration::from_secs(60);
/// The delay of a refusal because of the token, which slows down guessing.
pub const TOKEN_PENALTY: Duration = Duration::from_millis(500);
/// The time in which a run that its user has stopped ends (or 20 round trips, if longer).
pub const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the whole exchange of results.
pub const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the maximum time without a proof, from the start of the session: an unproved peer cannot
/// extend it. The client waits longer, so that it receives the verdict.
fn proof_timeout(role: SessionRole) -> Duration {
    match role {
        SessionRole::Client => STEP_TIMEOUT,
        SessionRole::Server => GREETING_TIMEOUT,
    }
}

/// An input of the session.
#[derive(Debug, Clone)]
pub enum SessionInput {
    /// The control connection is up.
    Start,
    Message(ControlMessage),
    /// Bytes arrived that are not a whole message yet.
    BytesReceived,
    /// Server: the run is admitted with this nonce.
    Admitted(SessionNonce),
    /// Server: the run cannot be admitted now, with the reason.
    NotAdmitted(String),
    /// All data streams of the session are open at this end.
    StreamsOpen,
    /// The engine is ready.
    EngineReady,
    /// The counters of this end's engine.
    Progress(TransferProgress),
    /// This end's results, in answer to [`SessionAction::Collect`].
    Results(Vec<ControlMessage>),
    /// Client: the next request of a probe session.
    Ask(Box<SessionRequest>),
    /// Server: the answer to [`SessionAction::Ask`].
    Answer(Box<SessionReply>),
    /// Client: there are no more requests.
    NoMoreRequests,
    /// Client: the user ends the run early.
    Interrupted,
    /// The control connection ended, with the reason.
    Cut(String),
    /// The received bytes are not a message.
    Garbage(String),
    /// This end cannot continue, with the reason.
    Failed(String),
    /// Time has passed.
    Tick,
}

/// The progress of this end's engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferProgress {
    pub interval: IntervalCounters,
    /// This end's sender, if there is one, has written everything.
    pub sent: bool,
    /// This end's receiver, if there is one, has read to the end.
    pub drained: bool,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    Send(ControlMessage),
    /// Server: find capacity for this request; answer [`SessionInput::Admitted`] or
    /// [`SessionInput::NotAdmitted`].
    Admit(Box<AdmissionRequest>),
    /// Client: open the data streams; answer [`SessionInput::StreamsOpen`]. (The server receives them from
    /// its listener and sends that input by itself.)
    OpenStreams(SessionNonce),
    /// Prepare the engine; answer [`SessionInput::EngineReady`].
    StartEngine(EngineStart),
    /// Start the flow of payload.
    Go,
    /// Stop senders and receivers now: the time or grace period is over.
    StopEngine,
    /// Stop the senders as if their time were over: the run ends early.
    StopSending,
    /// Take the engine's results. The server answers [`SessionInput::Results`] with its `stream` and `end`
    /// messages.
    Collect,
    /// Client: the server's counters.
    PeerInterval(IntervalCounters),
    /// Server: carry out this request; answer [`SessionInput::Answer`], now or later.
    Ask(Box<SessionRequest>),
    /// Client: the server's answer.
    Answer(Box<SessionReply>),
    /// Close the connection after sending.
    Close(SessionEnd),
}

/// The client's request for admission.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionRequest {
    pub purpose: SessionPurpose,
    pub party: RunParty,
    pub anonymous: Option<AnonymousLimits>,
}

/// The purpose of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionPurpose {
    /// One bulk run.
    Run(Box<ThroughputPlan>),
    /// Probes within these bounds.
    Probe(ProbeBounds),
}

/// The data that the engine needs about the path and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStart {
    /// As granted: a run that lasts until it is stopped has the limit of the server.
    pub stop: StopCondition,
    /// The zero of the common time line, on this session's clock.
    pub origin: Duration,
    pub idle_rtt: Duration,
}

/// The data that both roles have from the start.
#[derive(Debug, Clone)]
pub struct SessionSetup {
    pub token: Option<AuthToken>,
    /// Keying material of the control connection.
    pub exporter: ExporterKey,
    pub party: RunParty,
    pub boot_proof: Option<String>,
    /// Both ends of the control connection have the same address: there is no path between them.
    pub same_address: bool,
}

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    role: SessionRole,
    state: SessionState,
    setup: SessionSetup,
    /// The client's own purpose, or the proposed one.
    purpose: Option<SessionPurpose>,
    /// Client: what it has learnt.
    client: client_session::ClientState,
    /// Server: the limits of a client without the token; `None` rejects it.
    anonymous: Option<AnonymousLimits>,
    /// Server: the maximum number of streams in each direction.
    max_streams: u32,
    /// Server: the client has proved the token.
    proved: bool,
    /// The end of a probe session's time.
    ends_at: Option<Duration>,
    peer: Option<RunParty>,
    /// The newest version that both ends support, once the peer has said its own.
    version: Option<u16>,
    peer_boot_proof: Option<String>,
    deadline: Option<Duration>,
    last_received: Duration,
    idle_rtt: Option<Duration>,
    same_host: bool,
    transfer: transfer_phase::TransferState,
    /// A refusal that is sent later, to slow down the guessing of tokens.
    refusal: Option<(Duration, SessionEnd)>,
    actions: Vec<SessionAction>,
}

impl Session {
    /// Returns the client's end of a session.
    pub fn client(setup: SessionSetup, purpose: SessionPurpose) -> Self {
        Session { purpose: Some(purpose), ..Session::new(SessionRole::Client, setup) }
    }

    /// Returns the server's end of a session. `anonymous` are the limits of a client without the
    /// token; `None` rejects it.
    pub fn server(
        setup: SessionSetup,
        anonymous: Option<AnonymousLimits>,
        max_streams: u32,
    ) -> Self {
        Session { anonymous, max_streams, ..Session::new(SessionRole::Server, setup) }
    }

    fn new(role: SessionRole, setup: SessionSetup) -> Self {
        Session {
            role,
            state: SessionState::Greeting,
            setup,
            purpose: None,
            client: client_session::ClientState::default(),
            anonymous: None,
            max_streams: 0,
            proved: false,
            ends_at: None,
            peer: None,
            version: None,
            peer_boot_proof: None,
            deadline: Some(proof_timeout(role)),
            last_received: Duration::ZERO,
            idle_rtt: None,
            same_host: false,
            transfer: transfer_phase::TransferState::default(),
            refusal: None,
            actions: Vec::new(),
        }
    }

    pub fn role(&self) -> SessionRole {
        self.role
    }

    pub fn state(&self) -> SessionState {
        self.state
    }

    /// Returns the maximum size of the next message. Results are large; only the server sends them,
    /// and only on request.
    pub fn max_message_bytes(&self) -> usize {
        let telling = matches!(self.state, SessionState::Exchanging | SessionState::Working);
        if telling && self.role == SessionRole::Client { MAX_RESULT_BYTES } else { MAX_FRAME_BYTES }
    }

    /// Returns the peer's description of itself, once received.
    pub fn peer(&self) -> Option<&RunParty> {
        self.peer.as_ref()
    }

    /// Returns the protocol version of the session, once the peer has said its own.
    pub fn version(&self) -> Option<u16> {
        self.version
    }

    /// Returns whether both ends run under one kernel with no path between them.
    pub fn same_host(&self) -> bool {
        self.same_host
    }

    /// Returns whether both ends run under the same boot of one kernel, whatever is between them;
    /// `None` if one of them did not say.
    pub fn same_boot(&self) -> Option<bool> {
        let (ours, theirs) = (&self.setup.boot_proof, &self.peer_boot_proof);
        Some(ours.as_ref()? == theirs.as_ref()?)
    }

    /// Returns the plan of a bulk run, once proposed.
    pub(crate) fn plan(&self) -> Option<&ThroughputPlan> {
        match &self.purpose {
            Some(SessionPurpose::Run(plan)) => Some(plan),
            _ => None,
        }
    }

    /// Returns what the engine needs; `origin` is the zero of the common time line.
    fn engine_start(&self, origin: Duration, idle_rtt: Duration) -> SessionAction {
        let stop = self.plan().map_or(StopCondition::TimeUs(0), |plan| plan.stop);
        SessionAction::StartEngine(EngineStart { stop, origin, idle_rtt })
    }

    /// Expects and sends heartbeats from now on, in the state that was just entered.
    fn start_heartbeats(&mut self, now: Duration) {
        self.last_received = now;
        self.transfer.next_heartbeat = now + HEARTBEAT_INTERVAL;
        self.deadline = self.deadline_of_step(now);
    }

    /// Handles one input; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: SessionInput) -> Vec<SessionAction> {
        if matches!(input, SessionInput::Message(_) | SessionInput::BytesReceived) {
            self.last_received = now;
        }
        if self.state != SessionState::Closed {
            match input {
                SessionInput::Tick => {}
                // After a refusal, no other input changes the result.
                _ if self.refusal.is_some() && !matches!(input, SessionInput::Cut(_)) => {}
                other => self.take(now, other),
            }
            self.check_deadlines(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// Returns the time by which [`Session::handle`] must be called; `None` if closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.state == SessionState::Closed {
            return None;
        }
        let refusal = self.refusal.as_ref().map(|(at, _)| *at);
        let ends_by = self.transfer.ends_by;
        [self.deadline, refusal, self.silence_deadline(), self.next_timer(), ends_by]
            .into_iter()
            .flatten()
            .min()
    }

    fn take(&mut self, now: Duration, input: SessionInput) {
        match input {
            SessionInput::Start => self.greet(),
            SessionInput::Message(ControlMessage::Bye(bye)) => self.on_bye(bye),
            SessionInput::Message(message) => self.on_message(now, message),
            SessionInput::Admitted(accept) => self.on_admitted(now, accept),
            SessionInput::NotAdmitted(why) => self.close(SessionEnd::WeRefused { what: why }),
            SessionInput::StreamsOpen => self.on_streams_open(now),
            SessionInput::EngineReady => self.on_engine_ready(now),
            SessionInput::Progress(progress) => self.on_progress(now, progress),
            SessionInput::Results(results) => self.on_results(results),
            SessionInput::Ask(ask) => self.on_request(now, *ask),
            SessionInput::Answer(answer) => self.on_request_done(now, *answer),
            SessionInput::NoMoreRequests => self.close(SessionEnd::Finished),
            SessionInput::Interrupted => self.interrupt_run(now),
            SessionInput::Cut(why) => self.close(SessionEnd::Cut { step: self.state, why }),
            SessionInput::Garbage(what) => self.violation(what),
            SessionInput::Failed(what) => {
                self.close(SessionEnd::OwnFailure { step: self.state, what });
            }
            SessionInput::BytesReceived | SessionInput::Tick => {}
        }
    }

    fn greet(&mut self) {
        self.send(ControlMessage::Hello(HelloMessage {
            versions: ProtocolVersions::OURS,
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        }));
        if self.role == SessionRole::Client {
            // Sent at once, which saves a round trip.
            let make = |token| make_proof(token, SessionRole::Client, &self.setup.exporter);
            let token_proof = self.setup.token.as_ref().map(make);
            self.send(ControlMessage::Proof(TokenProof { token_proof }));
        }
    }

    fn on_message(&mut self, now: Duration, message: ControlMessage) {
        // The version is checked before any other field of the first message.
        if let (SessionState::Greeting, ControlMessage::Hello(hello)) = (self.state, &message) {
            let theirs = hello.versions;
            self.version = ProtocolVersions::OURS.newest_common(theirs);
            if self.version.is_none() {
                return self.close(SessionEnd::VersionDiffers { theirs });
            }
        }
        let before = self.state;
        if !self.is_permitted_kind(&message) || !self.step(SessionEvent::Message(&message)) {
            let what = format!("unexpected `{}` while {}", message.name(), self.state.describe());
            return self.violation(what);
        }
        // Messages within a state do not extend its deadline.
        if self.state != before {
            self.deadline = self.deadline_of_step(now);
        }
        match self.role {
            SessionRole::Client => self.client_receives(now, message),
            SessionRole::Server => self.server_receives(now, message),
        }
    }

    /// Takes one step of the state table; false if it is not permitted.
    fn step(&mut self, event: SessionEvent<'_>) -> bool {
        match next_state(self.role, self.state, event) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }

    /// Returns the deadline of the state that was just entered.
    fn deadline_of_step(&self, now: Duration) -> Option<Duration> {
        match self.state {
            SessionState::Greeting | SessionState::Proving => Some(proof_timeout(self.role)),
            SessionState::Negotiating
            | SessionState::Opening
            | SessionState::Timing
            | SessionState::Ready => Some(now + STEP_TIMEOUT),
            // Set by progress or by the request.
            SessionState::Running | SessionState::Draining | SessionState::Working => self.deadline,
            SessionState::Exchanging => Some(now + EXCHANGE_TIMEOUT),
            SessionState::Asking => self.ends_at,
            SessionState::Closed => None,
        }
    }

    fn silence_timeout(&self) -> Duration {
        SILENCE_TIMEOUT.max(self.idle_rtt.unwrap_or_default() * 20)
    }

    fn silence_deadline(&self) -> Option<Duration> {
        let heard = self.last_received + self.silence_timeout();
        let moved = self.transfer.moved_at.map(|at| at + PAYLOAD_TIMEOUT + self.backoff_time());
        self.sends_heartbeats().then(|| heard.max(moved.unwrap_or_default()))
    }

    /// Returns whether both ends send heartbeats in this state.
    fn sends_heartbeats(&self) -> bool {
        use SessionState::{Asking, Draining, Exchanging, Ready, Running, Working};
        matches!(self.state, Ready | Running | Draining | Exchanging | Asking | Working)
    }

    fn check_deadlines(&mut self, now: Duration) {
        if self.state == SessionState::Closed {
            return;
        }
        if let Some((at, _)) = &self.refusal {
            if now >= *at
                && let Some((_, closed)) = self.refusal.take()
            {
                self.close(closed);
            }
            return;
        }
        self.run_timers(now);
        let late = |deadline: Option<Duration>| deadline.is_some_and(|at| now >= at);
        let what = if late(self.silence_deadline()) {
            "no heartbeat arrived"
        } else if self.is_past_time_limit(now) {
            "the agreed probing time is over"
        } else if late(self.deadline) {
            "this step took too long"
        } else if late(self.transfer.ends_by) {
            "the server did not end the run in time"
        } else {
            return;
        };
        self.close(SessionEnd::TimedOut { step: self.state, what: what.to_owned() });
    }

    fn send(&mut self, message: ControlMessage) {
        self.actions.push(SessionAction::Send(message));
    }

    fn violation(&mut self, what: String) {
        self.close(SessionEnd::PeerViolation { step: self.state, what });
    }

    /// Ends the session: notifies the peer, if it can still receive, and the driver.
    fn close(&mut self, closed: SessionEnd) {
        if self.state == SessionState::Closed {
            return;
        }
        if let Some(bye) = closed.bye_message() {
            self.send(ControlMessage::Bye(bye));
        }
        self.step(SessionEvent::Ending);
        self.deadline = None;
        self.actions.push(SessionAction::Close(closed));
    }

    fn on_bye(&mut self, bye: ByeReason) {
        let closed = SessionEnd::from_bye(self.role, self.state, bye);
        self.step(SessionEvent::Ending);
        self.actions.push(SessionAction::Close(closed));
    }
}

#[cfg(test)]
mod clock_offset_tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_least_round_trip_gives_the_offset() {
        // The server's clock is 1000 ms ahead; 86 ms each way; the second reply waited 40 ms.
        let clean = ClockReading::from_exchange(ms(100), 1_186_000, ms(272));
        let queued = ClockReading::from_exchange(ms(200), 1_286_000, ms(412));
        let best = queued.better_of(Some(clean)).better_of(None);
        assert_eq!(best.rtt, ms(172));
        assert_eq!(best.offset_us, 1_000_000);
        assert_eq!(best.error(), ms(86));
        assert_eq!(best.to_server_us(ms(500)), 1_500_000);
    }

    #[test]
    fn a_lying_clock_neither_overflows_nor_panics() {
        let reading = ClockReading::from_exchange(ms(1), u64::MAX, ms(2));
        assert!(reading.to_server_us(ms(u64::from(u32::MAX))) > 0);
        let past = ClockReading::from_exchange(ms(5000), 0, ms(5000));
        assert_eq!(past.to_server_us(ms(1)), 0);
    }
}
