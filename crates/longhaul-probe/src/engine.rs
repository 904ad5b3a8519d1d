//! Sends or receives the bulk data of one end, and counts it.
//!
//! One thread per stream only makes blocking calls. A sampler thread reads counters, TCP_INFO,
//! queues and CPU clocks. The session layer drives an [`EndRun`]: start, go, wait, end. The session
//! also decides when the other end starts or stops; the engines of the two ends share only their
//! streams.
//!
//! The techniques and their reasons are described in docs/decisions and each module. In short:
//! copying writes and reads by default, page references (vmsplice) with `zero_copy`, discarding in
//! the kernel (MSG_TRUNC) in mode *wire*. On the same host, the two threads of a stream share a
//! core and the data in flight fits its cache.
//!
//! Memory per stream: a thread stack of 256 KiB (little of it touched), one receive buffer of
//! [`EndSpec::plan`]'s read size, and at most 1200 samples of about 0.7 KiB. All streams together
//! keep at most 40 000 samples.
//!
//! # Payload pattern
//!
//! The payload: pseudo-random bytes, which no device on the path can compress.
//!
//! Byte k of every stream is [`payload_byte`] of k modulo the region's length, so that a receiver
//! that checks it can detect lost or repeated bytes.
//!
//! # Pace
//!
//! Rate limiting by sleeping between calls.
//!
//! This is a schedule, not a token bucket: each call is due when the bytes before it would have
//! passed at the rate. A late thread may catch up by at most `credit`; time lost beyond that
//! (blocked by the peer, or without a core) is not made up in a burst.
//!
//! # Sample request
//!
//! Readings of a stream that its own thread takes shortly before the sampler needs them.
//!
//! The kernel returns the TCP_INFO and the queue of a connection only under the connection's lock,
//! which the thread of a fast stream holds almost always. A sampler that waits for the lock is
//! repeatedly woken by that thread, which soon holds the lock again: a hundred readings a second
//! cost a stream of 50 Gbit/s on loopback 5 to 7 % of its goodput. The stream's thread can take a
//! reading between two calls at almost no cost. A thread that sleeps in a call has released the
//! lock, so the sampler can take the reading itself.

mod datagram_tracker;
mod defaults;
mod end_host;
mod end_run;
mod scavenger;
mod sockets;
mod stream_counters;
mod tcp_receiver;
mod tcp_sender;
mod udp_stream;

/// Returns byte `index` of the payload (SplitMix64, one word per eight bytes).
pub fn payload_byte(index: u64) -> u8 {
    payload_word(index / 8).to_le_bytes()[(index % 8) as usize]
}

fn payload_word(index: u64) -> u64 {
    splitmix::mix_bits(index.wrapping_mul(splitmix::INCREMENT))
}

/// Fills `bytes` with the payload from its beginning.
fn fill_payload(bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&payload_word(index as u64).to_le_bytes()[..chunk.len()]);
    }
}

/// Returns a payload region, on a huge page if `huge` is set and the system has one.
fn new_payload_region(bytes: usize, huge: bool) -> io::Result<Arc<MemoryRegion>> {
    let mut region = if huge { MemoryRegion::huge(bytes)? } else { MemoryRegion::new(bytes)? };
    fill_payload(region.bytes_mut());
    Ok(Arc::new(region))
}

/// An operation that this host's kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}: {source}{}", hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct EngineError {
    /// The operation, for example `choose congestion control bbr for 192.0.2.1:5201`.
    pub operation: String,
    /// Advice on what to do next.
    pub hint: Option<String>,
    #[source]
    pub source: io::Error,
}

impl EngineError {
    pub fn new(tried: impl Into<String>, source: io::Error) -> EngineError {
        EngineError { operation: tried.into(), hint: None, source }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}

/// Names the operation of a failed call.
pub(crate) trait EngineContext<T> {
    fn during(self, tried: impl Into<String>) -> Result<T, EngineError>;
}

impl<T> EngineContext<T> for io::Result<T> {
    fn during(self, tried: impl Into<String>) -> Result<T, EngineError> {
        self.map_err(|source| EngineError::new(tried, source))
    }
}

/// The longest sleep, so that a stop is noticed in time.
const SLICE: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct RatePacer {
    rate: Rate,
    credit_ns: u64,
    due_ns: u64,
}

impl RatePacer {
    pub fn new(rate: Rate, credit: Duration, now_ns: u64) -> RatePacer {
        RatePacer { rate, credit_ns: credit.as_nanos() as u64, due_ns: now_ns }
    }

    /// Waits until the next call is due; false if the run ends first.
    pub fn wait(&mut self, clock: RunClock, stop: &StopRule) -> bool {
        loop {
            let now = clock.now_ns();
            if stop.is_over(now) {
                return false;
            }
            let Some(early) = self.due_ns.checked_sub(now).filter(|&early| early > 0) else {
                self.due_ns = self.due_ns.max(now.saturating_sub(self.credit_ns));
                return true;
            };
            let until_stop = stop.deadline_ns().saturating_sub(now);
            let sleep = Duration::from_nanos(early.min(until_stop)).min(SLICE);
            std::thread::sleep(sleep);
        }
    }

    /// Records that `bytes` were sent or received.
    pub fn advance(&mut self, bytes: usize) {
        let time = self.rate.time_for(bytes as u64).unwrap_or(Duration::MAX);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.saturating_add(nanos);
    }
}

/// Returns the bytes that pass in about 10 ms, within the limits: small enough for an even flow,
/// large enough for a negligible cost of calls.
fn paced_call_bytes(rate: Rate, least: usize, most: usize) -> usize {
    let bytes = rate.bytes_in(Duration::from_millis(10));
    usize::try_from(bytes).unwrap_or(most).clamp(least.min(most), most)
}

const MAX_STREAM_SAMPLES: usize = 1200;
/// The samples of all streams of a direction: as results they fit into 64 MiB, those of a stream into
/// the frame of its result.
pub(crate) const MAX_TOTAL_SAMPLES: usize = 40_000;
/// The minimum number of samples of a stream in any run: fewer would not show a ramp.
const MIN_STREAM_SAMPLES: usize = 4;

/// The samples of each stream; all streams have the same number.
#[derive(Debug)]
struct SampleSeries {
    streams: Vec<Vec<StreamSample>>,
    max_samples: usize,
    spacing: Duration,
}

impl SampleSeries {
    pub fn new(streams: usize, spacing: Duration) -> SampleSeries {
        let most =
            (MAX_TOTAL_SAMPLES / streams.max(1)).clamp(MIN_STREAM_SAMPLES, MAX_STREAM_SAMPLES);
        SampleSeries { streams: vec![Vec::new(); streams], max_samples: most, spacing }
    }

    /// The time between samples from now on.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }

    /// Adds one sample of every stream.
    pub fn push(&mut self, samples: impl Iterator<Item = StreamSample>) {
        if self.streams.first().is_some_and(|kept| kept.len() >= self.max_samples) {
            self.thin();
        }
        for (kept, sample) in self.streams.iter_mut().zip(samples) {
            kept.push(sample);
        }
    }

    fn thin(&mut self) {
        for kept in &mut self.streams {
            let mut index = 0_usize;
            kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.spacing = self.spacing.saturating_mul(2);
    }

    pub fn into_streams(self) -> Vec<Vec<StreamSample>> {
        self.streams
    }
}

/// The time before a sample from which the stream's thread may take the reading. A busy thread is
/// between two calls more often than that.
const SAMPLE_LEAD: Duration = Duration::from_millis(1);
/// The due time when no reading is requested.
const NEVER_NS: u64 = u64::MAX;

/// Takes a consistent reading, which needs the connection's lock or the stream's thread, without
/// the thread's times.
fn read_stream(shared: &EngineShared, stream: &StreamState) -> StreamSample {
    let at_us = shared.clock().now_ns() / 1000;
    let (bytes, blocked_us) = (stream.counters.bytes(), stream.counters.blocked_us());
    let socket = &stream.socket;
    let queue = match shared.role {
        TransferRole::Sender => sockopt::send_queue_bytes(socket),
        TransferRole::Receiver => sockopt::receive_queue_bytes(socket),
    };
    let tcp = match socket {
        DataSocket::Tcp(socket) => {
            if shared.limits_window() {
                // If this fails, the samples show the window.
                let _ = sockets::limit_window(socket, &shared.spec.plan);
            }
            // Only a receiver of payload has its own estimate of the RTT.
            let read =
                |info: TcpInfo| TcpReading { receive_rtt_us: info.receive_rtt_us, ..info.reading };
            tcp_info::read_tcp_info(socket).ok().map(read)
        }
        DataSocket::Udp(_) => None,
    };
    StreamSample {
        at_us,
        bytes,
        blocked_us,
        queue_bytes: queue.ok(),
        tcp,
        ..StreamSample::default()
    }
}

/// Takes a reading in the stream's thread, between two calls, if one is due.
fn sample_if_due(shared: &EngineShared, stream: &StreamState, now_ns: u64) {
    stream.sample_request.fulfil_if_due(now_ns, || read_stream(shared, stream));
}

/// The request for a reading of one stream, and the reading.
#[derive(Debug)]
struct SampleRequest {
    due_ns: AtomicU64,
    answer: Mutex<Option<StreamSample>>,
}

impl SampleRequest {
    pub fn new() -> SampleRequest {
        SampleRequest { due_ns: AtomicU64::new(NEVER_NS), answer: Mutex::default() }
    }

    /// Requests a reading at `due_ns` or soon after. Called by the sampler.
    pub fn request(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Relaxed);
    }

    /// Returns the reading taken since the request, and cancels the request.
    pub fn take_reading(&self) -> Option<StreamSample> {
        let mut answer = self.answer.lock();
        self.due_ns.store(NEVER_NS, Relaxed);
        answer.take()
    }

    fn fulfil_if_due(&self, now_ns: u64, reading: impl FnOnce() -> StreamSample) {
        if now_ns < self.due_ns.load(Relaxed) {
            return;
        }
        let mut answer = self.answer.lock();
        if self.due_ns.swap(NEVER_NS, Relaxed) != NEVER_NS {
            *answer = Some(reading());
        }
    }
}

/// The outcome that only the stream's thread knows.
#[derive(Debug, Default)]
struct StreamOutcome {
    pub core: Option<u32>,
    pub udp: Option<UdpCounts>,
    pub error: Option<String>,
    pub caveats: Vec<ReportCaveat>,
}

/// Runs stream `index` from start to end.
fn run(shared: &EngineShared, index: usize) {
    let stream = &shared.streams[index];
    stream.counters.thread_started();
    let mut outcome = StreamOutcome::default();
    pin_thread(shared, index, &mut outcome);
    if let Err(error) = run_stream(shared, index, &mut outcome) {
        outcome.error = Some(error.to_string());
    }
    stream.counters.thread_ended();
    shared.finish_stream(index, outcome);
}

fn pin_thread(shared: &EngineShared, index: usize, outcome: &mut StreamOutcome) {
    let choice = &shared.defaults;
    if let Some(core) = choice.core_for(index) {
        match sched::pin_to_core(core) {
            Ok(()) => outcome.core = Some(core as u32),
            Err(error) => outcome.caveats.push(ReportCaveat::new(
                "not_pinned",
                format!("cannot pin stream {index} to core {core}: {error}"),
            )),
        }
    }
    let timed = shared.spec.plan.transport != RunTransport::Tcp;
    if timed || choice.write_rate.is_some() || choice.read_rate.is_some() {
        // Late timers only make a paced stream less even.
        let _ = sched::set_timer_slack(Duration::from_nanos(1));
    }
}

fn run_stream(shared: &EngineShared, index: usize, outcome: &mut StreamOutcome) -> io::Result<()> {
    match (&shared.streams[index].socket, shared.role) {
        (DataSocket::Tcp(socket), TransferRole::Sender) => {
            let (sender, caveat) = TcpSender::new(shared, index, socket);
            outcome.caveats.extend(caveat);
            if shared.wait_go() { sender.run() } else { Ok(()) }
        }
        (DataSocket::Tcp(socket), TransferRole::Receiver) => {
            let receiver = TcpReceiver::new(shared, index, socket)?;
            if shared.wait_go() { receiver.run() } else { Ok(()) }
        }
        (DataSocket::Udp(socket), TransferRole::Sender) => {
            let sender = DatagramSender::new(shared, index, socket);
            if shared.wait_go() { sender.run() } else { Ok(()) }
        }
        (DataSocket::Udp(socket), TransferRole::Receiver) => {
            let receiver = DatagramReceiver::new(shared, index, socket)?;
            if !shared.wait_go() {
                return Ok(());
            }
            let (udp, result) = receiver.run();
            outcome.udp = Some(udp);
            result
        }
    }
}

/// The stop rule that all streams of one end share.
#[derive(Debug)]
struct StopRule {
    requested: StopCondition,
    /// The bytes or blocks that are left; unused for a time limit.
    left: AtomicU64,
    /// The deadline on the run's own clock; `u64::MAX` before `go`, and without a time limit unless
    /// the run ends early.
    deadline_ns: AtomicU64,
    stopped: AtomicBool,
}

impl StopRule {
    pub fn new(asked: StopCondition) -> StopRule {
        let left = match asked {
            StopCondition::TimeUs(_) => u64::MAX,
            StopCondition::Bytes(left) | StopCondition::Blocks(left) => left,
        };
        StopRule {
            requested: asked,
            left: AtomicU64::new(left),
            deadline_ns: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
        }
    }

    /// Starts the time limit at `now_ns`.
    pub fn begin(&self, now_ns: u64) {
        if let StopCondition::TimeUs(micros) = self.requested {
            self.end_at(now_ns.saturating_add(micros.saturating_mul(1000)));
        }
    }

    /// Sets the time limit. That of a run which ends early is the moment of its end.
    pub fn end_at(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns, Relaxed);
    }

    /// Stops all streams now.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.deadline_ns.load(Relaxed) || self.is_stopped()
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// Returns whether the sender ends by itself and its last bytes must arrive.
    pub fn must_drain(&self) -> bool {
        !matches!(self.requested, StopCondition::TimeUs(_)) && self.deadline_ns() == u64::MAX
    }

    /// Returns whether a time-limited sender has used (nearly) all its time. A reset is then its
    /// normal end, since it discards unsent data.
    pub fn is_spent(&self, elapsed_ns: u64) -> bool {
        match self.requested {
            StopCondition::TimeUs(micros) => elapsed_ns >= micros.saturating_mul(950),
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => false,
        }
    }

    /// Takes up to `blocks` blocks of `block_bytes`, in bytes; returns 0 if nothing is left.
    pub fn claim(&self, block_bytes: usize, blocks: usize) -> usize {
        let most = block_bytes * blocks;
        match self.requested {
            StopCondition::TimeUs(_) => most,
            StopCondition::Bytes(_) => self.take(most as u64) as usize,
            StopCondition::Blocks(_) => self.take(blocks as u64) as usize * block_bytes,
        }
    }

    fn take(&self, most: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        loop {
            let taken = most.min(left);
            match self.left.compare_exchange_weak(left, left - taken, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Returns the unsent bytes of a failed stream to the others.
    pub fn give_back(&self, bytes: usize) {
        if let StopCondition::Bytes(_) = self.requested {
            self.left.fetch_add(bytes as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;

pub use datagram_tracker::{
    CounterWidth, DatagramFormat, DatagramHeader, DatagramTracker, reconcile_loss,
};
pub(crate) use end_host::read_host_facts;
pub use end_run::EndRun;
pub(crate) use sockets::is_queue_full;
pub use sockets::{
    DataSocket, LocalBind, is_socket_timeout, limit_window, open_tcp_socket, open_udp_socket,
    prepare_accepted, prepare_udp_socket,
};
pub(crate) use stream_counters::RunClock;

use end_run::{EngineShared, StreamState};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{
    EndObservation, StreamEnd, StreamSample, TcpReading, UdpCounts,
};
use longhaul_model::report::v1::plan::{RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::splitmix;
use longhaul_model::units::Rate;
use longhaul_sys::memory_region::MemoryRegion;
use longhaul_sys::tcp_info::{self, TcpInfo};
use longhaul_sys::{sched, sockopt};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use tcp_receiver::TcpReceiver;
use tcp_sender::TcpSender;
use udp_stream::{DatagramReceiver, DatagramSender};

/// The direction of this end's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferRole {
    Sender,
    Receiver,
}

/// The specification of one end of a run.
#[derive(Debug, Clone)]
pub struct EndSpec {
    pub plan: ThroughputPlan,
    /// Selects one of the two core lists of [`longhaul_model::report::v1::plan::CoreAffinity`].
    pub initiator: bool,
    pub idle_rtt: Option<Duration>,
    /// The zero of the common time line, on this host's clock.
    pub origin: Instant,
    /// The datagram format of a UDP run.
    pub heads: DatagramFormat,
    pub ending: StreamEnding,
}

/// The state in which a sender leaves a TCP stream after sending everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnding {
    /// Half-closed, so that the receiver sees the end of the stream with its last byte.
    HalfClosed,
    /// Left open after a whole block: the receiver reads whole blocks and learns of the end by
    /// other means.
    Open { block_bytes: u64 },
}

/// The progress of a run, cheap to read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineProgress {
    /// Time since `go`.
    pub elapsed: Duration,
    pub bytes: u64,
    pub stream_bytes: Vec<u64>,
    /// Counts of a UDP run; the sender counts only `datagrams`.
    pub stream_datagrams: Vec<UdpCounts>,
    /// The total of all streams, at the last sample.
    pub retransmits: Option<u64>,
    /// Mean over the streams, at the last sample.
    pub rtt: Option<Duration>,
    /// That of the control connection before the run.
    pub idle_rtt: Option<Duration>,
    /// Addresses and bytes of each stream, and a sample with the last reading of TCP_INFO.
    pub own_ends: Vec<StreamEnd>,
}

/// The results of one end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineResult {
    pub streams: Vec<StreamEnd>,
    pub end: EndObservation,
    pub caveats: Vec<ReportCaveat>,
}

#[cfg(test)]
mod payload_pattern_tests {
    use super::*;

    #[test]
    fn the_filled_bytes_are_the_stated_ones() {
        let mut bytes = [0; 1003];
        fill_payload(&mut bytes);
        for (index, &byte) in bytes.iter().enumerate() {
            assert_eq!(byte, payload_byte(index as u64), "byte {index}");
        }
    }
}

#[cfg(test)]
mod sample_series_tests {
    use super::*;

    #[test]
    fn however_long_the_run_the_samples_are_bounded_and_even_and_the_first_stays() {
        for (streams, most) in [(1, MAX_STREAM_SAMPLES), (100, 400), (20_000, MIN_STREAM_SAMPLES)] {
            let spacing = Duration::from_millis(100);
            let mut series = SampleSeries::new(streams, spacing);
            for at_us in 0..3_000 {
                let factor = series.spacing().as_millis() as u64 / 100;
                if at_us % factor == 0 && (streams < 1000 || at_us < 20) {
                    let sample = StreamSample { at_us, ..StreamSample::default() };
                    series.push(std::iter::repeat_n(sample, streams));
                }
            }
            let factor = series.spacing().as_millis() as u64 / 100;
            let first = &series.streams[0];
            assert!(first.len() <= most && first.len() >= most / 2);
            assert_eq!(first[0].at_us, 0);
            assert!(
                first[..most / 2].windows(2).all(|pair| pair[1].at_us - pair[0].at_us == factor),
                "{streams} streams"
            );
        }
    }
}

#[cfg(test)]
mod sample_request_tests {
    use super::*;

    fn reading(at_us: u64) -> StreamSample {
        StreamSample { at_us, ..StreamSample::default() }
    }

    #[test]
    fn a_question_is_answered_once_when_it_is_due_and_one_that_nobody_waits_for_is_not() {
        let asked = SampleRequest::new();
        asked.fulfil_if_due(5, || unreachable!("nobody asked"));
        asked.request(10);
        asked.fulfil_if_due(9, || unreachable!("not yet"));
        asked.fulfil_if_due(10, || reading(1));
        asked.fulfil_if_due(11, || unreachable!("answered already"));
        assert_eq!(asked.take_reading().map(|it| it.at_us), Some(1));
        asked.request(20);
        assert!(asked.take_reading().is_none(), "the thread slept");
        asked.fulfil_if_due(21, || unreachable!("the sampler has read by itself"));
    }
}

#[cfg(test)]
mod stop_rule_tests {
    use super::*;

    #[test]
    fn claims_add_up_to_exactly_what_was_asked() {
        for (asked, total) in [
            (StopCondition::Bytes(0), 0),
            (StopCondition::Bytes(1), 1),
            (StopCondition::Bytes(100_000), 100_000),
            (StopCondition::Blocks(17), 17 * 4096),
        ] {
            let rule = StopRule::new(asked);
            let claim = || {
                let mut sum = 0;
                loop {
                    match rule.claim(4096, 1) {
                        0 => return sum,
                        bytes => sum += bytes,
                    }
                }
            };
            let sum: usize = std::thread::scope(|scope| {
                let streams: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
                let sums = streams.into_iter().map(std::thread::ScopedJoinHandle::join);
                sums.map(|sum| sum.expect("a stream")).sum()
            });
            assert_eq!(sum, total, "{asked:?}");
        }
    }

    #[test]
    fn a_time_begins_with_go_and_not_before() {
        let rule = StopRule::new(StopCondition::TimeUs(5));
        assert!(!rule.is_over(1 << 60));
        rule.begin(1000);
        assert!(!rule.is_over(5999));
        assert!(rule.is_over(6000));
    }
}
