//! Copies files over a long path on parallel connections and reports what limited them, for programs
//! that move large files and want to know whether the network or a disk is slow.
//!
//! - [`copy_files`]: one copy from the client's side, implemented in `client_copy`
//! - `server_files`: the server's part of a copy
//! - `copy_source`, `copy_target`, `relative_names`: the files to copy, and their names at the target
//! - `copy_sender`, `copy_receiver`: source and target while blocks are transferred; `copy_threads` is their common
//!   part
//! - `block_digest`: hashes of blocks and files; `partial_file`: an incomplete file
//! - `stage_queue`, `block_buffer`, `data_stream`, `stage_counters`: transport and measurement of blocks
//!
//! Every file is split into blocks. At the source, disk threads read and hash them, and one thread
//! per connection sends the next block. At the target, one thread per connection receives and
//! hashes blocks, and disk threads write them. The queues in between are short, so that a slow
//! stage shows in the waiting times of the others.

#![forbid(unsafe_code)]

mod block_buffer;
mod block_digest;
pub mod block_header;
mod client_copy;
mod copy_receiver;
mod copy_sender;
mod copy_source;
mod copy_target;
mod copy_threads;
mod data_stream;
mod files_session;
mod partial_file;
mod relative_names;
mod server_files;
mod stage_counters;
mod stage_queue;

pub use client_copy::{
    CopyError, CopyOutcome, CopyProgress, CopyRequest, CopyWatch, LocalLocation, copy_files,
};
pub use copy_threads::MAX_DISK_THREADS;
pub use files_session::FilesHandler;
pub use server_files::{FilesRoot, ServerFiles};

use longhaul_model::report::v1::plan::{RunDirection, ThroughputPlan};
use longhaul_probe::engine::{DataSocket, EngineError};
use longhaul_probe::wire::OpenStreamsRequest;
use std::net::TcpStream;

/// Block length of files: a power of two, so that the file's hash can be computed from the blocks'.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Returns a throughput plan that describes the data connections of a copy.
pub(crate) fn connection_plan(open: &OpenStreamsRequest) -> ThroughputPlan {
    ThroughputPlan {
        direction: if open.forward { RunDirection::Forward } else { RunDirection::Reverse },
        streams: open.streams,
        send_buffer_bytes: open.window_bytes,
        receive_buffer_bytes: open.window_bytes,
        congestion_control: open.congestion_control.clone(),
        no_delay: true,
        ..ThroughputPlan::default()
    }
}

/// Extracts the TCP streams of sockets opened for a TCP plan.
fn into_tcp_streams(sockets: Vec<DataSocket>) -> Result<Vec<TcpStream>, EngineError> {
    let tcp = |socket| match socket {
        DataSocket::Tcp(stream) => Ok(stream),
        DataSocket::Udp(_) => {
            let source = std::io::Error::other("not a TCP connection");
            Err(EngineError::new("open a data connection", source))
        }
    };
    sockets.into_iter().map(tcp).collect()
}
