//! TCP flows of other programs on this host, watched without touching them.
//!
//! The flows of one process to one peer in one direction are a *transfer*. A transfer is observed at
//! this host's end only, so it is a [`ThroughputObservation`] in which the other end has no samples.

pub mod flow_grouping;

use super::HostPair;
use super::analysis::{Limiter, ThroughputAnalysis};
use super::capture::CapturedFlow;
use super::observation::{HostFacts, StreamEnd, ThroughputObservation};
use super::plan::ThroughputPlan;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::net::SocketAddr;

/// The requested watch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlowsPlan {
    /// The flows to watch, as typed: a process, a port, a peer, or `all`.
    pub selector: String,
    pub duration_us: u64,
    pub interval_us: u64,
    /// The maximum number of flows that are watched at once, the busiest first.
    pub flows_max: u32,
    /// The network namespace, if not that of the program: a name, or `pid` and a number.
    pub namespace: Option<String>,
}

/// The watched flows.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowsObservation {
    pub host: HostFacts,
    pub elapsed_us: u64,
    /// Established connections of the namespace that match the selector, watched or not.
    pub matching_flows: u64,
    /// Payload bytes of one direction of the busiest flow that moved too few to be a transfer; absent:
    /// none was watched.
    pub small_flow_bytes: Option<u64>,
    /// The busiest transfer first.
    pub transfers: Vec<ObservedTransfer>,
}

/// The flows of one process to one peer in one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedTransfer {
    /// Absent: the process is unknown, or may not be read.
    pub process: Option<ProcessIdentity>,
    /// The address of the peer.
    pub peer: String,
    /// The port of the peer if this end is the client, or of this end if it is the server.
    pub service_port: u16,
    /// True: this end sends.
    pub sends: bool,
    /// The settings in force, as far as the kernel shows them.
    pub plan: ThroughputPlan,
    pub run: ThroughputObservation,
    pub activity: Option<ProcessActivity>,
    /// The host that watched the flows, if that is not the host of the report.
    pub watched_at: Option<String>,
    /// The flows as they are in a capture; empty if this host's sockets were watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captured_flows: Vec<CapturedFlow>,
}

impl ObservedTransfer {
    /// Returns true if the other one is the view of the other end: they have a flow in common. An address
    /// may be translated on the way; the ports seldom are.
    pub fn shares_flow_with(&self, other: &ObservedTransfer) -> bool {
        let own: Vec<[u16; 2]> = self.list_ports().collect();
        other.list_ports().any(|[local, peer]| own.contains(&[peer, local]))
    }

    /// Returns the ports of each flow: that of the end that watched, and that of its peer.
    fn list_ports(&self) -> impl Iterator<Item = [u16; 2]> {
        let port =
            |address: &Option<String>| Some(address.as_ref()?.parse::<SocketAddr>().ok()?.port());
        let ports = move |end: &StreamEnd| Some([port(&end.local)?, port(&end.peer)?]);
        let streams = self.run.streams.iter();
        streams.filter_map(move |it| ports(if self.sends { &it.sender } else { &it.receiver }))
    }
}

/// The process that holds the sockets of a transfer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// 0: no process, but experiment and activity of a transfer of which fireflies told.
    pub pid: u32,
    /// The name of the program, as the kernel gives it (at most 15 bytes), or of the activity.
    pub name: String,
    /// The name of the process that started it, if that is no shell or service manager.
    pub parent: Option<String>,
}

/// The activity of a process, all threads together, during the watch.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessActivity {
    pub elapsed_us: u64,
    pub threads: u32,
    /// CPU time of all threads.
    pub cpu_us: u64,
    /// CPU time of the thread that used most of it.
    pub busiest_thread_us: u64,
    /// Samples of the states of its threads...
    pub samples: u32,
    /// ... of which one was in uninterruptible sleep, which is a wait for a disk or a file system.
    pub disk_wait_samples: u32,
    /// The longest time for which one of its threads waited for block devices (delay accounting); absent: none
    /// did, or `kernel.task_delayacct` is off.
    pub disk_wait_us: Option<u64>,
    /// The time in which some task of its control group waited for input or output, and for memory to be freed
    /// (pressure stall information); absent: not counted.
    pub io_stall_us: Option<u64>,
    pub memory_stall_us: Option<u64>,
    /// Bytes read from and written to block devices; absent: not permitted.
    pub disk_read_bytes: Option<u64>,
    pub disk_write_bytes: Option<u64>,
    /// Time for which its control group was throttled by its CPU quota.
    pub throttled_us: Option<u64>,
    /// The quota, in thousandths of a core.
    pub quota_core_permille: Option<u64>,
}

/// Conclusions about the watched transfers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowsAnalysis {
    pub version: u32,
    /// In the order of the observation.
    pub transfers: Vec<TransferAnalysis>,
}

/// Conclusions about one transfer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferAnalysis {
    pub run: ThroughputAnalysis,
    /// Absent: no requests that are answered by data were seen.
    pub requests: Option<RequestPattern>,
    /// The places of its findings in the list of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finding_index: Vec<u32>,
}

/// Data that moves in answer to requests, a bounded number of bytes per round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPattern {
    /// Bytes per request.
    pub request_bytes: u64,
    /// Bytes per round trip of each flow.
    pub round_trip_bytes: u64,
    /// The rate that this allows, all flows together.
    pub bound_bps: u64,
}

/// The transfers of one name with one peer, in one direction, on one day.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DailyTransfers {
    /// The day on which they ended, UTC: `2026-11-28`.
    pub day: String,
    pub host: String,
    /// The program, or the experiment and activity.
    pub program: String,
    pub peer: String,
    /// True: the host sends.
    pub sends: bool,
    pub transfers: u64,
    pub bytes: u64,
    /// The bytes by what limited their transfer, most first.
    pub limits: Vec<LimitedBytes>,
}

/// The bytes of the transfers that had one limiter.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LimitedBytes {
    pub limiter: Limiter,
    pub bytes: u64,
    /// The share of all bytes of these transfers.
    pub share_ratio: f64,
}

/// The transfers of a series that ended on one day and had one limiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedTransfers {
    /// UTC: `2026-11-28`.
    pub day: String,
    pub pair: HostPair,
    pub limiter: Limiter,
    pub transfers: u64,
    pub bytes: u64,
}

/// The identity of a series of transfers: all transfers of the programs of one name on a host with
/// one peer in one direction.
///
/// Its pair has `HOST/PROGRAM` at one end and the address of the peer at the other. Names of hosts
/// have no slash, so that it is never the pair of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferIdentity<'a> {
    pub host: &'a str,
    pub program: &'a str,
    pub peer: &'a str,
    pub sends: bool,
}

impl<'a> TransferIdentity<'a> {
    /// Returns the identity that a pair names, or `None` for the pair of a path.
    pub fn of_pair(pair: &'a HostPair) -> Option<TransferIdentity<'a>> {
        let read = |near: &'a str, peer: &'a str, sends: bool| {
            let (host, program) = near.split_once('/')?;
            Some(TransferIdentity { host, program, peer, sends })
        };
        read(&pair.from, &pair.to, true).or_else(|| read(&pair.to, &pair.from, false))
    }

    /// Returns the pair of its series, in the direction of the payload.
    pub fn to_pair(&self) -> HostPair {
        let (near, peer) = (format!("{}/{}", self.host, self.program), self.peer.to_owned());
        if self.sends {
            HostPair { from: near, to: peer }
        } else {
            HostPair { from: peer, to: near }
        }
    }

    /// Returns the name in a sentence: `rclone to 192.0.2.7`.
    pub fn title(&self) -> String {
        let way = if self.sends { "to" } else { "from" };
        format!("{} {way} {}", self.program, self.peer)
    }
}
