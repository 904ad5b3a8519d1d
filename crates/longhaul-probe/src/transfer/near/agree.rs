//! Setup of a copy: data connections, list of files, and blocks that the target already has.

use super::place::near_place;
use super::{CopyError, Course, Near};
use crate::throughput::{self, Target as Peer};
use crate::transfer::digest::Digest;
use crate::transfer::far::{mode, pack_sums, unpack_sums};
use crate::transfer::list::Source;
use crate::transfer::place::{Target, TargetWish};
use crate::transfer::run::Running;
use crate::transfer::sending::{self, Known};
use crate::transfer::{connections, plan_of, receiving};
use crate::wire::{
    BlockKey, Entry, FilesAnswer, FilesAsk, Listed, MOST_ENTRIES, MOST_SUMS, OpenAsk, Opened,
    SourceAsk, TargetAsk,
};
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Limit of the JSON size of the entries in one client message.
const ENTERED_BYTES: usize = 56 << 10;
/// JSON size of an entry without its path: field names and the longest numbers.
const FIELDS_BYTES: usize = 130;

impl Course<'_> {
    /// Opens the data connections, which a disk-only dry run closes unused.
    pub(super) fn open(&mut self, peer: &Peer) -> Result<(Vec<TcpStream>, BlockKey), CopyError> {
        let request = self.request;
        let ask = OpenAsk {
            forward: request.forward,
            streams: request.streams,
            window_bytes: request.window_bytes,
            congestion_control: request.congestion_control.clone(),
        };
        let plan = plan_of(&ask);
        let FilesAnswer::Opened(Opened { nonce, key }) = self.ask(FilesAsk::Open(ask))? else {
            return self.unexpected();
        };
        let Ok(key) = BlockKey::try_from(key.0.as_slice()) else {
            return self.unexpected();
        };
        let sockets = throughput::open_streams(peer, &plan, self.line.address(), nonce);
        let address = self.line.address();
        let failed = |error: crate::engine::EngineError| CopyError::Network {
            address,
            what: error.to_string(),
        };
        let sockets = sockets.map_err(failed)?;
        let both = sockets.forward.into_iter().chain(sockets.reverse).collect();
        Ok((connections(both).map_err(failed)?, key))
    }

    /// Negotiates a copy from the client to the server, and starts sending.
    pub(super) fn agree_forward(
        &mut self,
        source: Source,
        ends: (Vec<TcpStream>, BlockKey),
    ) -> Result<Running, CopyError> {
        self.left_out = source.left_out;
        self.entries = source.entries().to_vec();
        self.done(FilesAsk::Target(TargetAsk {
            path: self.request.far.clone(),
            name: source.name.clone(),
            folder: source.is_folder(),
            overwrite: self.request.overwrite,
            direct: self.request.direct,
            dry: self.dry().is_some(),
        }))?;
        let mut known = Known::default();
        let mut told = 0;
        while told < self.entries.len() {
            let entries = next_entries(&self.entries[told..]);
            told += entries.len();
            let FilesAnswer::Entered(entered) = self.ask(FilesAsk::Enter { entries })? else {
                return self.unexpected();
            };
            known.skipped.extend(entered.there);
            for file in entered.begun {
                let held = self.held_of(file)?;
                known.held.insert(file, held);
            }
        }
        self.skipped = known.skipped.len() as u64;
        let dry = self.dry();
        self.done(FilesAsk::Begin { dry })?;
        sending::start(source, known, ends, mode(dry)).map_err(|error| cannot_begin(&error))
    }

    /// Fetches the hashes of the blocks that the server already has of a file.
    fn held_of(&mut self, file: u32) -> Result<HashMap<u64, Digest>, CopyError> {
        let (mut held, mut from) = (HashMap::new(), 0);
        loop {
            let FilesAnswer::Held(sums) = self.ask(FilesAsk::Held { file, from })? else {
                return self.unexpected();
            };
            let sums = unpack_sums(&sums).map_err(CopyError::Near)?;
            let Some(last) = sums.iter().map(|(index, _)| *index).max() else {
                return Ok(held);
            };
            if last < from {
                return self.unexpected();
            }
            from = last.saturating_add(1);
            held.extend(sums);
        }
    }

    /// Negotiates a copy from the server to the client, and starts receiving.
    pub(super) fn agree_reverse(
        &mut self,
        ends: (Vec<TcpStream>, BlockKey),
    ) -> Result<Running, CopyError> {
        let ask = SourceAsk {
            path: self.request.far.clone(),
            direct: self.request.direct,
            in_order: self.request.near == Near::Stream,
        };
        let FilesAnswer::Listed(listed) = self.ask(FilesAsk::Source(ask))? else {
            return self.unexpected();
        };
        let mut target = self.near_target(&listed)?;
        self.left_out = listed.left_out;
        while (self.entries.len() as u64) < listed.entries {
            let from = self.entries.len() as u64;
            let FilesAnswer::Entries(entries) = self.ask(FilesAsk::List { from })? else {
                return self.unexpected();
            };
            if entries.is_empty() {
                return self.unexpected();
            }
            self.entries.extend(entries.iter().cloned());
            let entered = self.beside(|| target.enter(entries))?;
            let entered = entered.map_err(CopyError::Near)?;
            // `enter` numbers entries from its own first one, like the list.
            if !entered.there.is_empty() {
                self.skipped += entered.there.len() as u64;
                self.done(FilesAsk::Skip {
                    files: entered.there,
                })?;
            }
            for file in entered.begun {
                self.tell_held(&target, file)?;
            }
        }
        let dry = self.dry();
        let run = receiving::start(target, ends, mode(dry));
        let run = run.map_err(|error| cannot_begin(&error))?;
        self.done(FilesAsk::Begin { dry })?;
        Ok(run)
    }

    fn tell_held(&mut self, target: &Target, file: u32) -> Result<(), CopyError> {
        let mut from = 0;
        loop {
            let held = target.held(file, from, MOST_SUMS);
            let Some((last, _)) = held.last() else {
                return Ok(());
            };
            from = last + 1;
            let sums = pack_sums(&held);
            self.done(FilesAsk::Hold { file, sums })?;
        }
    }

    fn near_target(&self, listed: &Listed) -> Result<Target, CopyError> {
        let Near::Path(path) = &self.request.near else {
            return Ok(Target::stream());
        };
        let wish = TargetWish {
            path: PathBuf::new(),
            name: Some(listed.name.clone()),
            folder: listed.folder,
            overwrite: self.request.overwrite,
            direct: self.request.direct,
            dry: self.dry().is_some(),
        };
        let given_up = Arc::clone(&self.given_up);
        near_place(path)
            .and_then(|(folder, path)| {
                Target::settle(folder, TargetWish { path, ..wish }, given_up)
            })
            .map_err(CopyError::Near)
    }
}

fn cannot_begin(error: &io::Error) -> CopyError {
    CopyError::Near(format!("cannot begin: {error}"))
}

/// Returns the entries that fit into one message, at least one.
fn next_entries(entries: &[Entry]) -> Vec<Entry> {
    let mut bytes = 0;
    let mut fits = |entry: &Entry| {
        let first = bytes == 0;
        bytes += entry.path.len() + FIELDS_BYTES;
        // Characters that JSON escapes with six bytes are rare; six bytes are counted for each.
        let steered = entry.path.chars().filter(|c| c.is_control()).count();
        let quoted = entry.path.matches(['"', '\\']).count();
        bytes += 5 * steered + quoted;
        first || bytes < ENTERED_BYTES
    };
    let next = entries.iter().take(MOST_ENTRIES);
    next.take_while(|entry| fits(entry)).cloned().collect()
}
