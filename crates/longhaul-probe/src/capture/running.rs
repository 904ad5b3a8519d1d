//! The capture of a run: a thread that copies the packets that pass the kernel's filter into a
//! [`Store`].

use super::filter::{FlowFilter, HEADER_SNAP_BYTES};
use super::store::{Captured, Store};
use longhaul_model::report::v1::capture::{Capture, CapturePlan};
use longhaul_sys::packet_ring::{self, Ring};
use longhaul_sys::thread::ThreadId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The maximum delay until a stop is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// The time limit for packets that are still in the kernel when a run ends.
const LAST_LOOK: Duration = Duration::from_millis(300);

/// A running capture, which ends when it is finished or dropped.
#[derive(Debug)]
pub struct Capturing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Captured>>,
}

impl Capturing {
    /// Starts the capture. `plan` and `most_bytes` limit its memory.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; see [`super::missing`].
    pub fn start(filter: &FlowFilter, plan: CapturePlan, most_bytes: u64) -> io::Result<Capturing> {
        let snap = plan.snap_bytes.unwrap_or(HEADER_SNAP_BYTES);
        let ring = Ring::open(&filter.program(snap))?;
        let about = Capture {
            snap_bytes: plan.snap_bytes,
            filter: filter.to_string(),
            ..Capture::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (store, stopped) = (Store::new(plan, most_bytes), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || capture((ring, store), about, &stopped))?;
        Ok(Capturing {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends the capture and waits for pending packets. Returns `None` if its thread has failed.
    pub fn finish(mut self) -> Option<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn capture((mut ring, mut store): (Ring, Store), about: Capture, stop: &AtomicBool) -> Captured {
    let began = Instant::now();
    let mut wants_more = true;
    while wants_more && !stop.load(Ordering::Relaxed) {
        wants_more = turn(&mut ring, &mut store).unwrap_or(false);
    }
    let last = Instant::now() + LAST_LOOK;
    while wants_more && Instant::now() < last {
        match ring.wait(LOOK) {
            Ok(true) => ring.drain(&mut |seen| store.take(seen)),
            Ok(false) | Err(_) => break,
        }
    }
    let names = store.interfaces().iter();
    let name = |index: &u32| packet_ring::interface_name(*index);
    let interfaces = names.map(|it| name(it).unwrap_or_else(|| format!("interface {it}")));
    let about = Capture {
        interfaces: interfaces.collect(),
        dropped_packets: ring.counts().ok().map(|counts| counts.dropped),
        // Later packets are not counted.
        left_out_packets: wants_more.then(|| store.left_out()),
        limited: !wants_more || store.left_out() > 0,
        cpu_us: ThreadId::current().cpu_time().ok().map(micros),
        duration_us: Some(micros(began.elapsed())),
        ..about
    };
    store.close(about)
}

/// Waits for packets and stores them; false if the store is full.
fn turn(ring: &mut Ring, store: &mut Store) -> io::Result<bool> {
    let mut more = true;
    if ring.wait(LOOK)? {
        ring.drain(&mut |seen| {
            more = store.take(seen);
            more
        });
    }
    Ok(more)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
