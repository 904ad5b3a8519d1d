//! Counts the CPU cycles of the calling thread and of the threads that it starts.
//!
//! Source: perf_event_open(2), the hardware cycle counter, user and kernel. Absent on most virtual
//! machines, and without privileges if `kernel.perf_event_paranoid` is above 1.

use crate::poll;
use crate::syscall::check_descriptor;
use std::io;
use std::os::fd::OwnedFd;

/// `struct perf_event_attr` in its first published size, linux/perf_event.h.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}
const _: () = assert!(size_of::<PerfEventAttr>() == 64);

/// A running cycle counter.
#[derive(Debug)]
pub struct CycleCounter(OwnedFd);

impl CycleCounter {
    /// Counts the calling thread from now on, and every thread that it starts afterwards.
    ///
    /// # Errors
    /// `NotFound` without a hardware counter, `PermissionDenied` without permission.
    pub fn start() -> io::Result<CycleCounter> {
        const INHERIT: u64 = 1 << 1;
        const CLOSE_ON_EXEC: u64 = 1 << 3;
        const HARDWARE: u32 = 0;
        const CPU_CYCLES: u64 = 0;
        let attr = PerfEventAttr {
            kind: HARDWARE,
            size: size_of::<PerfEventAttr>() as u32,
            config: CPU_CYCLES,
            flags: INHERIT,
            ..PerfEventAttr::default()
        };
        // SAFETY: `attr` lives for the call and carries its own size; 0, -1, -1: this thread, any
        // core, no group.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, CLOSE_ON_EXEC)
        };
        Ok(CycleCounter(check_descriptor(fd as i32)?))
    }

    /// Returns the cycles counted so far.
    pub fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        match poll::read_descriptor(&self.0, &mut count)? {
            8 => Ok(u64::from_ne_bytes(count)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
