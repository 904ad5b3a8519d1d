//! Copies files between two hosts, over the session and data connections of a run.
//!
//! - [`copy`]: one copy from the client's side, implemented in `near`
//! - `far`: the server's part of a copy
//! - `list`, `place`, `names`: the files to copy, and their names at the target
//! - `sending`, `receiving`: source and target while blocks are transferred; `run` is their common
//!   part
//! - `digest`: hashes of blocks and files; `partial`: an incomplete file
//! - `queue`, `buffer`, `stream`, `counters`: transport and measurement of blocks
//!
//! Every file is split into blocks. At the source, disk threads read and hash them, and one thread
//! per connection sends the next block. At the target, one thread per connection receives and
//! hashes blocks, and disk threads write them. The queues in between are short, so that a slow
//! stage shows in the waiting times of the others.

mod buffer;
mod counters;
mod digest;
mod far;
mod list;
mod names;
mod near;
mod partial;
mod place;
mod queue;
mod receiving;
mod run;
mod sending;
mod stream;

pub(crate) use far::FarFiles;
pub use far::FilesRoot;
pub use near::{CopyError, CopyOutcome, CopyProgress, CopyRequest, Near, copy};

use crate::engine::{DataSocket, EngineError};
use crate::wire::OpenAsk;
use longhaul_model::report::v1::plan::{Direction, Plan};
use std::net::TcpStream;

/// Block length of files: a power of two, so that the file's hash can be computed from the blocks'.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Returns a throughput plan that describes the data connections of a copy.
pub(crate) fn plan_of(open: &OpenAsk) -> Plan {
    Plan {
        direction: if open.forward {
            Direction::Forward
        } else {
            Direction::Reverse
        },
        streams: open.streams,
        send_buffer_bytes: open.window_bytes,
        receive_buffer_bytes: open.window_bytes,
        congestion_control: open.congestion_control.clone(),
        no_delay: true,
        ..Plan::default()
    }
}

/// Extracts the TCP streams of sockets opened for a TCP plan.
fn connections(sockets: Vec<DataSocket>) -> Result<Vec<TcpStream>, EngineError> {
    let tcp = |socket| match socket {
        DataSocket::Tcp(stream) => Ok(stream),
        DataSocket::Udp(_) => Err(EngineError {
            tried: "open a data connection".to_owned(),
            hint: None,
            source: std::io::Error::other("it is none of TCP"),
        }),
    };
    sockets.into_iter().map(tcp).collect()
}
