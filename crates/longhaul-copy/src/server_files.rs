//! The server's part of a copy: access to everything below the served folders, and nothing outside.

use super::copy_receiver;
use super::copy_sender::{self, TargetBlocks};
use super::copy_source::{CopySource, take_entry_batch};
use super::copy_target::CopyTarget;
use super::copy_threads::{RunningCopy, WaitingStream};
use super::relative_names::{self, join_paths};
use crate::BLOCK_BYTES;
use crate::block_header::BlockKey;
use longhaul_probe::wire::{
    Base64Bytes, FileEntry, FilesReply, FilesRequest, MAX_ENTRIES, MAX_SUMS, SourceListing,
    SourceRequest, TargetRequest,
};
use longhaul_sys::confined_dir::ConfinedDir;
use longhaul_sys::file_user::{self, FileUser};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A served folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesRoot {
    /// Name used by peers if there are several: the last component of its path.
    pub name: String,
    pub path: PathBuf,
    /// Peers with the token may write.
    pub writable: bool,
    /// Peers without the token may read.
    pub anonymous: bool,
    /// The user whose rights copies have; absent: those of this process.
    pub user: Option<FileUser>,
}

impl FilesRoot {
    /// Chooses the user whose rights copies have. Root takes those of `name`, or of the folder's
    /// owner, who must not be root; other users have only their own.
    ///
    /// # Errors
    /// The user is unknown, the folder belongs to root, or this process is not root; with the option
    /// that helps.
    pub fn with_user(self, name: Option<&str>) -> Result<FilesRoot, String> {
        if !file_user::is_machine_root() {
            return match name {
                Some(_) => Err("only root can serve files with the rights of others".to_owned()),
                None => Ok(self),
            };
        }
        if let Some(name) = name {
            let user = FileUser::from_name(name).map_err(|_| format!("unknown user `{name}`"))?;
            return Ok(FilesRoot { user: Some(user), ..self });
        }
        let shown = self.path.display();
        let owner = FileUser::owner_of(&self.path)
            .map_err(|error| format!("cannot find the owner of {shown}: {error}"))?;
        if owner.is_root() {
            return Err(format!(
                "{shown} belongs to root; name the user whose rights clients have there: \
                 --files-user USER (root for all rights)"
            ));
        }
        Ok(FilesRoot { user: Some(owner), ..self })
    }
}

/// Limit of the JSON size of one answer's entries, well within a frame.
const MAX_LISTED_BYTES: usize = 1 << 20;
/// Size of a block number and its hash.
const SUM_BYTES: usize = 8 + 32;

/// The server's state of one copy.
pub struct ServerFiles {
    roots: Vec<FilesRoot>,
    /// True once the peer has proved the token.
    trusted: bool,
    source: Option<CopySource>,
    target_blocks: TargetBlocks,
    target: Option<CopyTarget>,
    key: BlockKey,
    run: Option<RunningCopy>,
    /// The user of the folder that the copy is about.
    user: Option<FileUser>,
    /// Set when the session is over.
    session_over: Arc<AtomicBool>,
}

impl ServerFiles {
    /// Creates the state. `gone` ends work in progress once the session is over.
    pub fn new(
        roots: Vec<FilesRoot>,
        trusted: bool,
        key: BlockKey,
        gone: Arc<AtomicBool>,
    ) -> ServerFiles {
        ServerFiles {
            roots,
            trusted,
            source: None,
            target_blocks: TargetBlocks::default(),
            target: None,
            key,
            run: None,
            user: None,
            session_over: gone,
        }
    }

    /// Executes a request on a thread of its own, which gets the rights of the folder's user;
    /// `streams` come with [`FilesRequest::Begin`] and [`FilesRequest::Resize`]. The error explains the failure to the peer without
    /// disclosing anything outside the served folders.
    pub fn handle_request(
        &mut self,
        ask: FilesRequest,
        streams: Vec<TcpStream>,
    ) -> Result<FilesReply, String> {
        self.use_rights()?;
        match ask {
            FilesRequest::Source(ask) => self.list_source(&ask),
            FilesRequest::List { from } => Ok(FilesReply::Entries(self.entries_from(from)?)),
            FilesRequest::Hold { file, sums } => self.add_target_blocks(file, &sums),
            FilesRequest::Skip { files } => {
                let source = self.source.as_ref().ok_or(OUT_OF_ORDER)?;
                if files.iter().any(|file| source.entries().get(*file as usize).is_none()) {
                    return Err(UNLISTED.to_owned());
                }
                self.target_blocks.skipped.extend(files);
                Ok(FilesReply::Done)
            }
            FilesRequest::Target(ask) => self.prepare_target(ask),
            FilesRequest::Enter { entries } => {
                let target = self.target.as_mut().ok_or(OUT_OF_ORDER)?;
                if entries.len() > MAX_ENTRIES {
                    return Err("too many entries in one message".to_owned());
                }
                target.add_entries(entries).map(FilesReply::Entered)
            }
            FilesRequest::Held { file, from } => {
                let target = self.target.as_ref().ok_or(OUT_OF_ORDER)?;
                let held = target.existing_blocks(file, from, MAX_SUMS);
                Ok(FilesReply::Held(pack_sums(&held)))
            }
            FilesRequest::Begin {} => self.start(streams),
            FilesRequest::Status => match &self.run {
                Some(run) => Ok(FilesReply::Status(Box::new(run.status()))),
                None => Err(OUT_OF_ORDER.to_owned()),
            },
            FilesRequest::Resize(ask) => {
                let run = self.run.as_mut().ok_or(OUT_OF_ORDER)?;
                let waiting = run.resize(ask.streams, ask.disk_threads, streams);
                let waiting = waiting.map_err(|error| format!("cannot start threads: {error}"))?;
                waiting.into_iter().for_each(WaitingStream::begin);
                Ok(FilesReply::Done)
            }
            FilesRequest::Open(_) => Err(OUT_OF_ORDER.to_owned()),
        }
    }

    /// Ends the copy, which may take some seconds, and releases its files; like
    /// [`Self::handle_request`] on a thread of its own.
    pub fn end_copy(&mut self) {
        // Without them, partial files may stay.
        let _ = self.use_rights();
        self.run = None;
        self.target = None;
    }

    /// Gives this thread, and the threads of the copy that it starts, the rights of the user.
    fn use_rights(&self) -> Result<(), String> {
        let Some(user) = &self.user else { return Ok(()) };
        user.use_rights().map_err(|error| format!("cannot take the rights of the folder: {error}"))
    }

    fn open_root(&mut self, root: &FilesRoot) -> Result<ConfinedDir, String> {
        self.user.clone_from(&root.user);
        self.use_rights()?;
        ConfinedDir::open(&root.path)
            .map_err(|error| format!("cannot open the served folder {}: {error}", root.name))
    }

    fn list_source(&mut self, ask: &SourceRequest) -> Result<FilesReply, String> {
        let (root, path) = self.resolve_root(ask.path.as_received())?;
        let folder = self.open_root(&root)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or(&root.name).to_owned();
        let over = &self.session_over;
        let mut source = CopySource::list(folder, &path, name.clone(), ask.direct, over)?;
        source.in_order = ask.in_order;
        let listed = SourceListing {
            entries: source.entries().len() as u64,
            folder: source.is_folder(),
            name: name.into(),
            left_out: source.left_out,
        };
        self.source = Some(source);
        Ok(FilesReply::Listed(listed))
    }

    fn entries_from(&self, from: u64) -> Result<Vec<FileEntry>, String> {
        let source = self.source.as_ref().ok_or(OUT_OF_ORDER)?;
        let rest = source.entries().get(from as usize..).unwrap_or_default();
        Ok(take_entry_batch(rest, MAX_LISTED_BYTES))
    }

    fn add_target_blocks(&mut self, file: u32, sums: &Base64Bytes) -> Result<FilesReply, String> {
        let source = self.source.as_ref().ok_or(OUT_OF_ORDER)?;
        let entry = source.entries().get(file as usize).ok_or(UNLISTED)?;
        let blocks = entry.size_bytes.unwrap_or(0).div_ceil(BLOCK_BYTES);
        let sums = unpack_sums(sums)?;
        if sums.iter().any(|(index, _)| *index >= blocks) {
            return Err("a block beyond the end of its file".to_owned());
        }
        self.target_blocks.held.entry(file).or_default().extend(sums);
        Ok(FilesReply::Done)
    }

    fn prepare_target(&mut self, ask: TargetRequest) -> Result<FilesReply, String> {
        let (root, path) = self.resolve_root(ask.path.as_received())?;
        if !root.writable {
            return Err(format!(
                "{} is served read-only; serve it with `--files DIR:rw`",
                root.name
            ));
        }
        if !self.trusted {
            return Err("writing requires the token".to_owned());
        }
        let session_over = Arc::clone(&self.session_over);
        let folder = self.open_root(&root)?;
        self.target = Some(CopyTarget::resolve(folder, &path, ask, session_over)?);
        Ok(FilesReply::Done)
    }

    fn start(&mut self, streams: Vec<TcpStream>) -> Result<FilesReply, String> {
        let failed = |error: std::io::Error| format!("cannot start the copy: {error}");
        let key = self.key;
        self.run = Some(match (self.source.take(), self.target.take()) {
            (Some(source), None) => {
                let known = std::mem::take(&mut self.target_blocks);
                copy_sender::start_sending(source, known, streams, key).map_err(failed)?
            }
            (None, Some(target)) => {
                copy_receiver::start_receiving(target, streams, key).map_err(failed)?
            }
            _ => return Err(OUT_OF_ORDER.to_owned()),
        });
        Ok(FilesReply::Done)
    }

    /// Returns the served folder that a peer's path refers to, and the path below it.
    fn resolve_root(&self, text: &str) -> Result<(FilesRoot, PathBuf), String> {
        let (root, path) = self.find_root(text)?;
        let allowed = self.trusted || root.anonymous;
        if allowed { Ok((root.clone(), path)) } else { Err(TOKEN_REQUIRED.into()) }
    }

    fn find_root(&self, text: &str) -> Result<(&FilesRoot, PathBuf), String> {
        let path = relative_names::parse_relative_path(text)?;
        if let [root] = self.roots.as_slice() {
            return Ok((root, path));
        }
        let mut parts = path.components();
        let first = parts.next().map(|part| part.as_os_str().to_owned());
        let named = |root: &&FilesRoot| first.as_deref() == Some(root.name.as_ref());
        match self.roots.iter().find(named) {
            Some(root) => Ok((root, join_paths(Path::new(""), parts.as_path()))),
            None if self.roots.is_empty() => Err(NOTHING_SERVED.to_owned()),
            None => {
                let readable = |root: &&FilesRoot| self.trusted || root.anonymous;
                let roots = self.roots.iter().filter(readable);
                let names: Vec<&str> = roots.map(|root| root.name.as_str()).collect();
                if names.is_empty() {
                    return Err(TOKEN_REQUIRED.to_owned());
                }
                Err(format!("names must begin with one of: {}", names.join(", ")))
            }
        }
    }
}

const UNLISTED: &str = "a file that was not listed";
pub(crate) const TOKEN_REQUIRED: &str =
    "copying files requires the token; `longhaul serve --files DIR:anonymous` lets everybody read";
const OUT_OF_ORDER: &str = "this request is not possible now";
pub(crate) const NOTHING_SERVED: &str =
    "the server serves no files; serve a folder with `longhaul serve --files DIR`";

pub(super) fn pack_sums(sums: &[(u64, [u8; 32])]) -> Base64Bytes {
    let mut bytes = Vec::with_capacity(sums.len() * SUM_BYTES);
    for (index, sum) in sums {
        bytes.extend(index.to_be_bytes());
        bytes.extend(sum);
    }
    Base64Bytes(bytes)
}

pub(super) fn unpack_sums(sums: &Base64Bytes) -> Result<Vec<(u64, [u8; 32])>, String> {
    let pieces = sums.0.chunks_exact(SUM_BYTES);
    if !pieces.remainder().is_empty() {
        return Err("the list of block checksums is truncated".to_owned());
    }
    let read = |piece: &[u8]| {
        let (index, sum) = piece.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*index), sum.try_into().ok()?))
    };
    pieces
        .map(|piece| {
            read(piece).ok_or_else(|| "the list of block checksums is truncated".to_owned())
        })
        .collect()
}
