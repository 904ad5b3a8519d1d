//! One end of a run: its threads, from the start to the last reading.
//!
//! # Sampler
//!
//! Samples every stream's counters, clocks, queue and TCP_INFO, and the cores, at even intervals.
//!
//! The sampler has its own thread. It reads the time together with the values, so that late samples
//! carry their true time.

use super::defaults::EngineDefaults;
use super::end_host::{self, CounterBaseline};
use super::sockets::{DataSocket, StreamAddresses};
use super::stream_counters::{RunClock, StreamCounters};
use super::{
    DatagramFormat, EndSpec, EngineContext, EngineError, EngineProgress, EngineResult,
    SampleRequest, SampleSeries, StopRule, StreamOutcome, TransferRole, read_stream, scavenger,
    tcp_receiver, tcp_sender,
};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{CoreUsage, SocketBuffer, StreamEnd, StreamSample};
use longhaul_sys::cycle_counter::CycleCounter;
use longhaul_sys::host::{self, CoreTimes};
use longhaul_sys::memory_region::MemoryRegion;
use longhaul_sys::sockopt::{self, SockRef};
use longhaul_sys::tcp_info;
use parking_lot::{Condvar, Mutex};
use std::io;
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
    pub latest: Mutex<Option<StreamSample>>,
    pub outcome: Mutex<StreamOutcome>,
}

impl StreamState {
    fn describe_progress(&self, elapsed: Duration, now_us: u64) -> StreamEnd {
        let (local, peer) = self.addresses;
        let elapsed_us = elapsed.as_micros() as u64;
        let latest = self.latest.lock().clone();
        let mss_bytes = latest.as_ref().and_then(|it| Some(it.tcp.as_ref()?.mss_bytes as u32));
        let sample = latest.map(|reading| StreamSample {
            at_us: elapsed_us.saturating_sub(now_us.saturating_sub(reading.at_us)),
            ..reading
        });
        StreamEnd {
            local: local.map(|address| address.to_string()),
            peer: peer.map(|address| address.to_string()),
            bytes: self.counters.bytes(),
            duration_us: elapsed_us,
            mss_bytes,
            samples: vec![sample.unwrap_or_default()],
            ..StreamEnd::default()
        }
    }
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
            run(own)
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
        let started_at = self.shared.state.lock().started_at;
        let elapsed = started_at.map_or(Duration::ZERO, |went| went.elapsed());
        let now_us = self.shared.clock().now_ns() / 1000;
        let own_ends: Vec<StreamEnd> =
            streams.iter().map(|stream| stream.describe_progress(elapsed, now_us)).collect();
        let samples = || own_ends.iter().flat_map(|end| &end.samples);
        let latest = || samples().filter_map(|sample| sample.tcp.as_ref());
        let retransmits =
            latest().map(|tcp| tcp.retransmitted_segments).reduce(|sum, more| sum + more);
        let rtts: Vec<u64> = latest().map(|tcp| tcp.rtt_us).filter(|rtt| *rtt > 0).collect();
        let mean = rtts.iter().sum::<u64>().checked_div(rtts.len() as u64);
        EngineProgress {
            elapsed,
            bytes: stream_bytes.iter().sum(),
            stream_bytes,
            stream_datagrams: streams.iter().map(|stream| stream.counters.udp()).collect(),
            retransmits,
            rtt: mean.map(Duration::from_micros),
            idle_rtt: self.shared.spec.idle_rtt,
            own_ends,
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

    /// Ends the time of a sender now. Its streams end within a tick, as at their planned end.
    pub fn stop_sending(&self) {
        self.shared.stop.end_at(self.shared.clock().now_ns());
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
        take_samples(&self.shared, &mut series);
        collect_result(&self.shared, series, cores, caveats)
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

/// Assembles the results of this end, and prepares the sockets for closing.
pub(super) fn collect_result(
    shared: &EngineShared,
    series: SampleSeries,
    cores: Vec<CoreUsage>,
    mut caveats: Vec<ReportCaveat>,
) -> EngineResult {
    let parts = shared.streams.iter().zip(series.into_streams());
    let mut streams = Vec::with_capacity(shared.streams.len());
    for (stream, samples) in parts {
        let mut outcome = stream.outcome.lock();
        caveats.append(&mut outcome.caveats);
        streams.push(describe_stream(shared, stream, &outcome, samples));
        if shared.role == TransferRole::Sender && !shared.stop.must_drain() && is_tcp(stream) {
            // If this fails, closing sends the rest, which only takes longer.
            let _ = sockopt::set_abort_on_close(&stream.socket);
        }
    }
    let baseline = shared
        .take_baseline()
        .unwrap_or_else(|| CounterBaseline::take(shared.interface.as_deref()));
    EngineResult { end: end_host::describe_end(shared, &baseline, cores), streams, caveats }
}

fn describe_stream(
    shared: &EngineShared,
    stream: &StreamState,
    outcome: &StreamOutcome,
    samples: Vec<StreamSample>,
) -> StreamEnd {
    let (local, peer) = stream.addresses;
    let plan = &shared.spec.plan;
    let buffer = |asked_bytes, stored: io::Result<usize>| {
        let stored_bytes = stored.ok()? as u64;
        Some(SocketBuffer { asked_bytes, granted_bytes: stored_bytes / 2, stored_bytes })
    };
    let info = tcp_info::read_tcp_info(&stream.socket).ok();
    let span_ns = stream.counters.span_ns();
    StreamEnd {
        local: local.map(|address| address.to_string()),
        peer: peer.map(|address| address.to_string()),
        bytes: stream.counters.bytes(),
        started_us: span_ns.map_or(0, |(first, _)| first / 1000),
        duration_us: span_ns.map_or(0, |(first, last)| (last - first) / 1000),
        calls: Some(stream.counters.calls()),
        blocked_us: Some(stream.counters.blocked_us()),
        cpu_us: stream.counters.thread_times_us().0,
        core: outcome.core,
        send_buffer: buffer(
            plan.send_buffer_bytes,
            SockRef::from(&stream.socket).send_buffer_size(),
        ),
        receive_buffer: buffer(
            plan.receive_buffer_bytes,
            SockRef::from(&stream.socket).recv_buffer_size(),
        ),
        mss_bytes: info.as_ref().map(|info| info.reading.mss_bytes as u32),
        congestion_control: sockopt::congestion_control(&stream.socket).ok(),
        options: info.map(|info| info.options),
        udp: outcome.udp,
        error: outcome.error.clone(),
        samples,
    }
}

fn is_tcp(stream: &StreamState) -> bool {
    matches!(stream.socket, DataSocket::Tcp(_))
}

/// `/proc/stat` counts in 10 ms ticks: shorter spans say nothing about a core's load.
const CORES_SPACING: Duration = Duration::from_millis(100);

/// Samples until the run ends; must be called after `go`.
pub(super) fn run(shared: &EngineShared) -> (SampleSeries, Vec<CoreUsage>) {
    let mut series = SampleSeries::new(shared.streams.len(), shared.sample_spacing());
    let mut load = CoreLoad::begin();
    let mut due = Instant::now();
    loop {
        take_samples(shared, &mut series);
        load.observe(CORES_SPACING);
        // After a late sample, the next one keeps its distance: two close samples add nothing.
        due = (due + series.spacing()).max(Instant::now() + series.spacing() / 2);
        request_readings(shared, due, series.spacing());
        if shared.wait_finished_until(due) {
            break;
        }
    }
    take_samples(shared, &mut series);
    load.observe(Duration::from_millis(20));
    (series, load.usage)
}

/// Requests a reading of every stream shortly before `due`.
fn request_readings(shared: &EngineShared, due: Instant, spacing: Duration) {
    let left = due.saturating_duration_since(Instant::now());
    let left = left.saturating_sub(super::SAMPLE_LEAD.min(spacing / 4));
    let at_ns = shared.clock().now_ns() + left.as_nanos() as u64;
    shared.streams.iter().for_each(|it| it.sample_request.request(at_ns));
}

/// Takes one sample of every stream.
pub(super) fn take_samples(shared: &EngineShared, series: &mut SampleSeries) {
    let streams = shared.streams.iter();
    series.push(streams.map(|stream| sample_stream(shared, stream)));
}

fn sample_stream(shared: &EngineShared, stream: &StreamState) -> StreamSample {
    let answer = stream.sample_request.take_reading();
    // A stream that has ended has moved more bytes since its reading.
    let answer = answer.filter(|_| stream.counters.is_running());
    let mut reading = answer.unwrap_or_else(|| read_stream(shared, stream));
    (reading.cpu_us, reading.core_wait_us) = stream.counters.thread_times_us();
    *stream.latest.lock() = Some(reading.clone());
    reading
}

/// The load of each core since the start, and its maximum.
struct CoreLoad {
    read_at: Instant,
    last: Vec<CoreTimes>,
    usage: Vec<CoreUsage>,
}

impl CoreLoad {
    fn begin() -> CoreLoad {
        let last = host::read_core_times().unwrap_or_default();
        let core = |times: &CoreTimes| CoreUsage { index: times.index, ..CoreUsage::default() };
        CoreLoad { read_at: Instant::now(), usage: last.iter().map(core).collect(), last }
    }

    /// Reads the cores if the last reading is at least `spacing` old.
    fn observe(&mut self, spacing: Duration) {
        let elapsed = self.read_at.elapsed();
        if elapsed < spacing {
            return;
        }
        let now = host::read_core_times().unwrap_or_default();
        self.read_at = Instant::now();
        let micros = |new: Duration, old: Duration| new.saturating_sub(old).as_micros() as u64;
        for ((new, old), usage) in now.iter().zip(&self.last).zip(&mut self.usage) {
            let busy_us = micros(new.busy, old.busy);
            let elapsed_us = elapsed.as_micros() as u64;
            usage.elapsed_us += elapsed_us;
            usage.busy_us += busy_us;
            usage.softirq_us += micros(new.softirq, old.softirq);
            usage.steal_us += micros(new.steal, old.steal);
            let permille = (busy_us * 1000).checked_div(elapsed_us).unwrap_or(0).min(1000) as u32;
            usage.busiest_permille = usage.busiest_permille.max(Some(permille));
        }
        self.last = now;
    }
}
