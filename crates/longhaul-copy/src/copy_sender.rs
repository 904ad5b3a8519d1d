//! The source's threads: disk threads read and hash blocks, and one per connection sends the next.

mod block_reader;
mod block_sender;

use super::block_buffer::BlockBuffer;
use super::block_digest::{BlockDigest, FileHasher};
use super::copy_source::CopySource;
use super::copy_threads::{CopyState, CopyWork, RunningCopy, ThreadTask, disk_threads};
use super::partial_file::block_length;
use super::stage_queue::StageQueue;
use crate::block_header::{BlockHeader, BlockKey};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::TcpStream;
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
    let stdin = source.location.is_none();
    // Several threads would reorder blocks.
    let readers = if source.in_order { 1 } else { disk_threads() };
    let threads = readers + streams.len();
    let work = Arc::new(CopySender {
        common: CopyState::new(key, threads, Duration::ZERO)?,
        files: source.entries.iter().map(|_| Mutex::default()).collect(),
        cursor: Mutex::default(),
        ready: StageQueue::new(threads * 2, readers),
        source,
        target_blocks: known,
    });
    let mut pieces: Vec<ThreadTask<CopySender>> = Vec::new();
    for _ in 0..readers {
        pieces.push(if stdin {
            Box::new(CopySender::read_stream)
        } else {
            Box::new(CopySender::read_files)
        });
    }
    for stream in streams {
        pieces.push(Box::new(move |work: &CopySender| work.send_blocks(stream)));
    }
    RunningCopy::start(&work, pieces)
}

impl CopyWork for CopySender {
    fn common(&self) -> &CopyState {
        &self.common
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
