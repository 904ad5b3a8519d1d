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
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Limit of the disk threads of one end.
pub const MAX_DISK_THREADS: usize = 16;
/// Number of blocks between two stages, per thread.
const BLOCKS_PER_THREAD: usize = 2;
/// Polling interval of an end that lingers.
const LINGER_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the number of disk threads at the start: enough to keep the queue of a local device
/// filled, few enough to stay in order.
fn initial_disk_threads() -> usize {
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
    /// End of the last connection, in microseconds; 0: none has ended.
    pub network_end_us: AtomicU64,
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
    pub disk_threads: StageThreads,
    pub streams: StageThreads,
    /// The threads, and whoever else delays the end.
    running: AtomicUsize,
    /// The threads that may hold block buffers, now and at most so far.
    alive: AtomicUsize,
    max_alive: AtomicUsize,
    /// Elapsed and CPU time at the end of the last thread.
    ended: Mutex<Option<(Duration, Duration)>>,
}

impl CopyState {
    pub fn new(key: BlockKey, linger: Duration) -> CopyState {
        CopyState {
            halt: CopyHalt::default(),
            key,
            free_buffers: StageQueue::pool(),
            counters: CopyCounters::default(),
            disk_threads: StageThreads::default(),
            streams: StageThreads::default(),
            linger,
            begun: Instant::now(),
            cpu_before: process_cpu_time(),
            running: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            max_alive: AtomicUsize::new(0),
            ended: Mutex::new(None),
        }
    }

    /// Adds the block buffers of one more thread, unless an earlier thread has left its own; returns
    /// their number.
    fn add_buffers(&self) -> io::Result<usize> {
        let alive = self.alive.fetch_add(1, Ordering::AcqRel) + 1;
        if self.max_alive.fetch_max(alive, Ordering::AcqRel) >= alive {
            return Ok(0);
        }
        self.free_buffers.extend(BLOCKS_PER_THREAD);
        for _ in 0..BLOCKS_PER_THREAD {
            self.free_buffers.push(BlockBuffer::new()?, &self.halt);
        }
        Ok(BLOCKS_PER_THREAD)
    }

    /// Notes the end of a connection.
    pub fn note_stream_end(&self) {
        let now_us = self.begun.elapsed().as_micros() as u64;
        self.counters.network_end_us.fetch_max(now_us, Ordering::Relaxed);
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
        let network_end_us = counters.network_end_us.load(Ordering::Relaxed);
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
                network_end_us: (network_end_us > 0).then_some(network_end_us),
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
    /// The maximum number of disk threads.
    fn max_disk_threads(&self) -> usize;
    /// Prepares the queue between the stages for one more thread, before that thread runs; `space` is
    /// the number of blocks that it may hold in addition.
    fn extend_queue(&self, task: &ThreadTask, space: usize);
    /// Runs one thread until its work is done or it is surplus.
    fn run_thread(&self, task: ThreadTask);
    /// Runs after all threads have ended without a failure.
    fn finish(&self) {}
}

/// The work of one thread.
#[derive(Debug)]
pub(super) enum ThreadTask {
    /// Reads or writes files.
    Disk,
    /// Transfers blocks over a connection.
    Stream(StartingStream),
}

/// A connection whose thread has started.
#[derive(Debug)]
pub(super) struct StartingStream {
    stream: TcpStream,
    /// Receives when the peer has taken a connection that was added later.
    begun: Option<Receiver<()>>,
}

impl StartingStream {
    /// Waits until the connection may be used; `None` if the peer does not take it.
    pub fn wait(self) -> Option<TcpStream> {
        let begun = self.begun.is_none_or(|begun| begun.recv().is_ok());
        begun.then_some(self.stream)
    }
}

/// The threads of one stage.
#[derive(Debug, Default)]
pub(super) struct StageThreads {
    wanted: AtomicUsize,
    running: AtomicUsize,
}

impl StageThreads {
    fn set_wanted(&self, threads: usize) {
        self.wanted.store(threads, Ordering::Relaxed);
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Returns true if the calling thread is surplus and has to end.
    pub fn is_surplus(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let without = |running| (running > wanted).then(|| running - 1);
        self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, without).is_ok()
    }

    /// Counts one thread more.
    pub fn enter(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }
}

/// One running end of a copy; stops when dropped.
pub(crate) struct RunningCopy {
    work: Arc<dyn CopyWork>,
    handles: Vec<JoinHandle<()>>,
}

/// A thread for a further connection, which waits until the peer has taken the connection. Dropped
/// without that, it closes the connection and ends.
pub(crate) struct WaitingStream(SyncSender<()>);

impl WaitingStream {
    pub fn begin(self) {
        // A thread that has ended needs no signal.
        let _ = self.0.send(());
    }
}

impl RunningCopy {
    /// Starts the disk threads, and one thread for each connection.
    pub(super) fn start(
        work: Arc<dyn CopyWork>,
        streams: Vec<TcpStream>,
    ) -> io::Result<RunningCopy> {
        let disk_threads = initial_disk_threads().min(work.max_disk_threads());
        let mut run = RunningCopy { work, handles: Vec::new() };
        run.set_streams(streams.len());
        run.work.common().disk_threads.set_wanted(disk_threads);
        let disk = (0..disk_threads).map(|_| ThreadTask::Disk);
        let stream = |stream| ThreadTask::Stream(StartingStream { stream, begun: None });
        let tasks = disk.chain(streams.into_iter().map(stream));
        // Both stages are known to the queue before either looks for the other.
        let prepared =
            tasks.map(|task| run.prepare_thread(task)).collect::<io::Result<Vec<_>>>()?;
        prepared.into_iter().try_for_each(|thread| run.spawn_thread(thread))?;
        Ok(run)
    }

    /// Changes the number of threads. Missing disk threads start, and surplus ones end after their
    /// current block; so do surplus connections of a source. The new connections wait.
    pub fn resize(
        &mut self,
        streams: u32,
        disk_threads: u32,
        new_streams: Vec<TcpStream>,
    ) -> io::Result<Vec<WaitingStream>> {
        self.set_streams(streams as usize);
        self.set_disk_threads(disk_threads as usize)?;
        let mut waiting = Vec::new();
        for stream in new_streams {
            let (begin, begun) = sync_channel(1);
            let stream = StartingStream { stream, begun: Some(begun) };
            let thread = self.prepare_thread(ThreadTask::Stream(stream))?;
            self.spawn_thread(thread)?;
            waiting.push(WaitingStream(begin));
        }
        Ok(waiting)
    }

    /// Sets the number of connections on which this end continues to send.
    fn set_streams(&self, streams: usize) {
        self.work.common().streams.set_wanted(streams.max(1));
    }

    fn set_disk_threads(&mut self, threads: usize) -> io::Result<()> {
        let threads = threads.clamp(1, self.work.max_disk_threads());
        self.work.common().disk_threads.set_wanted(threads);
        while self.work.common().disk_threads.running() < threads {
            let thread = self.prepare_thread(ThreadTask::Disk)?;
            self.spawn_thread(thread)?;
        }
        Ok(())
    }

    /// Makes a thread known to the stages, with its block buffers.
    fn prepare_thread(&self, task: ThreadTask) -> io::Result<PreparedThread> {
        let guard = CopyThreadGuard::new(Arc::clone(&self.work));
        let common = self.work.common();
        if matches!(task, ThreadTask::Disk) {
            common.disk_threads.enter();
        }
        self.work.extend_queue(&task, common.add_buffers()?);
        Ok(PreparedThread { guard, task })
    }

    fn spawn_thread(&mut self, thread: PreparedThread) -> io::Result<()> {
        let PreparedThread { guard, task } = thread;
        let run = move || {
            guard.0.run_thread(task);
            guard.0.common().alive.fetch_sub(1, Ordering::AcqRel);
        };
        self.handles.retain(|handle| !handle.is_finished());
        let started = std::thread::Builder::new().name("copy".to_owned()).spawn(run);
        // The queue waits for a thread that does not exist.
        let halt = &self.work.common().halt;
        self.handles.push(started.inspect_err(|error| halt.fail(error.to_string()))?);
        Ok(())
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

/// A thread that the stages know before it runs.
struct PreparedThread {
    guard: CopyThreadGuard,
    task: ThreadTask,
}

/// Finishes the work when the last of its holders ends.
struct CopyThreadGuard(Arc<dyn CopyWork>);

impl CopyThreadGuard {
    fn new(work: Arc<dyn CopyWork>) -> CopyThreadGuard {
        work.common().running.fetch_add(1, Ordering::AcqRel);
        CopyThreadGuard(work)
    }
}

impl Drop for CopyThreadGuard {
    fn drop(&mut self) {
        let common = self.0.common();
        if std::thread::panicking() {
            common.halt.fail("a copy thread panicked");
        }
        if common.running.fetch_sub(1, Ordering::AcqRel) > 1 || common.ended.lock().is_some() {
            return;
        }
        if !common.halt.is_set() {
            self.0.finish();
        }
        let spent = (common.begun.elapsed(), process_cpu_time().saturating_sub(common.cpu_before));
        *common.ended.lock() = Some(spent);
    }
}

#[cfg(test)]
mod tests;
