//! The target's threads: one per connection receives and hashes blocks, and disk threads write
//! them.

mod block_receiver;

use super::block_buffer::BlockBuffer;
use super::block_digest::{BlockDigest, BlockSum, FileHasher};
use super::copy_target::{CopyTarget, TargetEntry, cannot_write};
use super::copy_threads::{CopyState, CopyWork, MAX_DISK_THREADS, RunningCopy, ThreadTask};
use super::partial_file::{PartialFile, block_length, source_times, sync_parent};
use super::stage_queue::StageQueue;
use crate::BLOCK_BYTES;
use crate::block_header::{BlockHeader, BlockKey};
use crate::stage_counters::time_into;
use parking_lot::{Condvar, Mutex};
use std::fs::Permissions;
use std::io::{self, Write};
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
    let common = CopyState::new(key, LINGER);
    let files = target.entries.iter_mut().map(|planned| {
        let writing = TargetFileState::resume(planned, &common);
        Mutex::new(writing)
    });
    let work = CopyReceiver {
        files: files.collect(),
        common,
        jobs: StageQueue::new(),
        next_stdout_block: Mutex::new(0),
        stdout_block_done: Condvar::new(),
        target,
    };
    RunningCopy::start(Arc::new(work), streams)
}

impl TargetFileState {
    /// Creates the state from data left by an earlier copy.
    fn resume(planned: &mut TargetEntry, common: &CopyState) -> TargetFileState {
        let mut writing = TargetFileState {
            done: planned.exists || planned.entry.folder,
            ..TargetFileState::default()
        };
        let Some((partial, left)) = planned.partial.take() else {
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

    fn max_disk_threads(&self) -> usize {
        if self.target.location.is_none() { 1 } else { MAX_DISK_THREADS }
    }

    fn extend_queue(&self, task: &ThreadTask, space: usize) {
        self.jobs.extend(space);
        if matches!(task, ThreadTask::Stream(_)) {
            self.jobs.add_producer();
        }
    }

    fn run_thread(&self, task: ThreadTask) {
        match task {
            ThreadTask::Disk => self.write_jobs(),
            ThreadTask::Stream(stream) => self.receive_blocks(stream),
        }
    }

    /// Finishes the folders last, because every file created in them changes their times.
    fn finish(&self) {
        if !self.files.iter().all(|file| file.lock().done) {
            return self.common.halt.fail_lost("the source ended before all its files arrived");
        }
        let Some((folder, base)) = &self.target.location else {
            return;
        };
        let finish_folder = |planned: &TargetEntry| {
            let made = folder.open_subfolder(&planned.path)?.open_for_sync()?;
            made.set_permissions(Permissions::from_mode(planned.entry.mode & 0o777))?;
            made.set_times(source_times(&planned.entry))?;
            made.sync_all()?;
            // The other folders are named in the folder of the copy, which is among them.
            if planned.path == *base { sync_parent(folder, base) } else { Ok(()) }
        };
        for planned in self.target.entries.iter().rev().filter(|it| it.entry.folder) {
            if let Err(error) = finish_folder(planned) {
                return self.common.halt.fail(cannot_write(&planned.path, &error));
            }
        }
    }
}

impl CopyReceiver {
    /// Runs one of the disk threads.
    fn write_jobs(&self) {
        let watch = self.common.counters.disk.start_timer();
        let halt = &self.common.halt;
        while !self.common.disk_threads.is_surplus()
            && let Some(job) = watch.idle(|| self.jobs.pop(halt))
        {
            let (file, result) = match job {
                WriteJob::Data(head, sum, mut buffer) => {
                    let written = watch.busy(|| self.write_block(&head, &sum, &mut buffer));
                    self.common.free_buffers.push(buffer, halt);
                    (head.file, written)
                }
                WriteJob::End(head, sum) => {
                    self.files[head.file as usize].lock().end = Some((head.length, sum));
                    (head.file, Ok(()))
                }
            };
            let whole = result.and_then(|()| watch.busy(|| self.commit_if_complete(file)));
            if let Err(error) = whole {
                let path = &self.target.entries[file as usize].path;
                let name = match &self.target.location {
                    Some(_) => cannot_write(path, &error),
                    None => format!("cannot write standard output: {error}"),
                };
                return halt.fail(name);
            }
        }
    }

    fn write_block(
        &self,
        head: &BlockHeader,
        sum: &BlockSum,
        buffer: &mut BlockBuffer,
    ) -> io::Result<()> {
        let length = head.length as usize;
        if self.target.location.is_none() {
            io::stdout().lock().write_all(&buffer.block()[..length])?;
        } else {
            let partial = self.open_partial(head.file)?;
            partial.write(head.block, buffer, length)?;
            partial.journal_block(head.block, &sum.inner)?;
        }
        self.common.counters.disk_bytes.add(head.length);
        self.common.counters.moved_bytes.add(head.length);
        self.files[head.file as usize].lock().written += 1;
        Ok(())
    }

    /// Returns the incomplete file; the first call opens it.
    fn open_partial(&self, file: u32) -> io::Result<Arc<PartialFile>> {
        let mut writing = self.files[file as usize].lock();
        if let Some(partial) = &writing.open {
            return Ok(Arc::clone(partial));
        }
        let planned = &self.target.entries[file as usize];
        let (folder, _) = self.target.location.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let given_up = || self.common.halt.is_set();
        let options = &self.target.options;
        let (partial, _) =
            PartialFile::open(folder, &planned.path, options, &planned.entry, &given_up)?;
        let partial = Arc::new(partial);
        writing.open = Some(Arc::clone(&partial));
        Ok(partial)
    }

    /// Commits a file once all blocks are written and the source has sent its hash.
    fn commit_if_complete(&self, file: u32) -> io::Result<()> {
        let mut writing = self.files[file as usize].lock();
        let Some((size, told)) = writing.end else {
            return Ok(());
        };
        if writing.done || writing.written < size.div_ceil(BLOCK_BYTES) {
            return Ok(());
        }
        writing.done = true;
        let sum = std::mem::take(&mut writing.received).finish(size);
        drop(writing);
        let same = sum == Some(told);
        if same && self.target.entries.len() == 1 {
            self.common.set_file_digest(&told);
        }
        if self.target.location.is_none() {
            return if same { io::stdout().flush() } else { Err(digest_mismatch()) };
        }
        let partial = self.open_partial(file)?;
        if !same {
            partial.discard();
            return Err(digest_mismatch());
        }
        partial.set_metadata(&self.target.entries[file as usize].entry, size)?;
        time_into(&self.common.counters.sync_time, || partial.commit())?;
        self.files[file as usize].lock().open = None;
        Ok(())
    }
}

fn digest_mismatch() -> io::Error {
    io::Error::other("its checksum differs from that of the source; the file was discarded")
}
