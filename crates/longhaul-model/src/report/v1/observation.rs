//! The observation of a run: counters and readings of both ends, never changed afterwards.
//!
//! All times of one run are offsets from one common start, in microseconds;
//! [`ThroughputObservation::clock_error_us`] bounds the error of the responder's times. Counters are
//! cumulative unless a field says "during the run".

mod count_check;

pub use count_check::CountContradiction;

use super::capture::{CaptureResult, HeaderCapture};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;

/// One direction of a run; a run in both directions has the other one in `reverse`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputObservation {
    /// True: the initiator is the sender.
    pub forward: bool,
    /// Time from the first payload byte at the receiver to the last, over all streams.
    pub elapsed_us: u64,
    /// Minimum RTT on the control connection before the load.
    pub idle_rtt_us: Option<u64>,
    /// Half-width of the uncertainty of the common time line.
    pub clock_error_us: Option<u64>,
    /// Both ends are the same machine, with nothing between them.
    #[serde(default)]
    pub same_host: bool,
    /// Both ends run under the same boot of one kernel, whatever is between them, for example two
    /// namespaces and an emulated path. Absent: unknown for at least one end.
    pub same_boot: Option<bool>,
    pub streams: Vec<ObservedStream>,
    pub ends: BothEnds,
    pub reverse: Option<Box<ThroughputObservation>>,
}

impl ThroughputObservation {
    /// Returns the ends of the initiator and of the responder.
    pub fn initiator_and_responder(&self) -> [&EndObservation; 2] {
        let BothEnds { sender, receiver } = &self.ends;
        if self.forward { [sender, receiver] } else { [receiver, sender] }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BothEnds {
    pub sender: EndObservation,
    pub receiver: EndObservation,
}

/// One connection (or one UDP flow) that carries payload in one direction, observed at both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedStream {
    pub index: u32,
    pub sender: StreamEnd,
    pub receiver: StreamEnd,
}

/// The readings of one stream at one end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamEnd {
    pub local: Option<String>,
    pub peer: Option<String>,
    /// Payload bytes: accepted by the kernel (sender), read by the application (receiver).
    pub bytes: u64,
    /// Offset of the first byte; with `duration_us` it gives the stream's own time span.
    pub started_us: u64,
    pub duration_us: u64,
    /// Writes or reads that moved bytes; for UDP, datagrams.
    pub calls: Option<u64>,
    /// Time spent in blocking writes or reads.
    pub blocked_us: Option<u64>,
    /// CPU time of the stream's thread (user and system).
    pub cpu_us: Option<u64>,
    /// Core that the thread was pinned to.
    pub core: Option<u32>,
    pub send_buffer: Option<SocketBuffer>,
    pub receive_buffer: Option<SocketBuffer>,
    pub mss_bytes: Option<u32>,
    pub congestion_control: Option<String>,
    pub options: Option<TcpOptions>,
    pub udp: Option<UdpCounts>,
    /// The reason why this stream ended early.
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<StreamSample>,
}

/// The requested and the actual size of a socket buffer.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketBuffer {
    pub asked_bytes: Option<u64>,
    /// Bytes usable for payload: half of `stored_bytes`, because Linux stores twice the granted
    /// size (socket(7)).
    pub granted_bytes: u64,
    /// The value that getsockopt returns at the end of the run.
    pub stored_bytes: u64,
}

/// `TCP_INFINITE_SSTHRESH`, net/tcp.h: the slow start threshold before the first loss, in segments.
pub const SSTHRESH_INFINITE: u64 = 0x7fff_ffff;

/// TCP options in force on the connection (TCPI_OPT_*).
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOptions {
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    pub ecn: bool,
    /// Window shift of this end's advertisements, and of the peer's.
    pub send_window_shift: Option<u8>,
    pub receive_window_shift: Option<u8>,
}

impl TcpOptions {
    /// Reads `tcpi_options` and the byte of `tcpi_snd_wscale` and `tcpi_rcv_wscale`.
    pub fn from_kernel(options: u8, shifts: u8) -> TcpOptions {
        let window_scaling = options & 4 != 0;
        TcpOptions {
            timestamps: options & 1 != 0,
            sack: options & 2 != 0,
            window_scaling,
            ecn: options & 8 != 0,
            send_window_shift: window_scaling.then_some(shifts & 0x0f),
            receive_window_shift: window_scaling.then_some(shifts >> 4),
        }
    }
}

/// Datagram accounting at the receiver of a UDP stream.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UdpCounts {
    pub datagrams: u64,
    pub lost: u64,
    pub out_of_order: Option<u64>,
    pub duplicates: Option<u64>,
    /// Interarrival jitter, RFC 3550 section 6.4.1, in nanoseconds.
    pub jitter_ns: Option<u64>,
}

/// One sample of a stream's counters at one end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamSample {
    pub at_us: u64,
    pub bytes: u64,
    pub blocked_us: u64,
    pub cpu_us: Option<u64>,
    /// Time runnable without a core (schedstat).
    pub core_wait_us: Option<u64>,
    /// Unacknowledged or unsent bytes at the sender (SIOCOUTQ), unread bytes at the receiver
    /// (SIOCINQ).
    pub queue_bytes: Option<u64>,
    /// The kernel's memory for the bytes that the sender queued, as a share of the send buffer;
    /// only of sockets of other programs.
    pub send_buffer_ratio: Option<f64>,
    pub tcp: Option<TcpReading>,
}

/// TCP_INFO, in bytes and microseconds; a field is absent if the kernel is too old to report it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpReading {
    pub rtt_us: u64,
    pub rttvar_us: u64,
    /// 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub mss_bytes: u64,
    pub cwnd_bytes: u64,
    /// Absent while the kernel has no value yet ("infinite").
    pub ssthresh_bytes: Option<u64>,
    pub unacked_bytes: u64,
    pub lost_segments: u64,
    pub retransmitted_segments: u64,
    pub reordering_segments: u64,
    pub rtt_min_us: Option<u64>,
    /// Absent: no limit.
    pub pacing_bps: Option<u64>,
    pub delivery_bps: Option<u64>,
    /// The last delivery rate sample was limited by the application.
    pub app_limited: Option<bool>,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub segments_out: Option<u64>,
    pub segments_in: Option<u64>,
    pub data_segments_out: Option<u64>,
    pub data_segments_in: Option<u64>,
    /// Segments that the peer received, in order or not, as its acknowledgements say.
    pub delivered_segments: Option<u64>,
    /// Those of them of which the peer says that they arrived with the mark "congestion experienced".
    pub marked_segments: Option<u64>,
    pub unsent_bytes: Option<u64>,
    pub busy_us: Option<u64>,
    pub receive_window_limited_us: Option<u64>,
    pub send_buffer_limited_us: Option<u64>,
    pub bytes_sent: Option<u64>,
    pub bytes_retransmitted: Option<u64>,
    pub dsack_duplicates: Option<u64>,
    pub reordering_seen: Option<u64>,
    pub out_of_order_segments: Option<u64>,
    /// The peer's advertised window, as known to this sender.
    pub peer_window_bytes: Option<u64>,
    /// The window this end advertises.
    pub own_window_bytes: Option<u64>,
    /// The receiver's own estimate of the RTT, of an end that receives payload.
    pub receive_rtt_us: Option<u64>,
    pub timeouts: Option<u64>,
    pub timeout_us: Option<u64>,
}

/// The readings of one end during the run: host, CPU, counters.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EndObservation {
    pub host: HostFacts,
    /// Sum over the streams.
    pub bytes: u64,
    /// CPU time of the whole process during the run.
    pub cpu_user_us: Option<u64>,
    pub cpu_system_us: Option<u64>,
    /// CPU cycles of the process during the run, if hardware counters exist.
    pub cycles: Option<u64>,
    /// Per core, during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreUsage>,
    /// Protocol counters that increased during the run, by the kernel's names
    /// (`TcpExt.TCPTimeouts`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protocol: BTreeMap<String, u64>,
    /// Interface counters that increased during the run (`wan0.rx_dropped`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interface: BTreeMap<String, u64>,
    /// The capture of this end; for a run in both directions only in the forward one.
    pub capture: Option<CaptureResult>,
    /// Of a sender; absent: only its sockets were watched.
    pub header_capture: Option<HeaderCapture>,
    /// The program at this end; for a run in both directions only in the forward one.
    pub program: Option<ProgramInfo>,
}

/// Information that the program at one end reports about itself: bounded text, not measured.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramInfo {
    /// Its version.
    pub longhaul: String,
    /// Command line without secrets.
    pub command: Option<String>,
    /// Log lines of this run, each with the time since its session began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// The CPU time of one core during the run.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CoreUsage {
    pub index: u32,
    pub elapsed_us: u64,
    pub busy_us: u64,
    pub softirq_us: u64,
    pub steal_us: u64,
    /// Maximum utilization in any sample interval, in thousandths.
    pub busiest_permille: Option<u32>,
}

/// Properties of an end host that affect throughput. Absent: could not be read.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    pub name: String,
    pub kernel: String,
    pub cores: u32,
    /// `net.ipv4.tcp_rmem`: min, default, max.
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    pub tcp_wmem_bytes: Option<[u64; 3]>,
    /// `net.core.rmem_max`; some kernels hide it inside a network namespace.
    pub rmem_max_bytes: Option<u64>,
    pub wmem_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_mem` in bytes: low, pressure, high; only in the initial namespace.
    pub tcp_mem_bytes: Option<[u64; 3]>,
    pub congestion_control: Option<String>,
    /// Other sysctls that affect TCP, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    pub interface: Option<HostInterface>,
}

/// The interface that the run used.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostInterface {
    pub name: String,
    pub mtu_bytes: Option<u32>,
    pub speed_bps: Option<u64>,
}
