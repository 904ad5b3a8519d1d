//! The counters of a stream: written by its own thread, read by any thread.

use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_sys::thread_times::ThreadId;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::time::{Duration, Instant};

/// Counters with one writer, padded so that two streams share no cache line or prefetched pair.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct StreamCounters {
    bytes: AtomicU64,
    calls: AtomicU64,
    blocked_ns: AtomicU64,
    /// The counts of a UDP receiver so far.
    udp: Mutex<UdpCounts>,
    /// Times of the first and last bytes, plus one; 0 if there are none yet.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Kernel id of the thread; 0: not started.
    thread: AtomicI32,
    /// Set when the thread has ended and the times below are final.
    ended: AtomicBool,
    cpu_ns: AtomicU64,
    core_wait_ns: AtomicU64,
}

/// Time since the origin of the common time line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock(pub Instant);

impl RunClock {
    pub fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl StreamCounters {
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    pub fn blocked_us(&self) -> u64 {
        self.blocked_ns.load(Relaxed) / 1000
    }

    /// Returns the counts of a UDP receiver so far; duplicates are reported only at the end.
    pub fn udp(&self) -> UdpCounts {
        let udp = *self.udp.lock();
        let out_of_order = Some(udp.out_of_order.unwrap_or(0));
        UdpCounts { datagrams: self.calls(), out_of_order, duplicates: None, ..udp }
    }

    /// Returns the times of the first and the last bytes.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let first = self.first_ns.load(Relaxed).checked_sub(1)?;
        let last = self.last_ns.load(Relaxed).checked_sub(1)?;
        Some((first, last.max(first)))
    }

    /// Must be the first call of the stream's thread.
    pub fn thread_started(&self) {
        self.thread.store(ThreadId::current().0, Relaxed);
    }

    /// Must be the last call of the stream's thread: its clocks cannot be read afterwards.
    pub fn thread_ended(&self) {
        let own = ThreadId::current();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (cpu, wait) = (own.cpu_time(), own.core_wait());
        self.cpu_ns.store(cpu.map_or(0, nanos), Relaxed);
        self.core_wait_ns.store(wait.map_or(0, nanos), Relaxed);
        self.ended.store(true, Release);
    }

    /// Returns whether the stream's thread has started and not ended.
    pub fn is_running(&self) -> bool {
        self.thread.load(Relaxed) != 0 && !self.ended.load(Acquire)
    }

    /// CPU time of the stream's thread and its wait for a core, in microseconds.
    pub fn thread_times_us(&self) -> (Option<u64>, Option<u64>) {
        if self.ended.load(Acquire) {
            let read = |value: &AtomicU64| Some(value.load(Relaxed) / 1000).filter(|&us| us > 0);
            return (read(&self.cpu_ns), Some(self.core_wait_ns.load(Relaxed) / 1000));
        }
        let number = self.thread.load(Relaxed);
        if number == 0 {
            return (None, None);
        }
        let thread = ThreadId(number);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        (thread.cpu_time().ok().map(micros), thread.core_wait().ok().map(micros))
    }
}

/// The writer of [`StreamCounters`], owned by the stream's thread.
#[derive(Debug)]
pub(super) struct CounterWriter<'a> {
    counters: &'a StreamCounters,
    clock: RunClock,
    mark_ns: u64,
}

impl<'a> CounterWriter<'a> {
    pub fn new(counters: &'a StreamCounters, clock: RunClock) -> CounterWriter<'a> {
        CounterWriter { counters, clock, mark_ns: clock.now_ns() }
    }

    /// The time of the last call.
    pub fn now_ns(&self) -> u64 {
        self.mark_ns
    }

    /// The number of bytes so far, which is the position in the stream.
    pub fn position(&self) -> u64 {
        self.counters.bytes()
    }

    /// Excludes the time since the last call, because the thread paused on purpose.
    pub fn skip_pause(&mut self) {
        self.mark_ns = self.clock.now_ns();
    }

    /// Records a call that returned without bytes.
    pub fn record_wait(&mut self) {
        let before = self.mark_ns;
        self.skip_pause();
        add_to_counter(&self.counters.blocked_ns, self.mark_ns.saturating_sub(before));
    }

    /// Records a call that returned `bytes`.
    pub fn record_bytes(&mut self, bytes: usize) {
        self.record_wait();
        if self.counters.first_ns.load(Relaxed) == 0 {
            self.counters.first_ns.store(self.mark_ns + 1, Relaxed);
        }
        add_to_counter(&self.counters.bytes, bytes as u64);
        self.counters.last_ns.store(self.mark_ns + 1, Relaxed);
    }

    /// Starts the stream's time at its first write; a receiver's starts with its first bytes.
    pub fn begin(&mut self) {
        self.skip_pause();
        self.counters.first_ns.store(self.mark_ns + 1, Relaxed);
    }

    /// Publishes the current account of a UDP receiver.
    pub fn publish_udp(&self, udp: &UdpCounts) {
        *self.counters.udp.lock() = *udp;
    }

    /// Records one complete write or read, or `count` datagrams.
    pub fn record_calls(&mut self, count: u64) {
        add_to_counter(&self.counters.calls, count);
    }
}

/// Adds to a counter that no other thread writes, without a locked instruction.
fn add_to_counter(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}
