//! The capture of a run: a thread that copies the packets that pass the kernel's filter into a
//! [`PacketBuffer`].

use crate::bpf_filter::{FlowFilter, HEADER_SNAP_BYTES};
use crate::packet_buffer::{FinishedCapture, PacketBuffer};
use longhaul_model::report::v1::capture::{CapturePlan, CaptureResult};
use longhaul_sys::packet_ring::{self, PacketRing};
use longhaul_sys::thread_times::ThreadId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The maximum delay until a stop is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The time limit for packets that are still in the kernel when a run ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// A running capture, which ends when it is finished or dropped.
#[derive(Debug)]
pub struct CaptureThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<FinishedCapture>>,
}

impl CaptureThread {
    /// Starts the capture. `plan` and `most_bytes` limit its memory.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; see [`crate::capture_missing_caveat`].
    pub fn start(
        filter: &FlowFilter,
        plan: CapturePlan,
        most_bytes: u64,
    ) -> io::Result<CaptureThread> {
        let snap = plan.snap_bytes.unwrap_or(HEADER_SNAP_BYTES);
        let ring = PacketRing::open(&filter.program(snap))?;
        let about = CaptureResult {
            snap_bytes: plan.snap_bytes,
            filter: filter.to_string(),
            ..CaptureResult::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (store, stopped) = (PacketBuffer::new(plan, most_bytes), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || run_capture_loop((ring, store), about, &stopped))?;
        Ok(CaptureThread { stop, thread: Some(thread) })
    }

    /// Ends the capture and waits for pending packets. Returns `None` if its thread has failed.
    pub fn finish(mut self) -> Option<FinishedCapture> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for CaptureThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_capture_loop(
    (mut ring, mut store): (PacketRing, PacketBuffer),
    about: CaptureResult,
    stop: &AtomicBool,
) -> FinishedCapture {
    let began = Instant::now();
    let mut wants_more = true;
    while wants_more && !stop.load(Ordering::Relaxed) {
        wants_more = poll_ring(&mut ring, &mut store).unwrap_or(false);
    }
    let last = Instant::now() + DRAIN_TIMEOUT;
    while wants_more && Instant::now() < last {
        match ring.wait(POLL_INTERVAL) {
            Ok(true) => ring.drain(&mut |seen| store.push(seen)),
            Ok(false) | Err(_) => break,
        }
    }
    let names = store.interfaces().iter();
    let name = |index: &u32| packet_ring::interface_name(*index);
    let interfaces = names.map(|it| name(it).unwrap_or_else(|| format!("interface {it}")));
    let about = CaptureResult {
        interfaces: interfaces.collect(),
        dropped_packets: ring.take_drops().ok(),
        // Later packets are not counted.
        left_out_packets: wants_more.then(|| store.omitted_packets()),
        limited: !wants_more || store.omitted_packets() > 0,
        cpu_us: ThreadId::current().cpu_time().ok().map(to_micros),
        duration_us: Some(to_micros(began.elapsed())),
        ..about
    };
    store.close(about)
}

/// Waits for packets and stores them; false if the store is full.
fn poll_ring(ring: &mut PacketRing, store: &mut PacketBuffer) -> io::Result<bool> {
    let mut more = true;
    if ring.wait(POLL_INTERVAL)? {
        ring.drain(&mut |seen| {
            more = store.push(seen);
            more
        });
    }
    Ok(more)
}

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
