//! The plan of a throughput run.

use super::capture::CapturePlan;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The precision of a test that has no other end, in thousandths of the goodput.
pub const DEFAULT_PRECISION_PERMILLE: u32 = 30;

/// The maximum number of streams in each direction, unless `serve` sets another.
pub const MAX_STREAMS: u32 = 128;

/// The complete plan. Both ends follow the same plan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputPlan {
    pub direction: RunDirection,
    pub transport: RunTransport,
    /// Streams in each direction.
    pub streams: u32,
    pub stop: StopCondition,
    /// The run lasts until its user stops it; `stop` is then the longest time that is granted.
    /// Omitted when false, so that peers without this field understand every other plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_stopped: bool,
    /// The client ends the run when the goodput is known to this half-width, in thousandths of it; `stop`
    /// is then the longest time. The server is told of a run that lasts until it is stopped.
    pub precision_permille: Option<u32>,
    /// Time excluded from the steady part; absent: found from the data.
    pub warm_up_us: Option<u64>,
    /// Requested SO_SNDBUF; absent: autotuned by the kernel.
    pub send_buffer_bytes: Option<u64>,
    /// Requested SO_RCVBUF; absent: autotuned by the kernel.
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes per write; absent: chosen by the engine. For UDP the payload of a datagram.
    pub write_bytes: Option<u64>,
    pub read_bytes: Option<u64>,
    /// Absent: the sender's default.
    pub congestion_control: Option<String>,
    /// The kernel's pacing limit for each stream (SO_MAX_PACING_RATE).
    pub pacing_bps: Option<u64>,
    /// Write rate limit of the application, all streams together.
    pub write_rate_bps: Option<u64>,
    /// Read rate limit of the application, all streams together.
    pub read_rate_bps: Option<u64>,
    pub mss_bytes: Option<u32>,
    pub dscp: Option<u8>,
    /// The sender yields to other flows: it keeps the queue below a small delay and marks its
    /// packets as lower effort (RFC 8622) unless `dscp` is set. Omitted when false, so that peers
    /// without this field understand every other plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scavenger: bool,
    /// Datagrams of a UDP run are never fragmented (the DF bit of IPv4); those over the path MTU
    /// are lost. Omitted when false, so that peers without this field understand every other plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dont_fragment: bool,
    pub no_delay: bool,
    pub mode: ReceiveMode,
    /// The sender passes references to pages instead of copying (vmsplice).
    pub zero_copy: bool,
    pub affinity: CoreAffinity,
    /// Sampling interval; on paths with a longer RTT at least one RTT.
    pub interval_us: u64,
    /// The agreed start (microseconds since 1970, UTC) in a report of an earlier release.
    pub start_at_us: Option<u64>,
    /// Capture of the run's own streams; absent: no capture.
    pub capture: Option<CapturePlan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunDirection {
    /// The initiator sends.
    Forward,
    /// The responder sends.
    Reverse,
    /// Both send at the same time, on separate streams.
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTransport {
    Tcp,
    /// Datagrams at a total rate (all streams together), with loss and jitter measured.
    Udp {
        rate_bps: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCondition {
    /// For this long.
    TimeUs(u64),
    /// This many bytes, summed over the streams of a direction.
    Bytes(u64),
    /// This many writes, summed over the streams of a direction.
    Blocks(u64),
}

/// The handling of the payload at the receiver; always stated with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveMode {
    /// The receiver copies the payload to user memory: the number to quote.
    Delivered,
    /// The receiver discards the payload in the kernel (MSG_TRUNC), which measures the wire and the
    /// stack.
    Wire,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreAffinity {
    /// Both threads of a stream on one core if both ends are the same host; otherwise off.
    Auto,
    Off,
    /// Stream i runs on core list[i mod n], with a separate list for each end.
    Cores {
        initiator: Vec<u16>,
        responder: Vec<u16>,
    },
}

impl Default for ThroughputPlan {
    /// Returns a plan with one TCP stream, forward, for ten seconds; everything else is left to the
    /// kernel.
    fn default() -> Self {
        ThroughputPlan {
            direction: RunDirection::Forward,
            transport: RunTransport::Tcp,
            streams: 1,
            stop: StopCondition::TimeUs(10_000_000),
            until_stopped: false,
            precision_permille: None,
            warm_up_us: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            write_bytes: None,
            read_bytes: None,
            congestion_control: None,
            pacing_bps: None,
            write_rate_bps: None,
            read_rate_bps: None,
            mss_bytes: None,
            dscp: None,
            scavenger: false,
            dont_fragment: false,
            no_delay: false,
            mode: ReceiveMode::Delivered,
            zero_copy: false,
            affinity: CoreAffinity::Auto,
            interval_us: 100_000,
            start_at_us: None,
            capture: None,
        }
    }
}
