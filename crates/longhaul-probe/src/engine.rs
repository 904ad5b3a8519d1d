//! Moving the bulk data of one end, and counting it.
//!
//! One thread per stream makes blocking calls and nothing else; a sampler thread reads counters,
//! TCP_INFO, queues and CPU clocks beside it. The session layer drives an [`EndRun`]: start, go,
//! wait, end. Streams are the only thing the two ends share here; when the other end starts or
//! stops is the session's business.
//!
//! Which techniques are used and why: docs/decisions and the module of each. In one line: copying
//! writes and reads by default, page references (vmsplice) on `zero_copy`, discarding in the kernel
//! (MSG_TRUNC) in mode *wire*; and on one host the two threads of a stream share a core and the data
//! in flight fits its cache.
//!
//! Memory: per stream one thread stack of 256 KiB (little of it touched), one receive buffer of
//! [`EndSpec::plan`]'s read size, and at most 1200 samples of about 0.7 KiB; 40 000 samples in all.

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

/// Which way the payload of this end goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Sender,
    Receiver,
}

/// What one end has to do.
#[derive(Debug, Clone)]
pub struct EndSpec {
    pub role: Role,
    pub plan: Plan,
    /// Chooses among the two core lists of [`longhaul_model::report::v1::plan::Affinity`].
    pub initiator: bool,
    /// Both ends are one machine; with a short `idle_rtt` the engine then places threads and
    /// sizes buffers for the cache, where the plan leaves these open.
    pub same_host: bool,
    pub idle_rtt: Option<Duration>,
    /// Zero of the common time line, on this host's clock.
    pub origin: Instant,
    /// Whose datagrams a UDP run sends and takes.
    pub heads: Heads,
    pub ending: Ending,
}

/// How the sender of a TCP stream leaves it when it has sent all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Half-closed where the run ends by itself: the receiver reads to the end.
    HalfClosed,
    /// Open, behind a whole block: the receiver reads whole blocks, and is told elsewhere that it
    /// is over.
    Open { block_bytes: u64 },
}

/// How far a run has come; cheap to ask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Since `go`.
    pub elapsed: Duration,
    pub bytes: u64,
    pub stream_bytes: Vec<u64>,
    /// Of a UDP run; at its sender only `datagrams` counts.
    pub stream_datagrams: Vec<Udp>,
    /// All streams together, at the last sample.
    pub retransmits: Option<u64>,
    /// Mean over the streams, at the last sample.
    pub rtt: Option<Duration>,
}

/// All that one end has to say of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EndResult {
    pub streams: Vec<StreamEnd>,
    pub end: End,
    pub caveats: Vec<Caveat>,
}
