//! The source's threads: disk threads read and hash blocks, and one per connection sends the next.

mod read;
mod send;

use super::buffer::Buffer;
use super::digest::{Digest, FileSum};
use super::list::Source;
use super::partial::block_length;
use super::queue::Queue;
use super::run::{Common, Mode, Piece, Running, Work, disk_threads};
use crate::wire::{BlockHead, BlockKey};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

/// Files and blocks that the target already has.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub skipped: HashSet<u32>,
    pub held: HashMap<u32, HashMap<u64, Digest>>,
}

struct Sending {
    source: Source,
    known: Known,
    common: Common,
    files: Vec<Mutex<Reading>>,
    cursor: Mutex<Cursor>,
    ready: Queue<Ready>,
    readers: AtomicUsize,
    /// Remaining filler bytes.
    filler: AtomicU64,
}

/// State of one file at the source.
#[derive(Debug, Default)]
struct Reading {
    open: Option<Arc<Opened>>,
    sum: FileSum,
}

#[derive(Debug)]
struct Opened {
    file: File,
    /// The file has holes.
    sparse: bool,
}

/// Position of the next block to read.
#[derive(Debug, Default)]
struct Cursor {
    entry: usize,
    block: u64,
}

/// An item to send.
enum Ready {
    Block(BlockHead, Digest, Buffer),
    /// A header without payload, except for the file's hash at its end.
    Bare(BlockHead, Digest),
}

/// A block to read.
#[derive(Debug, Clone, Copy)]
struct Job {
    file: u32,
    block: u64,
    length: u64,
}

/// Starts the threads that read, hash and send.
pub(crate) fn start(
    source: Source,
    known: Known,
    (streams, key): (Vec<TcpStream>, BlockKey),
    mode: Mode,
) -> io::Result<Running> {
    let streams = mode.used(streams);
    let stdin = source.place.is_none();
    let readers = match mode {
        Mode::Network(_) => 0,
        // Several threads would reorder blocks.
        _ if source.in_order => 1,
        _ => disk_threads(),
    };
    let threads = readers + streams.len().max(1);
    let filler = match mode {
        Mode::Network(bytes) => bytes,
        _ => 0,
    };
    let work = Arc::new(Sending {
        common: Common::new(key, threads)?,
        files: source.entries.iter().map(|_| Mutex::default()).collect(),
        cursor: Mutex::default(),
        ready: Queue::new(threads * 2),
        readers: AtomicUsize::new(readers),
        filler: AtomicU64::new(filler),
        source,
        known,
    });
    let mut pieces: Vec<Piece<Sending>> = Vec::new();
    for _ in 0..readers {
        pieces.push(if stdin {
            Box::new(Sending::read_stream)
        } else {
            Box::new(Sending::read_files)
        });
    }
    if matches!(mode, Mode::Disk(_)) {
        pieces.push(Box::new(Sending::discard));
    }
    for stream in streams {
        pieces.push(match mode {
            Mode::Network(_) => Box::new(move |work: &Sending| work.fill(stream)),
            _ => Box::new(move |work: &Sending| work.send(stream)),
        });
    }
    Running::start(&work, pieces)
}

impl Work for Sending {
    fn common(&self) -> &Common {
        &self.common
    }

    fn finish(&self) {}
}

impl Sending {
    fn next_job(&self) -> Option<Job> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let entry = self.source.entries.get(cursor.entry)?;
            let file = cursor.entry as u32;
            let size = entry.size_bytes.unwrap_or(0);
            let done = match cursor.block {
                // An empty file still needs its end message.
                0 => entry.folder || self.known.skipped.contains(&file),
                block => block_length(size, block) == 0,
            };
            if done {
                *cursor = Cursor {
                    entry: cursor.entry + 1,
                    block: 0,
                };
                continue;
            }
            let block = cursor.block;
            cursor.block += 1;
            return Some(Job {
                file,
                block,
                length: block_length(size, block),
            });
        }
    }
}
