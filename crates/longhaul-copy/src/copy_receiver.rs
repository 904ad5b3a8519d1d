//! The target's threads: one per connection receives and hashes blocks, and disk threads write
//! them.

mod block_receiver;
mod block_writer;

use super::block_buffer::BlockBuffer;
use super::block_digest::{BlockDigest, BlockSum, FileHasher};
use super::copy_target::{CopyTarget, TargetEntry, cannot_write};
use super::copy_threads::{CopyState, CopyWork, RunningCopy, ThreadTask, disk_threads};
use super::partial_file::{PartialFile, block_length, source_times};
use super::stage_queue::StageQueue;
use crate::block_header::{BlockHeader, BlockKey};
use parking_lot::{Condvar, Mutex};
use std::fs::Permissions;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

/// Time for data that a killed source's kernel still sends, which then need not be sent again: full
/// buffers of some hundred megabytes.
const LINGER: Duration = Duration::from_secs(2);

struct CopyReceiver {
    target: CopyTarget,
    common: CopyState,
    files: Vec<Mutex<TargetFileState>>,
    jobs: StageQueue<WriteJob>,
    /// Next block of standard output.
    next_stdout_block: Mutex<u64>,
    stdout_block_done: Condvar,
}

/// State of one file at the target.
#[derive(Debug, Default)]
struct TargetFileState {
    open: Option<Arc<PartialFile>>,
    /// Received blocks, whether written or not.
    received: FileHasher,
    written: u64,
    /// Length and hash reported by the source.
    end: Option<(u64, BlockDigest)>,
    done: bool,
}

/// A job for the disk threads.
enum WriteJob {
    Data(BlockHeader, BlockSum, BlockBuffer),
    End(BlockHeader, BlockDigest),
}

/// Starts the threads that receive, hash and write.
pub(crate) fn start_receiving(
    mut target: CopyTarget,
    streams: Vec<TcpStream>,
    key: BlockKey,
) -> io::Result<RunningCopy> {
    let writers = if target.location.is_none() { 1 } else { disk_threads() };
    let threads = writers + streams.len();
    let common = CopyState::new(key, threads, LINGER)?;
    let files = target.entries.iter_mut().map(|planned| {
        let writing = TargetFileState::resume(planned, &common);
        Mutex::new(writing)
    });
    let work = Arc::new(CopyReceiver {
        files: files.collect(),
        common,
        jobs: StageQueue::new(threads * 2, streams.len()),
        next_stdout_block: Mutex::new(0),
        stdout_block_done: Condvar::new(),
        target,
    });
    let mut pieces: Vec<ThreadTask<CopyReceiver>> = Vec::new();
    for _ in 0..writers {
        pieces.push(Box::new(CopyReceiver::write_jobs));
    }
    for stream in streams {
        pieces.push(Box::new(move |work: &CopyReceiver| work.receive_blocks(stream)));
    }
    RunningCopy::start(&work, pieces)
}

impl TargetFileState {
    /// Creates the state from data left by an earlier copy.
    fn resume(planned: &mut TargetEntry, common: &CopyState) -> TargetFileState {
        let mut writing = TargetFileState {
            done: planned.exists || planned.entry.folder,
            ..TargetFileState::default()
        };
        let Some((partial, left)) = planned.leftover.take() else {
            return writing;
        };
        writing.open = Some(Arc::new(partial));
        for (index, sum) in left {
            if writing.received.add_block(index, sum) {
                writing.written += 1;
                let length = block_length(planned.entry.size_bytes.unwrap_or(0), index);
                common.counters.held_bytes.add(length);
            }
        }
        writing
    }
}

impl CopyWork for CopyReceiver {
    fn common(&self) -> &CopyState {
        &self.common
    }

    /// Sets the folders' times last, because every file created in them changes those.
    fn finish(&self) {
        if !self.files.iter().all(|file| file.lock().done) {
            return self.common.halt.fail_lost("the source ended before all its files arrived");
        }
        let Some((folder, _)) = &self.target.location else {
            return;
        };
        for planned in self.target.entries.iter().rev().filter(|it| it.entry.folder) {
            let set = folder
                .open_subfolder(&planned.path)
                .and_then(|it| it.open_for_sync())
                .and_then(|it| {
                    it.set_permissions(Permissions::from_mode(planned.entry.mode & 0o777))?;
                    it.set_times(source_times(&planned.entry))
                });
            if let Err(error) = set {
                return self.common.halt.fail(cannot_write(&planned.path, &error));
            }
        }
    }
}
