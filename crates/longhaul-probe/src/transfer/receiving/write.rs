//! Disk threads of the target: write blocks, and commit files once they are complete.

use super::keep::Whole;
use super::{Job, Receiving, lock};
use crate::secure::hex;
use crate::transfer::BLOCK_BYTES;
use crate::transfer::buffer::Buffer;
use crate::transfer::counters::timed;
use crate::transfer::digest::BlockSum;
use crate::transfer::partial::Partial;
use crate::transfer::place::cannot_write;
use crate::transfer::run::Mode;
use crate::wire::{BlockHead, BlockKind};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Receiving {
    /// Runs one of the disk threads.
    pub(super) fn write_jobs(&self) {
        let watch = self.common.disk.watch();
        let halt = &self.common.halt;
        while let Some(job) = watch.idle(|| self.jobs.pop(halt)) {
            let (file, result) = match job {
                Job::Data(head, sum, mut buffer) => {
                    let written = watch.busy(|| self.write(&head, &sum, Some(&mut buffer)));
                    self.common.free.push(buffer, halt);
                    (head.file, written)
                }
                Job::Hole(head, sum) => (head.file, watch.busy(|| self.write(&head, &sum, None))),
                Job::End(head, sum) => {
                    lock(&self.files[head.file as usize]).end = Some((head.length, sum));
                    (head.file, Ok(()))
                }
            };
            let whole = result.and_then(|()| watch.busy(|| self.finish_when_whole(file)));
            if let Err(error) = whole {
                let path = &self.target.entries[file as usize].path;
                let name = match &self.target.place {
                    Some(_) => cannot_write(path, &error),
                    None => format!("cannot write standard output: {error}"),
                };
                return halt.fail(name);
            }
        }
    }

    fn write(
        &self,
        head: &BlockHead,
        sum: &BlockSum,
        buffer: Option<&mut Buffer>,
    ) -> io::Result<()> {
        let length = head.length as usize;
        if self.target.place.is_none() {
            let mut out = io::stdout().lock();
            match buffer {
                Some(buffer) => out.write_all(&buffer.block()[..length])?,
                None => out.write_all(&vec![0; length])?,
            }
        } else {
            let partial = self.partial(head.file)?;
            match buffer {
                Some(buffer) => partial.write(head.block, buffer, length)?,
                None => partial.hole(head.block, length)?,
            }
            partial.note(head.block, &sum.inner)?;
        }
        let counter = if head.kind == BlockKind::Hole {
            &self.common.hole_bytes
        } else {
            let written = &self.common.disk_bytes;
            written.fetch_add(head.length, Ordering::Relaxed);
            &self.common.moved_bytes
        };
        counter.fetch_add(head.length, Ordering::Relaxed);
        lock(&self.files[head.file as usize]).written += 1;
        Ok(())
    }

    /// Returns the incomplete file; the first call opens it.
    fn partial(&self, file: u32) -> io::Result<Arc<Partial>> {
        let mut writing = lock(&self.files[file as usize]);
        if let Some(partial) = &writing.open {
            return Ok(Arc::clone(partial));
        }
        let planned = &self.target.entries[file as usize];
        let (folder, _) = self.target.place.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let wanted = (planned.path.as_path(), self.target.wish.direct);
        let given_up = || self.common.halt.is_set();
        let (partial, _) = Partial::open(folder, wanted, &planned.entry, &given_up)?;
        let partial = Arc::new(partial);
        writing.open = Some(Arc::clone(&partial));
        Ok(partial)
    }

    /// Commits a file once all blocks are written and the source has sent its hash.
    fn finish_when_whole(&self, file: u32) -> io::Result<()> {
        let mut writing = lock(&self.files[file as usize]);
        let Some((size, told)) = writing.end else {
            return Ok(());
        };
        if writing.done || writing.written < size.div_ceil(BLOCK_BYTES) {
            return Ok(());
        }
        writing.done = true;
        let sum = std::mem::take(&mut writing.came).of_file(size);
        drop(writing);
        let same = sum == Some(told);
        if same && self.target.entries.len() == 1 {
            let mut held = self
                .common
                .sum
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *held = Some(hex(&told));
        }
        let Some((folder, _)) = &self.target.place else {
            return if same {
                io::stdout().flush()
            } else {
                Err(differs())
            };
        };
        let partial = self.partial(file)?;
        if !same {
            partial.discard(folder);
            return Err(differs());
        }
        partial.settle(&self.target.entries[file as usize].entry, size)?;
        // A failure is in the halt, with the name of the file concerned.
        self.keep(Whole { file, partial });
        Ok(())
    }

    /// Creates the unlinked file of a disk-only measurement.
    pub(super) fn scratch(&self) -> io::Result<Option<Partial>> {
        let (Mode::Disk(bytes), Some((folder, path))) = (self.mode, &self.target.place) else {
            return Ok(None);
        };
        Partial::scratch(folder, path, bytes, self.target.wish.direct).map(Some)
    }

    pub(super) fn write_scratch(&self, scratch: &Partial) {
        let watch = self.common.disk.watch();
        let halt = &self.common.halt;
        let Some(mut buffer) = self.common.free.pop(halt) else {
            return;
        };
        // Incompressible data.
        let mut noise = blake3::Hasher::new();
        noise
            .update(b"longhaul")
            .finalize_xof()
            .fill(buffer.block_mut());
        let Mode::Disk(bytes) = self.mode else {
            return;
        };
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        while !halt.is_set() {
            let index = self.scratch_next.fetch_add(1, Ordering::Relaxed);
            if index >= blocks {
                break;
            }
            let length = BLOCK_BYTES as usize;
            if let Err(error) = watch.busy(|| scratch.write(index, &mut buffer, length)) {
                return halt.fail(format!(
                    "cannot write a scratch file at the target: {error}"
                ));
            }
            self.common
                .disk_bytes
                .fetch_add(BLOCK_BYTES, Ordering::Relaxed);
        }
        if let Err(error) = timed(&self.common.sync, || scratch.sync()) {
            halt.fail(format!(
                "cannot write a scratch file at the target: {error}"
            ));
        }
    }
}

fn differs() -> io::Error {
    io::Error::other("its sum is not that of the source; nothing of it was kept")
}
