//! Time counters of the threads of one end, readable by other threads.

use longhaul_model::report::v1::copy::CopyStage;
use longhaul_sys::thread_times::ThreadId;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between two readings of the time without a core, each of which opens a file.
const CORE_WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// Counters of one stage: the disk threads or the network threads.
#[derive(Debug, Default)]
pub(super) struct StageCounters {
    running: AtomicU64,
    /// The most threads at a time.
    threads: AtomicU64,
    busy: TimeCounter,
    cpu: TimeCounter,
    idle: TimeCounter,
    blocked: TimeCounter,
    core_wait: TimeCounter,
}

/// A total time in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct TimeCounter(AtomicU64);

impl TimeCounter {
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn us(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1000
    }
}

/// A total number of bytes.
#[derive(Debug, Default)]
pub(super) struct ByteCounter(AtomicU64);

impl ByteCounter {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Measures one thread's activity for the counters of its stage.
#[derive(Debug)]
pub(super) struct StageTimer<'a> {
    stage: &'a StageCounters,
    thread: ThreadId,
    /// The time of the last reading of the time without a core, and that time.
    core_wait: Cell<(Instant, Duration)>,
}

impl StageCounters {
    /// Starts measuring the calling thread.
    pub fn start_timer(&self) -> StageTimer<'_> {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.threads.fetch_max(running, Ordering::Relaxed);
        let core_wait = Cell::new((Instant::now(), Duration::ZERO));
        StageTimer { stage: self, thread: ThreadId::current(), core_wait }
    }

    pub fn read(&self) -> CopyStage {
        let core_wait = self.core_wait.us();
        CopyStage {
            threads: self.threads.load(Ordering::Relaxed) as u32,
            busy_us: self.busy.us(),
            cpu_us: self.cpu.us(),
            idle_us: self.idle.us(),
            blocked_us: self.blocked.us(),
            core_wait_us: (core_wait > 0).then_some(core_wait),
        }
    }
}

impl StageTimer<'_> {
    /// Measures the stage's own work.
    pub fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (Instant::now(), self.cpu());
        let done = work();
        self.stage.busy.add(begin.elapsed());
        self.stage.cpu.add(self.cpu().saturating_sub(cpu));
        if self.core_wait.get().0.elapsed() > CORE_WAIT_INTERVAL {
            self.add_core_wait();
        }
        done
    }

    /// Measures waiting for the previous stage.
    pub fn idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        time_into(&self.stage.idle, wait)
    }

    /// Measures waiting for the next stage.
    pub fn blocked<T>(&self, wait: impl FnOnce() -> T) -> T {
        time_into(&self.stage.blocked, wait)
    }

    fn add_core_wait(&self) {
        if let Ok(wait) = self.thread.core_wait() {
            let (_, before) = self.core_wait.replace((Instant::now(), wait));
            self.stage.core_wait.add(wait.saturating_sub(before));
        }
    }

    /// Returns the thread's CPU time; zero if unreadable, which makes the stage look idle.
    fn cpu(&self) -> Duration {
        self.thread.cpu_time().unwrap_or_default()
    }
}

impl Drop for StageTimer<'_> {
    fn drop(&mut self) {
        self.add_core_wait();
        self.stage.running.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn time_into<T>(into: &TimeCounter, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    into.add(begin.elapsed());
    done
}
