//! One end of a run: its threads, from start to the last reading.

use super::choice::Choice;
use super::counters::{Counters, Meter, RunClock};
use super::end::{self, Baseline};
use super::receive::{self, TcpReceiver};
use super::send::{self, Mover, TcpSender};
use super::series::Series;
use super::sockets::DataSocket;
use super::stop::StopRule;
use super::udp::{self, DatagramReceiver, DatagramSender};
use super::{EndResult, EndSpec, EngineError, Progress, Role, payload, reading, sampler};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::{Core, Sample, StreamEnd, Udp};
use longhaul_model::report::v1::plan::Transport;
use longhaul_model::units::Rate;
use longhaul_sys::cycles::Cycles;
use longhaul_sys::region::{Region, Sink};
use longhaul_sys::tcp_info::{self, TcpInfo};
use longhaul_sys::{sched, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Little of it is touched: the loops keep their state in a few hundred bytes.
const STACK_BYTES: usize = 256 << 10;
/// Threads wake within a tick of a stop; one that does not is stuck in the kernel and left behind.
const JOIN_DEADLINE: Duration = Duration::from_secs(3);
/// Samples closer than this would measure the sampler.
const SPACING_LEAST: Duration = Duration::from_millis(1);

/// A stream, as its thread, the sampler and the caller share it.
#[derive(Debug)]
pub(super) struct StreamState {
    pub socket: DataSocket,
    pub counters: Counters,
    pub latest: Latest,
    outcome: Mutex<Outcome>,
}

/// What only the stream's thread can say.
#[derive(Debug, Default)]
struct Outcome {
    core: Option<u32>,
    udp: Option<Udp>,
    error: Option<String>,
    caveats: Vec<Caveat>,
}

/// The sampler's last reading of a stream, for live progress; `u64::MAX`: none.
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
    /// Stream threads that are not over.
    running: usize,
    ending: bool,
}

/// Everything that the threads of one end share.
#[derive(Debug)]
pub(super) struct Shared {
    pub spec: EndSpec,
    pub streams: Vec<StreamState>,
    pub interface: Option<String>,
    pub cycles: Option<Cycles>,
    choice: Choice,
    stop: StopRule,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub fn clock(&self) -> RunClock {
        RunClock(self.spec.origin)
    }

    pub fn sample_spacing(&self) -> Duration {
        Duration::from_micros(self.spec.plan.interval_us)
            .max(self.spec.idle_rtt.unwrap_or_default())
            .max(SPACING_LEAST)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `go`; false when the run is stopped first.
    fn wait_go(&self) -> bool {
        let waiting = |state: &mut State| state.went.is_none() && !self.stop.stopped();
        let state = self.changed.wait_while(self.lock(), waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.went.is_some() && !self.stop.stopped()
    }

    fn wait(&self, timeout: Duration, over: impl Fn(&State) -> bool) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !over(state))
            .unwrap_or_else(PoisonError::into_inner);
        over(&state)
    }

    /// Until `due`, or until every stream is over; true then.
    pub fn wait_finished_until(&self, due: Instant) -> bool {
        let timeout = due.saturating_duration_since(Instant::now());
        self.wait(timeout, |state| state.running == 0 || state.ending)
    }
}

/// One end of a run under way.
#[derive(Debug)]
pub struct EndRun {
    shared: Arc<Shared>,
    streams: Vec<JoinHandle<()>>,
    sampler: JoinHandle<(Series, Vec<Core>)>,
}

impl EndRun {
    /// Makes the threads, which wait; nothing is sent or read before [`EndRun::go`].
    ///
    /// # Errors
    /// No memory or no threads; a socket that does not take a timeout.
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
            socket,
            counters: Counters::default(),
            latest: Latest::new(),
            outcome: Mutex::default(),
        });
        let shared = Arc::new(Shared {
            stop: StopRule::new(spec.plan.stop),
            streams: streams.collect(),
            interface,
            // Before the threads are made: they are counted by inheritance.
            cycles: Cycles::start().ok(),
            choice,
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
        // Threads that were made before one that failed wait for `go`; the stop sends them home.
        let give_up = |source| {
            shared.stop.stop();
            shared.changed.notify_all();
            failed(source)
        };
        let memory = Memory::new(&shared).map_err(give_up)?;
        let mut streams = Vec::with_capacity(shared.streams.len());
        for index in 0..shared.streams.len() {
            let (own, tools) = (Arc::clone(&shared), memory.tools(index, &shared));
            let thread = std::thread::Builder::new()
                .name(format!("stream-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || stream_thread(&own, index, tools))
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
        Ok(EndRun {
            shared,
            streams,
            sampler,
        })
    }

    /// Payload flows from now on.
    pub fn go(&self) {
        let baseline = Baseline::take(self.shared.interface.as_deref());
        let mut state = self.shared.lock();
        if state.went.is_some() {
            return;
        }
        self.shared.stop.begin(self.shared.clock().now_ns());
        state.baseline = Some(baseline);
        state.went = Some(Instant::now());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// How far it has come; reads counters only.
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
            retransmits,
            rtt: mean.map(Duration::from_micros),
        }
    }

    /// Sender: its stop rule is met. Receiver: every stream has ended. Either: every stream failed.
    pub fn finished(&self) -> bool {
        self.shared.lock().running == 0
    }

    /// Waits until [`EndRun::finished`], at most for `timeout`; true when it is.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait(timeout, |state| state.running == 0)
    }

    /// Ends all streams now, within a tick (50 ms sending, at once receiving over TCP).
    pub fn stop(&self) {
        self.shared.stop.stop();
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if self.shared.spec.role == Role::Receiver {
            for stream in &self.shared.streams {
                if let DataSocket::Tcp(socket) = &stream.socket {
                    // A socket that is gone already needs no waking.
                    let _ = socket.shutdown(Shutdown::Read);
                }
            }
        }
    }

    /// Stops what still runs, takes the last readings and closes the sockets. A sender that was
    /// limited by time throws its unsent data away (reset); the far end should have been told.
    pub fn end(self) -> EndResult {
        self.stop();
        let mut caveats = Vec::new();
        if self.wait(JOIN_DEADLINE) {
            for thread in self.streams {
                // A panic is our bug; the stream's own record says how far it came.
                let _ = thread.join();
            }
        } else {
            let text = "a stream's thread did not end in time; its last counts are missing";
            caveats.push(Caveat::new("thread_left_behind", text));
        }
        self.shared.lock().ending = true;
        self.shared.changed.notify_all();
        let (mut series, cores) = self.sampler.join().unwrap_or_else(|_| {
            (
                Series::new(self.shared.streams.len(), Duration::ZERO),
                Vec::new(),
            )
        });
        sampler::take(&self.shared, &mut series);
        collect(&self.shared, series, cores, caveats)
    }
}

/// Sets on a socket what the engine needs and what it chooses.
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
    if let Some(bytes) = choice
        .low_water_bytes
        .filter(|_| spec.role == Role::Receiver)
    {
        sockopt::set_receive_low_water(socket, bytes)
            .map_err(|source| failed("low-water mark", source))?;
    }
    if let (DataSocket::Udp(socket), Role::Receiver) = (socket, spec.role) {
        // Without it the arrival is timed when the datagram is read.
        let _ = sockopt::set_receive_timestamps(socket);
    }
    Ok(())
}

fn is_tcp(socket: &DataSocket) -> bool {
    matches!(socket, DataSocket::Tcp(_))
}

/// Memory that streams share: one payload, and one sink for each core.
struct Memory {
    payload: Option<Arc<Region>>,
    sinks: BTreeMap<usize, Sink>,
}

/// What one stream's thread is given.
enum Tools {
    Send(Arc<Region>),
    Receive(Sink),
    None,
}

impl Memory {
    fn new(shared: &Shared) -> io::Result<Memory> {
        let (spec, choice) = (&shared.spec, &shared.choice);
        let tcp = spec.plan.transport == Transport::Tcp;
        let mut memory = Memory {
            payload: None,
            sinks: BTreeMap::new(),
        };
        match spec.role {
            Role::Sender if tcp => {
                let region = payload::region(choice.payload_bytes, spec.plan.zero_copy)?;
                memory.payload = Some(Arc::new(region));
            }
            Role::Receiver if tcp => {
                for index in 0..shared.streams.len() {
                    let key = sink_key(choice, index);
                    if let std::collections::btree_map::Entry::Vacant(place) =
                        memory.sinks.entry(key)
                    {
                        place.insert(Sink::new(choice.read_bytes)?);
                    }
                }
            }
            _ => {}
        }
        Ok(memory)
    }

    fn tools(&self, index: usize, shared: &Shared) -> Tools {
        match (
            &self.payload,
            self.sinks.get(&sink_key(&shared.choice, index)),
        ) {
            (Some(payload), _) => Tools::Send(Arc::clone(payload)),
            (None, Some(sink)) => Tools::Receive(sink.clone()),
            (None, None) => Tools::None,
        }
    }
}

/// Streams pinned to one core share a sink; others have their own.
fn sink_key(choice: &Choice, index: usize) -> usize {
    choice.core(index).unwrap_or(index)
}

fn stream_thread(shared: &Shared, index: usize, tools: Tools) {
    let stream = &shared.streams[index];
    stream.counters.thread_begins();
    let mut outcome = Outcome::default();
    place(shared, index, &mut outcome);
    if let Err(error) = run_stream(shared, index, tools, &mut outcome) {
        outcome.error = Some(error.to_string());
    }
    stream.counters.thread_ends();
    *stream
        .outcome
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = outcome;
    let mut state = shared.lock();
    state.running -= 1;
    let last = state.running == 0;
    drop(state);
    if last {
        shared.changed.notify_all();
    }
}

fn place(shared: &Shared, index: usize, outcome: &mut Outcome) {
    let choice = &shared.choice;
    if let Some(core) = choice.core(index) {
        match sched::pin_to_core(core) {
            Ok(()) => outcome.core = Some(core as u32),
            Err(error) => outcome.caveats.push(Caveat::new(
                "not_pinned",
                format!("stream {index} could not be pinned to core {core}: {error}"),
            )),
        }
    }
    let timed = shared.spec.plan.transport != Transport::Tcp;
    if timed || choice.write_rate.is_some() || choice.read_rate.is_some() {
        // Late timers only make a paced stream less even.
        let _ = sched::set_timer_slack(Duration::from_nanos(1));
    }
}

fn run_stream(
    shared: &Shared,
    index: usize,
    tools: Tools,
    outcome: &mut Outcome,
) -> io::Result<()> {
    match (&shared.streams[index].socket, tools) {
        (DataSocket::Tcp(socket), Tools::Send(payload)) => {
            send_tcp(shared, index, (socket, &payload), outcome)
        }
        (DataSocket::Tcp(socket), Tools::Receive(sink)) => receive_tcp(shared, index, socket, sink),
        (DataSocket::Udp(socket), _) if shared.spec.role == Role::Sender => {
            send_udp(shared, index, socket)
        }
        (DataSocket::Udp(socket), _) => {
            let stream = &shared.streams[index];
            let meter = Meter::new(&stream.counters, shared.clock());
            let parts = (meter, shared.clock());
            let receiver =
                DatagramReceiver::new(socket, shared.spec.plan.mode, parts, &shared.stop);
            if !shared.wait_go() {
                return Ok(());
            }
            let (udp, result) = receiver.run();
            outcome.udp = Some(udp);
            result
        }
        (DataSocket::Tcp(_), Tools::None) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a TCP connection in a UDP plan",
        )),
    }
}

fn send_tcp(
    shared: &Shared,
    index: usize,
    (socket, payload): (&TcpStream, &Arc<Region>),
    outcome: &mut Outcome,
) -> io::Result<()> {
    let (mover, caveat) = Mover::new(payload, shared.spec.plan.zero_copy, &shared.choice);
    outcome.caveats.extend(caveat);
    if !shared.wait_go() {
        return Ok(());
    }
    TcpSender {
        socket,
        mover,
        meter: Meter::new(&shared.streams[index].counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.choice,
    }
    .run()
}

fn receive_tcp(shared: &Shared, index: usize, socket: &TcpStream, sink: Sink) -> io::Result<()> {
    if !shared.wait_go() {
        return Ok(());
    }
    TcpReceiver {
        socket,
        mode: shared.spec.plan.mode,
        sink,
        meter: Meter::new(&shared.streams[index].counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.choice,
    }
    .run()
}

fn send_udp(shared: &Shared, index: usize, socket: &UdpSocket) -> io::Result<()> {
    let Transport::Udp { rate_bps } = shared.spec.plan.transport else {
        let text = "a UDP socket in a TCP plan";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let rate = Rate::bits_per_second(rate_bps / shared.streams.len().max(1) as u64);
    let asked = shared.spec.plan.write_bytes;
    let bytes = asked.map_or_else(|| udp::default_bytes(socket), |bytes| bytes as usize);
    let meter = Meter::new(&shared.streams[index].counters, shared.clock());
    let parts = (meter, shared.clock());
    let sender = DatagramSender::new(socket, index, (rate, bytes), parts, &shared.stop);
    if !shared.wait_go() {
        return Ok(());
    }
    sender.run()
}

/// Puts together what the end has to say, and prepares the sockets for their close.
fn collect(
    shared: &Shared,
    series: Series,
    cores: Vec<Core>,
    mut caveats: Vec<Caveat>,
) -> EndResult {
    let parts = shared.streams.iter().zip(series.into_streams());
    let mut streams = Vec::with_capacity(shared.streams.len());
    for (stream, samples) in parts {
        let mut outcome = stream
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        caveats.append(&mut outcome.caveats);
        streams.push(stream_end(shared, stream, &outcome, samples));
        if shared.spec.role == Role::Sender && !shared.stop.drains() && is_tcp(&stream.socket) {
            // On failure the close sends what is left, which only takes longer.
            let _ = sockopt::set_abort_on_close(&stream.socket);
        }
    }
    add_buffer_caveats(shared, &streams, &mut caveats);
    let baseline = shared.lock().baseline.take();
    let baseline = baseline.unwrap_or_else(|| Baseline::take(shared.interface.as_deref()));
    EndResult {
        end: end::describe(shared, &baseline, cores),
        streams,
        caveats,
    }
}

fn stream_end(
    shared: &Shared,
    stream: &StreamState,
    outcome: &Outcome,
    samples: Vec<Sample>,
) -> StreamEnd {
    let (local, peer) = stream.socket.addresses();
    let plan = &shared.spec.plan;
    let asked_send = plan.send_buffer_bytes.or(shared
        .choice
        .send_buffer_bytes
        .filter(|_| is_tcp(&stream.socket))
        .map(|bytes| bytes as u64));
    let (send_buffer, receive_buffer) =
        reading::buffers(&stream.socket, asked_send, plan.receive_buffer_bytes);
    let info = tcp_info::read(&stream.socket).ok();
    let span_ns = stream.counters.span_ns();
    StreamEnd {
        local: local.map(|address| address.to_string()),
        peer: peer.map(|address| address.to_string()),
        bytes: stream.counters.bytes(),
        started_us: span_ns.map_or(0, |(first, _)| first / 1000),
        duration_us: span_ns.map_or(0, |(first, last)| (last - first) / 1000),
        calls: stream.counters.calls(),
        blocked_us: stream.counters.blocked_us(),
        cpu_us: stream.counters.thread_times_us().0,
        core: outcome.core,
        send_buffer,
        receive_buffer,
        mss_bytes: info.as_ref().map(|info| info.send_mss_bytes),
        congestion_control: sockopt::congestion_control(&stream.socket).ok(),
        options: info.as_ref().map(reading::options),
        udp: outcome.udp,
        error: outcome.error.clone(),
        samples,
    }
}

/// The kernel silently grants less than was asked beyond `rmem_max` and `wmem_max`.
fn add_buffer_caveats(shared: &Shared, streams: &[StreamEnd], caveats: &mut Vec<Caveat>) {
    let Some(first) = streams.first() else { return };
    for (what, buffer) in [
        ("send buffer", first.send_buffer),
        ("receive buffer", first.receive_buffer),
    ] {
        let Some(buffer) = buffer else { continue };
        let Some(asked) = buffer.asked_bytes else {
            continue;
        };
        if buffer.granted_bytes < asked {
            let role = match shared.spec.role {
                Role::Sender => "sender",
                Role::Receiver => "receiver",
            };
            let (granted, stored) = (buffer.granted_bytes, buffer.stored_bytes);
            caveats.push(Caveat::new(
                "buffer_clipped",
                format!(
                    "{what} at the {role}: {asked} bytes asked, {granted} granted \
                     ({stored} stored, which Linux doubles)"
                ),
            ));
        }
    }
}
