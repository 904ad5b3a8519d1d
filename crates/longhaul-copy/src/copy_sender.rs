//! The source's threads: disk threads read and hash blocks, and one per connection sends the next.

mod block_reader;

use super::block_buffer::BlockBuffer;
use super::block_digest::{BlockDigest, FileHasher};
use super::copy_source::CopySource;
use super::copy_threads::{
    CopyState, CopyWork, MAX_DISK_THREADS, RunningCopy, StartingStream, ThreadTask,
};
use super::partial_file::block_length;
use super::stage_queue::StageQueue;
use crate::block_header::{BlockHeader, BlockKey, BlockKind};
use crate::data_stream::DataStream;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Files and blocks that the target already has.
#[derive(Debug, Default)]
pub(crate) struct TargetBlocks {
    pub skipped: HashSet<u32>,
    pub held: HashMap<u32, HashMap<u64, BlockDigest>>,
}

struct CopySender {
    source: CopySource,
    target_blocks: TargetBlocks,
    common: CopyState,
    files: Vec<Mutex<SourceFileState>>,
    cursor: Mutex<ReadCursor>,
    ready: StageQueue<SendItem>,
}

/// State of one file at the source.
#[derive(Debug, Default)]
struct SourceFileState {
    open: Option<Arc<File>>,
    sum: FileHasher,
}

/// Position of the next block to read.
#[derive(Debug, Default)]
struct ReadCursor {
    entry: usize,
    block: u64,
}

/// An item to send.
enum SendItem {
    Block(BlockHeader, BlockDigest, BlockBuffer),
    /// The end of a file, with its hash.
    End(BlockHeader, BlockDigest),
}

/// A block to read.
#[derive(Debug, Clone, Copy)]
struct ReadJob {
    file: u32,
    block: u64,
    length: u64,
}

/// Starts the threads that read, hash and send.
pub(crate) fn start_sending(
    source: CopySource,
    known: TargetBlocks,
    streams: Vec<TcpStream>,
    key: BlockKey,
) -> io::Result<RunningCopy> {
    let work = CopySender {
        common: CopyState::new(key, Duration::ZERO),
        files: source.entries.iter().map(|_| Mutex::default()).collect(),
        cursor: Mutex::default(),
        ready: StageQueue::new(),
        source,
        target_blocks: known,
    };
    RunningCopy::start(Arc::new(work), streams)
}

impl CopyWork for CopySender {
    fn common(&self) -> &CopyState {
        &self.common
    }

    fn max_disk_threads(&self) -> usize {
        // Several threads would reorder blocks.
        if self.source.in_order { 1 } else { MAX_DISK_THREADS }
    }

    fn extend_queue(&self, task: &ThreadTask, space: usize) {
        self.ready.extend(space);
        if matches!(task, ThreadTask::Disk) {
            self.ready.add_producer();
        }
    }

    fn run_thread(&self, task: ThreadTask) {
        match task {
            ThreadTask::Disk if self.source.location.is_none() => self.read_stream(),
            ThreadTask::Disk => self.read_files(),
            ThreadTask::Stream(stream) => self.send_blocks(stream),
        }
    }
}

impl CopySender {
    fn next_job(&self) -> Option<ReadJob> {
        let mut cursor = self.cursor.lock();
        loop {
            let entry = self.source.entries.get(cursor.entry)?;
            let file = cursor.entry as u32;
            let size = entry.size_bytes.unwrap_or(0);
            let done = match cursor.block {
                // An empty file still needs its end message.
                0 => entry.folder || self.target_blocks.skipped.contains(&file),
                block => block_length(size, block) == 0,
            };
            if done {
                *cursor = ReadCursor { entry: cursor.entry + 1, block: 0 };
                continue;
            }
            let block = cursor.block;
            cursor.block += 1;
            return Some(ReadJob { file, block, length: block_length(size, block) });
        }
    }
}

impl CopySender {
    /// Sends blocks over one connection.
    fn send_blocks(&self, stream: StartingStream) {
        let common = &self.common;
        let Some(stream) = stream.wait() else { return };
        common.streams.enter();
        let timer = common.counters.network.start_timer();
        let Ok(mut stream) = DataStream::new(stream, &common.halt, timer) else {
            return common.halt.fail_lost("a data connection was closed");
        };
        while !common.streams.is_surplus()
            && let Some(ready) = stream.timer.idle(|| self.ready.pop(&common.halt))
        {
            let moved = match ready {
                SendItem::Block(head, sum, mut buffer) => {
                    let length = head.length as usize;
                    let front = head.encode(&common.key, &sum);
                    let moved = stream.send(buffer.with_header(&front, length));
                    common.counters.moved_bytes.add(head.length);
                    common.free_buffers.push(buffer, &common.halt);
                    moved
                }
                SendItem::End(head, sum) => {
                    let mut bytes = head.encode(&common.key, &sum).to_vec();
                    bytes.extend(sum);
                    stream.send(&bytes)
                }
            };
            if !moved {
                return;
            }
        }
        self.send_last(stream);
        common.note_stream_end();
    }

    fn send_last(&self, mut stream: DataStream<'_>) {
        if self.common.halt.is_set() {
            return;
        }
        let head = BlockHeader { kind: BlockKind::Last, file: 0, block: 0, length: 0 };
        stream.send(&head.encode(&self.common.key, &BlockDigest::default()));
        self.common.add_socket_stats(stream.socket());
        // The peer has everything, so errors of the shutdown do not matter.
        let _ = stream.socket().shutdown(Shutdown::Write);
    }
}
