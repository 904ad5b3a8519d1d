//! A file system in memory that records every operation that reaches it (FUSE).
//!
//! The kernel passes writes on at once, so the order of the record is that of the system calls. It
//! handles locks and shared memory itself.

use crate::disk_log::{DiskLog, DiskOperation, ROOT, write_data};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

/// The kernel asks again each time, so that it sees what this file system has.
const NO_CACHE: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);

#[derive(Debug)]
struct DiskInode {
    is_folder: bool,
    data: Vec<u8>,
    entries: BTreeMap<OsString, u64>,
    mode: u16,
    modified: SystemTime,
}

/// The present contents, and how they came about.
#[derive(Debug)]
struct RecordedDisk {
    /// The inode N is the element N - 1; none is ever removed.
    inodes: Vec<DiskInode>,
    log: DiskLog,
}

/// A handle of a recorded disk.
#[derive(Debug, Clone)]
pub struct RecordingFileSystem(Arc<Mutex<RecordedDisk>>);

impl RecordingFileSystem {
    pub fn new() -> RecordingFileSystem {
        let mut disk = RecordedDisk { inodes: Vec::new(), log: DiskLog::default() };
        disk.add_inode(true, 0o755);
        RecordingFileSystem(Arc::new(Mutex::new(disk)))
    }

    /// Mounts the disk; dropping the result unmounts it.
    pub fn mount(&self, folder: &Path) -> io::Result<BackgroundSession> {
        fuser::spawn_mount(self.clone(), folder, &Config::default())
    }

    /// Records that the program has shown its results up to this one.
    pub fn record_shown(&self, result: u64) {
        self.disk().log.operations.push(DiskOperation::Show { result });
    }

    /// Returns the log, and begins a new one that is empty.
    pub fn take_log(&self) -> DiskLog {
        std::mem::take(&mut self.disk().log)
    }

    /// Returns the bytes written so far.
    pub fn written_bytes(&self) -> usize {
        let operations = &self.disk().log.operations;
        let bytes = operations.iter().map(|operation| match operation {
            DiskOperation::Write { data, .. } => data.len(),
            _ => 0,
        });
        bytes.sum()
    }

    fn disk(&self) -> MutexGuard<'_, RecordedDisk> {
        self.0.lock().expect("no thread panicked")
    }
}

impl RecordedDisk {
    fn add_inode(&mut self, is_folder: bool, mode: u32) -> u64 {
        let number = self.inodes.len() as u64 + ROOT;
        if is_folder {
            self.log.folders.insert(number);
        }
        self.inodes.push(DiskInode {
            is_folder,
            data: Vec::new(),
            entries: BTreeMap::new(),
            mode: (mode & 0o777) as u16,
            modified: SystemTime::now(),
        });
        number
    }

    fn inode(&mut self, number: INodeNo) -> &mut DiskInode {
        &mut self.inodes[(number.0 - ROOT) as usize]
    }

    fn find(&mut self, folder: INodeNo, name: &OsStr) -> Result<u64, Errno> {
        self.inode(folder).entries.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn attributes(&mut self, number: INodeNo) -> FileAttr {
        let inode = self.inode(number);
        FileAttr {
            ino: number,
            size: inode.data.len() as u64,
            blocks: inode.data.len().div_ceil(512) as u64,
            atime: inode.modified,
            mtime: inode.modified,
            ctime: inode.modified,
            crtime: inode.modified,
            kind: if inode.is_folder { FileType::Directory } else { FileType::RegularFile },
            perm: inode.mode,
            nlink: 1,
            // Root of the user namespace in which the disk is mounted.
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn set_entries(&mut self, folder: INodeNo, entries: Vec<(OsString, Option<u64>)>) {
        let names = &mut self.inode(folder).entries;
        for (name, inode) in &entries {
            match inode {
                Some(inode) => names.insert(name.clone(), *inode),
                None => names.remove(name),
            };
        }
        self.log.operations.push(DiskOperation::SetEntries { folder: folder.0, entries });
    }

    fn create(&mut self, folder: INodeNo, name: &OsStr, is_folder: bool, mode: u32) -> FileAttr {
        let inode = self.add_inode(is_folder, mode);
        self.set_entries(folder, vec![(name.to_owned(), Some(inode))]);
        self.attributes(INodeNo(inode))
    }

    fn remove(&mut self, folder: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let inode = self.find(folder, name)?;
        if !self.inode(INodeNo(inode)).entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.set_entries(folder, vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn rename(
        &mut self,
        folder: INodeNo,
        from: &OsStr,
        to: &OsStr,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let inode = self.find(folder, from)?;
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && self.find(folder, to).is_ok() {
            return Err(Errno::EEXIST);
        }
        let (gone, new) = ((from.to_owned(), None), (to.to_owned(), Some(inode)));
        self.set_entries(folder, vec![gone, new]);
        Ok(())
    }
}

fn send_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for RecordingFileSystem {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        match disk.find(parent, name) {
            Ok(inode) => reply.entry(&NO_CACHE, &disk.attributes(INodeNo(inode)), GENERATION),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&NO_CACHE, &self.disk().attributes(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        if let Some(mode) = mode {
            disk.inode(inode).mode = (mode & 0o777) as u16;
        }
        if let Some(length) = size {
            disk.inode(inode).data.resize(length as usize, 0);
            disk.log.operations.push(DiskOperation::SetLength { file: inode.0, length });
        }
        if let Some(time) = modified {
            let modified = match time {
                TimeOrNow::SpecificTime(time) => time,
                TimeOrNow::Now => SystemTime::now(),
            };
            disk.inode(inode).modified = modified;
            disk.log.operations.push(DiskOperation::SetTime { inode: inode.0, modified });
        }
        reply.attr(&NO_CACHE, &disk.attributes(inode));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let about = self.disk().create(parent, name, true, mode & !umask);
        reply.entry(&NO_CACHE, &about, GENERATION);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let about = self.disk().create(parent, name, false, mode & !umask);
        reply.created(&NO_CACHE, &about, GENERATION, FileHandle(0), FopenFlags::empty());
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        send_empty(reply, self.disk().remove(parent, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        send_empty(reply, self.disk().remove(parent, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        // Nothing under test renames from one folder to another, or exchanges files.
        let done = if parent == new_parent && !flags.contains(RenameFlags::RENAME_EXCHANGE) {
            self.disk().rename(parent, name, new_name, flags)
        } else {
            Err(Errno::EINVAL)
        };
        send_empty(reply, done);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut disk = self.disk();
        let data = &disk.inode(inode).data;
        let begin = data.len().min(offset as usize);
        let end = data.len().min(begin + size as usize);
        reply.data(&data[begin..end]);
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut disk = self.disk();
        let file = disk.inode(inode);
        write_data(&mut file.data, offset, data);
        file.modified = SystemTime::now();
        let data = data.to_vec();
        let size = data.len() as u32;
        disk.log.operations.push(DiskOperation::Write { file: inode.0, offset, data });
        reply.written(size);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk().log.operations.push(DiskOperation::Sync { inode: inode.0 });
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk().log.operations.push(DiskOperation::Sync { inode: inode.0 });
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut disk = self.disk();
        let entries: Vec<(OsString, u64)> =
            disk.inode(inode).entries.iter().map(|(name, inode)| (name.clone(), *inode)).collect();
        for (place, (name, inode)) in entries.iter().enumerate().skip(offset as usize) {
            let kind = disk.attributes(INodeNo(*inode)).kind;
            if reply.add(INodeNo(*inode), place as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
