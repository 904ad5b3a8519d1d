//! An incomplete file: hidden in the target folder, with a journal of its blocks.
//!
//! The journal is a claim, not a proof: resuming a copy reads and hashes every claimed block. So
//! writes may reach the disk in any order, and a power failure costs only the blocks that it really
//! lost.

use super::block_buffer::{BlockBuffer, align_up};
use super::block_digest::{BlockDigest, BlockSum, hash_block};
use super::{BLOCK_BYTES, relative_names};
use longhaul_probe::wire::{FileEntry, TargetRequest};
use longhaul_sys::confined_dir::{ConfinedDir, start_range_writeback};
use parking_lot::Mutex;
use std::fs::{File, FileTimes, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Number of blocks after which write-back is started.
const WRITEBACK_BLOCKS: u64 = 16;
/// Timeout of the lock, longer than the time after which a server drops a silent peer.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(20);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);
const CANCELLED: &str = "the copy was cancelled";
pub(super) const TARGET_EXISTS: &str = "the file exists; `--overwrite` replaces it";

/// An incomplete file, locked against other copies. When dropped, it stays only if a later copy can
/// resume it.
#[derive(Debug)]
pub(super) struct PartialFile {
    folder: Arc<ConfinedDir>,
    path: PathBuf,
    /// Replaces an existing file.
    overwrite: bool,
    direct: bool,
    file: File,
    /// A file of one block is sent again as a whole, like one of unknown length.
    is_long: bool,
    /// Absent until the claims are verified, and for files that are not long.
    journal: Option<Mutex<File>>,
    /// The file has data of an earlier copy.
    dirty: bool,
    /// Number of blocks written so far.
    written: AtomicU64,
    /// Renamed or removed.
    is_over: AtomicBool,
}

/// Blocks left by an earlier copy, as far as they were verified.
pub(super) type VerifiedBlocks = Vec<(u64, BlockSum)>;

impl PartialFile {
    /// Returns whether an earlier copy has left something to resume.
    pub fn has_leftover(folder: &ConfinedDir, path: &Path) -> bool {
        matches!(folder.stat(&relative_names::journal_path(path)), Ok(Some(_)))
    }

    /// Opens the file left by an earlier copy of the same source, or creates a new one. Waits while
    /// another copy holds the file, unless `given_up` returns true, and fails if that copy has
    /// completed it.
    pub fn open(
        folder: &Arc<ConfinedDir>,
        path: &Path,
        options: &TargetRequest,
        entry: &FileEntry,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<(PartialFile, VerifiedBlocks)> {
        let direct = options.direct;
        let file = open_exclusively(folder, &relative_names::partial_path(path), direct, given_up)?;
        let mut partial = PartialFile {
            folder: Arc::clone(folder),
            path: path.to_owned(),
            overwrite: options.overwrite,
            direct,
            // Until it is verified, it counts as data of an earlier copy, which is kept.
            dirty: true,
            file,
            is_long: entry.size_bytes.is_some_and(|size| size > BLOCK_BYTES),
            journal: None,
            written: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        if !options.overwrite && folder.stat(path)?.is_some() {
            partial.discard();
            return Err(io::Error::other(TARGET_EXISTS));
        }
        let mut left = VerifiedBlocks::new();
        if partial.is_long {
            let mut journal = folder.write(&relative_names::journal_path(path), false)?;
            left = partial.verify_claims(&load_claims(&mut journal, entry)?, entry, given_up)?;
            rewrite_journal(&mut journal, entry, &left)?;
            partial.journal = Some(Mutex::new(journal));
        }
        partial.dirty = !left.is_empty();
        if left.is_empty() {
            partial.file.set_len(0)?;
        }
        Ok((partial, left))
    }

    /// Returns the claimed blocks whose content matches.
    fn verify_claims(
        &self,
        claims: &[(u64, BlockDigest)],
        entry: &FileEntry,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<VerifiedBlocks> {
        let mut left = VerifiedBlocks::new();
        let mut buffer = BlockBuffer::new()?;
        for (index, claimed) in claims {
            if given_up() {
                return Err(io::Error::other(CANCELLED));
            }
            let length = block_length(entry.size_bytes.unwrap_or(0), *index) as usize;
            let wanted = if self.direct { align_up(length) } else { length };
            let block = &mut buffer.block_mut()[..wanted];
            let filled = read_full_at(&self.file, block, index * BLOCK_BYTES)?;
            if length == 0 || filled < length {
                continue;
            }
            let sum = hash_block(*index, &block[..length]);
            if sum.inner == *claimed {
                left.push((*index, sum));
            }
        }
        Ok(left)
    }

    pub fn write(&self, index: u64, buffer: &mut BlockBuffer, length: usize) -> io::Result<()> {
        let whole = if self.direct { align_up(length) } else { length };
        let block = &mut buffer.block_mut()[..whole];
        block[length..].fill(0);
        // A block of zeros becomes a hole, which it already is in a new file.
        if self.dirty || block.iter().any(|byte| *byte != 0) {
            self.file.write_all_at(block, index * BLOCK_BYTES)?;
        }
        let written = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.direct && written.is_multiple_of(WRITEBACK_BLOCKS) {
            // So that little is left for the sync; file systems that cannot start early write later.
            let _ = start_range_writeback(&self.file, 0, 0);
        }
        Ok(())
    }

    /// Adds a written block to the journal.
    pub fn journal_block(&self, index: u64, sum: &BlockDigest) -> io::Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let mut journal = journal.lock();
        journal.write_all(&encode_record(index, sum))
    }

    /// Sets length, time and mode to those of the source.
    pub fn set_metadata(&self, entry: &FileEntry, size_bytes: u64) -> io::Result<()> {
        self.file.set_len(size_bytes)?;
        self.file.set_permissions(Permissions::from_mode(entry.mode & 0o777))?;
        if entry.size_bytes.is_some() {
            self.file.set_times(source_times(entry))?;
        }
        Ok(())
    }

    /// Syncs the file, then renames it, then syncs the folder: so no incomplete file ever has its
    /// final name, even after a power failure. A file whose name was taken meanwhile is removed.
    pub fn commit(&self) -> io::Result<()> {
        self.file.sync_all()?;
        let partial = relative_names::partial_path(&self.path);
        match self.folder.rename(&partial, &self.path, self.overwrite) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.discard();
                return Err(io::Error::other(TARGET_EXISTS));
            }
            renamed => renamed?,
        }
        self.is_over.store(true, Ordering::Relaxed);
        sync_parent(&self.folder, &self.path)?;
        if self.journal.is_some() {
            self.folder.remove(&relative_names::journal_path(&self.path))?;
        }
        Ok(())
    }

    /// Removes all files of the copy.
    pub fn discard(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A file that cannot be removed is verified before it is resumed.
        let _ = self.folder.remove(&relative_names::journal_path(&self.path));
        let _ = self.folder.remove(&relative_names::partial_path(&self.path));
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let has_data = self.dirty || self.written.load(Ordering::Relaxed) > 0;
        let is_resumable = has_data && self.is_long;
        if !is_resumable && !self.is_over.load(Ordering::Relaxed) {
            self.discard();
        }
    }
}

/// Makes the name of a file or folder below `folder` survive a power failure.
pub(super) fn sync_parent(folder: &ConfinedDir, path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new(""));
    folder.open_subfolder(parent)?.open_for_sync()?.sync_all()
}

/// Opens a file and locks it exclusively. The previous copy may not have noticed yet that its peer
/// is gone.
fn open_exclusively(
    folder: &ConfinedDir,
    name: &Path,
    direct: bool,
    given_up: &dyn Fn() -> bool,
) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        let opened = folder.write(name, direct);
        let file = opened.map_err(|error| explain_direct_io_error(error, direct))?;
        match file.try_lock() {
            // The file may have been renamed or removed in the meantime.
            Ok(()) if is_same_file(folder, name, &file)? => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > MAX_LOCK_WAIT => {
                let waited = MAX_LOCK_WAIT.as_secs();
                return Err(io::Error::other(format!(
                    "another copy is writing it and did not end within {waited} s"
                )));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_INTERVAL),
        }
        if given_up() {
            return Err(io::Error::other(CANCELLED));
        }
    }
}

fn is_same_file(folder: &ConfinedDir, name: &Path, file: &File) -> io::Result<bool> {
    let there = folder.stat(name)?.map(|seen| seen.inode);
    Ok(there == Some(file.metadata()?.ino()))
}

/// Explains the error of a file system without direct I/O.
pub(super) fn explain_direct_io_error(error: io::Error, direct: bool) -> io::Error {
    if direct && error.kind() == io::ErrorKind::InvalidInput {
        return io::Error::other("its file system does not support direct I/O; omit `--direct`");
    }
    error
}

/// Returns the source's modification time, for a file or a folder.
pub(super) fn source_times(entry: &FileEntry) -> FileTimes {
    let span = Duration::from_nanos(entry.modified_ns.unsigned_abs());
    let modified = if entry.modified_ns < 0 {
        SystemTime::UNIX_EPOCH - span
    } else {
        SystemTime::UNIX_EPOCH + span
    };
    FileTimes::new().set_modified(modified)
}

/// Returns the length of a block in a file of `size_bytes`; 0 if there is no such block.
pub(super) fn block_length(size_bytes: u64, index: u64) -> u64 {
    let begin = index.saturating_mul(BLOCK_BYTES);
    size_bytes.saturating_sub(begin).min(BLOCK_BYTES)
}

/// Reads until `into` is full or the file ends.
pub(super) fn read_full_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
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

/// Magic of a journal; its last digit is the version.
const MAGIC: &[u8; 8] = b"LHCOPY 1";
const HEAD_BYTES: usize = 8 + 8 + 8 + 8;
/// Size of a record: block number, hash, and the start of the hash of both.
const RECORD_BYTES: usize = 8 + 32 + 8;

/// Encodes the header, with length and time of the source: another source invalidates the journal.
fn encode_header(entry: &FileEntry) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&entry.size_bytes.unwrap_or(0).to_be_bytes());
    head[16..24].copy_from_slice(&entry.modified_ns.to_be_bytes());
    head[24..].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
    head
}

fn encode_record(index: u64, sum: &BlockDigest) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&index.to_be_bytes());
    bytes[8..40].copy_from_slice(sum);
    let check = blake3::hash(&bytes[..40]);
    bytes[40..].copy_from_slice(&check.as_bytes()[..8]);
    bytes
}

/// Reads the claims of the journal; none if it belongs to another source or is invalid.
fn load_claims(journal: &mut File, entry: &FileEntry) -> io::Result<Vec<(u64, BlockDigest)>> {
    let blocks = entry.size_bytes.unwrap_or(0).div_ceil(BLOCK_BYTES);
    // Each block is recorded once or, in a resumed copy, twice.
    let most = HEAD_BYTES as u64 + 2 * blocks * RECORD_BYTES as u64;
    let mut bytes = Vec::new();
    Read::by_ref(journal).take(most).read_to_end(&mut bytes)?;
    Ok(parse_journal_claims(&bytes, entry, blocks))
}

fn parse_journal_claims(bytes: &[u8], entry: &FileEntry, blocks: u64) -> Vec<(u64, BlockDigest)> {
    let Some(records) = bytes.strip_prefix(&encode_header(entry)) else {
        return Vec::new();
    };
    let read = |bytes: &[u8]| {
        let (index, rest) = bytes.split_first_chunk::<8>()?;
        let (sum, _) = rest.split_first_chunk::<32>()?;
        let index = u64::from_be_bytes(*index);
        let whole = encode_record(index, sum) == *bytes;
        (whole && index < blocks).then_some((index, *sum))
    };
    let mut claims: Vec<_> = records.chunks_exact(RECORD_BYTES).map_while(read).collect();
    claims.sort_unstable();
    claims.dedup_by_key(|(index, _)| *index);
    claims
}

/// Rewrites the journal with the verified blocks only.
fn rewrite_journal(journal: &mut File, entry: &FileEntry, left: &VerifiedBlocks) -> io::Result<()> {
    let mut bytes = encode_header(entry).to_vec();
    for (index, sum) in left {
        bytes.extend(encode_record(*index, &sum.inner));
    }
    journal.set_len(0)?;
    io::Seek::rewind(journal)?;
    journal.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_blocks_add_up_to_the_file() {
        for size in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES + 7] {
            let sum: u64 = (0..10).map(|index| block_length(size, index)).sum();
            assert_eq!(sum, size);
        }
        assert_eq!(block_length(u64::MAX, u64::MAX), 0);
    }
}

#[cfg(test)]
mod copy_journal_tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(blocks: u64) -> FileEntry {
        FileEntry {
            path: "".into(),
            folder: false,
            size_bytes: Some(blocks * BLOCK_BYTES),
            mode: 0o644,
            modified_ns: 5,
        }
    }

    fn journal(records: &[(u64, BlockDigest)], entry: &FileEntry) -> Vec<u8> {
        let mut bytes = encode_header(entry).to_vec();
        for (index, sum) in records {
            bytes.extend(encode_record(*index, sum));
        }
        bytes
    }

    #[test]
    fn the_journal_of_another_source_claims_nothing() {
        let bytes = journal(&[(1, [1; 32])], &entry(4));
        assert_eq!(parse_journal_claims(&bytes, &entry(4), 4), [(1, [1; 32])]);
        let later = FileEntry { modified_ns: 6, ..entry(4) };
        assert!(parse_journal_claims(&bytes, &later, 4).is_empty());
        assert!(parse_journal_claims(&bytes, &entry(5), 5).is_empty());
    }

    proptest! {
        #[test]
        fn a_torn_or_mangled_journal_claims_only_what_is_whole(
            records in prop::collection::vec((0_u64..9, any::<[u8; 32]>()), 0..9),
            cut in 0_usize..600,
            flip in prop::option::of(0_usize..600),
        ) {
            let mut bytes = journal(&records, &entry(8));
            bytes.truncate(cut);
            if let Some(place) = flip.filter(|place| *place < bytes.len()) {
                bytes[place] ^= 1;
            }
            for claim in parse_journal_claims(&bytes, &entry(8), 8) {
                prop_assert!(claim.0 < 8 && records.contains(&claim));
            }
        }
    }
}
