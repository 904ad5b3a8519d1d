//! What was seen: counters and readings of both ends, never changed afterwards.
//!
//! All times of one run are offsets from one common start, in microseconds; the responder's clock
//! is set on that line by [`Observation::clock_error_us`]. Counters are cumulative unless a field
//! says "during the run".

use super::capture::Capture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One direction of a run; a run in both directions holds the other one in `reverse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// True: the initiator is the sender.
    pub forward: bool,
    /// From the first payload byte at the receiver to its last, all streams together.
    pub elapsed_us: u64,
    /// Least round trip on the control connection before load, and how many were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    /// Half-width of the uncertainty of the common time line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_us: Option<u64>,
    /// Both ends are one machine, and nothing lies between them.
    #[serde(default)]
    pub same_host: bool,
    /// Both ends run under one boot of one kernel, whatever lies between them: two namespaces and an
    /// emulated path, as well. Absent: one of them did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_boot: Option<bool>,
    pub streams: Vec<Stream>,
    pub ends: Ends,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Box<Observation>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ends {
    pub sender: End,
    pub receiver: End,
}

/// One connection (or one UDP flow) carrying payload one way, seen from both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    pub index: u32,
    pub sender: StreamEnd,
    pub receiver: StreamEnd,
}

/// What one end says of one stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Payload bytes: accepted by the kernel (sender), taken by the application (receiver).
    pub bytes: u64,
    /// Offset of the first byte; with `duration_us` the stream's own time.
    pub started_us: u64,
    pub duration_us: u64,
    /// Writes or reads that moved bytes; for UDP, datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Time inside blocking writes or reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_us: Option<u64>,
    /// CPU time of the stream's thread (user and system).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Core that the thread was pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Buffer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Buffer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<TcpOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<Udp>,
    /// Why this stream ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// A socket buffer: what was asked, and what the kernel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_bytes: Option<u64>,
    /// Usable for payload accounting: half of `stored_bytes`, since Linux stores twice what it
    /// grants (socket(7)).
    pub granted_bytes: u64,
    /// As getsockopt reads it back at the end of the run.
    pub stored_bytes: u64,
}

/// TCP options in force on the connection (TCPI_OPT_*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOptions {
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    pub ecn: bool,
    /// Shift of the window this end sends, and of the one it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_window_shift: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_window_shift: Option<u8>,
}

/// Datagram accounting at the receiver of a UDP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Udp {
    pub datagrams: u64,
    pub lost: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Interarrival jitter, RFC 3550 section 6.4.1, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

/// One reading of a stream's counters at one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    pub at_us: u64,
    pub bytes: u64,
    pub blocked_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Time the thread was runnable but had no core (schedstat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_wait_us: Option<u64>,
    /// Unacknowledged or unsent bytes at the sender (SIOCOUTQ), unread bytes at the receiver
    /// (SIOCINQ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
}

/// TCP_INFO, in bytes and microseconds; a field is absent where the kernel is too old for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tcp {
    pub rtt_us: u64,
    pub rttvar_us: u64,
    /// 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub mss_bytes: u64,
    pub cwnd_bytes: u64,
    /// Absent while the kernel has none yet ("infinite").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh_bytes: Option<u64>,
    pub unacked_bytes: u64,
    pub lost_segments: u64,
    pub retransmitted_segments: u64,
    pub reordering_segments: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    /// Absent: no ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_bps: Option<u64>,
    /// The delivery rate was limited by the application when last taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_limited: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments_out: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segments_out: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segments_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_window_limited_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer_limited_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_retransmitted: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsack_duplicates: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering_seen: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order_segments: Option<u64>,
    /// The peer's advertised window, as this sender holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_window_bytes: Option<u64>,
    /// The window this end advertises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<u64>,
}

/// What one end says of itself: host, CPU, counters, during the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct End {
    pub host: Host,
    /// Sum over the streams.
    pub bytes: u64,
    /// CPU time of the whole process during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_user_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_system_us: Option<u64>,
    /// CPU cycles of the process during the run, where hardware counters exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Per core, during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<Core>,
    /// Protocol counters that grew during the run, by the kernel's own names
    /// (`TcpExt.TCPTimeouts`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protocol: BTreeMap<String, u64>,
    /// Interface counters that grew during the run (`wan0.rx_dropped`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interface: BTreeMap<String, u64>,
    /// What this end captured; of a run in both directions it stands in the forward one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// The program at this end; of a run in both directions it stands in the forward one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

/// What the program at one end tells of itself: bounded text, which nothing measures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub longhaul: String,
    /// How it was called, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What it told its log of this run, each line with the time since its session began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// How one core spent the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Core {
    pub index: u32,
    pub elapsed_us: u64,
    pub busy_us: u64,
    pub softirq_us: u64,
    pub steal_us: u64,
    /// The most this core was busy in any one sample interval, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_permille: Option<u32>,
}

/// Facts of an end host that bear on throughput. Absent: could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    pub cores: u32,
    /// `net.ipv4.tcp_rmem`: least, default, most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_wmem_bytes: Option<[u64; 3]>,
    /// `net.core.rmem_max`; hidden inside a network namespace of some kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmem_max_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wmem_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_mem` in bytes: low, pressure, high; of the first namespace only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_mem_bytes: Option<[u64; 3]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Other sysctls that bear on TCP, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
}

/// The interface that the run used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bps: Option<u64>,
}
