//! Disk threads of the source: read and hash blocks.

use super::{Job, Opened, Reading, Ready, Sending};
use crate::secure::hex;
use crate::transfer::BLOCK_BYTES;
use crate::transfer::buffer::{Buffer, aligned};
use crate::transfer::counters::{Watch, timed};
use crate::transfer::digest::{BlockSum, Digest, FileSum, PIECE_BYTES, Summing, of_block};
use crate::transfer::names::joined;
use crate::transfer::partial::{no_direct, read_at};
use crate::transfer::queue::{Halt, WAKE};
use crate::wire::{BlockHead, BlockKind};
use longhaul_sys::beneath::{Seen, data_from};
use longhaul_sys::poll;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

impl Sending {
    /// Runs one of the disk threads.
    pub(super) fn read_files(&self) {
        let _closing = Closing(self);
        let watch = self.common.disk.watch();
        let halt = &self.common.halt;
        while let Some(job) = self.next_job() {
            let Some(mut buffer) = watch.blocked(|| self.common.free.pop(halt)) else {
                return;
            };
            let path = joined(
                Path::new(""),
                Path::new(&self.source.entries[job.file as usize].path),
            );
            let read = self.read(job, &mut buffer, &watch);
            let done = read.and_then(|(kind, sum)| self.hand_on(job, kind, (sum, buffer), &watch));
            match done {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let shown = self.shown(&path);
                    return halt.fail(format!("cannot read {shown}: {error}"));
                }
            }
        }
    }

    fn shown(&self, path: &Path) -> String {
        match &self.source.place {
            Some((_, base)) => joined(base, path).display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    /// Reads and hashes a block.
    fn read(
        &self,
        job: Job,
        buffer: &mut Buffer,
        watch: &Watch<'_>,
    ) -> io::Result<(BlockKind, Option<BlockSum>)> {
        let opened = watch.busy(|| self.opened(job.file))?;
        if job.length == 0 {
            return Ok((BlockKind::Data, None));
        }
        let length = job.length as usize;
        let offset = job.block * BLOCK_BYTES;
        let mut summing = Summing::new(job.block);
        let mut add = |piece: &[u8]| timed(&self.common.hash, || summing.add(piece));
        if opened.sparse {
            let data = watch.busy(|| data_from(&opened.file, offset))?;
            if data.is_none_or(|from| from >= offset + job.length) {
                let block = &mut buffer.block_mut()[..length];
                block.fill(0);
                add(block);
                return Ok((BlockKind::Hole, Some(summing.sum())));
            }
        }
        let (whole, at_once) = if self.source.direct {
            (aligned(length), aligned(length))
        } else {
            (length, PIECE_BYTES)
        };
        let mut left = length;
        let mut at = offset;
        for piece in buffer.block_mut()[..whole].chunks_mut(at_once) {
            let wanted = left.min(piece.len());
            if watch.busy(|| read_at(&opened.file, piece, at))? < wanted {
                return Err(changed());
            }
            add(&piece[..wanted]);
            at += wanted as u64;
            left -= wanted;
        }
        self.common
            .disk_bytes
            .fetch_add(job.length, Ordering::Relaxed);
        Ok((BlockKind::Data, Some(summing.sum())))
    }

    /// Returns the file; the first call opens it.
    fn opened(&self, file: u32) -> io::Result<Arc<Opened>> {
        let mut reading = self.reading(file);
        if let Some(opened) = &reading.open {
            return Ok(Arc::clone(opened));
        }
        let (folder, base) = self.source.place.as_ref().ok_or_else(changed)?;
        let entry = &self.source.entries[file as usize];
        let opened = folder.read(&joined(base, Path::new(&entry.path)), self.source.direct);
        let opened = opened.map_err(|error| no_direct(error, self.source.direct))?;
        self.unchanged(file, &opened)?;
        let about = opened.metadata()?;
        let opened = Arc::new(Opened {
            sparse: about.blocks() * 512 < about.size(),
            file: opened,
        });
        reading.open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Checks that the file is unchanged since it was listed.
    fn unchanged(&self, file: u32, opened: &File) -> io::Result<()> {
        let now = Seen::of(opened)?;
        match self.source.seen[file as usize] {
            Some(then) if then == now => Ok(()),
            _ => Err(changed()),
        }
    }

    fn reading(&self, file: u32) -> MutexGuard<'_, Reading> {
        let reading = self.files[file as usize].lock();
        reading.unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a block unless the target already has it; returns false after a halt.
    fn hand_on(
        &self,
        job: Job,
        kind: BlockKind,
        (sum, buffer): (Option<BlockSum>, Buffer),
        watch: &Watch<'_>,
    ) -> io::Result<bool> {
        let halt = &self.common.halt;
        let mut going = true;
        if let Some(of) = sum {
            let head = BlockHead {
                kind,
                file: job.file,
                block: job.block,
                length: job.length,
            };
            let held = self.known.held.get(&job.file);
            let ready = if held.is_some_and(|held| held.get(&job.block) == Some(&of.inner)) {
                self.common
                    .held_bytes
                    .fetch_add(job.length, Ordering::Relaxed);
                going = self.common.free.push(buffer, halt);
                None
            } else if kind == BlockKind::Hole {
                self.common
                    .hole_bytes
                    .fetch_add(job.length, Ordering::Relaxed);
                going = self.common.free.push(buffer, halt);
                Some(Ready::Bare(head, of.inner))
            } else {
                Some(Ready::Block(head, of.inner, buffer))
            };
            if let Some(ready) = ready {
                going = watch.blocked(|| self.ready.push(ready, halt));
            }
        } else {
            going = self.common.free.push(buffer, halt);
        }
        let end = self.note(job, sum)?;
        Ok(going && end.is_none_or(|end| watch.blocked(|| self.ready.push(end, halt))))
    }

    /// Returns the end message of a file, once all its blocks are read and it is still unchanged.
    fn note(&self, job: Job, sum: Option<BlockSum>) -> io::Result<Option<Ready>> {
        let size = self.source.entries[job.file as usize]
            .size_bytes
            .unwrap_or(0);
        let mut reading = self.reading(job.file);
        if let Some(sum) = sum {
            reading.sum.note(job.block, sum);
        }
        let Some(whole) = reading.sum.of_file(size) else {
            return Ok(None);
        };
        if let Some(opened) = reading.open.take() {
            self.unchanged(job.file, &opened.file)?;
        }
        reading.sum = FileSum::default();
        drop(reading);
        Ok(Some(self.end(job.file, size, whole)))
    }

    fn end(&self, file: u32, size: u64, sum: Digest) -> Ready {
        if self.source.entries.len() == 1 {
            let mut held = self
                .common
                .sum
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *held = Some(hex(&sum));
        }
        let head = BlockHead {
            kind: BlockKind::End,
            file,
            block: 0,
            length: size,
        };
        Ready::Bare(head, sum)
    }

    /// Reads standard input, block by block until its end.
    pub(super) fn read_stream(&self) {
        let _closing = Closing(self);
        let watch = self.common.disk.watch();
        let halt = &self.common.halt;
        let mut input = match io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => File::from(input),
            Err(error) => return halt.fail(format!("cannot read standard input: {error}")),
        };
        let (mut sum, mut size) = (FileSum::default(), 0);
        for block in 0.. {
            let Some(mut buffer) = watch.blocked(|| self.common.free.pop(halt)) else {
                return;
            };
            let into = buffer.block_mut();
            let filled = match watch.busy(|| fill(&mut input, into, halt)) {
                Ok(filled) => filled,
                Err(error) => return halt.fail(format!("cannot read standard input: {error}")),
            };
            if filled > 0 {
                let of = timed(&self.common.hash, || {
                    of_block(block, &buffer.block()[..filled])
                });
                sum.note(block, of);
                size += filled as u64;
                self.common
                    .disk_bytes
                    .fetch_add(filled as u64, Ordering::Relaxed);
                let head = BlockHead {
                    kind: BlockKind::Data,
                    file: 0,
                    block,
                    length: filled as u64,
                };
                let ready = Ready::Block(head, of.inner, buffer);
                if !watch.blocked(|| self.ready.push(ready, halt)) {
                    return;
                }
            }
            if filled < BLOCK_BYTES as usize {
                break;
            }
        }
        let whole = sum.of_file(size).unwrap_or_default();
        self.ready.push(self.end(0, size, whole), halt);
    }
}

/// Closes the send queue when the last disk thread ends.
struct Closing<'a>(&'a Sending);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ready.close();
        }
    }
}

fn changed() -> io::Error {
    io::Error::other("it changed under the copy; copy it again once nobody writes it")
}

/// Fills the buffer unless input ends or a halt is set: a pipe may stay silent for ever.
fn fill(from: &mut File, into: &mut [u8], halt: &Halt) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        if halt.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let [readable] = poll::readable([from.as_fd()], Some(WAKE))?;
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
