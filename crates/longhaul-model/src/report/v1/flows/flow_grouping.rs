//! Groups the flows that were watched at one end to transfers.

use super::{FlowsPlan, ObservedTransfer, ProcessActivity, ProcessIdentity};
use crate::report::v1::capture::CapturedFlow;
use crate::report::v1::observation::{
    BothEnds, EndObservation, HostFacts, ObservedStream, SocketBuffer, StreamEnd, StreamSample,
    TcpOptions, TcpReading, ThroughputObservation,
};
use crate::report::v1::plan::{StopCondition, ThroughputPlan};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A flow that moved fewer payload bytes in each direction during the watch is not a transfer.
pub const MIN_TRANSFER_BYTES: u64 = 16 * 1024;

/// A watched flow.
#[derive(Debug, Clone)]
pub struct FlowSeries {
    pub process: Option<ProcessIdentity>,
    pub activity: Option<ProcessActivity>,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub congestion_control: Option<String>,
    pub max_pacing_bps: Option<u64>,
    pub options: Option<TcpOptions>,
    /// The flow in a capture, if that is where its samples come from.
    pub captured: Option<CapturedFlow>,
    /// In the order of time.
    pub samples: Vec<FlowSample>,
}

/// One look at a flow, with the kernel's counters as they are.
#[derive(Debug, Clone, Default)]
pub struct FlowSample {
    pub at_us: u64,
    /// Bytes that the application has not read.
    pub unread_bytes: u64,
    /// Bytes that the peer has not acknowledged, sent or not.
    pub unacknowledged_bytes: u64,
    pub memory: Option<FlowMemory>,
    /// CPU time of the busiest thread of the process, and its time without a core.
    pub cpu_us: Option<u64>,
    pub core_wait_us: Option<u64>,
    pub tcp: TcpReading,
}

impl FlowSample {
    /// Returns a sample of which TCP_INFO is all that is known.
    pub fn from_tcp_info(at_us: u64, tcp: TcpReading) -> FlowSample {
        FlowSample {
            at_us,
            unacknowledged_bytes: tcp.unacked_bytes.saturating_add(tcp.unsent_bytes.unwrap_or(0)),
            tcp,
            ..FlowSample::default()
        }
    }
}

/// The memory of a socket, with the kernel's overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowMemory {
    pub receive_buffer_bytes: u64,
    pub send_buffer_bytes: u64,
    /// Queued for sending or not yet acknowledged.
    pub send_queue_bytes: u64,
}

/// Returns the payload bytes of the busiest flow that is no transfer.
pub fn find_small_flow_bytes(flows: &[FlowSeries]) -> Option<u64> {
    flows.iter().map(FlowSeries::moved_bytes).filter(|bytes| *bytes < MIN_TRANSFER_BYTES).max()
}

/// Groups flows to transfers, the busiest first. Flows of one process to one peer that did not run at the
/// same time are transfers of their own.
pub fn group_flows(
    flows: impl IntoIterator<Item = FlowSeries>,
    plan: &FlowsPlan,
    host: &HostFacts,
) -> Vec<ObservedTransfer> {
    let mut groups: BTreeMap<TransferKey, Vec<FlowSeries>> = BTreeMap::new();
    for flow in flows.into_iter().filter(|it| it.moved_bytes() >= MIN_TRANSFER_BYTES) {
        groups.entry(TransferKey::of(&flow)).or_default().push(flow);
    }
    let groups = groups.into_iter().flat_map(|(key, flows)| {
        split_by_time(flows).into_iter().map(move |flows| (key.clone(), flows))
    });
    let mut transfers: Vec<ObservedTransfer> =
        groups.map(|(key, flows)| key.build_transfer(plan, flows, host)).collect();
    transfers.sort_by_key(|it| Reverse(it.run.ends.receiver.bytes));
    transfers
}

/// Flows that share this part of the longer one's time belong together.
const TOGETHER_RATIO: f64 = 0.5;

/// Splits flows into those that ran at the same time, the longest first.
fn split_by_time(mut flows: Vec<FlowSeries>) -> Vec<Vec<FlowSeries>> {
    let length = |flow: &FlowSeries| flow.last_us().saturating_sub(flow.first_us());
    flows.sort_by_key(|flow| Reverse(length(flow)));
    let mut groups: Vec<Vec<FlowSeries>> = Vec::new();
    for flow in flows {
        let runs_with = |group: &&mut Vec<FlowSeries>| {
            let longest = &group[0];
            let end_us = flow.last_us().min(longest.last_us());
            let shared_us = end_us.saturating_sub(flow.first_us().max(longest.first_us()));
            shared_us as f64 >= TOGETHER_RATIO * length(longest) as f64
        };
        match groups.iter_mut().find(runs_with) {
            Some(group) => group.push(flow),
            None => groups.push(vec![flow]),
        }
    }
    groups
}

/// The flows that belong to one transfer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TransferKey {
    pid: Option<u32>,
    local: IpAddr,
    peer: IpAddr,
    service_port: u16,
    sends: bool,
}

impl TransferKey {
    fn of(flow: &FlowSeries) -> TransferKey {
        TransferKey {
            pid: flow.process.as_ref().map(|process| process.pid),
            local: flow.local.ip(),
            peer: flow.peer.ip(),
            // Clients have the higher, ephemeral ports.
            service_port: flow.peer.port().min(flow.local.port()),
            sends: flow.sends(),
        }
    }

    fn build_transfer(
        self,
        plan: &FlowsPlan,
        mut flows: Vec<FlowSeries>,
        host: &HostFacts,
    ) -> ObservedTransfer {
        flows.sort_by_key(FlowSeries::first_us);
        let end_us = flows.iter().map(FlowSeries::last_us).max().unwrap_or(0);
        let elapsed_us = end_us.saturating_sub(flows.first().map_or(0, FlowSeries::first_us));
        let settings = ThroughputPlan {
            streams: flows.len() as u32,
            stop: StopCondition::TimeUs(plan.duration_us),
            interval_us: plan.interval_us,
            congestion_control: flows.first().and_then(|flow| flow.congestion_control.clone()),
            pacing_bps: flows.iter().filter_map(|flow| flow.max_pacing_bps).min(),
            ..ThroughputPlan::default()
        };
        let (process, activity) =
            flows.first().map_or((None, None), |flow| (flow.process.clone(), flow.activity));
        let captured_flows = flows.iter().filter_map(|flow| flow.captured.clone()).collect();
        let flows = flows.into_iter().zip(0..);
        let streams: Vec<ObservedStream> =
            flows.map(|(flow, index)| flow.into_stream(index, self.sends)).collect();
        let count = |of: fn(&ObservedStream) -> u64| streams.iter().map(of).sum();
        let near = EndObservation { host: host.clone(), ..EndObservation::default() };
        let (mut sender, mut receiver) = (near, EndObservation::default());
        if !self.sends {
            std::mem::swap(&mut sender, &mut receiver);
        }
        sender.bytes = count(|stream| stream.sender.bytes);
        receiver.bytes = count(|stream| stream.receiver.bytes);
        let run = ThroughputObservation {
            forward: self.sends,
            elapsed_us,
            idle_rtt_us: None,
            clock_error_us: None,
            same_host: self.peer.is_loopback(),
            same_boot: None,
            streams,
            ends: BothEnds { sender, receiver },
            reverse: None,
        };
        ObservedTransfer {
            process,
            peer: self.peer.to_string(),
            service_port: self.service_port,
            sends: self.sends,
            plan: settings,
            run,
            activity,
            watched_at: None,
            captured_flows,
        }
    }
}

impl FlowSeries {
    /// Creates a flow of which only these samples are known, in the order of time.
    pub fn new(local: SocketAddr, peer: SocketAddr, samples: Vec<FlowSample>) -> FlowSeries {
        FlowSeries {
            process: None,
            activity: None,
            local,
            peer,
            congestion_control: None,
            max_pacing_bps: None,
            options: None,
            captured: None,
            samples,
        }
    }

    fn first_us(&self) -> u64 {
        self.samples.first().map_or(0, |sample| sample.at_us)
    }

    fn last_us(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.at_us)
    }

    /// Returns the growth of a counter from the first look to the last.
    fn count_growth(&self, of: fn(&TcpReading) -> Option<u64>) -> u64 {
        let ends = self.samples.first().zip(self.samples.last());
        let grown = ends.and_then(|(first, last)| of(&last.tcp)?.checked_sub(of(&first.tcp)?));
        grown.unwrap_or(0)
    }

    /// Returns the payload bytes that were acknowledged during the watch.
    pub fn sent_bytes(&self) -> u64 {
        self.count_growth(|tcp| tcp.bytes_acked)
    }

    pub fn retransmitted_segments(&self) -> u64 {
        self.count_growth(|tcp| Some(tcp.retransmitted_segments))
    }

    fn received_bytes(&self) -> u64 {
        self.count_growth(|tcp| tcp.bytes_received)
    }

    fn moved_bytes(&self) -> u64 {
        self.sent_bytes().max(self.received_bytes())
    }

    /// Returns true if more payload leaves this end than arrives at it.
    fn sends(&self) -> bool {
        self.sent_bytes() >= self.received_bytes()
    }

    /// Returns the flow as a stream in one direction, observed at one end.
    fn into_stream(self, index: u32, sends: bool) -> ObservedStream {
        let bytes = if sends { self.sent_bytes() } else { self.received_bytes() };
        let duration_us = self.last_us().saturating_sub(self.first_us());
        let end = |local: SocketAddr, peer: SocketAddr| StreamEnd {
            local: Some(local.to_string()),
            peer: Some(peer.to_string()),
            bytes,
            started_us: self.first_us(),
            duration_us,
            ..StreamEnd::default()
        };
        let far = end(self.peer, self.local);
        let last = self.samples.last();
        let memory = last.and_then(|sample| sample.memory);
        let near = StreamEnd {
            send_buffer: memory.map(|it| describe_buffer(it.send_buffer_bytes)),
            receive_buffer: memory.map(|it| describe_buffer(it.receive_buffer_bytes)),
            mss_bytes: last.map(|sample| sample.tcp.mss_bytes as u32),
            congestion_control: self.congestion_control.clone(),
            options: self.options,
            ..end(self.local, self.peer)
        };
        let base = self.samples.first().cloned().unwrap_or_default();
        let samples = self.samples.into_iter();
        let samples = samples.map(|sample| sample.into_sample(&base, sends)).collect();
        let near = StreamEnd { samples, ..near };
        let (sender, receiver) = if sends { (near, far) } else { (far, near) };
        ObservedStream { index, sender, receiver }
    }
}

fn describe_buffer(stored_bytes: u64) -> SocketBuffer {
    SocketBuffer { asked_bytes: None, granted_bytes: stored_bytes / 2, stored_bytes }
}

impl FlowSample {
    /// Returns the sample with its counters as growth since `base`.
    fn into_sample(self, base: &FlowSample, sends: bool) -> StreamSample {
        let tcp = subtract_counters(&self.tcp, &base.tcp);
        let (acked, received) = (tcp.bytes_acked.unwrap_or(0), tcp.bytes_received.unwrap_or(0));
        let (bytes, queue) = if sends {
            (acked.saturating_add(self.unacknowledged_bytes), self.unacknowledged_bytes)
        } else {
            (received.saturating_sub(self.unread_bytes), self.unread_bytes)
        };
        let memory = self.memory.filter(|_| sends);
        let grown =
            |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base.unwrap_or(0)));
        StreamSample {
            at_us: self.at_us,
            bytes,
            blocked_us: 0,
            cpu_us: grown(self.cpu_us, base.cpu_us),
            core_wait_us: grown(self.core_wait_us, base.core_wait_us),
            queue_bytes: Some(queue),
            send_buffer_ratio: memory
                .map(|it| it.send_queue_bytes as f64 / it.send_buffer_bytes.max(1) as f64),
            tcp: Some(tcp),
        }
    }
}

/// Returns the reading with its counters as growth since `base`.
fn subtract_counters(now: &TcpReading, base: &TcpReading) -> TcpReading {
    let grown = |of: fn(&TcpReading) -> Option<u64>| Some(of(now)?.saturating_sub(of(base)?));
    TcpReading {
        retransmitted_segments: now
            .retransmitted_segments
            .saturating_sub(base.retransmitted_segments),
        bytes_acked: grown(|it| it.bytes_acked),
        bytes_received: grown(|it| it.bytes_received),
        segments_out: grown(|it| it.segments_out),
        segments_in: grown(|it| it.segments_in),
        data_segments_out: grown(|it| it.data_segments_out),
        data_segments_in: grown(|it| it.data_segments_in),
        delivered_segments: grown(|it| it.delivered_segments),
        marked_segments: grown(|it| it.marked_segments),
        busy_us: grown(|it| it.busy_us),
        receive_window_limited_us: grown(|it| it.receive_window_limited_us),
        send_buffer_limited_us: grown(|it| it.send_buffer_limited_us),
        bytes_sent: grown(|it| it.bytes_sent),
        bytes_retransmitted: grown(|it| it.bytes_retransmitted),
        dsack_duplicates: grown(|it| it.dsack_duplicates),
        reordering_seen: grown(|it| it.reordering_seen),
        out_of_order_segments: grown(|it| it.out_of_order_segments),
        timeouts: grown(|it| it.timeouts),
        timeout_us: grown(|it| it.timeout_us),
        ..now.clone()
    }
}
