//! Sends or receives the bulk data of one end, and counts it.
//!
//! One thread per stream only makes blocking calls. A sampler thread reads counters, TCP_INFO,
//! queues and CPU clocks. The session layer drives an [`EndRun`]: start, go, wait, end. The session
//! also decides when the other end starts or stops; the engines of the two ends share only their
//! streams.
//!
//! The techniques and their reasons are described in docs/decisions and each module. In short:
//! copying writes and reads by default, page references (vmsplice) with `zero_copy`, discarding in
//! the kernel (MSG_TRUNC) in mode *wire*. On the same host, the two threads of a stream share a
//! core and the data in flight fits its cache.
//!
//! Memory per stream: a thread stack of 256 KiB (little of it touched), one receive buffer of
//! [`EndSpec::plan`]'s read size, and at most 1200 samples of about 0.7 KiB. All streams together
//! keep at most 40 000 samples.

mod asked;
mod choice;
mod counters;
mod datagram;
mod end;
mod error;
mod follow;
mod memory;
mod pace;
mod payload;
mod reading;
mod receive;
mod rest;
mod result;
mod run;
mod sampler;
mod scavenger;
mod send;
mod series;
mod sockets;
mod stop;
mod udp;
mod worker;

#[cfg(test)]
mod tests;

pub use datagram::{Heads, reconcile};
pub(crate) use end::host_facts;
pub use error::EngineError;
pub use payload::payload_byte;
pub(crate) use reading::options;
pub use run::EndRun;
pub use sockets::{
    ConnectingSocket, DataSocket, LocalBind, bound_window, connecting_socket, datagram_socket,
    prepare_accepted, prepare_datagrams,
};

use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::{End, StreamEnd, Udp};
use longhaul_model::report::v1::plan::Plan;
use std::time::{Duration, Instant};

/// The direction of this end's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Sender,
    Receiver,
}

/// The specification of one end of a run.
#[derive(Debug, Clone)]
pub struct EndSpec {
    pub role: Role,
    pub plan: Plan,
    /// Selects one of the two core lists of [`longhaul_model::report::v1::plan::Affinity`].
    pub initiator: bool,
    /// Both ends are on one machine. With a short `idle_rtt`, the engine then places threads and
    /// sizes buffers for the cache, unless the plan specifies these.
    pub same_host: bool,
    pub idle_rtt: Option<Duration>,
    /// The zero of the common time line, on this host's clock.
    pub origin: Instant,
    /// The datagram format of a UDP run.
    pub heads: Heads,
    pub ending: Ending,
}

/// The state in which a sender leaves a TCP stream after sending everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Half-closed if the run ends by itself: the receiver reads to the end of the stream.
    HalfClosed,
    /// Left open after a whole block: the receiver reads whole blocks and learns of the end by
    /// other means.
    Open { block_bytes: u64 },
}

/// The progress of a run, cheap to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Time since `go`.
    pub elapsed: Duration,
    pub bytes: u64,
    pub stream_bytes: Vec<u64>,
    /// Counts of a UDP run; the sender counts only `datagrams`.
    pub stream_datagrams: Vec<Udp>,
    /// The total of all streams, at the last sample.
    pub retransmits: Option<u64>,
    /// Mean over the streams, at the last sample.
    pub rtt: Option<Duration>,
}

/// The results of one end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EndResult {
    pub streams: Vec<StreamEnd>,
    pub end: End,
    pub caveats: Vec<Caveat>,
}
