//! The server's part of a copy: access to everything below the served folders, and nothing outside.

use super::list::Source;
use super::names::{self, joined};
use super::place::{Target, TargetWish};
use super::receiving;
use super::run::{Mode, Running};
use super::sending::{self, Known};
use crate::wire::{
    BlockKey, Dry, FilesAnswer, FilesAsk, Listed, MOST_ENTRIES, MOST_SUMS, Packed, SourceAsk,
    TargetAsk,
};
use longhaul_sys::beneath::Folder;
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
}

/// Limit of the JSON size of one answer's entries, well within a frame.
const LISTED_BYTES: usize = 1 << 20;
/// Size of a block number and its hash.
const SUM_BYTES: usize = 8 + 32;

/// The server's state of one copy.
pub(crate) struct FarFiles {
    roots: Vec<FilesRoot>,
    /// True once the peer has proved the token.
    trusted: bool,
    source: Option<Source>,
    known: Known,
    target: Option<Target>,
    key: BlockKey,
    run: Option<Running>,
    /// Set when the session is over.
    gone: Arc<AtomicBool>,
}

impl FarFiles {
    /// Creates the state. `gone` ends work in progress once the session is over.
    pub fn new(
        roots: Vec<FilesRoot>,
        trusted: bool,
        key: BlockKey,
        gone: Arc<AtomicBool>,
    ) -> FarFiles {
        FarFiles {
            roots,
            trusted,
            source: None,
            known: Known::default(),
            target: None,
            key,
            run: None,
            gone,
        }
    }

    /// Executes a request; `streams` come with [`FilesAsk::Begin`]. The error explains the failure
    /// to the peer without disclosing anything outside the served folders.
    pub fn answer(
        &mut self,
        ask: FilesAsk,
        streams: Vec<TcpStream>,
    ) -> Result<FilesAnswer, String> {
        match ask {
            FilesAsk::Source(ask) => self.list(&ask),
            FilesAsk::List { from } => Ok(FilesAnswer::Entries(self.entries(from)?)),
            FilesAsk::Hold { file, sums } => self.hold(file, &sums),
            FilesAsk::Skip { files } => {
                self.known.skipped.extend(files);
                Ok(FilesAnswer::Done)
            }
            FilesAsk::Target(ask) => self.settle(ask),
            FilesAsk::Enter { entries } => {
                let target = self.target.as_mut().ok_or(OUT_OF_ORDER)?;
                if entries.len() > MOST_ENTRIES {
                    return Err("more entries than one message may have".to_owned());
                }
                target.enter(entries).map(FilesAnswer::Entered)
            }
            FilesAsk::Held { file, from } => {
                let target = self.target.as_ref().ok_or(OUT_OF_ORDER)?;
                let held = target.held(file, from, MOST_SUMS);
                Ok(FilesAnswer::Held(pack_sums(&held)))
            }
            FilesAsk::Begin { dry } => self.begin(dry, streams),
            FilesAsk::Status => match &self.run {
                Some(run) => Ok(FilesAnswer::Status(Box::new(run.status()))),
                None => Err(OUT_OF_ORDER.to_owned()),
            },
            FilesAsk::Open(_) => Err(OUT_OF_ORDER.to_owned()),
        }
    }

    fn list(&mut self, ask: &SourceAsk) -> Result<FilesAnswer, String> {
        let (root, path) = self.below_a_root(&ask.path)?;
        let folder = open_root(root)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or(&root.name).to_owned();
        let mut source = Source::list(folder, &path, name.clone(), ask.direct)?;
        source.in_order = ask.in_order;
        let listed = Listed {
            entries: source.entries().len() as u64,
            folder: source.is_folder(),
            name,
            left_out: source.left_out,
        };
        self.source = Some(source);
        Ok(FilesAnswer::Listed(listed))
    }

    fn entries(&self, from: u64) -> Result<Vec<crate::wire::Entry>, String> {
        let source = self.source.as_ref().ok_or(OUT_OF_ORDER)?;
        let rest = source
            .entries()
            .iter()
            .skip(from as usize)
            .take(MOST_ENTRIES);
        let mut bytes = 0;
        let fits = |entry: &&crate::wire::Entry| {
            bytes += 6 * entry.path.len() + 200;
            bytes < LISTED_BYTES
        };
        Ok(rest.take_while(fits).cloned().collect())
    }

    fn hold(&mut self, file: u32, sums: &Packed) -> Result<FilesAnswer, String> {
        let source = self.source.as_ref().ok_or(OUT_OF_ORDER)?;
        if source.entries().get(file as usize).is_none() {
            return Err("a file that was not listed".to_owned());
        }
        let held = self.known.held.entry(file).or_default();
        held.extend(unpack_sums(sums)?);
        Ok(FilesAnswer::Done)
    }

    fn settle(&mut self, ask: TargetAsk) -> Result<FilesAnswer, String> {
        let (root, path) = self.below_a_root(&ask.path)?;
        if !root.writable {
            return Err(format!(
                "{} is served for reading only; serve it with `--files DIR:rw`",
                root.name
            ));
        }
        if !self.trusted {
            return Err("only who has the token may write".to_owned());
        }
        let wish = TargetWish {
            path,
            name: ask.name,
            folder: ask.folder,
            overwrite: ask.overwrite,
            direct: ask.direct,
            dry: ask.dry,
        };
        self.target = Some(Target::settle(
            open_root(root)?,
            wish,
            Arc::clone(&self.gone),
        )?);
        Ok(FilesAnswer::Done)
    }

    fn begin(&mut self, dry: Option<Dry>, streams: Vec<TcpStream>) -> Result<FilesAnswer, String> {
        let failed = |error: std::io::Error| format!("cannot begin: {error}");
        let (mode, ends) = (mode(dry), (streams, self.key));
        self.run = Some(match (self.source.take(), self.target.take()) {
            (Some(source), None) => {
                let known = std::mem::take(&mut self.known);
                sending::start(source, known, ends, mode).map_err(failed)?
            }
            (None, Some(target)) => receiving::start(target, ends, mode).map_err(failed)?,
            _ => return Err(OUT_OF_ORDER.to_owned()),
        });
        Ok(FilesAnswer::Done)
    }

    /// Returns the served folder that a peer's path refers to, and the path below it.
    fn below_a_root(&self, text: &str) -> Result<(&FilesRoot, PathBuf), String> {
        let path = names::below(text)?;
        if let [root] = self.roots.as_slice() {
            return Ok((root, path));
        }
        let mut parts = path.components();
        let first = parts.next().map(|part| part.as_os_str().to_owned());
        let named = |root: &&FilesRoot| first.as_deref() == Some(root.name.as_ref());
        match self.roots.iter().find(named) {
            Some(root) => Ok((root, joined(Path::new(""), parts.as_path()))),
            None if self.roots.is_empty() => Err(NOTHING_SERVED.to_owned()),
            None => {
                let names: Vec<&str> = self.roots.iter().map(|root| root.name.as_str()).collect();
                Err(format!("names begin with one of: {}", names.join(", ")))
            }
        }
    }
}

const OUT_OF_ORDER: &str = "this cannot be asked now";
const NOTHING_SERVED: &str =
    "no files are served there; `longhaul serve --files DIR` at the far end serves a folder";

fn open_root(root: &FilesRoot) -> Result<Folder, String> {
    Folder::open(&root.path).map_err(|error| format!("the served folder {}: {error}", root.name))
}

pub(super) fn mode(dry: Option<Dry>) -> Mode {
    match dry {
        None => Mode::Files,
        Some(Dry::Disk { bytes }) => Mode::Disk(bytes),
        Some(Dry::Network { bytes }) => Mode::Network(bytes),
    }
}

pub(super) fn pack_sums(sums: &[(u64, [u8; 32])]) -> Packed {
    let mut bytes = Vec::with_capacity(sums.len() * SUM_BYTES);
    for (index, sum) in sums {
        bytes.extend(index.to_be_bytes());
        bytes.extend(sum);
    }
    Packed(bytes)
}

pub(super) fn unpack_sums(sums: &Packed) -> Result<Vec<(u64, [u8; 32])>, String> {
    let pieces = sums.0.chunks_exact(SUM_BYTES);
    if !pieces.remainder().is_empty() {
        return Err("sums of blocks that are cut off".to_owned());
    }
    let read = |piece: &[u8]| {
        let (index, sum) = piece.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*index), sum.try_into().ok()?))
    };
    pieces
        .map(|piece| read(piece).ok_or_else(|| "sums of blocks that are cut off".to_owned()))
        .collect()
}
