//! Receiving threads: one per connection receives and hashes blocks.

use super::{Job, Receiving, lock};
use crate::transfer::BLOCK_BYTES;
use crate::transfer::counters::{Watch, timed};
use crate::transfer::digest::{BlockSum, Digest, PIECE_BYTES, Summing, of_block};
use crate::transfer::partial::block_length;
use crate::transfer::queue::WAKE;
use crate::transfer::run::Mode;
use crate::transfer::stream::{DataStream, Moved};
use crate::wire::{BLOCK_HEAD_BYTES, BlockHead, BlockKind};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The maximum number of blocks of a stream, so that their list fits into memory.
const MOST_BLOCKS: u64 = 1 << 32;

impl Receiving {
    /// Receives the blocks of one connection.
    pub(super) fn receive(&self, stream: TcpStream) {
        let _closing = Closing(self);
        let halt = &self.common.halt;
        let Ok(mut stream) = DataStream::new(stream, halt) else {
            return halt.lose("a data connection was closed");
        };
        let watch = self.common.network.watch();
        let mut front = [0; BLOCK_HEAD_BYTES];
        loop {
            if watch.busy(|| stream.receive(&mut front)) == Moved::Over {
                return;
            }
            let Some((head, tag)) = BlockHead::decode(&front) else {
                return halt.lose("what came on a data connection is no block");
            };
            if let Err(why) = self.expected(&head) {
                return halt.lose(format!("the source sent {why}"));
            }
            let took = match head.kind {
                BlockKind::Data | BlockKind::Filler => {
                    self.take_payload((head, tag), &mut stream, &watch)
                }
                BlockKind::Hole => self.take_hole((head, tag), &watch),
                BlockKind::End => self.take_end((head, tag), &mut stream, &watch),
                BlockKind::Last => {
                    if !head.holds(&self.common.key, &Digest::default(), &tag) {
                        halt.lose(FORGED);
                    }
                    return;
                }
            };
            if !took {
                return;
            }
        }
    }

    /// Checks that such a block is permitted now; the error continues "the source sent …".
    fn expected(&self, head: &BlockHead) -> Result<(), String> {
        let filler = matches!(self.mode, Mode::Network(_));
        let right = match head.kind {
            BlockKind::Last => return Ok(()),
            BlockKind::Filler => filler && head.length <= BLOCK_BYTES,
            _ => !filler,
        };
        if !right {
            return Err("blocks of another kind than agreed".to_owned());
        }
        if filler {
            return Ok(());
        }
        let entry = self.target.entries.get(head.file as usize);
        let entry = entry
            .map(|planned| &planned.entry)
            .filter(|entry| !entry.folder);
        let entry = entry.ok_or_else(|| format!("a block of file {}, which is none", head.file))?;
        let fits = match (head.kind, entry.size_bytes) {
            (BlockKind::End, Some(size)) => head.length == size,
            (BlockKind::End, None) => true,
            (_, Some(size)) => head.length > 0 && head.length == block_length(size, head.block),
            (_, None) => (1..=BLOCK_BYTES).contains(&head.length) && head.block < MOST_BLOCKS,
        };
        if fits {
            return Ok(());
        }
        Err(format!(
            "a block of {} bytes that does not fit",
            head.length
        ))
    }

    fn take_payload(
        &self,
        (head, tag): (BlockHead, Digest),
        stream: &mut DataStream<'_>,
        watch: &Watch<'_>,
    ) -> bool {
        let common = &self.common;
        let Some(mut buffer) = watch.blocked(|| common.free.pop(&common.halt)) else {
            return false;
        };
        let length = head.length as usize;
        let into = &mut buffer.block_mut()[..length];
        if head.kind == BlockKind::Filler {
            if watch.busy(|| stream.receive(into)) == Moved::Over {
                return false;
            }
            // Filler belongs to no file and is not read: only its header is verified.
            common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
            return self.proved(&head, &Digest::default(), &tag)
                && common.free.push(buffer, &common.halt);
        }
        let mut summing = Summing::new(head.block);
        for piece in into.chunks_mut(PIECE_BYTES) {
            if watch.busy(|| stream.receive(piece)) == Moved::Over {
                return false;
            }
            timed(&common.hash, || summing.add(piece));
        }
        let sum = summing.sum();
        self.proved(&head, &sum.inner, &tag)
            && self.note_came(&head, sum)
            && self.hand_on(Job::Data(head, sum, buffer), head.block, watch)
    }

    fn take_hole(&self, (head, tag): (BlockHead, Digest), watch: &Watch<'_>) -> bool {
        let zeros = vec![0; head.length as usize];
        let sum = timed(&self.common.hash, || of_block(head.block, &zeros));
        self.proved(&head, &sum.inner, &tag)
            && self.note_came(&head, sum)
            && self.hand_on(Job::Hole(head, sum), head.block, watch)
    }

    fn take_end(
        &self,
        (head, tag): (BlockHead, Digest),
        stream: &mut DataStream<'_>,
        watch: &Watch<'_>,
    ) -> bool {
        let mut sum = Digest::default();
        watch.busy(|| stream.receive(&mut sum)) == Moved::Whole
            && self.proved(&head, &sum, &tag)
            && self.hand_on(
                Job::End(head, sum),
                head.length.div_ceil(BLOCK_BYTES),
                watch,
            )
    }

    fn proved(&self, head: &BlockHead, sum: &Digest, tag: &Digest) -> bool {
        let holds = head.holds(&self.common.key, sum, tag);
        if !holds {
            self.common.halt.lose(FORGED);
        }
        holds
    }

    /// Records a received block; fails if it is a duplicate.
    fn note_came(&self, head: &BlockHead, sum: BlockSum) -> bool {
        let new = lock(&self.files[head.file as usize])
            .came
            .note(head.block, sum);
        if !new {
            self.common.halt.lose("the source sent a block twice");
        }
        new
    }

    /// Passes a job to the writers; blocks of standard output in order.
    fn hand_on(&self, job: Job, block: u64, watch: &Watch<'_>) -> bool {
        let halt = &self.common.halt;
        watch.blocked(|| {
            if self.target.place.is_some() {
                return self.jobs.push(job, halt);
            }
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Each connection carries blocks in order, so the one with the next block is never
            // among those that wait here.
            while *turn != block && !halt.is_set() {
                let waited = self.turned.wait_timeout(turn, WAKE);
                turn = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let pushed = self.jobs.push(job, halt);
            *turn += 1;
            drop(turn);
            self.turned.notify_all();
            pushed
        })
    }
}

const FORGED: &str = "a block came that the source did not send: something changed it on its way";

/// Closes the job queue when the last connection ends.
struct Closing<'a>(&'a Receiving);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.jobs.close();
        }
    }
}
