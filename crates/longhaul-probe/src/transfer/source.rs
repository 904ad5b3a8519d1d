//! The end that has the files: threads that read and sum up blocks, and one for each connection
//! that sends whatever block is next.

use super::BLOCK_BYTES;
use super::buffer::{Buffer, aligned};
use super::counters::timed;
use super::digest::{BlockSum, Digest, FileSum, of_block};
use super::list::Source;
use super::names::joined;
use super::partial::{block_length, no_direct, read_at};
use super::queue::{Halt, Queue, WAKE};
use super::run::{Common, Mode, Piece, Threads, Work, disk_threads};
use super::stream::{DataStream, Moved};
use crate::secure::hex;
use crate::wire::{BLOCK_HEAD_BYTES, BlockHead, BlockKey, BlockKind, Status};
use longhaul_sys::beneath::{Seen, data_from};
use longhaul_sys::poll;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the target has already, by file and block.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub skipped: HashSet<u32>,
    pub held: HashMap<u32, HashMap<u64, Digest>>,
}

/// The source under way.
pub(crate) struct SourceRun {
    work: Arc<Sending>,
    _threads: Threads,
}

struct Sending {
    source: Source,
    known: Known,
    common: Common,
    files: Vec<Mutex<Reading>>,
    cursor: Mutex<Cursor>,
    ready: Queue<Ready>,
    readers: AtomicUsize,
    /// Bytes of no file that are still to be sent.
    filler: AtomicU64,
}

/// One file at the source.
#[derive(Debug, Default)]
struct Reading {
    open: Option<Arc<Opened>>,
    sum: FileSum,
}

#[derive(Debug)]
struct Opened {
    file: File,
    /// It has holes.
    sparse: bool,
}

/// Which block is read next.
#[derive(Debug, Default)]
struct Cursor {
    entry: usize,
    block: u64,
}

/// What is to be sent.
enum Ready {
    Block(BlockHead, Digest, Buffer),
    /// A head with no payload but, at the end of a file, its sum.
    Bare(BlockHead, Digest),
}

/// A block to be read.
#[derive(Debug, Clone, Copy)]
struct Job {
    file: u32,
    block: u64,
    length: u64,
}

impl SourceRun {
    pub fn start(
        source: Source,
        known: Known,
        (streams, key): (Vec<TcpStream>, BlockKey),
        mode: Mode,
    ) -> io::Result<SourceRun> {
        let streams = mode.used(streams);
        let stdin = source.place.is_none();
        let readers = match mode {
            Mode::Network(_) => 0,
            // Several threads would overtake each other.
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
        let threads = Threads::start(&work, pieces)?;
        Ok(SourceRun {
            work,
            _threads: threads,
        })
    }

    pub fn status(&self) -> Status {
        self.work.common.status()
    }
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
                // A file without a byte has an end to be told nevertheless.
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

    /// One of the threads at the disk.
    fn read_files(&self) {
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
            let read = watch.busy(|| self.read(job, &mut buffer));
            let done = read.and_then(|kind| self.hand_on(job, kind, buffer, &watch));
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

    fn read(&self, job: Job, buffer: &mut Buffer) -> io::Result<BlockKind> {
        let opened = self.opened(job.file)?;
        let length = job.length as usize;
        let offset = job.block * BLOCK_BYTES;
        if opened.sparse && length > 0 {
            let data = data_from(&opened.file, offset)?;
            if data.is_none_or(|from| from >= offset + job.length) {
                buffer.block_mut()[..length].fill(0);
                return Ok(BlockKind::Hole);
            }
        }
        let wanted = if self.source.direct {
            aligned(length)
        } else {
            length
        };
        let filled = read_at(&opened.file, &mut buffer.block_mut()[..wanted], offset)?;
        if filled < length {
            return Err(changed());
        }
        self.common
            .disk_bytes
            .fetch_add(job.length, Ordering::Relaxed);
        Ok(BlockKind::Data)
    }

    /// The file, opened by whoever needs it first.
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

    /// Whether it is the very file that was listed.
    fn unchanged(&self, file: u32, opened: &File) -> io::Result<()> {
        let now = Seen::of(opened)?;
        match self.source.seen[file as usize] {
            Some(then) if then == now => Ok(()),
            _ => Err(changed()),
        }
    }

    fn reading(&self, file: u32) -> std::sync::MutexGuard<'_, Reading> {
        let reading = self.files[file as usize].lock();
        reading.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sums up, and gives it to the senders where the target does not have it. False: over.
    fn hand_on(
        &self,
        job: Job,
        kind: BlockKind,
        buffer: Buffer,
        watch: &super::counters::Watch<'_>,
    ) -> io::Result<bool> {
        let halt = &self.common.halt;
        let mut going = true;
        let mut sum = None;
        if job.length > 0 {
            let block = &buffer.block()[..job.length as usize];
            let of = timed(&self.common.hash, || of_block(job.block, block));
            sum = Some(of);
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

    /// The end of the file, once all its blocks are read and it is still the same.
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

    /// Standard input, block by block until its end.
    fn read_stream(&self) {
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

    /// One connection.
    fn send(&self, stream: TcpStream) {
        let common = &self.common;
        let Ok(mut stream) = DataStream::new(stream, &common.halt) else {
            return common.halt.lose("a data connection was closed");
        };
        let watch = common.network.watch();
        while let Some(ready) = watch.idle(|| self.ready.pop(&common.halt)) {
            let moved = match ready {
                Ready::Block(head, sum, mut buffer) => {
                    let length = head.length as usize;
                    let front = head.encode(&common.key, &sum);
                    let moved = watch.busy(|| stream.send(buffer.framed(&front, length)));
                    common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
                    common.free.push(buffer, &common.halt);
                    moved
                }
                Ready::Bare(head, sum) => {
                    let mut bytes = head.encode(&common.key, &sum).to_vec();
                    if head.kind == BlockKind::End {
                        bytes.extend(sum);
                    }
                    watch.busy(|| stream.send(&bytes))
                }
            };
            if moved == Moved::Over {
                return;
            }
        }
        drop(watch);
        self.say_last(stream);
    }

    fn say_last(&self, mut stream: DataStream<'_>) {
        if self.common.halt.is_set() {
            return;
        }
        let head = BlockHead {
            kind: BlockKind::Last,
            file: 0,
            block: 0,
            length: 0,
        };
        stream.send(&head.encode(&self.common.key, &Digest::default()));
        self.common.note_socket(stream.socket());
        // The peer has all it needs: how the connection ends does not matter.
        let _ = stream.socket().shutdown(Shutdown::Write);
    }

    /// Bytes of no file over one connection.
    fn fill(&self, stream: TcpStream) {
        let common = &self.common;
        let Ok(mut stream) = DataStream::new(stream, &common.halt) else {
            return common.halt.lose("a data connection was closed");
        };
        let watch = common.network.watch();
        let Some(mut buffer) = common.free.pop(&common.halt) else {
            return;
        };
        loop {
            let left = self
                .filler
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    (left > 0).then(|| left.saturating_sub(BLOCK_BYTES))
                });
            let Ok(left) = left else {
                break;
            };
            let head = BlockHead {
                kind: BlockKind::Filler,
                file: 0,
                block: 0,
                length: left.min(BLOCK_BYTES),
            };
            let front: [u8; BLOCK_HEAD_BYTES] = head.encode(&common.key, &Digest::default());
            let bytes = buffer.framed(&front, head.length as usize);
            if watch.busy(|| stream.send(bytes)) == Moved::Over {
                return;
            }
            common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
        }
        drop(watch);
        self.say_last(stream);
    }

    /// In the place of all connections, where only the disk is measured.
    fn discard(&self) {
        while let Some(ready) = self.ready.pop(&self.common.halt) {
            if let Ready::Block(head, _, buffer) = ready {
                self.common
                    .moved_bytes
                    .fetch_add(head.length, Ordering::Relaxed);
                self.common.free.push(buffer, &self.common.halt);
            }
        }
    }
}

/// The last thread at the disk tells the senders that no more will come.
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

/// Waits for more no longer than until the halt: a pipe may stay silent for ever.
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
