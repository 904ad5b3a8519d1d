//! The target's threads: one per connection receives and hashes blocks, and disk threads write
//! them.

mod keep;
mod receive;
mod write;

use super::buffer::Buffer;
use super::digest::{BlockSum, Digest, FileSum};
use super::partial::{Partial, block_length, times};
use super::place::{Planned, Target, cannot_write};
use super::queue::Queue;
use super::run::{Common, Mode, Piece, Running, Work, disk_threads};
use crate::wire::{BlockHead, BlockKey};
use keep::Keeping;
use std::fs::Permissions;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for data that a dead source's kernel still sends: full buffers of some hundred megabytes.
const LINGER: Duration = Duration::from_secs(2);

struct Receiving {
    target: Target,
    common: Common,
    mode: Mode,
    files: Vec<Mutex<Writing>>,
    jobs: Queue<Job>,
    keeping: Keeping,
    receivers: AtomicUsize,
    /// Next block of standard output.
    turn: Mutex<u64>,
    turned: Condvar,
    /// Next block of a scratch file.
    scratch_next: AtomicU64,
}

/// State of one file at the target.
#[derive(Debug, Default)]
struct Writing {
    open: Option<Arc<Partial>>,
    /// Received blocks, whether written or not.
    came: FileSum,
    written: u64,
    /// Length and hash reported by the source.
    end: Option<(u64, Digest)>,
    done: bool,
}

/// A job for the disk threads.
enum Job {
    Data(BlockHead, BlockSum, Buffer),
    Hole(BlockHead, BlockSum),
    End(BlockHead, Digest),
}

/// Starts the threads that receive, hash and write.
pub(crate) fn start(
    mut target: Target,
    (streams, key): (Vec<TcpStream>, BlockKey),
    mode: Mode,
) -> io::Result<Running> {
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
        keeping: Keeping::default(),
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
    Running::start(&work, pieces)
}

impl Writing {
    /// Creates the state from data left by an earlier copy.
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

    /// Returns the time to wait for data that a killed source's kernel still sends, which then need
    /// not be sent again.
    fn lingers(&self) -> Duration {
        match self.mode {
            Mode::Files => LINGER,
            Mode::Disk(_) | Mode::Network(_) => Duration::ZERO,
        }
    }

    /// Sets the folders' times last, because every file created in them changes those.
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
        if !self.keep_rest() {
            return;
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

fn lock(file: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
