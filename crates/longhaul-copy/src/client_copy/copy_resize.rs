//! Changes the number of connections and disk threads of a running copy.

use super::copy_setup::start_error;
use super::{ClientCopy, CopyError};
use crate::copy_threads::{RunningCopy, WaitingStream};
use longhaul_model::report::v1::copy::CopyConcurrency;
use longhaul_probe::wire::{CopyEndStatus, FilesRequest, ProtocolVersions, ResizeRequest};

impl ClientCopy<'_> {
    /// Returns the number of connections and disk threads.
    pub(super) fn concurrency(
        &self,
        source: &CopyEndStatus,
        target: &CopyEndStatus,
    ) -> CopyConcurrency {
        self.resized.unwrap_or(CopyConcurrency {
            streams: self.opened_streams,
            readers: source.end.disk.threads,
            writers: target.end.disk.threads,
        })
    }

    /// Changes connections and disk threads from `now` to `wanted`. Whatever the server refuses stays
    /// as it is, and an older server changes nothing.
    pub(super) fn resize(
        &mut self,
        run: &mut RunningCopy,
        now: CopyConcurrency,
        wanted: CopyConcurrency,
    ) -> Result<(), CopyError> {
        self.resized = Some(now);
        if self.control.version() < Some(ProtocolVersions::RESIZE) {
            return Ok(());
        }
        let missing = wanted.streams.saturating_sub(now.streams);
        let counted = self.connections.len();
        let added = match self.connect_streams(missing) {
            Ok(added) => added,
            Err(CopyError::Network { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let forward = self.request.plan.forward;
        let near_threads = |of: CopyConcurrency| if forward { of.readers } else { of.writers };
        let far_threads = if forward { wanted.writers } else { wanted.readers };
        let waiting = run.resize(wanted.streams, near_threads(wanted), added);
        let waiting = waiting.map_err(|error| start_error(&error))?;
        let ask = ResizeRequest {
            opened_streams: self.opened_streams,
            streams: wanted.streams,
            disk_threads: far_threads,
        };
        match self.request_done(FilesRequest::Resize(ask)) {
            Ok(()) => {
                waiting.into_iter().for_each(WaitingStream::begin);
                self.resized = Some(wanted);
            }
            Err(CopyError::Server { .. }) => {
                self.opened_streams -= missing;
                self.connections.truncate(counted);
                drop(waiting);
                run.resize(now.streams, near_threads(now), Vec::new())
                    .map_err(|error| start_error(&error))?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
