//! Resource usage of a thread and of the process: CPU time, and time spent waiting for a core.
//!
//! Threads are identified by kernel id, so that one thread can read another's clocks. Readings fail
//! after the thread has ended.

use crate::syscall::check_status;
use std::io;
use std::time::Duration;

/// The kernel's id of a thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(i32);

impl ThreadId {
    /// Returns the calling thread's id.
    pub fn current() -> ThreadId {
        // By number, because glibc has the function since 2.30 and packages start on 2.28 (0031).
        // SAFETY: gettid takes nothing and cannot fail.
        ThreadId(unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t)
    }

    /// Returns the id as a number, for use in an atomic.
    pub fn get(self) -> i32 {
        self.0
    }

    /// Converts a number returned by [`ThreadId::get`].
    pub fn from_number(number: i32) -> ThreadId {
        ThreadId(number)
    }

    /// Returns the user and system time of the thread, in nanosecond resolution.
    pub fn cpu_time(self) -> io::Result<Duration> {
        // The kernel's encoding of "scheduler clock of thread t" (posix-timers_types.h:
        // CPUCLOCK_PERTHREAD_MASK 4, CPUCLOCK_SCHED 2), as returned by pthread_getcpuclockid.
        let clock = (!self.0 << 3) | 6;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` lives for the call; a wrong clock id gives EINVAL.
        check_status(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
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
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives for the call.
    check_status(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) })?;
    let time = |value: libc::timeval| {
        Duration::new(value.tv_sec as u64, 0) + Duration::from_micros(value.tv_usec as u64)
    };
    Ok(ProcessTimes {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
    })
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
        assert_eq!(
            parse_run_delay("12 345 6\n"),
            Some(Duration::from_nanos(345))
        );
        for wrong in ["", "12", "12 x", "12 -1 3"] {
            assert_eq!(parse_run_delay(wrong), None, "{wrong:?}");
        }
    }
}
