//! The client's tasks outside the protocol: streams, engines, and progress reports.

use super::follow::{Counted, Followed, Following};
use super::streams;
use super::{asked, observe};
use crate::capture::beside::{Beside, attach};
use crate::capture::missing;
use crate::capture::store::MOST_HELD_BYTES;
use crate::drive::{Collected, EngineSetup, Engines, Sockets};
use crate::engine::{DataSocket, EndRun, Ending, EngineError, Heads};
use crate::iperf3::wire::{Cookie, Counters, Results};
use crate::serve::iperf3::follow::{OpenStream, Started};
use crate::serve::iperf3::streams::Tap;
use crate::session::{EngineStart, Role, State};
use crate::throughput::{Captures, FlowProgress, Progress, Target};
use longhaul_model::report::v1::plan::{Direction, Mode, Plan, Stop, Transport};
use longhaul_sys::sockopt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The interval between calls of the caller's `watch`.
const WATCH: Duration = Duration::from_millis(200);
/// The maximum time without an acknowledgement while the last bytes of a byte-limited test arrive,
/// before the server is told that the test has ended.
const ARRIVAL: Duration = Duration::from_secs(5);

/// A test that is in progress.
pub(super) struct Course<'a> {
    target: &'a Target,
    /// The plan as the engine runs it, with default sizes filled in.
    plan: &'a Plan,
    ends: (Option<SocketAddr>, SocketAddr),
    epoch: Instant,
    watch: &'a mut dyn FnMut(&Progress),
    watched: Option<(State, Instant)>,
    sockets: Sockets,
    /// The connections on which this end sends, to read how much is in flight.
    tails: Vec<TcpStream>,
    /// The minimum of the bytes in flight, and its time.
    under_way: Option<(u64, Instant)>,
    engines: Option<Engines>,
    capture: Beside,
    pub captures: Captures,
    pub collected: Collected,
    pub origin: Duration,
    pub idle_rtt: Option<Duration>,
    pub moved_bytes: u64,
    /// The observer of the test, until its streams are open.
    following: Option<(Following<'a>, Duration)>,
    followed: Option<Followed<'a>>,
    /// The results that were sent to the server.
    pub told: Option<Results>,
}

/// The progress of the engines.
pub(super) struct Moved {
    pub bytes: u64,
    pub over: bool,
}

impl<'a> Course<'a> {
    pub fn new(
        target: &'a Target,
        plan: &'a Plan,
        ends: (Option<SocketAddr>, SocketAddr),
        epoch: Instant,
        watch: &'a mut dyn FnMut(&Progress),
    ) -> Course<'a> {
        Course {
            target,
            plan,
            ends,
            epoch,
            watch,
            watched: None,
            sockets: Sockets::default(),
            tails: Vec::new(),
            under_way: None,
            engines: None,
            capture: Beside::Nothing,
            captures: Captures::default(),
            collected: Collected::default(),
            origin: Duration::ZERO,
            idle_rtt: None,
            moved_bytes: 0,
            following: None,
            followed: None,
            told: None,
        }
    }

    /// Sets the observer of the test; bytes within `omit` are not counted.
    pub fn follow(&mut self, following: Following<'a>, omit: Duration) {
        self.following = Some((following, omit));
    }

    /// Returns whether both ends have the same address, so that there is no path between them.
    pub fn same_host(&self) -> bool {
        let (local, far) = self.ends;
        local.map(|local| local.ip().to_canonical()) == Some(far.ip().to_canonical())
    }

    pub fn open(&mut self, cookie: Cookie) -> Result<(), EngineError> {
        self.tell(State::Opening);
        self.begin_capture();
        self.sockets = streams::open(self.target, self.plan, self.ends.1, cookie)?;
        let tails = self
            .sockets
            .forward
            .iter()
            .filter_map(|socket| match socket {
                DataSocket::Tcp(stream) => stream.try_clone().ok(),
                DataSocket::Udp(_) => None,
            });
        self.tails = tails.collect();
        self.begin_following();
        Ok(())
    }

    fn begin_following(&mut self) {
        let Some((following, omit)) = self.following.take() else {
            return;
        };
        let all = || {
            let sends = self.sockets.forward.iter().map(|socket| (socket, true));
            sends.chain(self.sockets.reverse.iter().map(|socket| (socket, false)))
        };
        let tap = |(socket, sends): (&DataSocket, bool)| match socket {
            DataSocket::Tcp(stream) if sends => Tap(stream.try_clone().ok()),
            _ => Tap(None),
        };
        let sides = all().map(|(_, sends)| sends).collect();
        let taps = all().map(tap).collect();
        let datagrams = self.plan.transport != Transport::Tcp;
        let mut followed = Followed::new(following, omit, (sides, taps), datagrams);
        let first = self
            .sockets
            .forward
            .first()
            .or(self.sockets.reverse.first());
        let size = |of: Option<io::Result<usize>>| of?.ok().map(|bytes| bytes as u64);
        followed.started(&Started {
            streams: all()
                .filter_map(|(socket, sends)| open_stream(socket, sends))
                .collect(),
            send_buffer_bytes: size(first.map(sockopt::stored_send_buffer)),
            receive_buffer_bytes: size(first.map(sockopt::stored_receive_buffer)),
        });
        self.followed = Some(followed);
    }

    /// Takes this end's counts, after the test has ended.
    pub fn take_counted(&mut self) -> Option<Counted> {
        self.followed.as_mut()?.take_counted()
    }

    /// Ends the counting before the test is complete.
    pub fn interrupt(&mut self) {
        self.look_followed(true);
    }

    fn look_followed(&mut self, over: bool) {
        if let (Some(followed), Some(engines)) = (&mut self.followed, &self.engines) {
            followed.look(engines, elapsed(engines), over);
        }
    }

    /// Returns this end's results in iperf3's format.
    pub fn results(&mut self) -> Results {
        let mut results = observe::told(&self.collected);
        if let Some(followed) = &self.followed {
            followed.without_omitted(&mut results);
        }
        if self.followed.is_some() {
            self.told = Some(results.clone());
        }
        results
    }

    fn begin_capture(&mut self) {
        let Some(capture) = self.plan.capture else {
            return;
        };
        self.capture = match self.ends.0 {
            Some(local) => Beside::begin((self.plan, capture), local, self.ends.1, MOST_HELD_BYTES),
            None => Beside::Without(missing(&io::ErrorKind::AddrNotAvailable.into())),
        };
    }

    /// Starts the engines; `idle_rtt` comes from the control connection.
    pub fn ready(&mut self, idle_rtt: Option<Duration>) -> Result<(), EngineError> {
        self.idle_rtt = idle_rtt;
        self.origin = self.epoch.elapsed();
        let setup = EngineSetup {
            role: Role::Initiator,
            plan: self.plan.clone(),
            epoch: self.epoch,
        };
        let start = EngineStart {
            origin: self.origin,
            idle_rtt: idle_rtt.unwrap_or_default(),
            same_host: self.same_host(),
        };
        let heads = Heads::Iperf3(Counters::Bits64);
        let ending = Ending::Open {
            block_bytes: asked::block_bytes(self.plan),
        };
        let sockets = std::mem::take(&mut self.sockets);
        self.engines = Some(Engines::start_with(
            (heads, ending),
            &setup,
            start,
            sockets,
        )?);
        Ok(())
    }

    pub fn go(&self) {
        self.engines.iter().for_each(Engines::go);
    }

    /// Takes the last readings and closes the sockets.
    pub fn collect(&mut self) {
        self.tell(State::Exchanging);
        // For a test that the server ended.
        self.look_followed(true);
        self.tails.clear();
        self.collected = self
            .engines
            .take()
            .map(Engines::collect)
            .unwrap_or_default();
        let capture = std::mem::take(&mut self.capture);
        let (captured, caveats) = capture.end(Role::Initiator, &self.collected);
        let about = captured.as_ref().map(|captured| captured.about().clone());
        attach(&mut self.collected, Role::Initiator, about, caveats);
        self.captures.near = captured;
    }

    /// Returns `None` if no payload flows.
    pub fn look(&mut self) -> Option<Moved> {
        self.tell(State::Running);
        let progress = self.engines.as_ref()?.progress();
        let interval = progress.interval;
        let (sent, received) = (interval.sent_bytes, interval.received_bytes);
        let elapsed_us = interval.elapsed_us;
        self.moved_bytes = sent.unwrap_or(0) + received.unwrap_or(0);
        let taken = |wanted: u64| received.is_none_or(|bytes| bytes >= wanted);
        let over = match self.plan.stop {
            Stop::TimeUs(time) => elapsed_us >= time && (sent.is_none() || progress.sent),
            Stop::Bytes(bytes) => progress.sent && taken(bytes) && self.has_arrived(),
            Stop::Blocks(blocks) => {
                let bytes = blocks.saturating_mul(asked::block_bytes(self.plan));
                progress.sent && taken(bytes) && self.has_arrived()
            }
        };
        let ended = received.is_some() && progress.drained && progress.sent && elapsed_us > 0;
        self.look_followed(over || ended);
        Some(Moved {
            bytes: self.moved_bytes,
            over: over || ended,
        })
    }

    /// Returns the time during which payload only flows and no report is due.
    pub fn calm_for(&self) -> Duration {
        let (Stop::TimeUs(time), Some(engines)) = (self.plan.stop, &self.engines) else {
            return Duration::ZERO;
        };
        let time = Duration::from_micros(time);
        let told = self.followed.as_ref().and_then(Followed::due);
        let until = told.map_or(time, |told| told.min(time));
        until.saturating_sub(elapsed(engines))
    }

    /// Returns whether all sent bytes are acknowledged, or acknowledgements have stopped.
    fn has_arrived(&mut self) -> bool {
        let waiting: u64 = self.under_way_bytes();
        let now = Instant::now();
        match self.under_way {
            _ if waiting == 0 => true,
            Some((least, since)) if waiting >= least => now >= since + ARRIVAL,
            _ => {
                self.under_way = Some((waiting, now));
                false
            }
        }
    }

    fn under_way_bytes(&self) -> u64 {
        let queued = |stream: &TcpStream| sockopt::send_queue_bytes(stream).ok();
        self.tails.iter().filter_map(queued).sum()
    }

    fn tell(&mut self, state: State) {
        let due = |(last, at): (State, Instant)| last != state || at.elapsed() >= WATCH;
        if self.watched.is_none_or(due) {
            self.watched = Some((state, Instant::now()));
            let progress = self.progress(state);
            (self.watch)(&progress);
        }
    }

    /// The server reports its received bytes only at the end; until then, the bytes acknowledged by
    /// its kernel are used.
    fn progress(&self, state: State) -> Progress {
        let here = |run: &EndRun| {
            let progress = run.progress();
            let flow = FlowProgress {
                received_at: Some(progress.elapsed),
                stream_bytes: progress.stream_bytes,
                retransmits: progress.retransmits,
                rtt: progress.rtt,
                ..FlowProgress::default()
            };
            (progress.bytes, progress.elapsed, flow)
        };
        let engines = self.engines.as_ref();
        let forward = engines.and_then(Engines::sender).map(here);
        let reverse = engines.and_then(Engines::receiver).map(here);
        let both = forward.iter().chain(&reverse);
        Progress {
            state,
            elapsed: both
                .map(|(_, elapsed, _)| *elapsed)
                .max()
                .unwrap_or_default(),
            forward: forward.map(|(bytes, _, flow)| FlowProgress {
                sent_bytes: Some(bytes),
                received_bytes: Some(bytes.saturating_sub(self.under_way_bytes())),
                ..flow
            }),
            reverse: reverse.map(|(bytes, _, flow)| FlowProgress {
                received_bytes: Some(bytes),
                ..flow
            }),
        }
    }
}

/// Returns the time since payload started to flow.
fn elapsed(engines: &Engines) -> Duration {
    let runs = engines.sender().into_iter().chain(engines.receiver());
    let at = runs.map(|run| run.progress().elapsed).max();
    at.unwrap_or_default()
}

fn open_stream(socket: &DataSocket, sends: bool) -> Option<OpenStream> {
    let (local, peer) = match socket {
        DataSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
        DataSocket::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
    };
    Some(OpenStream {
        sends,
        local: local.ok()?,
        peer: peer.ok()?,
    })
}

/// Returns the plan as both engines run it: the server is told the default sizes.
pub(super) fn filled_in(plan: &Plan, datagram_bytes: u64) -> Plan {
    let far_sends_blocks =
        matches!(plan.stop, Stop::Blocks(_)) || plan.direction != Direction::Forward;
    let write_bytes = match plan.transport {
        Transport::Udp { .. } => Some(datagram_bytes),
        Transport::Tcp if far_sends_blocks => Some(asked::block_bytes(plan)),
        Transport::Tcp => plan.write_bytes,
    };
    // Reads as an iperf3 client does: smaller reads cost this end 5 % more at high rates.
    let reads_blocks = plan.mode == Mode::Delivered && plan.read_rate_bps.is_none();
    let read_bytes = reads_blocks.then(|| asked::block_bytes(plan));
    Plan {
        write_bytes,
        read_bytes: plan.read_bytes.or(read_bytes),
        ..plan.clone()
    }
}
