//! Server side of a probe session: one thread that reads the flow, reflects echoes, and executes
//! requests one after another.
//!
//! It sends only to the address that has shown the session's nonce. An echo is as long as its
//! request. All traffic stays within the agreed byte limit.

use super::flow_reader::{self, FlowReader, SingleDatagram};
use super::reverse_survey::{self, ReverseSurveyor};
use super::train_sender::{TrainSender, headers_bytes};
use super::{DatagramKind, ProbeDatagramHeader, session_number};
use crate::engine::RunClock;
use crate::plan_limits::check_trains;
use crate::wire::{
    CollectTrains, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, SentTrains, SessionReply, SessionRequest,
    StreamPreamble,
};
use longhaul_model::report::v1::available::TrainPlan;
use longhaul_sys::poll;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a stop is noticed.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Handle of the thread, held by its session.
pub(crate) struct ProbeServer {
    asks: Option<SyncSender<SessionRequest>>,
    answers: Receiver<SessionReply>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    moved: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl ProbeServer {
    /// Starts the thread. `flow` is connected to the client, with the preamble that opened it;
    /// `None` if not requested. `epoch` is the zero of the server's times, and `max_bytes` limits
    /// the IP bytes of trains and echoes.
    pub fn start(
        flow: Option<(UdpSocket, StreamPreamble)>,
        epoch: Instant,
        max_bytes: u64,
        surveyor: ReverseSurveyor,
    ) -> io::Result<ProbeServer> {
        if let Some((socket, _)) = &flow {
            flow_reader::configure_socket(socket)?;
        }
        let wake = Arc::new(poll::wake_descriptor()?);
        let (ask, asks) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let moved = Arc::new(AtomicU64::new(0));
        let clock = RunClock(epoch);
        let session = flow.as_ref().map_or(0, |(_, hello)| session_number(hello.nonce));
        let flow = match flow {
            None => None,
            Some((socket, hello)) => Some(ProbeServerFlow {
                headers_bytes: headers_bytes(socket.peer_addr()?) as u64,
                sender: TrainSender::new(&socket, session, clock)?,
                socket,
                hello,
            }),
        };
        let worker = ProbeServerWorker {
            flow,
            reader: FlowReader::new(session, clock),
            surveyor,
            left_bytes: max_bytes,
            collect_deadline: None,
            asks,
            answers: answer,
            wake: Arc::clone(&wake),
            stop: Arc::clone(&stop),
            moved: Arc::clone(&moved),
        };
        let thread =
            std::thread::Builder::new().name("probes".to_owned()).spawn(move || worker.run())?;
        Ok(ProbeServer { asks: Some(ask), answers, wake, stop, moved, thread: Some(thread) })
    }

    /// Passes a request to the thread; returns false if it is busy or gone.
    pub fn try_request(&self, ask: SessionRequest) -> bool {
        let asks = self.asks.as_ref();
        let taken = asks.is_some_and(|asks| asks.try_send(ask).is_ok());
        taken && poll::signal_wake(self.wake.as_fd()).is_ok()
    }

    /// Returns the thread's answer once it is ready.
    pub fn poll_answer(&self) -> Result<SessionReply, TryRecvError> {
        self.answers.try_recv()
    }

    /// Returns the IP bytes of trains and echoes so far.
    pub fn sent_bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Drop for ProbeServer {
    /// Stops and joins the thread, for example when a session was aborted.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asks = None;
        // If the wake-up fails, the thread still notices the stop by itself.
        let _ = poll::signal_wake(self.wake.as_fd());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The server's end of the flow.
struct ProbeServerFlow {
    socket: UdpSocket,
    /// The preamble that opened the flow.
    hello: StreamPreamble,
    headers_bytes: u64,
    sender: TrainSender,
}

struct ProbeServerWorker {
    flow: Option<ProbeServerFlow>,
    reader: FlowReader,
    surveyor: ReverseSurveyor,
    left_bytes: u64,
    /// End of the wait for outstanding trains.
    collect_deadline: Option<Instant>,
    asks: Receiver<SessionRequest>,
    answers: SyncSender<SessionReply>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    moved: Arc<AtomicU64>,
}

impl ProbeServerWorker {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if self.wait().and_then(|()| self.read_flow()).is_err() {
                return;
            }
            match self.asks.try_recv() {
                Ok(ask) => self.handle_request(ask),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            self.collect_if_due();
        }
    }

    fn wait(&self) -> io::Result<()> {
        let left =
            self.collect_deadline.map(|until| until.saturating_duration_since(Instant::now()));
        let time = Some(left.unwrap_or(STOP_POLL_INTERVAL).min(STOP_POLL_INTERVAL));
        let wake = self.wake.as_fd();
        match &self.flow {
            Some(flow) => poll::wait_readable([flow.socket.as_fd(), wake], time).map(drop)?,
            None => poll::wait_readable([wake], time).map(drop)?,
        }
        poll::clear_wake(wake);
        Ok(())
    }

    fn read_flow(&mut self) -> io::Result<()> {
        let Some(flow) = &self.flow else {
            return Ok(());
        };
        let clock = self.reader.clock;
        let mut echo = EchoReflector {
            flow,
            clock,
            offset_ns: None,
            left_bytes: &mut self.left_bytes,
            moved: &self.moved,
        };
        self.reader.read(&flow.socket, &mut |single| echo.handle_datagram(single))
    }

    fn handle_request(&mut self, ask: SessionRequest) {
        let answer = match ask {
            SessionRequest::Arm(trains) => self.arm_trains(&trains),
            SessionRequest::Collect(CollectTrains { wait_us }) => {
                self.collect_deadline = Some(Instant::now() + Duration::from_micros(wait_us));
                return;
            }
            SessionRequest::Send(trains) => self.send_trains(&trains),
            other => self.surveyor.answer(other, &self.stop),
        };
        self.send_answer(answer);
    }

    fn send_answer(&self, answer: SessionReply) {
        // The session may be over and no longer receive it.
        let _ = self.answers.try_send(answer);
    }

    /// Deducts the trains' bytes from the remaining budget; fails if it is too small.
    fn spend_budget(&mut self, trains: &[TrainPlan]) -> Result<(), String> {
        let bytes = check_trains(trains).map_err(|error| error.to_string())?;
        let left = self.left_bytes;
        self.left_bytes = left.checked_sub(bytes).ok_or_else(|| {
            format!("trains of {bytes} bytes; {left} bytes are left of the agreed amount")
        })?;
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn arm_trains(&mut self, trains: &[TrainPlan]) -> SessionReply {
        if self.flow.is_none() {
            return SessionReply::Failed(NO_FLOW.to_owned());
        }
        if let Err(why) = self.spend_budget(trains) {
            return SessionReply::Failed(why);
        }
        let offset = self.reader.clock.wall_offset_ns();
        self.reader.recorder.arm(trains, offset);
        SessionReply::Armed
    }

    fn send_trains(&mut self, trains: &[TrainPlan]) -> SessionReply {
        if let Err(why) = self.spend_budget(trains) {
            return SessionReply::Failed(why);
        }
        let Some(flow) = &mut self.flow else {
            return SessionReply::Failed(NO_FLOW.to_owned());
        };
        let stop = &self.stop;
        let shots = trains.iter().map(|train| flow.sender.send(train, stop));
        SessionReply::Sent(SentTrains {
            trains: shots.collect(),
            interface_bps: reverse_survey::interface_bps(self.surveyor.local, self.surveyor.peer),
        })
    }

    fn collect_if_due(&mut self) {
        let Some(until) = self.collect_deadline else {
            return;
        };
        if self.reader.recorder.is_complete() || Instant::now() >= until {
            self.collect_deadline = None;
            let seen = self.reader.recorder.take_received();
            self.send_answer(SessionReply::Seen(seen));
        }
    }
}

const NO_FLOW: &str = "this session has no UDP flow";

/// Answers datagrams that belong to no train.
struct EchoReflector<'a> {
    flow: &'a ProbeServerFlow,
    clock: RunClock,
    offset_ns: Option<i64>,
    left_bytes: &'a mut u64,
    moved: &'a AtomicU64,
}

impl EchoReflector<'_> {
    fn handle_datagram(&mut self, single: &SingleDatagram<'_>) {
        match single.header {
            Some(header) if header.kind == DatagramKind::EchoWanted && !single.truncated => {
                self.reflect(header, single);
            }
            // The client repeats its hello because the acknowledgement was lost.
            None if StreamPreamble::decode(single.bytes, DATAGRAM_HELLO)
                == Some(self.flow.hello) =>
            {
                let _ = self.flow.socket.send(&self.flow.hello.encode(DATAGRAM_ACKNOWLEDGED));
            }
            _ => {}
        }
    }

    fn reflect(&mut self, header: ProbeDatagramHeader, single: &SingleDatagram<'_>) {
        let bytes = single.bytes.len() as u64 + self.flow.headers_bytes;
        let Some(left) = self.left_bytes.checked_sub(bytes) else {
            return;
        };
        *self.left_bytes = left;
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let offset = *self.offset_ns.get_or_insert_with(|| self.clock.wall_offset_ns());
        let mut datagram = single.bytes.to_vec();
        ProbeDatagramHeader {
            kind: DatagramKind::Echo,
            there_received_ns: single.arrival.monotonic_ns(offset),
            there_sent_ns: self.clock.now_ns(),
            ..header
        }
        .write(&mut datagram);
        // A full queue loses the echo like the network would.
        let _ = self.flow.socket.send(&datagram);
    }
}
