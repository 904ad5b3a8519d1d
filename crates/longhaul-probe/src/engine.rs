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

mod datagram_tracker;
mod defaults;
mod end_host;
mod end_result;
mod end_run;
mod engine_error;
mod pace;
mod payload_pattern;
mod read_batching;
mod sample_request;
mod sample_series;
mod sampler;
mod scavenger;
mod sockets;
mod stop_rule;
mod stream_counters;
mod stream_thread;
mod tcp_receiver;
mod tcp_sender;
mod udp_stream;

#[cfg(test)]
mod tests;

pub use datagram_tracker::{CounterWidth, DatagramFormat, reconcile_loss};
pub(crate) use end_host::read_host_facts;
pub use end_run::EndRun;
pub use engine_error::EngineError;
pub use payload_pattern::payload_byte;
pub(crate) use sockets::is_queue_full;
pub use sockets::{
    DataSocket, LocalBind, is_socket_timeout, limit_window, open_tcp_socket, open_udp_socket,
    prepare_accepted, prepare_udp_socket,
};
pub(crate) use stream_counters::RunClock;

use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd, UdpCounts};
use longhaul_model::report::v1::plan::ThroughputPlan;
use std::time::{Duration, Instant};

/// The direction of this end's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferRole {
    Sender,
    Receiver,
}

/// The specification of one end of a run.
#[derive(Debug, Clone)]
pub struct EndSpec {
    pub plan: ThroughputPlan,
    /// Selects one of the two core lists of [`longhaul_model::report::v1::plan::CoreAffinity`].
    pub initiator: bool,
    pub idle_rtt: Option<Duration>,
    /// The zero of the common time line, on this host's clock.
    pub origin: Instant,
    /// The datagram format of a UDP run.
    pub heads: DatagramFormat,
    pub ending: StreamEnding,
}

/// The state in which a sender leaves a TCP stream after sending everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnding {
    /// Half-closed, so that the receiver sees the end of the stream with its last byte.
    HalfClosed,
    /// Left open after a whole block: the receiver reads whole blocks and learns of the end by
    /// other means.
    Open { block_bytes: u64 },
}

/// The progress of a run, cheap to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineProgress {
    /// Time since `go`.
    pub elapsed: Duration,
    pub bytes: u64,
    pub stream_bytes: Vec<u64>,
    /// Counts of a UDP run; the sender counts only `datagrams`.
    pub stream_datagrams: Vec<UdpCounts>,
    /// The total of all streams, at the last sample.
    pub retransmits: Option<u64>,
    /// Mean over the streams, at the last sample.
    pub rtt: Option<Duration>,
}

/// The results of one end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineResult {
    pub streams: Vec<StreamEnd>,
    pub end: EndObservation,
    pub caveats: Vec<ReportCaveat>,
}
