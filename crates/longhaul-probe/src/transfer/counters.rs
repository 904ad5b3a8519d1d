//! Time counters of the threads of one end, readable by other threads.

use longhaul_model::report::v1::copy::Stage;
use longhaul_sys::thread::ThreadId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of one stage: the disk threads or the network threads.
#[derive(Debug, Default)]
pub(super) struct StageCounters {
    threads: AtomicU64,
    busy: Time,
    cpu: Time,
    idle: Time,
    blocked: Time,
    core_wait: Time,
}

/// A total time in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Time(AtomicU64);

impl Time {
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn us(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1000
    }
}

/// Measures one thread's activity for the counters of its stage.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    counters: &'a StageCounters,
    thread: ThreadId,
}

impl StageCounters {
    /// Starts measuring the calling thread.
    pub fn watch(&self) -> Watch<'_> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        Watch {
            counters: self,
            thread: ThreadId::current(),
        }
    }

    pub fn read(&self) -> Stage {
        let core_wait = self.core_wait.us();
        Stage {
            threads: self.threads.load(Ordering::Relaxed) as u32,
            busy_us: self.busy.us(),
            cpu_us: self.cpu.us(),
            idle_us: self.idle.us(),
            blocked_us: self.blocked.us(),
            core_wait_us: (core_wait > 0).then_some(core_wait),
        }
    }
}

impl Watch<'_> {
    /// Measures the stage's own work.
    pub fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (Instant::now(), self.cpu());
        let done = work();
        self.counters.busy.add(begin.elapsed());
        self.counters.cpu.add(self.cpu().saturating_sub(cpu));
        done
    }

    /// Measures waiting for the previous stage.
    pub fn idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        timed(&self.counters.idle, wait)
    }

    /// Measures waiting for the next stage.
    pub fn blocked<T>(&self, wait: impl FnOnce() -> T) -> T {
        timed(&self.counters.blocked, wait)
    }

    /// Returns the thread's CPU time; zero if unreadable, which makes the stage look idle.
    fn cpu(&self) -> Duration {
        self.thread.cpu_time().unwrap_or_default()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Ok(wait) = self.thread.core_wait() {
            self.counters.core_wait.add(wait);
        }
    }
}

pub(super) fn timed<T>(into: &Time, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    into.add(begin.elapsed());
    done
}
