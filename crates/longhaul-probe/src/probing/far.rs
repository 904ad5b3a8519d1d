//! Server side of a probe session: one thread that reads the flow, reflects echoes, and executes
//! requests one after another.
//!
//! It sends only to the address that has shown the session's nonce. An echo is as long as its
//! request. All traffic stays within the agreed byte limit.

use super::clock::Clock;
use super::datagram::{Header, Kind, session_number};
use super::flow::{self, Reader, Single};
use super::sending::{Sender, headers_bytes};
use super::survey::Surveyor;
use crate::limits::check_trains;
use crate::wire::{
    Answer, Ask, Collect, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, Preamble, Sent, Times, TrainSent,
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
const WAKE: Duration = Duration::from_millis(100);

/// Parameters of the server side.
pub(crate) struct FarSetup {
    /// The flow, connected to the client, and the preamble that opened it; `None` if not requested.
    pub flow: Option<(UdpSocket, Preamble)>,
    /// Zero of the server's times.
    pub epoch: Instant,
    /// Limit of IP bytes of trains and echoes.
    pub most_bytes: u64,
    pub surveyor: Surveyor,
}

/// Handle of the thread, held by its session.
pub(crate) struct FarEnd {
    asks: Option<SyncSender<Ask>>,
    answers: Receiver<Answer>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    moved: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl FarEnd {
    pub fn start(setup: FarSetup) -> io::Result<FarEnd> {
        if let Some((socket, _)) = &setup.flow {
            flow::prepare(socket)?;
        }
        let wake = Arc::new(poll::wake_descriptor()?);
        let (ask, asks) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let moved = Arc::new(AtomicU64::new(0));
        let worker = Worker::new(
            setup,
            (asks, answer),
            (Arc::clone(&wake), Arc::clone(&stop), Arc::clone(&moved)),
        )?;
        let thread = std::thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || worker.run())?;
        Ok(FarEnd {
            asks: Some(ask),
            answers,
            wake,
            stop,
            moved,
            thread: Some(thread),
        })
    }

    /// Passes a request to the thread; returns false if it is busy or gone.
    pub fn ask(&self, ask: Ask) -> bool {
        let asks = self.asks.as_ref();
        let taken = asks.is_some_and(|asks| asks.try_send(ask).is_ok());
        taken && poll::wake(self.wake.as_fd()).is_ok()
    }

    /// Returns the thread's answer once it is ready, or an error if the thread is gone.
    pub fn answer(&self) -> Result<Option<Answer>, ()> {
        match self.answers.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(()),
        }
    }

    /// Returns the IP bytes of trains and echoes so far.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Drop for FarEnd {
    /// Stops and joins the thread, for example when a session was aborted.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asks = None;
        // If the wake-up fails, the thread still notices the stop by itself.
        let _ = poll::wake(self.wake.as_fd());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    flow: Option<(UdpSocket, Preamble, Sender)>,
    headers_bytes: usize,
    reader: Reader,
    surveyor: Surveyor,
    left_bytes: u64,
    /// End of the wait for outstanding trains.
    collecting: Option<Instant>,
    asks: Receiver<Ask>,
    answers: SyncSender<Answer>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    moved: Arc<AtomicU64>,
}

impl Worker {
    fn new(
        setup: FarSetup,
        (asks, answers): (Receiver<Ask>, SyncSender<Answer>),
        (wake, stop, moved): (Arc<OwnedFd>, Arc<AtomicBool>, Arc<AtomicU64>),
    ) -> io::Result<Worker> {
        let clock = Clock::new(setup.epoch);
        let mut headers = 0;
        let mut session = 0;
        let flow = match setup.flow {
            None => None,
            Some((socket, preamble)) => {
                session = session_number(preamble.nonce);
                headers = headers_bytes(socket.peer_addr()?);
                let sender = Sender::new(&socket, session, clock)?;
                Some((socket, preamble, sender))
            }
        };
        Ok(Worker {
            flow,
            headers_bytes: headers,
            reader: Reader::new(session, clock),
            surveyor: setup.surveyor,
            left_bytes: setup.most_bytes,
            collecting: None,
            asks,
            answers,
            wake,
            stop,
            moved,
        })
    }

    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if self.wait().and_then(|()| self.read()).is_err() {
                return;
            }
            match self.asks.try_recv() {
                Ok(ask) => self.take(ask),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            self.collect_when_due();
        }
    }

    fn wait(&self) -> io::Result<()> {
        let left = self
            .collecting
            .map(|until| until.saturating_duration_since(Instant::now()));
        let time = Some(left.unwrap_or(WAKE).min(WAKE));
        let wake = self.wake.as_fd();
        match &self.flow {
            Some((socket, ..)) => poll::readable([socket.as_fd(), wake], time).map(drop)?,
            None => poll::readable([wake], time).map(drop)?,
        }
        poll::clear_wake(wake);
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let Some((socket, preamble, _)) = &self.flow else {
            return Ok(());
        };
        let clock = self.reader.clock;
        let mut echo = Reflection {
            socket,
            preamble,
            clock,
            offset_ns: None,
            headers_bytes: self.headers_bytes as u64,
            left_bytes: &mut self.left_bytes,
            moved: &self.moved,
            buffer: Vec::new(),
        };
        self.reader
            .read(socket, &mut |single| echo.answer(single))
            .map(drop)
    }

    fn take(&mut self, ask: Ask) {
        let answer = match ask {
            Ask::Arm(trains) => self.arm(&trains),
            Ask::Collect(Collect { wait_us }) => {
                self.collecting = Some(Instant::now() + Duration::from_micros(wait_us));
                return;
            }
            Ask::Send(trains) => self.send(&trains),
            other => self.surveyor.answer(other, &self.stop),
        };
        self.say(answer);
    }

    fn say(&self, answer: Answer) {
        // The session may be over and no longer receive it.
        let _ = self.answers.try_send(answer);
    }

    /// Deducts the trains' bytes from the remaining budget; fails if it is too small.
    fn pay(&mut self, trains: &[TrainPlan]) -> Result<(), String> {
        let cost = check_trains(trains).map_err(|error| error.to_string())?;
        let left = self.left_bytes;
        self.left_bytes = left.checked_sub(cost.bytes).ok_or_else(|| {
            format!(
                "trains of {} bytes, and {left} are left of what was agreed",
                cost.bytes
            )
        })?;
        self.moved.fetch_add(cost.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn arm(&mut self, trains: &[TrainPlan]) -> Answer {
        if self.flow.is_none() {
            return Answer::Failed(NO_FLOW.to_owned());
        }
        if let Err(why) = self.pay(trains) {
            return Answer::Failed(why);
        }
        let offset = self.reader.clock.wall_offset_ns();
        self.reader.recorder.arm(trains, offset);
        Answer::Armed
    }

    fn send(&mut self, trains: &[TrainPlan]) -> Answer {
        if let Err(why) = self.pay(trains) {
            return Answer::Failed(why);
        }
        let Some((_, _, sender)) = &mut self.flow else {
            return Answer::Failed(NO_FLOW.to_owned());
        };
        let stop = &self.stop;
        let shots = trains.iter().map(|train| {
            let shot = sender.send(train, stop);
            told(
                train.index,
                &shot.sent_ns,
                (shot.micro_burst_packets, shot.spoilt),
            )
        });
        Answer::Sent(Sent {
            trains: shots.collect(),
            interface_bps: self.surveyor.interface_bps(),
        })
    }

    fn collect_when_due(&mut self) {
        let Some(until) = self.collecting else {
            return;
        };
        if self.reader.recorder.is_complete() || Instant::now() >= until {
            self.collecting = None;
            let seen = self.reader.recorder.take();
            self.say(Answer::Seen(seen));
        }
    }
}

const NO_FLOW: &str = "this session has no UDP flow";

/// Builds the sender's description of a train.
pub(super) fn told(
    index: u32,
    sent_ns: &[u64],
    (micro_burst_packets, spoilt): (u32, Option<String>),
) -> TrainSent {
    let times: Vec<_> = sent_ns.iter().copied().map(Some).collect();
    TrainSent {
        index,
        micro_burst_packets,
        times: Times::of(&times),
        spoilt,
    }
}

/// Answers datagrams that belong to no train.
struct Reflection<'a> {
    socket: &'a UdpSocket,
    preamble: &'a Preamble,
    clock: Clock,
    offset_ns: Option<i64>,
    headers_bytes: u64,
    left_bytes: &'a mut u64,
    moved: &'a AtomicU64,
    buffer: Vec<u8>,
}

impl Reflection<'_> {
    fn answer(&mut self, single: &Single<'_>) {
        match single.header {
            Some(header) if header.kind == Kind::EchoWanted && !single.cut => {
                self.reflect(header, single);
            }
            // The client repeats its hello because the acknowledgement was lost.
            None if Preamble::decode(single.bytes, DATAGRAM_HELLO) == Some(*self.preamble) => {
                let _ = self
                    .socket
                    .send(&self.preamble.encode(DATAGRAM_ACKNOWLEDGED));
            }
            _ => {}
        }
    }

    fn reflect(&mut self, header: Header, single: &Single<'_>) {
        let bytes = single.bytes.len() as u64 + self.headers_bytes;
        let Some(left) = self.left_bytes.checked_sub(bytes) else {
            return;
        };
        *self.left_bytes = left;
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let offset = *self
            .offset_ns
            .get_or_insert_with(|| self.clock.wall_offset_ns());
        self.buffer.clear();
        self.buffer.extend_from_slice(single.bytes);
        Header {
            kind: Kind::Echo,
            there_received_ns: single.arrival.steady_ns(offset),
            there_sent_ns: self.clock.now_ns(),
            ..header
        }
        .write(&mut self.buffer);
        // A full queue loses the echo like the network would.
        let _ = self.socket.send(&self.buffer);
    }
}
