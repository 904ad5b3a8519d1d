//! What is asked of a throughput run.

use super::capture::CapturePlan;
use serde::{Deserialize, Serialize};

/// The whole of what is asked. Both ends act on the same plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub direction: Direction,
    pub transport: Transport,
    /// Streams in each direction.
    pub streams: u32,
    pub stop: Stop,
    /// Left out of the steady part; absent: found from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_us: Option<u64>,
    /// Asked SO_SNDBUF; absent: the kernel sizes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u64>,
    /// Asked SO_RCVBUF; absent: the kernel sizes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes handed to one write; absent: the engine chooses. For UDP the datagram's payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Absent: the sender's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// The kernel's pacing ceiling for each stream (SO_MAX_PACING_RATE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<u64>,
    /// The application writes no faster than this, all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_rate_bps: Option<u64>,
    /// The application reads no faster than this, all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// The sender yields to others: it holds the queue below a small delay, and marks its packets
    /// as lower effort (RFC 8622) unless `dscp` says otherwise. Left out where false, so that ends
    /// that do not know it understand every other plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scavenger: bool,
    pub no_delay: bool,
    pub mode: Mode,
    /// The sender passes references to pages instead of copying (vmsplice).
    pub zero_copy: bool,
    pub affinity: Affinity,
    /// Spacing of samples; at least one RTT is used on longer paths.
    pub interval_us: u64,
    /// Start at this time of the wall clock (microseconds since 1970, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_us: Option<u64>,
    /// Packets of the run's own streams are captured; absent: not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CapturePlan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The initiator sends.
    Forward,
    /// The responder sends.
    Reverse,
    /// Both send at once, on streams of their own.
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    /// Datagrams at a total rate (all streams together), counted for loss and jitter.
    Udp {
        rate_bps: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Payload flows for this long.
    TimeUs(u64),
    /// This many bytes, all streams of a direction together.
    Bytes(u64),
    /// This many writes, all streams of a direction together.
    Blocks(u64),
}

/// What happens to the payload at the receiver: always named with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The receiver's bytes land in user memory: the number to quote.
    Delivered,
    /// The receiver discards in the kernel (MSG_TRUNC): what the wire and the stack can do.
    Wire,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Affinity {
    /// Both threads of a stream on one core where both ends are one host; otherwise off.
    Auto,
    Off,
    /// Stream i runs on core list[i mod n], at each end's own list.
    Cores {
        initiator: Vec<u16>,
        responder: Vec<u16>,
    },
}

impl Default for Plan {
    /// One TCP stream, forward, ten seconds, nothing set that the kernel can choose.
    fn default() -> Self {
        Plan {
            direction: Direction::Forward,
            transport: Transport::Tcp,
            streams: 1,
            stop: Stop::TimeUs(10_000_000),
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
            no_delay: false,
            mode: Mode::Delivered,
            zero_copy: false,
            affinity: Affinity::Auto,
            interval_us: 100_000,
            start_at_us: None,
            capture: None,
        }
    }
}
