//! Disk threads of the target: write blocks, and commit files once they are complete.

use super::{CopyReceiver, WriteJob};
use crate::BLOCK_BYTES;
use crate::block_buffer::BlockBuffer;
use crate::block_digest::BlockSum;
use crate::block_header::BlockHeader;
use crate::copy_target::cannot_write;
use crate::partial_file::PartialFile;
use crate::stage_counters::time_into;
use std::io::{self, Write};
use std::sync::Arc;

impl CopyReceiver {
    /// Runs one of the disk threads.
    pub(super) fn write_jobs(&self) {
        let watch = self.common.counters.disk.start_timer();
        let halt = &self.common.halt;
        while let Some(job) = watch.idle(|| self.jobs.pop(halt)) {
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
        let direct = self.target.options.direct;
        let (partial, _) =
            PartialFile::open(folder, &planned.path, direct, &planned.entry, &given_up)?;
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
        let Some((folder, _)) = &self.target.location else {
            return if same { io::stdout().flush() } else { Err(digest_mismatch()) };
        };
        let partial = self.open_partial(file)?;
        if !same {
            partial.discard(folder);
            return Err(digest_mismatch());
        }
        partial.set_metadata(&self.target.entries[file as usize].entry, size)?;
        time_into(&self.common.counters.sync_time, || {
            partial.commit(folder, self.target.options.overwrite)
        })?;
        self.files[file as usize].lock().open = None;
        Ok(())
    }
}

fn digest_mismatch() -> io::Error {
    io::Error::other("its checksum differs from that of the source; the file was discarded")
}
