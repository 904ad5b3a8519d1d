//! A record of the operations on a disk, and the contents that a power failure may leave on it.
//!
//! Only what was synced is certain to survive. Of the other operations,
//!
//! - each write to a file, or each of its sectors, is lost or survives on its own, as do changes of
//!   a file's length and time;
//! - the changes of a folder survive up to a random one, because file systems write them in order;
//!   those of several folders, and of a folder and its files, in any order.
//!
//! Syncing a file does not keep its name, as POSIX has it; only syncing its folder does.

use longhaul_model::splitmix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The inode of the file system's root.
pub const ROOT: u64 = 1;
/// The unit that a disk writes as a whole.
const SECTOR_BYTES: u64 = 512;
/// The shares of operations that survive without a sync.
const SURVIVAL: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];

#[derive(Debug)]
pub enum DiskOperation {
    /// Adds, replaces and removes names of a folder, all or none.
    SetEntries {
        folder: u64,
        entries: Vec<(OsString, Option<u64>)>,
    },
    Write {
        file: u64,
        offset: u64,
        data: Vec<u8>,
    },
    SetLength {
        file: u64,
        length: u64,
    },
    SetTime {
        inode: u64,
        modified: SystemTime,
    },
    Sync {
        inode: u64,
    },
    /// The program has shown its results up to this one.
    Show {
        result: u64,
    },
}

/// All operations since the file system was empty.
#[derive(Debug, Default)]
pub struct DiskLog {
    pub operations: Vec<DiskOperation>,
    pub folders: BTreeSet<u64>,
}

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskFile {
    pub data: Vec<u8>,
    pub modified: Option<SystemTime>,
}

/// The folders and files of a disk.
#[derive(Debug, Default)]
pub struct DiskTree {
    pub folders: Vec<PathBuf>,
    pub files: BTreeMap<PathBuf, DiskFile>,
}

/// Draws what survives of the operations that no sync covers.
struct SurvivalDraw<'a> {
    random: &'a mut SplitMix64,
    share: f64,
    /// Sectors of one write survive on their own.
    is_torn: bool,
}

impl SurvivalDraw<'_> {
    fn survives(&mut self) -> bool {
        self.random.unit() < self.share
    }

    /// Draws how many of a folder's changes survive.
    fn changes_of(&mut self, changes: usize) -> usize {
        if self.share <= 0.0 {
            return 0;
        }
        if self.share >= 1.0 { changes } else { self.random.below(changes + 1) }
    }
}

impl DiskLog {
    /// Returns the last result shown by the first `count` operations.
    pub fn last_shown(&self, count: usize) -> Option<u64> {
        let shown = |operation: &DiskOperation| match operation {
            DiskOperation::Show { result } => Some(*result),
            _ => None,
        };
        self.operations[..count].iter().rev().find_map(shown)
    }

    /// Returns the contents of the disk if the power fails after `count` operations.
    pub fn fail_power_after(&self, count: usize, random: &mut SplitMix64) -> DiskTree {
        let done = &self.operations[..count];
        let share = SURVIVAL[random.below(SURVIVAL.len())];
        let is_torn = random.below(2) == 0;
        let mut draw = SurvivalDraw { random, share, is_torn };
        let synced = last_syncs(done);
        let mut changes = surviving_changes(done, &synced, &mut draw);
        let mut contents = DiskContents::default();
        for (index, operation) in done.iter().enumerate() {
            let is_synced = |inode: &u64| synced.get(inode).is_some_and(|last| index < *last);
            match operation {
                DiskOperation::SetEntries { folder, entries } => {
                    if is_synced(folder) || take_one(changes.get_mut(folder)) {
                        contents.set_entries(*folder, entries);
                    }
                }
                DiskOperation::Write { file, offset, data } => {
                    let is_synced = is_synced(file);
                    for (offset, part) in split_write(*offset, data, draw.is_torn && !is_synced) {
                        if is_synced || draw.survives() {
                            write_data(&mut contents.file(*file).data, offset, part);
                        }
                    }
                }
                DiskOperation::SetLength { file, length } => {
                    if is_synced(file) || draw.survives() {
                        contents.file(*file).data.resize(*length as usize, 0);
                    }
                }
                DiskOperation::SetTime { inode, modified } => {
                    if is_synced(inode) || draw.survives() {
                        contents.file(*inode).modified = Some(*modified);
                    }
                }
                DiskOperation::Sync { .. } | DiskOperation::Show { .. } => {}
            }
        }
        contents.tree(&self.folders)
    }
}

/// The inodes of a disk that survived.
#[derive(Debug, Default)]
struct DiskContents<'a> {
    files: HashMap<u64, DiskFile>,
    /// The names in each folder.
    names: HashMap<u64, BTreeMap<&'a OsString, u64>>,
}

impl<'a> DiskContents<'a> {
    fn file(&mut self, inode: u64) -> &mut DiskFile {
        self.files.entry(inode).or_default()
    }

    fn set_entries(&mut self, folder: u64, entries: &'a [(OsString, Option<u64>)]) {
        let names = self.names.entry(folder).or_default();
        for (name, inode) in entries {
            match inode {
                Some(inode) => names.insert(name, *inode),
                None => names.remove(name),
            };
        }
    }

    /// Returns what can be reached from the root.
    fn tree(&self, folders: &BTreeSet<u64>) -> DiskTree {
        let mut tree = DiskTree::default();
        let mut open = vec![(ROOT, PathBuf::new())];
        while let Some((folder, path)) = open.pop() {
            for (name, inode) in self.names.get(&folder).into_iter().flatten() {
                let path = path.join(name);
                if folders.contains(inode) {
                    tree.folders.push(path.clone());
                    open.push((*inode, path));
                } else {
                    tree.files.insert(path, self.files.get(inode).cloned().unwrap_or_default());
                }
            }
        }
        tree
    }
}

/// Takes one of the changes that are left; false if there is none.
fn take_one(left: Option<&mut usize>) -> bool {
    let Some(left) = left.filter(|left| **left > 0) else { return false };
    *left -= 1;
    true
}

/// Returns the index of the last sync of each inode.
fn last_syncs(done: &[DiskOperation]) -> HashMap<u64, usize> {
    let sync = |(index, operation): (usize, &DiskOperation)| match operation {
        DiskOperation::Sync { inode } => Some((*inode, index)),
        _ => None,
    };
    done.iter().enumerate().filter_map(sync).collect()
}

/// Draws the number of changes of each folder that survive after its last sync.
fn surviving_changes(
    done: &[DiskOperation],
    synced: &HashMap<u64, usize>,
    draw: &mut SurvivalDraw<'_>,
) -> BTreeMap<u64, usize> {
    let mut changes: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, operation) in done.iter().enumerate() {
        if let DiskOperation::SetEntries { folder, .. } = operation
            && synced.get(folder).is_none_or(|last| index > *last)
        {
            *changes.entry(*folder).or_default() += 1;
        }
    }
    for count in changes.values_mut() {
        *count = draw.changes_of(*count);
    }
    changes
}

/// Splits a write at the borders of sectors.
fn split_write(offset: u64, data: &[u8], at_sectors: bool) -> Vec<(u64, &[u8])> {
    if !at_sectors {
        return vec![(offset, data)];
    }
    let (mut at, mut rest, mut parts) = (offset, data, Vec::new());
    while !rest.is_empty() {
        let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
        let (part, more) = rest.split_at(room.min(rest.len()));
        parts.push((at, part));
        at += part.len() as u64;
        rest = more;
    }
    parts
}

/// Writes into a file, and fills a gap before it with zeros.
pub fn write_data(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let offset = offset as usize;
    if file.len() < offset {
        file.resize(offset, 0);
    }
    let (inside, beyond) = data.split_at(data.len().min(file.len() - offset));
    file[offset..offset + inside.len()].copy_from_slice(inside);
    file.extend_from_slice(beyond);
}

impl DiskTree {
    /// Writes folders and files into an empty folder.
    pub fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        // Parents come before what is in them.
        for path in &self.folders {
            std::fs::create_dir(folder.join(path))?;
        }
        for (path, file) in &self.files {
            let place = folder.join(path);
            std::fs::write(&place, &file.data)?;
            if let Some(modified) = file.modified {
                std::fs::File::options().write(true).open(&place)?.set_modified(modified)?;
            }
        }
        Ok(())
    }
}
