//! Resource usage of a thread and of the process: CPU time, and time spent waiting for a core.
//!
//! Threads are identified by kernel id, so that one thread can read another's clocks. Readings fail
//! after the thread has ended.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use std::io;
use std::time::Duration;

/// The kernel's id of a thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(pub i32);

impl ThreadId {
    /// Returns the calling thread's id.
    pub fn current() -> ThreadId {
        ThreadId(gettid().as_raw())
    }

    /// Returns the user and system time of the thread, in nanosecond resolution.
    pub fn cpu_time(self) -> io::Result<Duration> {
        // The kernel's encoding of "scheduler clock of thread t" (posix-timers_types.h:
        // CPUCLOCK_PERTHREAD_MASK 4, CPUCLOCK_SCHED 2), as returned by pthread_getcpuclockid.
        let clock = (!self.0 << 3) | 6;
        Ok(clock_gettime(ClockId::from_raw(clock))?.into())
    }

    /// Returns the time that the thread was runnable without a core (`run_delay` of schedstat).
    pub fn core_wait(self) -> io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0))?;
        parse_run_delay(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "schedstat without a run delay")
        })
    }
}

fn parse_run_delay(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTimes {
    pub user: Duration,
    pub system: Duration,
}

/// Returns the CPU time of this process so far, for all threads together.
pub fn process_times() -> io::Result<ProcessTimes> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |value: TimeVal| {
        Duration::from_secs(value.tv_sec() as u64) + Duration::from_micros(value.tv_usec() as u64)
    };
    Ok(ProcessTimes { user: time(usage.user_time()), system: time(usage.system_time()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_can_be_timed_from_another() {
        let (tell, hear) = std::sync::mpsc::channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            let own = ThreadId::current();
            while own.cpu_time().expect("own clock") < Duration::from_millis(2) {}
            tell.send(own).expect("a listener");
            finished.recv().expect("leave to end");
        });
        let id = hear.recv().expect("the worker's id");
        assert!(id.cpu_time().expect("its clock") >= Duration::from_millis(2));
        assert!(id.core_wait().is_ok());
        finish.send(()).expect("the worker");
        worker.join().expect("the worker");
    }

    #[test]
    fn a_schedstat_line_gives_its_second_number() {
        assert_eq!(parse_run_delay("12 345 6\n"), Some(Duration::from_nanos(345)));
        for wrong in ["", "12", "12 x", "12 -1 3"] {
            assert_eq!(parse_run_delay(wrong), None, "{wrong:?}");
        }
    }
}
