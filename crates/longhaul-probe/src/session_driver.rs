//! Moves bytes between a session and its control connection, and lets the hooks of one role carry
//! out the session's actions. All rules are in [`crate::session`].

use crate::engine::{
    DataSocket, DatagramFormat, EndRun, EndSpec, EngineError, EngineResult,
    EngineResult as LocalEnd, StreamEnding, TransferRole as Flow,
};
use crate::secure::{ChannelEvent, ControlChannel};
use crate::session::{
    EngineStart, Session, SessionAction, SessionEnd, SessionInput, SessionState, TransferProgress,
};
use crate::wire::{
    Base64Bytes, ControlMessage, DirectionResult, FrameSplitter, IntervalCounters,
    MAX_BASE64_BYTES, MAX_FRAME_BYTES, MAX_RESULT_BYTES, StreamPreamble, StreamResult,
    encode_frame,
};
use longhaul_model::report::v1::plan::ThroughputPlan;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The poll interval of the engine while payload flows: a thread that wakes up preempts a stream's
/// thread, at this end or at the peer's.
pub const TRANSFER_POLL: Duration = Duration::from_millis(250);
/// The poll interval of the engine when the transfer may be over.
const ENGINE_POLL: Duration = Duration::from_millis(10);
const STREAMS_POLL: Duration = Duration::from_millis(2);
/// The interval at which the hooks are polled in other states (is the program being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(200);
/// The time limit for pending messages when a session closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The actions of one role outside the protocol.
pub(crate) trait SessionHooks {
    /// Performs an action of the session; the returned input is fed back to it.
    fn act(&mut self, action: SessionAction) -> Result<Option<SessionInput>, EngineError>;

    /// Checks for local events.
    fn poll(&mut self, session: &Session, now: Duration) -> Option<SessionInput>;

    /// Returns whether local events may occur at any time. Then `poll` is called every few
    /// milliseconds while the session works or opens its streams.
    fn expects_events(&self) -> bool {
        true
    }
}

/// A session that is in progress.
pub(crate) struct SessionDriver {
    channel: ControlChannel,
    session: Session,
    decoder: FrameSplitter,
    epoch: Instant,
    closed: Option<SessionEnd>,
    /// Inputs that resulted from actions, in order.
    inputs: VecDeque<SessionInput>,
}

impl SessionDriver {
    /// Creates a driver; `epoch` is the zero of the session's clock.
    pub fn new(channel: ControlChannel, session: Session, epoch: Instant) -> Self {
        SessionDriver {
            channel,
            session,
            decoder: FrameSplitter::new(MAX_FRAME_BYTES),
            epoch,
            closed: None,
            inputs: VecDeque::new(),
        }
    }

    /// Runs until the session closes. Returns the reason, and the session.
    pub fn run(mut self, hooks: &mut dyn SessionHooks) -> (SessionEnd, Session) {
        self.feed(hooks, SessionInput::Start);
        while self.closed.is_none() {
            let until = self.wake_at(hooks);
            self.poll_once(hooks, until);
        }
        self.close()
    }

    /// Waits for input until `until`, then polls the hooks and checks the deadlines.
    pub fn poll_once(&mut self, hooks: &mut dyn SessionHooks, until: Instant) {
        self.receive(hooks, until);
        let now = self.epoch.elapsed();
        if let Some(input) = hooks.poll(&self.session, now) {
            self.feed(hooks, input);
        }
        self.feed(hooks, SessionInput::Tick);
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The reason why the session ended, if it has.
    pub fn closed(&self) -> Option<&SessionEnd> {
        self.closed.as_ref()
    }

    /// Sends the pending messages and closes the connection.
    pub fn close(self) -> (SessionEnd, Session) {
        self.channel.close(Instant::now() + CLOSE_TIMEOUT);
        let gone =
            SessionEnd::Cut { step: self.session.state(), why: "connection closed".to_owned() };
        (self.closed.unwrap_or(gone), self.session)
    }

    /// Returns the time at which the hooks or the session must be polled again.
    pub fn wake_at(&self, hooks: &dyn SessionHooks) -> Instant {
        let poll = match self.session.state() {
            SessionState::Opening | SessionState::Working if hooks.expects_events() => STREAMS_POLL,
            SessionState::Running => self.flow_time_left().clamp(ENGINE_POLL, TRANSFER_POLL),
            SessionState::Draining => ENGINE_POLL,
            _ => IDLE_POLL,
        };
        let poll = Instant::now() + poll;
        let deadline = self.session.next_deadline().map(|at| self.epoch + at);
        deadline.map_or(poll, |deadline| deadline.min(poll))
    }

    fn flow_time_left(&self) -> Duration {
        let until = self.session.flows_until();
        until.map_or(Duration::ZERO, |until| until.saturating_sub(self.epoch.elapsed()))
    }

    fn receive(&mut self, hooks: &mut dyn SessionHooks, until: Instant) {
        match self.channel.poll(until) {
            ChannelEvent::Nothing => {}
            ChannelEvent::Cut(why) => self.feed(hooks, SessionInput::Cut(why)),
            ChannelEvent::Bytes(bytes) => {
                let bytes = bytes.to_vec();
                self.decode(hooks, &bytes);
            }
        }
    }

    fn decode(&mut self, hooks: &mut dyn SessionHooks, mut bytes: &[u8]) {
        self.feed(hooks, SessionInput::BytesReceived);
        while !bytes.is_empty() && self.closed.is_none() {
            self.decoder.set_limit(self.session.max_message_bytes());
            match self.decoder.next_message(&mut bytes) {
                Ok(Some(message)) => self.feed(hooks, SessionInput::Message(message)),
                Ok(None) => return,
                Err(error) => self.feed(hooks, SessionInput::Garbage(error.to_string())),
            }
        }
    }

    /// Feeds an input and all inputs that result from it, before more is received.
    pub fn feed(&mut self, hooks: &mut dyn SessionHooks, input: SessionInput) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.epoch.elapsed();
            for action in self.session.handle(now, input) {
                self.act(hooks, action);
            }
        }
    }

    fn act(&mut self, hooks: &mut dyn SessionHooks, action: SessionAction) {
        match action {
            SessionAction::Send(message) => self.send(&message),
            SessionAction::Close(closed) => self.closed = Some(closed),
            other => match hooks.act(other) {
                Ok(answer) => self.inputs.extend(answer),
                Err(error) => self.inputs.push_back(SessionInput::Failed(error.to_string())),
            },
        }
    }

    fn send(&mut self, message: &ControlMessage) {
        let limit = match message {
            ControlMessage::Capture { .. }
            | ControlMessage::Stream(_)
            | ControlMessage::End(_)
            | ControlMessage::Answer(_) => MAX_RESULT_BYTES,
            _ => MAX_FRAME_BYTES,
        };
        match encode_frame(message, limit) {
            Ok(frame) => self.channel.queue(&frame),
            Err(error) => {
                let what = format!("cannot send `{}`: {error}", message.name());
                self.inputs.push_back(SessionInput::Failed(what));
            }
        }
    }
}

/// Returns the messages to send: for each direction its streams, then the end.
pub(crate) fn split_results(collected: SessionResults) -> Vec<ControlMessage> {
    let received = collected.receiver.map(|local| split_direction(true, local));
    let sent = collected.sender.map(|local| split_direction(false, local));
    received.into_iter().chain(sent).flatten().collect()
}

/// Splits a capture file into messages, to be sent before the results.
pub(crate) fn split_capture(file: &[u8]) -> impl Iterator<Item = ControlMessage> {
    let pieces = file.chunks(MAX_BASE64_BYTES);
    pieces.map(|piece| {
        let bytes = Base64Bytes(piece.to_vec());
        ControlMessage::Capture { bytes }
    })
}

fn split_direction(forward: bool, local: LocalEnd) -> Vec<ControlMessage> {
    let streams = (0..).zip(local.streams);
    let streams = streams.map(|(index, end)| StreamResult { forward, index, end });
    let end = DirectionResult { forward, end: local.end, caveats: local.caveats };
    let streams = streams.map(|result| ControlMessage::Stream(Box::new(result)));
    streams.chain([ControlMessage::End(Box::new(end))]).collect()
}

/// The data sockets of a session by direction, ordered by index.
#[derive(Debug, Default)]
pub struct SessionSockets {
    pub forward: Vec<DataSocket>,
    pub reverse: Vec<DataSocket>,
}

impl SessionSockets {
    /// Groups sockets by direction and keeps their order.
    pub(crate) fn by_direction(
        streams: impl Iterator<Item = (StreamPreamble, DataSocket)>,
    ) -> SessionSockets {
        let mut sockets = SessionSockets::default();
        for (preamble, socket) in streams {
            let way = if preamble.forward { &mut sockets.forward } else { &mut sockets.reverse };
            way.push(socket);
        }
        sockets
    }
}

impl EngineStart {
    /// Returns the specification of an end with longhaul's wire format; `epoch` is the zero of the
    /// session's clock.
    pub(crate) fn end_spec(
        self,
        plan: &ThroughputPlan,
        initiator: bool,
        epoch: Instant,
    ) -> EndSpec {
        EndSpec {
            plan: ThroughputPlan { stop: self.stop, ..plan.clone() },
            initiator,
            idle_rtt: Some(self.idle_rtt),
            origin: epoch + self.origin,
            heads: DatagramFormat::Longhaul,
            ending: StreamEnding::HalfClosed,
        }
    }
}

/// The engines of this end.
pub struct SessionEngines {
    pub sender: Option<EndRun>,
    pub receiver: Option<EndRun>,
}

/// The results of this end's engines.
#[derive(Debug, Default)]
pub struct SessionResults {
    pub sender: Option<EngineResult>,
    pub receiver: Option<EngineResult>,
}

impl SessionEngines {
    pub fn start(spec: &EndSpec, sockets: SessionSockets) -> Result<SessionEngines, EngineError> {
        let (sends, receives) = if spec.initiator {
            (sockets.forward, sockets.reverse)
        } else {
            (sockets.reverse, sockets.forward)
        };
        let run = |role, sockets: Vec<DataSocket>| {
            let wanted = !sockets.is_empty();
            wanted.then(|| EndRun::start(spec.clone(), role, sockets)).transpose()
        };
        Ok(SessionEngines {
            sender: run(Flow::Sender, sends)?,
            receiver: run(Flow::Receiver, receives)?,
        })
    }

    pub fn go(&self) {
        // The receiver starts first, so that its clock covers the first bytes.
        self.receiver.iter().chain(&self.sender).for_each(EndRun::go);
    }

    pub fn stop(&self) {
        self.receiver.iter().chain(&self.sender).for_each(EndRun::stop);
    }

    /// Ends the time of the sender now; data in flight still arrives.
    pub fn stop_sending(&self) {
        self.sender.iter().for_each(EndRun::stop_sending);
    }

    /// Returns the progress for the session.
    pub fn progress(&self) -> TransferProgress {
        let sender = self.sender.as_ref().map(EndRun::progress);
        let receiver = self.receiver.as_ref().map(EndRun::progress);
        let elapsed = sender.iter().chain(&receiver).map(|p| p.elapsed).max();
        TransferProgress {
            interval: IntervalCounters {
                elapsed_us: elapsed.unwrap_or_default().as_micros() as u64,
                sent_bytes: sender.map(|progress| progress.bytes),
                received_bytes: receiver.map(|progress| progress.bytes),
            },
            sent: self.has_sent_all(),
            drained: self.receiver.as_ref().is_none_or(EndRun::finished),
        }
    }

    /// Returns whether this end has sent everything. The receivers then see the end of each stream,
    /// so a peer that knows one may wait for the other.
    pub fn has_sent_all(&self) -> bool {
        self.sender.as_ref().is_none_or(EndRun::finished)
    }

    pub fn collect(mut self) -> SessionResults {
        self.end_runs()
    }

    fn end_runs(&mut self) -> SessionResults {
        SessionResults {
            sender: self.sender.take().map(EndRun::end),
            receiver: self.receiver.take().map(EndRun::end),
        }
    }
}

impl Drop for SessionEngines {
    /// Ends the threads of a session that was cut.
    fn drop(&mut self) {
        self.end_runs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::plan::StopCondition;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(120);

    /// Returns a time-limited sender on one connection, and the connection's other side.
    fn sending() -> (SessionEngines, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("its address"));
        let (far, _) = listener.accept().expect("a connection");
        far.set_read_timeout(Some(SOON)).expect("a timeout");
        let plan =
            ThroughputPlan { stop: StopCondition::TimeUs(100_000), ..ThroughputPlan::default() };
        let start =
            EngineStart { stop: plan.stop, origin: Duration::ZERO, idle_rtt: Duration::ZERO };
        let spec = start.end_spec(&plan, true, Instant::now());
        let sockets = SessionSockets {
            forward: vec![DataSocket::Tcp(near.expect("a connection"))],
            reverse: Vec::new(),
        };
        (SessionEngines::start(&spec, sockets).expect("engines"), far)
    }

    #[test]
    fn whoever_hears_that_all_is_sent_need_not_ask_again_for_the_stream_to_end() {
        let (engines, mut far) = sending();
        let reader = std::thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()));
        engines.go();
        let began = Instant::now();
        while !engines.has_sent_all() && began.elapsed() < SOON {
            std::thread::yield_now();
        }
        let read = reader.join().expect("a reader").expect("the stream's end");
        assert!(read > 0);
        let sender = engines.collect().sender.expect("a sender");
        assert_eq!(sender.end.bytes, read);
    }
}
