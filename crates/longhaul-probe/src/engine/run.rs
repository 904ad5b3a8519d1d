//! One end of a run: its threads, from the start to the last reading.

use super::asked::Asked;
use super::choice::Choice;
use super::counters::{Counters, RunClock};
use super::end::{self, Baseline};
use super::follow::Entrances;
use super::series::Series;
use super::sockets::{Addresses, DataSocket};
use super::stop::StopRule;
use super::worker::{self, Outcome};
use super::{EndResult, EndSpec, EngineError, Heads, Progress, Role};
use super::{memory, receive, result, sampler, scavenger, send};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::Core;
use longhaul_sys::cycles::Cycles;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The stack of a stream's thread: its loops keep their state in a few hundred bytes.
const STACK_BYTES: usize = 256 << 10;
/// The time limit for joining the threads. A thread notices a stop within a tick; one that does not
/// is stuck in the kernel and is abandoned.
const JOIN_DEADLINE: Duration = Duration::from_secs(3);
/// The minimum spacing of samples; closer ones would measure the sampler.
const SPACING_LEAST: Duration = Duration::from_millis(1);

/// A stream, shared by its thread, the sampler and the caller.
#[derive(Debug)]
pub(super) struct StreamState {
    pub socket: DataSocket,
    /// Read at the start, because a connection that was reset no longer knows them.
    pub addresses: Addresses,
    pub counters: Counters,
    pub asked: Asked,
    pub latest: Latest,
    pub outcome: Mutex<Outcome>,
}

/// The last sampled values of a stream, for live progress; `u64::MAX` means no value.
#[derive(Debug)]
pub(super) struct Latest {
    retransmits: AtomicU64,
    rtt_us: AtomicU64,
}

impl Latest {
    const NONE: u64 = u64::MAX;

    fn new() -> Latest {
        Latest {
            retransmits: AtomicU64::new(Latest::NONE),
            rtt_us: AtomicU64::new(Latest::NONE),
        }
    }

    pub fn set(&self, info: Option<&TcpInfo>) {
        let Some(info) = info else { return };
        let rtt_us = info.rtt.as_micros() as u64;
        self.retransmits
            .store(info.retransmitted_segments.into(), Relaxed);
        self.rtt_us
            .store(if rtt_us == 0 { Latest::NONE } else { rtt_us }, Relaxed);
    }

    fn read(value: &AtomicU64) -> Option<u64> {
        Some(value.load(Relaxed)).filter(|&value| value != Latest::NONE)
    }
}

#[derive(Debug, Default)]
struct State {
    went: Option<Instant>,
    baseline: Option<Baseline>,
    /// The number of stream threads that have not ended.
    running: usize,
    ending: bool,
}

/// The state that the threads of one end share.
#[derive(Debug)]
pub(super) struct Shared {
    pub spec: EndSpec,
    pub streams: Vec<StreamState>,
    pub interface: Option<String>,
    pub cycles: Option<Cycles>,
    pub choice: Choice,
    pub entrances: Entrances,
    pub stop: StopRule,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub fn clock(&self) -> RunClock {
        RunClock(self.spec.origin)
    }

    /// Returns whether this end receives and limits the window to the requested buffer.
    pub fn bounds_window(&self) -> bool {
        self.spec.role == Role::Receiver && self.spec.heads == Heads::Longhaul
    }

    /// Returns whether this end sends as a scavenger.
    fn yields(&self) -> bool {
        self.spec.plan.scavenger && self.spec.role == Role::Sender
    }

    pub fn sample_spacing(&self) -> Duration {
        Duration::from_micros(self.spec.plan.interval_us)
            .max(self.spec.idle_rtt.unwrap_or_default())
            .max(SPACING_LEAST)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `go`; false if the run is stopped first.
    pub fn wait_go(&self) -> bool {
        let waiting = |state: &mut State| state.went.is_none() && !self.stop.stopped();
        let state = self.changed.wait_while(self.lock(), waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.went.is_some() && !self.stop.stopped()
    }

    /// Records the outcome of stream `index`, whose thread is about to end.
    pub fn stream_is_over(&self, index: usize, outcome: Outcome) {
        let own = &self.streams[index].outcome;
        *own.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        let mut state = self.lock();
        state.running -= 1;
        if state.running == 0 {
            self.changed.notify_all();
        }
    }

    /// Returns the counters as of `go`; `None` if `go` was not called.
    pub fn take_baseline(&self) -> Option<Baseline> {
        self.lock().baseline.take()
    }

    fn wait(&self, timeout: Duration, over: impl Fn(&State) -> bool) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !over(state))
            .unwrap_or_else(PoisonError::into_inner);
        over(&state)
    }

    /// Waits until `due` or until every stream has ended; returns true in the latter case.
    pub fn wait_finished_until(&self, due: Instant) -> bool {
        let timeout = due.saturating_duration_since(Instant::now());
        self.wait(timeout, |state| state.running == 0 || state.ending)
    }
}

/// One end of a run that is in progress.
#[derive(Debug)]
pub struct EndRun {
    shared: Arc<Shared>,
    streams: Vec<JoinHandle<()>>,
    sampler: JoinHandle<(Series, Vec<Core>)>,
    /// The scavenger's control thread, if this end yields.
    scavenger: Option<JoinHandle<()>>,
}

impl EndRun {
    /// Starts the threads, which wait; no payload is sent or read before [`EndRun::go`].
    ///
    /// # Errors
    /// Memory or threads cannot be allocated, or a socket does not accept a timeout.
    pub fn start(spec: EndSpec, sockets: Vec<DataSocket>) -> Result<EndRun, EngineError> {
        let choice = Choice::new(&spec, sockets.len());
        for socket in &sockets {
            prepare(socket, &spec, &choice)?;
        }
        let interface = sockets
            .first()
            .and_then(|socket| end::interface_of(socket.addresses()));
        let running = sockets.len();
        let streams = sockets.into_iter().map(|socket| StreamState {
            addresses: socket.addresses(),
            socket,
            counters: Counters::default(),
            asked: Asked::new(),
            latest: Latest::new(),
            outcome: Mutex::default(),
        });
        let shared = Arc::new(Shared {
            stop: StopRule::new(spec.plan.stop),
            streams: streams.collect(),
            interface,
            // Opened before the threads start, because they are counted by inheritance.
            cycles: Cycles::start().ok(),
            choice,
            entrances: Entrances::new(running),
            spec,
            state: Mutex::new(State {
                running,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        EndRun::spawn(shared)
    }

    fn spawn(shared: Arc<Shared>) -> Result<EndRun, EngineError> {
        let failed = |source| EngineError::new("start the threads of the streams", source);
        // Threads that were started before the failure wait for `go`; the stop ends them.
        let give_up = |source| {
            shared.stop.stop();
            // A thread that is about to wait holds the lock: none misses the notification.
            drop(shared.lock());
            shared.changed.notify_all();
            failed(source)
        };
        let tools = memory::tools(&shared).map_err(give_up)?;
        let mut streams = Vec::with_capacity(tools.len());
        for (index, tools) in tools.into_iter().enumerate() {
            let own = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("stream-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || worker::run(&own, index, tools))
                .map_err(give_up)?;
            streams.push(thread);
        }
        let own = Arc::clone(&shared);
        let sampler = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                own.wait_go();
                sampler::run(&own)
            })
            .map_err(give_up)?;
        let scavenger = shared.yields().then(|| {
            let own = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("scavenger".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    if own.wait_go() {
                        scavenger::run(&own);
                    }
                })
        });
        let scavenger = scavenger.transpose().map_err(give_up)?;
        Ok(EndRun {
            shared,
            streams,
            sampler,
            scavenger,
        })
    }

    /// Starts the flow of payload.
    pub fn go(&self) {
        let baseline = Baseline::take(self.shared.interface.as_deref());
        let mut state = self.shared.lock();
        if state.went.is_some() {
            return;
        }
        if self.shared.spec.role == Role::Sender {
            // A receiver has no deadline: it accepts late data that was sent in time.
            self.shared.stop.begin(self.shared.clock().now_ns());
        }
        state.baseline = Some(baseline);
        state.went = Some(Instant::now());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns the progress; reads counters only.
    pub fn progress(&self) -> Progress {
        let streams = &self.shared.streams;
        let stream_bytes: Vec<u64> = streams
            .iter()
            .map(|stream| stream.counters.bytes())
            .collect();
        let retransmits = streams
            .iter()
            .filter_map(|stream| Latest::read(&stream.latest.retransmits))
            .reduce(|sum, more| sum + more);
        let rtts: Vec<u64> = streams
            .iter()
            .filter_map(|stream| Latest::read(&stream.latest.rtt_us))
            .collect();
        let mean = rtts.iter().sum::<u64>().checked_div(rtts.len() as u64);
        Progress {
            elapsed: self
                .shared
                .lock()
                .went
                .map_or(Duration::ZERO, |went| went.elapsed()),
            bytes: stream_bytes.iter().sum(),
            stream_bytes,
            stream_datagrams: streams.iter().map(|stream| stream.counters.udp()).collect(),
            retransmits,
            rtt: mean.map(Duration::from_micros),
        }
    }

    /// Returns whether the sender is done, the receiver's streams ended, or all streams failed.
    pub fn finished(&self) -> bool {
        self.shared.lock().running == 0
    }

    /// Waits for [`EndRun::finished`], at most for `timeout`; returns whether it is.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait(timeout, |state| state.running == 0)
    }

    /// Stops all streams within a tick (50 ms when sending, at once when receiving over TCP).
    pub fn stop(&self) {
        self.shared.stop.stop();
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if self.shared.spec.role == Role::Receiver {
            for stream in &self.shared.streams {
                if let DataSocket::Tcp(socket) = &stream.socket {
                    // A socket that is already closed needs no wake-up.
                    let _ = socket.shutdown(Shutdown::Read);
                }
            }
        }
    }

    /// Stops the threads, takes the last readings and closes the sockets. A time-limited sender
    /// discards its unsent data (reset); the peer should know of the end before.
    pub fn end(self) -> EndResult {
        self.stop();
        let mut caveats = Vec::new();
        if self.wait(JOIN_DEADLINE) {
            for thread in self.streams {
                // A panic is a bug here; the stream's own record shows how far it came.
                let _ = thread.join();
            }
        } else {
            let text = "a stream's thread did not end in time; its last counts are missing";
            caveats.push(Caveat::new("thread_left_behind", text));
        }
        self.shared.lock().ending = true;
        self.shared.changed.notify_all();
        if let Some(scavenger) = self.scavenger {
            let _ = scavenger.join();
        }
        let (mut series, cores) = self.sampler.join().unwrap_or_else(|_| {
            (
                Series::new(self.shared.streams.len(), Duration::ZERO),
                Vec::new(),
            )
        });
        sampler::take(&self.shared, &mut series);
        result::collect(&self.shared, series, cores, caveats)
    }
}

/// Sets the socket options that the engine needs and chooses.
fn prepare(socket: &DataSocket, spec: &EndSpec, choice: &Choice) -> Result<(), EngineError> {
    let failed =
        |what: &str, source| EngineError::new(format!("set the {what} of a socket"), source);
    let blocking = match socket {
        DataSocket::Tcp(socket) => socket.set_nonblocking(false),
        DataSocket::Udp(socket) => socket.set_nonblocking(false),
    };
    blocking.map_err(|source| failed("blocking mode", source))?;
    match spec.role {
        Role::Sender => sockopt::set_send_timeout(socket, send::TICK),
        Role::Receiver => sockopt::set_receive_timeout(socket, receive::TICK),
    }
    .map_err(|source| failed("timeout", source))?;
    if let Some(bytes) = choice.send_buffer_bytes.filter(|_| is_tcp(socket)) {
        sockopt::set_send_buffer(socket, bytes).map_err(|source| failed("send buffer", source))?;
    }
    if let (DataSocket::Udp(socket), Role::Receiver) = (socket, spec.role) {
        // Without timestamps, the arrival time is that of the read.
        let _ = sockopt::set_receive_timestamps(socket);
    }
    Ok(())
}

fn is_tcp(socket: &DataSocket) -> bool {
    matches!(socket, DataSocket::Tcp(_))
}
