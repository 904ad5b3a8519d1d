//! Scheduling of the calling thread: core, class, timer slack.
//!
//! All calls affect the calling thread only. Real-time classes require `CAP_SYS_NICE`; kernel
//! errors are returned unchanged, so that callers can fall back and report it.

use crate::syscall::check_status;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl;
use nix::unistd::Pid;
use std::io;
use std::time::Duration;

/// The calling thread, for the calls that take a process.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// Restricts the calling thread to `core`.
///
/// # Errors
/// `InvalidInput` if there is no such core, or it is outside the process's cpuset.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core).map_err(|_| {
        let count = CpuSet::count();
        let text = format!("core {core} is out of range: core numbers are below {count}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}

/// Returns whether the calling thread may run on `core`: it exists and is in the process's cpuset.
///
/// # Errors
/// The kernel does not say which cores the thread may use.
pub fn may_use_core(core: usize) -> io::Result<bool> {
    // A number beyond the set is no core.
    Ok(sched_getaffinity(THIS_THREAD)?.is_set(core).unwrap_or(false))
}

/// Puts the calling thread in `SCHED_FIFO`; threads and processes it creates do not inherit it.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_NICE`.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` lives for the call; 0 is this thread.
    check_status(unsafe { libc::sched_setscheduler(0, class, &raw const param) })
}

/// Requests a shorter slice from the fair class, so that the calling thread is scheduled sooner
/// after a wake-up. Needs no privileges; kernels before 6.12 accept and ignore it.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    // SAFETY: an all-zero sched_attr is the ordinary class with its defaults.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of_val(&attr) as u32;
    attr.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: `attr` lives for the call and carries its own size; 0 is this thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    check_status(answer as i32)
}

/// Sets how late the kernel may fire this thread's timers to batch wake-ups; the default is 50 us.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    let nanos = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
    Ok(prctl::set_timerslack(nanos)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::sched_getaffinity;

    /// Returns the cores that the calling thread may run on.
    fn allowed_cores() -> io::Result<Vec<usize>> {
        let set = sched_getaffinity(THIS_THREAD)?;
        let inside = |core: &usize| set.is_set(*core) == Ok(true);
        Ok((0..CpuSet::count()).filter(inside).collect())
    }

    #[test]
    fn a_thread_can_be_kept_on_each_core_it_is_allowed_and_on_no_other() {
        std::thread::spawn(|| {
            let cores = allowed_cores().expect("own affinity");
            for core in cores {
                pin_to_core(core).expect("an allowed core");
                assert_eq!(allowed_cores().expect("own affinity"), [core]);
            }
            let error = pin_to_core(1 << 20).expect_err("no such core");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        })
        .join()
        .expect("the pinned thread");
    }

    #[test]
    fn slice_and_slack_need_no_privilege() {
        std::thread::spawn(|| {
            set_slice(Duration::from_micros(100)).expect("a slice");
            set_timer_slack(Duration::from_nanos(1)).expect("timer slack");
        })
        .join()
        .expect("the thread");
    }
}
