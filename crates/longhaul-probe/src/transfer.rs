//! Files from one host to the other, over the session and data connections of a run.
//!
//! - [`copy`]: one copy from the initiator's side; `near` is its course
//! - `far`: what the responder does for it
//! - `list`, `place`, `names`: what is copied, and to which names
//! - `sending`, `receiving`: the two ends while blocks flow; `run` is what they share
//! - `digest`: sums of blocks and files; `partial`: a file that is not whole yet
//! - `queue`, `buffer`, `stream`, `counters`: what blocks pass through, and what is measured
//!
//! Every file is cut into blocks. Threads at the source's disk read and sum them up, one thread
//! for each connection takes whatever block is next; at the target one thread for each connection
//! sums up what comes, and threads at the disk write it. Between them are short queues, so that
//! whoever is slow shows by what the others wait for.

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

/// Files are cut into blocks of this length: a power of two, so that sums of blocks make that of
/// the file.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// The data connections of a copy, as the engine's own are described.
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

/// Of sockets that were opened for a plan of TCP.
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
