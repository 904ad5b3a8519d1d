//! Disk threads of the source: read and hash blocks.

use super::{CopySender, ReadJob, SendItem};
use crate::BLOCK_BYTES;
use crate::block_buffer::{BlockBuffer, align_up};
use crate::block_digest::{
    BlockDigest, BlockHasher, BlockSum, FileHasher, PIECE_BYTES, hash_block,
};
use crate::block_header::{BlockHeader, BlockKind};
use crate::partial_file::{explain_direct_io_error, read_full_at};
use crate::relative_names::join_paths;
use crate::stage_counters::{StageTimer, time_into};
use crate::stage_queue::{CopyHalt, HALT_POLL_INTERVAL};
use longhaul_sys::confined_dir::FileState;
use longhaul_sys::poll;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

impl CopySender {
    /// Runs one of the disk threads.
    pub(super) fn read_files(&self) {
        let _producer = self.ready.producer();
        let watch = self.common.counters.disk.start_timer();
        let halt = &self.common.halt;
        while !self.common.disk_threads.is_surplus()
            && let Some(job) = self.next_job()
        {
            let Some(mut buffer) = watch.blocked(|| self.common.free_buffers.pop(halt)) else {
                return;
            };
            let read = self.read_block(job, &mut buffer, &watch);
            let done = read.and_then(|sum| self.queue_block(job, sum, buffer, &watch));
            match done {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let shown = self.display_path(job.file);
                    return halt.fail(format!("cannot read {shown}: {error}"));
                }
            }
        }
    }

    fn display_path(&self, file: u32) -> String {
        let base = self.source.location.as_ref().map_or(Path::new(""), |(_, base)| base.as_path());
        join_paths(base, Path::new(&self.source.entries[file as usize].path.as_received()))
            .display()
            .to_string()
    }

    /// Reads and hashes a block.
    fn read_block(
        &self,
        job: ReadJob,
        buffer: &mut BlockBuffer,
        watch: &StageTimer<'_>,
    ) -> io::Result<Option<BlockSum>> {
        let opened = watch.busy(|| self.open_source_file(job.file))?;
        if job.length == 0 {
            return Ok(None);
        }
        let length = job.length as usize;
        let offset = job.block * BLOCK_BYTES;
        let mut summing = BlockHasher::new(job.block);
        let mut add =
            |piece: &[u8]| time_into(&self.common.counters.hash_time, || summing.add(piece));
        let (whole, at_once) = if self.source.direct {
            (align_up(length), align_up(length))
        } else {
            (length, PIECE_BYTES)
        };
        let mut left = length;
        let mut at = offset;
        for piece in buffer.block_mut()[..whole].chunks_mut(at_once) {
            let wanted = left.min(piece.len());
            if watch.busy(|| read_full_at(&opened, piece, at))? < wanted {
                return Err(source_changed_error());
            }
            add(&piece[..wanted]);
            at += wanted as u64;
            left -= wanted;
        }
        self.common.counters.disk_bytes.add(job.length);
        Ok(Some(summing.sum()))
    }

    /// Returns the file; the first call opens it.
    fn open_source_file(&self, file: u32) -> io::Result<Arc<File>> {
        let mut reading = self.files[file as usize].lock();
        if let Some(opened) = &reading.open {
            return Ok(Arc::clone(opened));
        }
        let (folder, base) = self.source.location.as_ref().ok_or_else(source_changed_error)?;
        let entry = &self.source.entries[file as usize];
        let opened =
            folder.read(&join_paths(base, Path::new(entry.path.as_received())), self.source.direct);
        let opened = opened.map_err(|error| explain_direct_io_error(error, self.source.direct))?;
        self.check_unchanged(file, &opened)?;
        let opened = Arc::new(opened);
        reading.open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Checks that the file is unchanged since it was listed.
    fn check_unchanged(&self, file: u32, opened: &File) -> io::Result<()> {
        let now = FileState::of_file(opened)?;
        match self.source.listed_states[file as usize] {
            Some(then) if then == now => Ok(()),
            _ => Err(source_changed_error()),
        }
    }

    /// Queues a block unless the target already has it; returns false after a halt.
    fn queue_block(
        &self,
        job: ReadJob,
        sum: Option<BlockSum>,
        buffer: BlockBuffer,
        watch: &StageTimer<'_>,
    ) -> io::Result<bool> {
        let halt = &self.common.halt;
        let mut ready = None;
        let mut spare = Some(buffer);
        if let Some(of) = sum {
            let head = BlockHeader {
                kind: BlockKind::Data,
                file: job.file,
                block: job.block,
                length: job.length,
            };
            let held = self.target_blocks.held.get(&job.file);
            if held.is_some_and(|held| held.get(&job.block) == Some(&of.inner)) {
                self.common.counters.held_bytes.add(job.length);
            } else {
                ready = spare.take().map(|buffer| SendItem::Block(head, of.inner, buffer));
            }
        }
        let going = spare.is_none_or(|buffer| self.common.free_buffers.push(buffer, halt))
            && ready.is_none_or(|ready| watch.blocked(|| self.ready.push(ready, halt)));
        let end = self.finish_if_read(job, sum)?;
        Ok(going && end.is_none_or(|end| watch.blocked(|| self.ready.push(end, halt))))
    }

    /// Returns the end message of a file, once all its blocks are read and it is still unchanged.
    fn finish_if_read(&self, job: ReadJob, sum: Option<BlockSum>) -> io::Result<Option<SendItem>> {
        let size = self.source.entries[job.file as usize].size_bytes.unwrap_or(0);
        let mut reading = self.files[job.file as usize].lock();
        if let Some(sum) = sum {
            reading.sum.add_block(job.block, sum);
        }
        let Some(whole) = reading.sum.finish(size) else {
            return Ok(None);
        };
        if let Some(opened) = reading.open.take() {
            self.check_unchanged(job.file, &opened)?;
        }
        reading.sum = FileHasher::default();
        drop(reading);
        Ok(Some(self.end_item(job.file, size, whole)))
    }

    fn end_item(&self, file: u32, size: u64, sum: BlockDigest) -> SendItem {
        if self.source.entries.len() == 1 {
            self.common.set_file_digest(&sum);
        }
        let head = BlockHeader { kind: BlockKind::End, file, block: 0, length: size };
        SendItem::End(head, sum)
    }

    /// Reads standard input, block by block until its end.
    pub(super) fn read_stream(&self) {
        let _producer = self.ready.producer();
        let watch = self.common.counters.disk.start_timer();
        let halt = &self.common.halt;
        let mut input = match io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => File::from(input),
            Err(error) => return halt.fail(format!("cannot read standard input: {error}")),
        };
        let (mut sum, mut size) = (FileHasher::default(), 0);
        for block in 0.. {
            let Some(mut buffer) = watch.blocked(|| self.common.free_buffers.pop(halt)) else {
                return;
            };
            let into = buffer.block_mut();
            let filled = match watch.busy(|| fill_from_pipe(&mut input, into, halt)) {
                Ok(filled) => filled,
                Err(error) => return halt.fail(format!("cannot read standard input: {error}")),
            };
            if filled > 0 {
                let of = time_into(&self.common.counters.hash_time, || {
                    hash_block(block, &buffer.block()[..filled])
                });
                sum.add_block(block, of);
                size += filled as u64;
                self.common.counters.disk_bytes.add(filled as u64);
                let head =
                    BlockHeader { kind: BlockKind::Data, file: 0, block, length: filled as u64 };
                let ready = SendItem::Block(head, of.inner, buffer);
                if !watch.blocked(|| self.ready.push(ready, halt)) {
                    return;
                }
            }
            if filled < BLOCK_BYTES as usize {
                break;
            }
        }
        let whole = sum.finish(size).unwrap_or_default();
        self.ready.push(self.end_item(0, size, whole), halt);
    }
}

fn source_changed_error() -> io::Error {
    io::Error::other("it changed during the copy; copy it again when no program writes to it")
}

/// Fills the buffer unless input ends or a halt is set: a pipe may stay silent for ever.
fn fill_from_pipe(from: &mut File, into: &mut [u8], halt: &CopyHalt) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        if halt.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let [readable] = poll::wait_readable([from.as_fd()], Some(HALT_POLL_INTERVAL))?;
        if !readable {
            continue;
        }
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
