//! Common part of both ends of a copy: threads that end together, and their counters.

use super::block_buffer::BlockBuffer;
use super::block_digest::BlockDigest;
use super::stage_counters::{ByteCounter, StageCounters, TimeCounter};
use super::stage_queue::{CopyHalt, StageQueue};
use crate::block_header::BlockKey;
use longhaul_model::report::v1::copy::{CopyEndCounts, CopyTcpTimes};
use longhaul_probe::secure::encode_hex;
use longhaul_probe::wire::CopyEndStatus;
use longhaul_sys::thread_times::process_times;
use parking_lot::Mutex;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of blocks between two stages, per thread.
const BLOCKS_PER_THREAD: usize = 2;
/// Polling interval of an end that lingers.
const LINGER_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the number of disk threads: enough to keep the device's queue filled, few enough to stay
/// in order.
pub(super) fn disk_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.clamp(2, 4)
}

/// Counters of one end of a copy.
#[derive(Debug, Default)]
pub(super) struct CopyCounters {
    pub disk: StageCounters,
    pub network: StageCounters,
    pub hash_time: TimeCounter,
    pub sync_time: TimeCounter,
    pub disk_bytes: ByteCounter,
    pub moved_bytes: ByteCounter,
    pub held_bytes: ByteCounter,
    pub tcp: Mutex<Option<CopyTcpTimes>>,
    /// Hash of a single file, once it is complete.
    pub file_digest: Mutex<Option<String>>,
}

/// Counters, buffers and stop flag of one end of a copy.
#[derive(Debug)]
pub(super) struct CopyState {
    pub halt: CopyHalt,
    pub key: BlockKey,
    pub free_buffers: StageQueue<BlockBuffer>,
    pub counters: CopyCounters,
    /// The time for which this end continues after its owner has dropped it, unless it failed.
    linger: Duration,
    begun: Instant,
    cpu_before: Duration,
    running: AtomicUsize,
    /// Elapsed and CPU time at the end of the last thread.
    ended: Mutex<Option<(Duration, Duration)>>,
}

impl CopyState {
    /// Creates the state, with block buffers for `threads` threads.
    pub fn new(key: BlockKey, threads: usize, linger: Duration) -> io::Result<CopyState> {
        let blocks = threads * BLOCKS_PER_THREAD;
        let free = StageQueue::pool(blocks);
        let halt = CopyHalt::default();
        for _ in 0..blocks {
            free.push(BlockBuffer::new()?, &halt);
        }
        Ok(CopyState {
            halt,
            key,
            free_buffers: free,
            counters: CopyCounters::default(),
            linger,
            begun: Instant::now(),
            cpu_before: process_cpu_time(),
            running: AtomicUsize::new(0),
            ended: Mutex::new(None),
        })
    }

    /// Keeps the hash of the only file of a copy.
    pub fn set_file_digest(&self, digest: &BlockDigest) {
        *self.counters.file_digest.lock() = Some(encode_hex(digest));
    }

    /// Adds the kernel's statistics of one sending socket.
    pub fn add_socket_stats(&self, socket: &TcpStream) {
        let Ok(info) = longhaul_sys::tcp_info::read_tcp_info(socket) else {
            return;
        };
        let tcp = info.reading;
        let mut held = self.counters.tcp.lock();
        let sum = held.get_or_insert_with(CopyTcpTimes::default);
        sum.busy_us += tcp.busy_us.unwrap_or(0);
        sum.receive_window_limited_us += tcp.receive_window_limited_us.unwrap_or(0);
        sum.send_buffer_limited_us += tcp.send_buffer_limited_us.unwrap_or(0);
        sum.retransmitted_segments += tcp.retransmitted_segments;
    }

    /// Returns the status of this end.
    pub fn status(&self) -> CopyEndStatus {
        let trouble = self.halt.failure();
        let ended = *self.ended.lock();
        let now = || (self.begun.elapsed(), process_cpu_time().saturating_sub(self.cpu_before));
        let (elapsed, cpu) = ended.unwrap_or_else(now);
        let counters = &self.counters;
        CopyEndStatus {
            over: ended.is_some() || trouble.is_some(),
            lost: trouble.as_ref().is_some_and(|trouble| trouble.lost),
            failed: trouble.map(|trouble| trouble.what),
            moved_bytes: counters.moved_bytes.read(),
            held_bytes: counters.held_bytes.read(),
            blake3: counters.file_digest.lock().clone(),
            end: CopyEndCounts {
                elapsed_us: elapsed.as_micros() as u64,
                disk_bytes: counters.disk_bytes.read(),
                disk: counters.disk.read(),
                network: counters.network.read(),
                hash_us: counters.hash_time.us(),
                sync_us: counters.sync_time.us(),
                cpu_us: Some(cpu.as_micros() as u64),
                tcp: *counters.tcp.lock(),
            },
        }
    }
}

fn process_cpu_time() -> Duration {
    process_times().map_or(Duration::ZERO, |times| times.user + times.system)
}

/// The work of one end's threads.
pub(super) trait CopyWork: Send + Sync + 'static {
    fn common(&self) -> &CopyState;
    /// Runs after all threads have ended without a failure.
    fn finish(&self) {}
}

/// The work of one thread.
pub(super) type ThreadTask<W> = Box<dyn FnOnce(&W) + Send>;

/// One running end of a copy; stops when dropped.
pub(crate) struct RunningCopy {
    work: Arc<dyn CopyWork>,
    handles: Vec<JoinHandle<()>>,
}

impl RunningCopy {
    /// Starts one thread for each piece of work.
    pub(super) fn start<W: CopyWork>(
        work: &Arc<W>,
        pieces: Vec<ThreadTask<W>>,
    ) -> io::Result<RunningCopy> {
        work.common().running.store(pieces.len(), Ordering::Release);
        let mut threads =
            RunningCopy { work: Arc::clone(work) as Arc<dyn CopyWork>, handles: Vec::new() };
        for piece in pieces {
            let mine = Arc::clone(work);
            let run = move || {
                let _last = CopyThreadGuard(&*mine);
                piece(&mine);
            };
            let started = std::thread::Builder::new().name("copy".to_owned()).spawn(run);
            threads.handles.push(started?);
        }
        Ok(threads)
    }

    /// Returns the status of this end.
    pub fn status(&self) -> CopyEndStatus {
        self.work.common().status()
    }
}

impl Drop for RunningCopy {
    fn drop(&mut self) {
        let (common, begun) = (self.work.common(), Instant::now());
        let is_done = || common.ended.lock().is_some() || common.halt.is_set();
        while !is_done() && begun.elapsed() < common.linger {
            std::thread::sleep(LINGER_POLL_INTERVAL);
        }
        common.halt.stop();
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

/// Finishes the work when the last thread ends.
struct CopyThreadGuard<'a>(&'a dyn CopyWork);

impl Drop for CopyThreadGuard<'_> {
    fn drop(&mut self) {
        let common = self.0.common();
        if std::thread::panicking() {
            common.halt.fail("a copy thread panicked");
        }
        if common.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if !common.halt.is_set() {
            self.0.finish();
        }
        let spent = (common.begun.elapsed(), process_cpu_time().saturating_sub(common.cpu_before));
        *common.ended.lock() = Some(spent);
    }
}
