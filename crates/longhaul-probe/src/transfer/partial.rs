//! A file that is not whole yet: hidden beside its name, with a journal of the blocks it has.
//!
//! The journal is a claim, not a proof: whoever takes a copy up again reads every claimed block
//! and sums it up. So nothing needs to reach the disk in any order, and a power failure costs the
//! blocks that it really lost.

mod journal;

use super::BLOCK_BYTES;
use super::buffer::{Buffer, aligned};
use super::digest::{BlockSum, Digest, of_block};
use super::names;
use crate::wire::Entry;
use journal::{claims, record, rewrite};
use longhaul_sys::beneath::{Folder, begin_keeping, punch_hole};
use std::fs::{File, FileTimes, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// So many blocks are handed to the disk together.
const BLOCKS_AT_ONCE: u64 = 16;
/// Longer than the silence after which a far end takes its peer for dead.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const NEXT_TRY: Duration = Duration::from_millis(20);
const GIVEN_UP: &str = "the copy was given up";

#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    direct: bool,
    file: File,
    /// Absent: a file of one block is sent again as a whole.
    journal: Option<Mutex<File>>,
    /// Something may stand where a hole shall be.
    dirty: bool,
    /// Blocks, so far.
    written: AtomicU64,
}

/// What an earlier copy has left, as far as it proved true.
pub(super) type Left = Vec<(u64, BlockSum)>;

impl Partial {
    /// Whether an earlier copy has left something to be taken up.
    pub fn is_begun(folder: &Folder, path: &Path) -> bool {
        matches!(folder.look(&names::journal(path)), Ok(Some(_)))
    }

    /// Opens what an earlier copy of the same source has left, or makes a new one; past the page
    /// cache where that is wanted. One that is held by another copy is waited for, as long as
    /// nobody has given up.
    pub fn open(
        folder: &Folder,
        (path, direct): (&Path, bool),
        entry: &Entry,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<(Partial, Left)> {
        let file = own(folder, &names::partial(path), direct, given_up)?;
        let long = entry.size_bytes.is_some_and(|size| size > BLOCK_BYTES);
        let mut partial = Partial {
            path: path.to_owned(),
            direct,
            file,
            journal: None,
            dirty: false,
            written: AtomicU64::new(0),
        };
        let mut left = Left::new();
        if long {
            let mut journal = folder.write(&names::journal(path), false)?;
            left = partial.proved(&claims(&mut journal, entry)?, entry, given_up)?;
            rewrite(&mut journal, entry, &left)?;
            partial.journal = Some(Mutex::new(journal));
        }
        partial.dirty = !left.is_empty();
        if left.is_empty() {
            partial.file.set_len(0)?;
        }
        Ok((partial, left))
    }

    /// A file of `bytes` that has lost its name already: it is gone with whoever writes it.
    pub fn scratch(folder: &Folder, path: &Path, bytes: u64, direct: bool) -> io::Result<Partial> {
        let path = path.join(format!("longhaul-{}", std::process::id()));
        let name = names::partial(&path);
        let opened = folder.write(&name, direct);
        let file = opened.map_err(|error| no_direct(error, direct))?;
        folder.remove(&name)?;
        file.set_len(bytes)?;
        Ok(Partial {
            path,
            direct,
            file,
            journal: None,
            dirty: false,
            written: AtomicU64::new(0),
        })
    }

    /// Lets the disk work while others do, so that little is left for [`Partial::sync`].
    pub fn begin_keeping(&self) {
        // A file system that cannot begin early keeps all of it later.
        let _ = begin_keeping(&self.file, 0, 0);
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// The claimed blocks that really are there.
    fn proved(
        &self,
        claims: &[(u64, Digest)],
        entry: &Entry,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<Left> {
        let mut left = Left::new();
        let mut buffer = Buffer::new()?;
        for (index, claimed) in claims {
            if given_up() {
                return Err(io::Error::other(GIVEN_UP));
            }
            let length = block_length(entry.size_bytes.unwrap_or(0), *index) as usize;
            let wanted = if self.direct { aligned(length) } else { length };
            let block = &mut buffer.block_mut()[..wanted];
            let filled = read_at(&self.file, block, index * BLOCK_BYTES)?;
            if length == 0 || filled < length {
                continue;
            }
            let sum = of_block(*index, &block[..length]);
            if sum.inner == *claimed {
                left.push((*index, sum));
            }
        }
        Ok(left)
    }

    pub fn write(&self, index: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let whole = if self.direct { aligned(length) } else { length };
        let block = &mut buffer.block_mut()[..whole];
        block[length..].fill(0);
        self.file.write_all_at(block, index * BLOCK_BYTES)?;
        let written = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.direct && written.is_multiple_of(BLOCKS_AT_ONCE) {
            self.begin_keeping();
        }
        Ok(())
    }

    /// Lets a block be a hole. In a new file it is one already.
    pub fn hole(&self, index: u64, length: usize) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        let offset = index * BLOCK_BYTES;
        if punch_hole(&self.file, offset, length as u64).is_ok() {
            return Ok(());
        }
        // A file system without holes gets zeros.
        let mut zeros = Buffer::new()?;
        zeros.block_mut().fill(0);
        self.write(index, &mut zeros, length)
    }

    /// Claims a block that was written.
    pub fn note(&self, index: u64, sum: &Digest) -> io::Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.write_all(&record(index, sum))
    }

    /// More than one block: with a journal.
    pub fn is_long(&self) -> bool {
        self.journal.is_some()
    }

    /// Gives it the length, time and mode of its source.
    pub fn settle(&self, entry: &Entry, size_bytes: u64) -> io::Result<()> {
        self.file.set_len(size_bytes)?;
        self.file
            .set_permissions(Permissions::from_mode(entry.mode & 0o777))?;
        if entry.size_bytes.is_some() {
            self.file.set_times(times(entry))?;
        }
        Ok(())
    }

    /// Gives it its name; it must be on the disk already.
    pub fn rename(&self, folder: &Folder, replace: bool) -> io::Result<()> {
        folder.rename(&names::partial(&self.path), &self.path, replace)
    }

    /// Its name is kept, so that nothing is left to be taken up.
    pub fn forget_journal(&self, folder: &Folder) -> io::Result<()> {
        if self.is_long() {
            folder.remove(&names::journal(&self.path))?;
        }
        Ok(())
    }

    /// Leaves nothing of it.
    pub fn discard(&self, folder: &Folder) {
        // What cannot be removed is proved before anybody takes it up again.
        let _ = folder.remove(&names::journal(&self.path));
        let _ = folder.remove(&names::partial(&self.path));
    }
}

/// A file of which this copy is the only one. The copy before it may be about to notice that its
/// peer is gone.
fn own(
    folder: &Folder,
    name: &Path,
    direct: bool,
    given_up: &dyn Fn() -> bool,
) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let opened = folder.write(name, direct);
        let file = opened.map_err(|error| no_direct(error, direct))?;
        match file.try_lock() {
            // It may have got its name, or have been removed, while it was waited for.
            Ok(()) if is_still(folder, name, &file)? => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LONGEST_WAIT => {
                let waited = LONGEST_WAIT.as_secs();
                return Err(io::Error::other(format!(
                    "another copy writes it at this moment, and did not end within {waited} s"
                )));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(NEXT_TRY),
        }
        if given_up() {
            return Err(io::Error::other(GIVEN_UP));
        }
    }
}

fn is_still(folder: &Folder, name: &Path, file: &File) -> io::Result<bool> {
    let there = folder.look(name)?.map(|seen| seen.inode);
    Ok(there == Some(file.metadata()?.ino()))
}

/// What a file system without direct I/O answers, in words.
pub(super) fn no_direct(error: io::Error, direct: bool) -> io::Error {
    if direct && error.kind() == io::ErrorKind::InvalidInput {
        return io::Error::other("its file system takes no direct I/O; leave `--direct` out");
    }
    error
}

/// Times of the source, for a file or a folder.
pub(super) fn times(entry: &Entry) -> FileTimes {
    let span = Duration::from_nanos(entry.modified_ns.unsigned_abs());
    let modified = if entry.modified_ns < 0 {
        SystemTime::UNIX_EPOCH - span
    } else {
        SystemTime::UNIX_EPOCH + span
    };
    FileTimes::new().set_modified(modified)
}

/// Bytes of a block of a file of `size_bytes`; 0: it has no such block.
pub(super) fn block_length(size_bytes: u64, index: u64) -> u64 {
    let begin = index.saturating_mul(BLOCK_BYTES);
    size_bytes.saturating_sub(begin).min(BLOCK_BYTES)
}

/// Fills as much of `into` as the file has.
pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_blocks_add_up_to_the_file() {
        for size in [
            0,
            1,
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            5 * BLOCK_BYTES + 7,
        ] {
            let sum: u64 = (0..10).map(|index| block_length(size, index)).sum();
            assert_eq!(sum, size);
        }
        assert_eq!(block_length(u64::MAX, u64::MAX), 0);
    }
}
