//! One end of a run: its threads, from the start to the last reading.

use super::EngineContext;
use super::SampleRequest;
use super::SampleSeries;
use super::StopRule;
use super::StreamOutcome;
use super::defaults::EngineDefaults;
use super::end_host::{self, CounterBaseline};
use super::sockets::{DataSocket, StreamAddresses};
use super::stream_counters::{RunClock, StreamCounters};
use super::{DatagramFormat, EndSpec, EngineError, EngineProgress, EngineResult, TransferRole};
use super::{end_result, sampler, scavenger, tcp_receiver, tcp_sender};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{CoreUsage, TcpReading};
use longhaul_sys::cycle_counter::CycleCounter;
use longhaul_sys::memory_region::MemoryRegion;
use longhaul_sys::sockopt;
use longhaul_sys::sockopt::SockRef;
use parking_lot::{Condvar, Mutex};
use std::net::Shutdown;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The stack of a stream's thread: its loops keep their state in a few hundred bytes.
const STACK_BYTES: usize = 256 << 10;
/// The time limit for joining the threads. A thread notices a stop within a tick; one that does not
/// is stuck in the kernel and is abandoned.
const JOIN_DEADLINE: Duration = Duration::from_secs(3);
/// The minimum spacing of samples; closer ones would measure the sampler.
const MIN_SPACING: Duration = Duration::from_millis(1);

/// A stream, shared by its thread, the sampler and the caller.
#[derive(Debug)]
pub(super) struct StreamState {
    pub socket: DataSocket,
    /// Read at the start, because a connection that was reset no longer knows them.
    pub addresses: StreamAddresses,
    pub counters: StreamCounters,
    pub sample_request: SampleRequest,
    /// The last sampled values, for live progress.
    pub latest: Mutex<Option<TcpReading>>,
    pub outcome: Mutex<StreamOutcome>,
}

#[derive(Debug, Default)]
struct EndState {
    started_at: Option<Instant>,
    baseline: Option<CounterBaseline>,
    /// The number of stream threads that have not ended.
    running: usize,
    ending: bool,
}

/// The state that the threads of one end share.
#[derive(Debug)]
pub(super) struct EngineShared {
    pub role: TransferRole,
    pub spec: EndSpec,
    pub streams: Vec<StreamState>,
    /// The payload of a TCP sender; stream *i* sends region *i* modulo their number.
    pub payloads: Vec<Arc<MemoryRegion>>,
    pub interface: Option<String>,
    pub cycles: Option<CycleCounter>,
    pub defaults: EngineDefaults,
    pub stop: StopRule,
    state: Mutex<EndState>,
    changed: Condvar,
}

impl EngineShared {
    pub fn clock(&self) -> RunClock {
        RunClock(self.spec.origin)
    }

    /// Returns whether this end receives and limits the window to the requested buffer.
    pub fn limits_window(&self) -> bool {
        self.role == TransferRole::Receiver && self.spec.heads == DatagramFormat::Longhaul
    }

    /// Returns whether this end sends as a scavenger.
    fn is_scavenger(&self) -> bool {
        self.spec.plan.scavenger && self.role == TransferRole::Sender
    }

    pub fn sample_spacing(&self) -> Duration {
        Duration::from_micros(self.spec.plan.interval_us)
            .max(self.spec.idle_rtt.unwrap_or_default())
            .max(MIN_SPACING)
    }

    /// Waits for `go`; false if the run is stopped first.
    pub fn wait_go(&self) -> bool {
        let waiting = |state: &mut EndState| state.started_at.is_none() && !self.stop.is_stopped();
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, waiting);
        state.started_at.is_some() && !self.stop.is_stopped()
    }

    fn stop_streams(&self) {
        self.stop.stop();
        // A thread that is about to wait holds the lock: none misses the notification.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Records the outcome of stream `index`, whose thread is about to end.
    pub fn finish_stream(&self, index: usize, outcome: StreamOutcome) {
        let own = &self.streams[index].outcome;
        *own.lock() = outcome;
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 {
            self.changed.notify_all();
        }
    }

    /// Returns the counters as of `go`; `None` if `go` was not called.
    pub fn take_baseline(&self) -> Option<CounterBaseline> {
        self.state.lock().baseline.take()
    }

    fn wait_until(&self, timeout: Duration, over: impl Fn(&EndState) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !over(state), timeout);
        over(&state)
    }

    /// Waits until `due` or until every stream has ended; returns true in the latter case.
    pub fn wait_finished_until(&self, due: Instant) -> bool {
        let timeout = due.saturating_duration_since(Instant::now());
        self.wait_until(timeout, |state| state.running == 0 || state.ending)
    }
}

/// One end of a run that is in progress.
#[derive(Debug)]
pub struct EndRun {
    shared: Arc<EngineShared>,
    streams: Vec<JoinHandle<()>>,
    sampler: JoinHandle<(SampleSeries, Vec<CoreUsage>)>,
    /// The scavenger's control thread, if this end yields.
    scavenger: Option<JoinHandle<()>>,
}

impl EndRun {
    /// Starts the threads, which wait; no payload is sent or read before [`EndRun::go`].
    ///
    /// # Errors
    /// Memory or threads cannot be allocated, or a socket does not accept a timeout.
    pub fn start(
        spec: EndSpec,
        role: TransferRole,
        sockets: Vec<DataSocket>,
    ) -> Result<EndRun, EngineError> {
        let choice = EngineDefaults::new(&spec, sockets.len());
        for socket in &sockets {
            prepare_socket(socket, role)?;
        }
        let interface =
            sockets.first().and_then(|socket| end_host::find_interface(socket.addresses()));
        let running = sockets.len();
        let regions = choice.payload_regions(spec.plan.zero_copy, role, &sockets);
        let payloads = (0..regions)
            .map(|_| super::new_payload_region(choice.payload_bytes, spec.plan.zero_copy))
            .collect::<Result<_, _>>()
            .map_err(|source| EngineError::new("allocate the payload", source))?;
        let streams = sockets.into_iter().map(|socket| StreamState {
            addresses: socket.addresses(),
            socket,
            counters: StreamCounters::default(),
            sample_request: SampleRequest::new(),
            latest: Mutex::default(),
            outcome: Mutex::default(),
        });
        let shared = Arc::new(EngineShared {
            stop: StopRule::new(spec.plan.stop),
            streams: streams.collect(),
            payloads,
            interface,
            // Opened before the threads start, because they are counted by inheritance.
            cycles: CycleCounter::start().ok(),
            defaults: choice,
            role,
            spec,
            state: Mutex::new(EndState { running, ..EndState::default() }),
            changed: Condvar::new(),
        });
        EndRun::spawn(shared)
    }

    fn spawn(shared: Arc<EngineShared>) -> Result<EndRun, EngineError> {
        let stream = |index| {
            let name = format!("stream-{index}");
            spawn_thread(&shared, name, move |own| super::run(own, index))
        };
        let streams = (0..shared.streams.len()).map(stream).collect::<Result<_, _>>()?;
        let sampler = spawn_thread(&shared, "sampler".to_owned(), |own| {
            own.wait_go();
            sampler::run(own)
        })?;
        let scavenger = || {
            spawn_thread(&shared, "scavenger".to_owned(), |own| {
                if own.wait_go() {
                    scavenger::run(own);
                }
            })
        };
        let scavenger = shared.is_scavenger().then(scavenger).transpose()?;
        Ok(EndRun { shared, streams, sampler, scavenger })
    }

    /// Starts the flow of payload.
    pub fn go(&self) {
        let baseline = CounterBaseline::take(self.shared.interface.as_deref());
        let mut state = self.shared.state.lock();
        if state.started_at.is_some() {
            return;
        }
        if self.shared.role == TransferRole::Sender {
            // A receiver has no deadline: it accepts late data that was sent in time.
            self.shared.stop.begin(self.shared.clock().now_ns());
        }
        state.baseline = Some(baseline);
        state.started_at = Some(Instant::now());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns the progress; reads counters only.
    pub fn progress(&self) -> EngineProgress {
        let streams = &self.shared.streams;
        let stream_bytes: Vec<u64> = streams.iter().map(|stream| stream.counters.bytes()).collect();
        let latest: Vec<TcpReading> =
            streams.iter().filter_map(|stream| stream.latest.lock().clone()).collect();
        let retransmits =
            latest.iter().map(|tcp| tcp.retransmitted_segments).reduce(|sum, more| sum + more);
        let rtts: Vec<u64> = latest.iter().map(|tcp| tcp.rtt_us).filter(|rtt| *rtt > 0).collect();
        let mean = rtts.iter().sum::<u64>().checked_div(rtts.len() as u64);
        EngineProgress {
            elapsed: self
                .shared
                .state
                .lock()
                .started_at
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
        self.shared.state.lock().running == 0
    }

    /// Waits for [`EndRun::finished`], at most for `timeout`; returns whether it is.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.running == 0)
    }

    /// Stops all streams within a tick (50 ms when sending, at once when receiving over TCP).
    pub fn stop(&self) {
        self.shared.stop_streams();
        if self.shared.role == TransferRole::Receiver {
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
    pub fn end(self) -> EngineResult {
        self.stop();
        let mut caveats = Vec::new();
        if self.wait(JOIN_DEADLINE) {
            for thread in self.streams {
                // A panic is a bug here; the stream's own record shows how far it came.
                let _ = thread.join();
            }
        } else {
            let text = "a stream thread did not end in time; its last counters are missing";
            caveats.push(ReportCaveat::new("thread_left_behind", text));
        }
        self.shared.state.lock().ending = true;
        self.shared.changed.notify_all();
        if let Some(scavenger) = self.scavenger {
            let _ = scavenger.join();
        }
        let (mut series, cores) = self.sampler.join().unwrap_or_else(|_| {
            (SampleSeries::new(self.shared.streams.len(), Duration::ZERO), Vec::new())
        });
        sampler::take_samples(&self.shared, &mut series);
        end_result::collect_result(&self.shared, series, cores, caveats)
    }
}

fn spawn_thread<T: Send + 'static>(
    shared: &Arc<EngineShared>,
    name: String,
    run: impl FnOnce(&EngineShared) -> T + Send + 'static,
) -> Result<JoinHandle<T>, EngineError> {
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
    thread.spawn(move || run(&own)).map_err(|source| {
        // Threads that were started before the failure wait for `go`; the stop ends them.
        shared.stop_streams();
        EngineError::new("start the stream threads", source)
    })
}

/// Sets the socket options that the engine needs and chooses.
fn prepare_socket(socket: &DataSocket, role: TransferRole) -> Result<(), EngineError> {
    let options = SockRef::from(socket);
    options.set_nonblocking(false).during("set the blocking mode of a socket")?;
    match role {
        TransferRole::Sender => options.set_write_timeout(Some(tcp_sender::WRITE_TIMEOUT)),
        TransferRole::Receiver => options.set_read_timeout(Some(tcp_receiver::READ_TIMEOUT)),
    }
    .during("set the timeout of a socket")?;
    if let (DataSocket::Udp(socket), TransferRole::Receiver) = (socket, role) {
        // Without timestamps, the arrival time is that of the read.
        let _ = sockopt::set_receive_timestamps(socket);
    }
    Ok(())
}
