//! Receiving threads: one per connection receives and hashes blocks.

use super::{CopyReceiver, WriteJob};
use crate::BLOCK_BYTES;
use crate::block_digest::{BlockDigest, BlockHasher, BlockSum, PIECE_BYTES};
use crate::block_header::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind};
use crate::copy_threads::StartingStream;
use crate::data_stream::DataStream;
use crate::partial_file::block_length;
use crate::stage_counters::{StageTimer, time_into};
use crate::stage_queue::HALT_POLL_INTERVAL;

/// The maximum number of blocks of a stream, so that their list fits into memory.
const MAX_BLOCKS: u64 = 1 << 32;

impl CopyReceiver {
    /// Receives the blocks of one connection.
    pub(super) fn receive_blocks(&self, stream: StartingStream) {
        let _producer = self.jobs.producer();
        let halt = &self.common.halt;
        let Some(stream) = stream.wait() else { return };
        let timer = self.common.counters.network.start_timer();
        let Ok(mut stream) = DataStream::new(stream, halt, timer) else {
            return halt.fail_lost("a data connection was closed");
        };
        let mut front = [0; BLOCK_HEADER_BYTES];
        loop {
            if !stream.receive(&mut front) {
                return;
            }
            let Some((head, tag)) = BlockHeader::decode(&front) else {
                return halt.fail_lost("received data that is not a block");
            };
            if let Err(why) = self.check_header(&head) {
                return halt.fail_lost(format!("the source sent {why}"));
            }
            let took = match head.kind {
                BlockKind::Data => self.receive_payload(head, tag, &mut stream),
                BlockKind::End => self.receive_end(head, tag, &mut stream),
                BlockKind::Last => {
                    if !head.verify_tag(&self.common.key, &BlockDigest::default(), &tag) {
                        halt.fail_lost(FORGED);
                    }
                    self.common.note_stream_end();
                    return;
                }
            };
            if !took {
                return;
            }
        }
    }

    /// Checks that such a block is permitted now; the error continues "the source sent …".
    fn check_header(&self, head: &BlockHeader) -> Result<(), String> {
        if head.kind == BlockKind::Last {
            return Ok(());
        }
        let entry = self.target.entries.get(head.file as usize);
        let entry = entry.map(|planned| &planned.entry).filter(|entry| !entry.folder);
        let entry =
            entry.ok_or_else(|| format!("a block of file {}, which does not exist", head.file))?;
        let fits = match (head.kind, entry.size_bytes) {
            (BlockKind::End, Some(size)) => head.length == size,
            (BlockKind::End, None) => true,
            (_, Some(size)) => head.length > 0 && head.length == block_length(size, head.block),
            (_, None) => (1..=BLOCK_BYTES).contains(&head.length) && head.block < MAX_BLOCKS,
        };
        if fits {
            return Ok(());
        }
        Err(format!("a block with an invalid length of {} bytes", head.length))
    }

    fn receive_payload(
        &self,
        head: BlockHeader,
        tag: BlockDigest,
        stream: &mut DataStream<'_>,
    ) -> bool {
        let common = &self.common;
        let Some(mut buffer) = stream.timer.blocked(|| common.free_buffers.pop(&common.halt))
        else {
            return false;
        };
        let length = head.length as usize;
        let into = &mut buffer.block_mut()[..length];
        let mut summing = BlockHasher::new(head.block);
        for piece in into.chunks_mut(PIECE_BYTES) {
            if !stream.receive(piece) {
                return false;
            }
            time_into(&common.counters.hash_time, || summing.add(piece));
        }
        let sum = summing.sum();
        self.verify_tag(&head, &sum.inner, &tag)
            && self.record_block(&head, sum)
            && self.queue_job(WriteJob::Data(head, sum, buffer), head.block, &stream.timer)
    }

    fn receive_end(
        &self,
        head: BlockHeader,
        tag: BlockDigest,
        stream: &mut DataStream<'_>,
    ) -> bool {
        let mut sum = BlockDigest::default();
        stream.receive(&mut sum)
            && self.verify_tag(&head, &sum, &tag)
            && self.queue_job(
                WriteJob::End(head, sum),
                head.length.div_ceil(BLOCK_BYTES),
                &stream.timer,
            )
    }

    fn verify_tag(&self, head: &BlockHeader, sum: &BlockDigest, tag: &BlockDigest) -> bool {
        let holds = head.verify_tag(&self.common.key, sum, tag);
        if !holds {
            self.common.halt.fail_lost(FORGED);
        }
        holds
    }

    /// Records a received block; fails if it is a duplicate.
    fn record_block(&self, head: &BlockHeader, sum: BlockSum) -> bool {
        let new = self.files[head.file as usize].lock().received.add_block(head.block, sum);
        if !new {
            self.common.halt.fail_lost("the source sent a block twice");
        }
        new
    }

    /// Passes a job to the writers; blocks of standard output in order.
    fn queue_job(&self, job: WriteJob, block: u64, watch: &StageTimer<'_>) -> bool {
        let halt = &self.common.halt;
        watch.blocked(|| {
            if self.target.location.is_some() {
                return self.jobs.push(job, halt);
            }
            let mut turn = self.next_stdout_block.lock();
            // Each connection carries blocks in order, so the one with the next block is never
            // among those that wait here.
            while *turn != block && !halt.is_set() {
                self.stdout_block_done.wait_for(&mut turn, HALT_POLL_INTERVAL);
            }
            let pushed = self.jobs.push(job, halt);
            *turn += 1;
            drop(turn);
            self.stdout_block_done.notify_all();
            pushed
        })
    }
}

const FORGED: &str = "received a block that the source did not send: it was changed on the path";
