//! The end that gets the files: one thread for each connection that receives and sums up, and
//! threads that write.

use super::BLOCK_BYTES;
use super::buffer::Buffer;
use super::counters::timed;
use super::digest::{BlockSum, Digest, FileSum, of_block};
use super::partial::{Partial, block_length, times};
use super::place::{Planned, Target, cannot_write};
use super::queue::{Queue, WAKE};
use super::run::{Common, Mode, Piece, Threads, Work, disk_threads};
use super::stream::{DataStream, Moved};
use crate::secure::hex;
use crate::wire::{BLOCK_HEAD_BYTES, BlockHead, BlockKey, BlockKind, Status};
use std::fs::Permissions;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The longest file: block numbers fit into memory's own.
const MOST_BLOCKS: u64 = 1 << 32;

/// The target under way.
pub(crate) struct TargetRun {
    work: Arc<Receiving>,
    _threads: Threads,
}

struct Receiving {
    target: Target,
    common: Common,
    mode: Mode,
    files: Vec<Mutex<Writing>>,
    jobs: Queue<Job>,
    receivers: AtomicUsize,
    /// Next block of standard output.
    turn: Mutex<u64>,
    turned: Condvar,
    /// Next block of a scratch file.
    scratch_next: AtomicU64,
}

/// One file at the target.
#[derive(Debug, Default)]
struct Writing {
    open: Option<Arc<Partial>>,
    /// Blocks that came, whether or not they are written yet.
    came: FileSum,
    written: u64,
    /// Length and sum as the source has them.
    end: Option<(u64, Digest)>,
    done: bool,
}

/// What is to be written.
enum Job {
    Data(BlockHead, BlockSum, Buffer),
    Hole(BlockHead, BlockSum),
    End(BlockHead, Digest),
}

impl TargetRun {
    pub fn start(
        mut target: Target,
        (streams, key): (Vec<TcpStream>, BlockKey),
        mode: Mode,
    ) -> io::Result<TargetRun> {
        let streams = mode.used(streams);
        let stdout = target.place.is_none();
        let writers = match mode {
            Mode::Network(_) => 0,
            _ if stdout => 1,
            _ => disk_threads(),
        };
        let threads = writers + streams.len();
        let common = Common::new(key, threads)?;
        let files = target.entries.iter_mut().map(|planned| {
            let writing = Writing::taken_up(planned, &common);
            Mutex::new(writing)
        });
        let work = Arc::new(Receiving {
            files: files.collect(),
            common,
            mode,
            jobs: Queue::new(threads * 2),
            receivers: AtomicUsize::new(streams.len()),
            turn: Mutex::new(0),
            turned: Condvar::new(),
            scratch_next: AtomicU64::new(0),
            target,
        });
        let mut pieces: Vec<Piece<Receiving>> = Vec::new();
        let scratch = work.scratch()?.map(Arc::new);
        for _ in 0..writers {
            let scratch = scratch.clone();
            pieces.push(match scratch {
                Some(scratch) => Box::new(move |work: &Receiving| work.write_scratch(&scratch)),
                None => Box::new(Receiving::write_jobs),
            });
        }
        for stream in streams {
            pieces.push(Box::new(move |work: &Receiving| work.receive(stream)));
        }
        let threads = Threads::start(&work, pieces)?;
        Ok(TargetRun {
            work,
            _threads: threads,
        })
    }

    pub fn status(&self) -> Status {
        self.work.common.status()
    }
}

impl Writing {
    /// With what an earlier copy has left.
    fn taken_up(planned: &mut Planned, common: &Common) -> Writing {
        let mut writing = Writing {
            done: planned.there || planned.entry.folder,
            ..Writing::default()
        };
        let Some((partial, left)) = planned.begun.take() else {
            return writing;
        };
        writing.open = Some(Arc::new(partial));
        for (index, sum) in left {
            if writing.came.note(index, sum) {
                writing.written += 1;
                let length = block_length(planned.entry.size_bytes.unwrap_or(0), index);
                common.held_bytes.fetch_add(length, Ordering::Relaxed);
            }
        }
        writing
    }
}

impl Work for Receiving {
    fn common(&self) -> &Common {
        &self.common
    }

    /// Folders get their times last: every file in them has changed them.
    fn finish(&self) {
        if self.mode != Mode::Files {
            return;
        }
        if !self.files.iter().all(|file| lock(file).done) {
            return self
                .common
                .halt
                .lose("the source ended before all its files had come");
        }
        let Some((folder, _)) = &self.target.place else {
            return;
        };
        for planned in self
            .target
            .entries
            .iter()
            .rev()
            .filter(|it| it.entry.folder)
        {
            let set = folder
                .folder(&planned.path)
                .and_then(|it| it.listing())
                .and_then(|it| {
                    it.set_permissions(Permissions::from_mode(planned.entry.mode & 0o777))?;
                    it.set_times(times(&planned.entry))
                });
            if let Err(error) = set {
                return self.common.halt.fail(cannot_write(&planned.path, &error));
            }
        }
    }
}

impl Receiving {
    /// One connection.
    fn receive(&self, stream: TcpStream) {
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

    /// Whether such a block can come now; the error continues "the source sent …".
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
        watch: &super::counters::Watch<'_>,
    ) -> bool {
        let common = &self.common;
        let Some(mut buffer) = watch.blocked(|| common.free.pop(&common.halt)) else {
            return false;
        };
        let length = head.length as usize;
        let into = &mut buffer.block_mut()[..length];
        if watch.busy(|| stream.receive(into)) == Moved::Over {
            return false;
        }
        if head.kind == BlockKind::Filler {
            // Of no file and looked at by nobody: only its head is proved.
            common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
            return self.proved(&head, &Digest::default(), &tag)
                && common.free.push(buffer, &common.halt);
        }
        let sum = timed(&common.hash, || {
            of_block(head.block, &buffer.block()[..length])
        });
        self.proved(&head, &sum.inner, &tag)
            && self.note_came(&head, sum)
            && self.hand_on(Job::Data(head, sum, buffer), head.block, watch)
    }

    fn take_hole(
        &self,
        (head, tag): (BlockHead, Digest),
        watch: &super::counters::Watch<'_>,
    ) -> bool {
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
        watch: &super::counters::Watch<'_>,
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

    /// A block counts once.
    fn note_came(&self, head: &BlockHead, sum: BlockSum) -> bool {
        let new = lock(&self.files[head.file as usize])
            .came
            .note(head.block, sum);
        if !new {
            self.common.halt.lose("the source sent a block twice");
        }
        new
    }

    /// Gives it to the writers; blocks of standard output in their order.
    fn hand_on(&self, job: Job, block: u64, watch: &super::counters::Watch<'_>) -> bool {
        let halt = &self.common.halt;
        watch.blocked(|| {
            if self.target.place.is_some() {
                return self.jobs.push(job, halt);
            }
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Each connection carries blocks in their order, so that the one with the next block
            // is never among those that wait here.
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

    /// One of the threads at the disk.
    fn write_jobs(&self) {
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
            if let Err(error) = result.and_then(|()| self.finish_when_whole(file)) {
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

    /// The file as far as it is, opened by whoever needs it first.
    fn partial(&self, file: u32) -> io::Result<Arc<Partial>> {
        let mut writing = lock(&self.files[file as usize]);
        if let Some(partial) = &writing.open {
            return Ok(Arc::clone(partial));
        }
        let planned = &self.target.entries[file as usize];
        let (folder, _) = self.target.place.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let direct = self.target.wish.direct;
        let (partial, _) = Partial::open(folder, &planned.path, &planned.entry, direct)?;
        let partial = Arc::new(partial);
        writing.open = Some(Arc::clone(&partial));
        Ok(partial)
    }

    /// Gives a file its name, once all of it is written and the source has told its sum.
    fn finish_when_whole(&self, file: u32) -> io::Result<()> {
        let mut writing = lock(&self.files[file as usize]);
        let Some((size, told)) = writing.end else {
            return Ok(());
        };
        if writing.done || writing.written < size.div_ceil(BLOCK_BYTES) {
            return Ok(());
        }
        writing.done = true;
        let sum = writing.came.of_file(size);
        drop(writing);
        let planned = &self.target.entries[file as usize];
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
        let replace = self.target.wish.overwrite;
        timed(&self.common.sync, || {
            partial.finish(folder, &planned.entry, size, replace)
        })?;
        lock(&self.files[file as usize]).open = None;
        Ok(())
    }

    /// The file that a measurement of the disk alone writes; it has no name any more.
    fn scratch(&self) -> io::Result<Option<Partial>> {
        let (Mode::Disk(bytes), Some((folder, path))) = (self.mode, &self.target.place) else {
            return Ok(None);
        };
        Partial::scratch(folder, path, bytes, self.target.wish.direct).map(Some)
    }

    fn write_scratch(&self, scratch: &Partial) {
        let watch = self.common.disk.watch();
        let halt = &self.common.halt;
        let Some(mut buffer) = self.common.free.pop(halt) else {
            return;
        };
        // What no disk or file system can make smaller.
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

const FORGED: &str = "a block came that the source did not send: something changed it on its way";

fn differs() -> io::Error {
    io::Error::other("its sum is not that of the source; nothing of it was kept")
}

fn lock(file: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last connection tells the writers that no more will come.
struct Closing<'a>(&'a Receiving);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.jobs.close();
        }
    }
}
