//! Setup of a copy: data connections, list of files, and blocks that the target already has.

use super::{ClientCopy, ConnectionCounters, CopyError, LocalLocation, open_local_folder};
use crate::block_digest::BlockDigest;
use crate::block_header::BlockKey;
use crate::copy_sender::{self, TargetBlocks};
use crate::copy_source::{CopySource, MAX_COPIED_FILES, take_entry_batch};
use crate::copy_target::CopyTarget;
use crate::copy_threads::RunningCopy;
use crate::server_files::{pack_sums, unpack_sums};
use crate::{BLOCK_BYTES, connection_plan, copy_receiver, into_tcp_streams};
use longhaul_model::foreign_text::ExactText;
use longhaul_probe::throughput;
use longhaul_probe::wire::{
    FilesReply, FilesRequest, MAX_SUMS, OpenStreamsReply, OpenStreamsRequest, SourceListing,
    SourceRequest, TargetRequest,
};
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Limit of the JSON size of the entries in one client message.
const MAX_ENTRIES_BYTES: usize = 56 << 10;

impl ClientCopy<'_> {
    /// Opens the data connections.
    pub(super) fn open_connections(&mut self) -> Result<(Vec<TcpStream>, BlockKey), CopyError> {
        let ask = self.open_request(self.request.plan.streams);
        let FilesReply::Opened(OpenStreamsReply { nonce, key }) =
            self.request(FilesRequest::Open(ask))?
        else {
            return self.unexpected_answer();
        };
        let Ok(key) = BlockKey::try_from(key.0.as_slice()) else {
            return self.unexpected_answer();
        };
        self.nonce = nonce;
        Ok((self.connect_streams(self.request.plan.streams)?, key))
    }

    fn open_request(&self, streams: u32) -> OpenStreamsRequest {
        let plan = &self.request.plan;
        OpenStreamsRequest {
            forward: plan.forward,
            streams,
            window_bytes: plan.window_bytes,
            congestion_control: plan.congestion_control.clone(),
        }
    }

    /// Opens further data connections, whose numbers follow those of the earlier ones.
    pub(super) fn connect_streams(&mut self, count: u32) -> Result<Vec<TcpStream>, CopyError> {
        let plan = connection_plan(&self.open_request(count));
        let (peer, address, nonce) = (self.peer, self.control.address(), self.nonce);
        let first = self.opened_streams as u16;
        let sockets = self.with_heartbeats(move || {
            throughput::open_data_streams(peer, &plan, address, nonce, first)
        })?;
        let streams = sockets.and_then(|sockets| {
            into_tcp_streams(sockets.forward.into_iter().chain(sockets.reverse).collect())
        });
        let streams =
            streams.map_err(|error| CopyError::Network { address, what: error.to_string() })?;
        self.opened_streams += count;
        self.connections.extend(streams.iter().filter_map(ConnectionCounters::of));
        Ok(streams)
    }

    /// Negotiates a copy from the client to the server, and starts sending.
    pub(super) fn set_up_forward(
        &mut self,
        source: CopySource,
        streams: Vec<TcpStream>,
        key: BlockKey,
    ) -> Result<RunningCopy, CopyError> {
        self.left_out = source.left_out;
        self.entries = source.entries().to_vec();
        self.request_done(FilesRequest::Target(TargetRequest {
            path: self.request.remote_path.as_str().into(),
            ..self.target_request(source.name.as_deref().map(Into::into), source.is_folder())
        }))?;
        let mut known = TargetBlocks::default();
        let mut told = 0;
        while told < self.entries.len() {
            let entries = take_entry_batch(&self.entries[told..], MAX_ENTRIES_BYTES);
            told += entries.len();
            let FilesReply::Entered(entered) = self.request(FilesRequest::Enter { entries })?
            else {
                return self.unexpected_answer();
            };
            known.skipped.extend(entered.there);
            for file in entered.begun {
                let held = self.fetch_target_blocks(file)?;
                known.held.insert(file, held);
            }
        }
        self.skipped = known.skipped.len() as u64;
        self.request_done(FilesRequest::Begin {})?;
        copy_sender::start_sending(source, known, streams, key).map_err(|error| start_error(&error))
    }

    /// Fetches the hashes of the blocks that the server already has of a file.
    fn fetch_target_blocks(&mut self, file: u32) -> Result<HashMap<u64, BlockDigest>, CopyError> {
        let size = self.entries.get(file as usize).and_then(|entry| entry.size_bytes);
        let blocks = size.unwrap_or(0).div_ceil(BLOCK_BYTES);
        let (mut held, mut from) = (HashMap::new(), 0);
        loop {
            let FilesReply::Held(sums) = self.request(FilesRequest::Held { file, from })? else {
                return self.unexpected_answer();
            };
            let sums = unpack_sums(&sums).map_err(CopyError::Local)?;
            let Some(last) = sums.iter().map(|(index, _)| *index).max() else {
                return Ok(held);
            };
            if last < from || last >= blocks {
                return self.unexpected_answer();
            }
            from = last.saturating_add(1);
            held.extend(sums);
        }
    }

    /// Negotiates a copy from the server to the client, and starts receiving.
    pub(super) fn set_up_reverse(
        &mut self,
        streams: Vec<TcpStream>,
        key: BlockKey,
    ) -> Result<RunningCopy, CopyError> {
        let ask = SourceRequest {
            path: self.request.remote_path.as_str().into(),
            direct: self.request.plan.direct,
            in_order: self.request.local == LocalLocation::Stream,
        };
        let FilesReply::Listed(listed) = self.request(FilesRequest::Source(ask))? else {
            return self.unexpected_answer();
        };
        let mut target = self.local_target(&listed)?;
        self.left_out = listed.left_out;
        if listed.entries > MAX_COPIED_FILES as u64 {
            return self.unexpected_answer();
        }
        while (self.entries.len() as u64) < listed.entries {
            let from = self.entries.len() as u64;
            let FilesReply::Entries(entries) = self.request(FilesRequest::List { from })? else {
                return self.unexpected_answer();
            };
            if entries.is_empty() {
                return self.unexpected_answer();
            }
            self.entries.extend(entries.iter().cloned());
            let entered = self.with_heartbeats(|| target.add_entries(entries))?;
            let entered = entered.map_err(CopyError::Local)?;
            // `add_entries` numbers entries from its own first one, like the list.
            if !entered.there.is_empty() {
                self.skipped += entered.there.len() as u64;
                self.request_done(FilesRequest::Skip { files: entered.there })?;
            }
            for file in entered.begun {
                self.send_target_blocks(&target, file)?;
            }
        }
        let run = copy_receiver::start_receiving(target, streams, key);
        let run = run.map_err(|error| start_error(&error))?;
        self.request_done(FilesRequest::Begin {})?;
        Ok(run)
    }

    fn send_target_blocks(&mut self, target: &CopyTarget, file: u32) -> Result<(), CopyError> {
        let mut from = 0;
        loop {
            let held = target.existing_blocks(file, from, MAX_SUMS);
            let Some((last, _)) = held.last() else {
                return Ok(());
            };
            from = last + 1;
            let sums = pack_sums(&held);
            self.request_done(FilesRequest::Hold { file, sums })?;
        }
    }

    fn local_target(&self, listed: &SourceListing) -> Result<CopyTarget, CopyError> {
        let LocalLocation::Path(path) = &self.request.local else {
            return Ok(CopyTarget::stream());
        };
        let wish = self.target_request(Some(listed.name.clone()), listed.folder);
        let given_up = Arc::clone(&self.cancelled);
        open_local_folder(path)
            .and_then(|(folder, path)| CopyTarget::resolve(folder, &path, wish, given_up))
            .map_err(CopyError::Local)
    }

    /// Builds the request for a target, without its path.
    fn target_request(&self, name: Option<ExactText>, folder: bool) -> TargetRequest {
        TargetRequest {
            path: ExactText::default(),
            name,
            folder,
            overwrite: self.request.plan.overwrite,
            direct: self.request.plan.direct,
        }
    }
}

pub(super) fn start_error(error: &io::Error) -> CopyError {
    CopyError::Local(format!("cannot start the copy: {error}"))
}
