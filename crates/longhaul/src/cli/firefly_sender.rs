//! Marks the connections of a command with an experiment and an activity (SciTags): their packets
//! with a flow label, and by datagrams (fireflies) at their start, every second, and at their end.
//!
//! Fireflies go to the peer of the connection, as those of flowd do, and to a collector.

use crate::command_failure::{CommandFailure, HOST};
use clap::Args;
use jiff::Timestamp;
use longhaul_import::firefly::{
    FIREFLY_PORT, FireflyMessage, FlowAddresses, FlowState, FlowTag, RANDOM_LABEL_BITS,
};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{ObservedStream, StreamEnd, ThroughputObservation};
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::throughput::{self, FlowLabelPattern, ThroughputProgress};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// The time between two fireflies of a flow in progress; that of flowd-go.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The mark of the data connections.
#[derive(Debug, Clone, Default, Args)]
pub struct MarkingArgs {
    /// Mark the data connections with a SciTag, EXPERIMENT:ACTIVITY, such as 2:19
    ///
    /// Packets of IPv6 get the flow label of the tag. Fireflies, datagrams about each connection, go
    /// to port 10514 of the server.
    #[arg(long, value_name = "TAG", value_parser = FlowTag::parse, help_heading = "Host", hide_short_help = true)]
    pub scitag: Option<FlowTag>,
    /// Send the fireflies to this collector too, HOST or HOST:PORT [default port: 10514]
    #[arg(
        long,
        value_name = "HOST",
        requires = "scitag",
        help_heading = "Host",
        hide_short_help = true
    )]
    pub firefly: Option<HostEndpoint>,
}

impl MarkingArgs {
    /// Returns the flow labels of the data connections.
    pub fn flow_label(&self) -> Option<FlowLabelPattern> {
        let pattern = |value| FlowLabelPattern { value, random_bits: RANDOM_LABEL_BITS };
        self.scitag.map(|tag| pattern(tag.flow_label()))
    }

    /// Returns the sender of fireflies; `None` without a tag.
    ///
    /// # Errors
    /// The collector has no address.
    pub fn firefly_sender(&self, is_tcp: bool) -> Result<Option<FireflySender>, CommandFailure> {
        let Some(scitag) = self.scitag else { return Ok(None) };
        let collector = self.firefly.as_ref().map(resolve_collector).transpose()?;
        Ok(Some(FireflySender {
            scitag,
            is_tcp,
            collector,
            host: throughput::initiator_party(None).host,
            flows: BTreeMap::new(),
            reported: None,
            failure: None,
        }))
    }
}

fn resolve_collector(endpoint: &HostEndpoint) -> Result<SocketAddr, CommandFailure> {
    let port = endpoint.port.unwrap_or(FIREFLY_PORT);
    let found = (endpoint.host.as_str(), port)
        .to_socket_addrs()
        .and_then(|mut all| all.next().ok_or_else(|| io::Error::other("the name has no address")));
    found.map_err(|error| {
        let text = format!("cannot send fireflies to {}", endpoint.host);
        CommandFailure::new(HOST, text).cause(&error)
    })
}

/// A flow whose start was reported.
struct ReportedFlow {
    started: Timestamp,
    /// The last time at which it had moved.
    updated: Timestamp,
    sends: bool,
    /// Its counters at that time.
    end: StreamEnd,
}

/// Sends the fireflies of the data connections of a command. Those of connections that are in
/// progress when it is dropped say that they have ended.
pub struct FireflySender {
    scitag: FlowTag,
    is_tcp: bool,
    collector: Option<SocketAddr>,
    host: String,
    flows: BTreeMap<FlowAddresses, ReportedFlow>,
    reported: Option<Instant>,
    /// The first error of sending.
    failure: Option<io::Error>,
}

impl FireflySender {
    /// Takes the progress of a run.
    pub fn observe_run(&mut self, progress: &ThroughputProgress) {
        for (sends, flow) in [(true, &progress.forward), (false, &progress.reverse)] {
            self.observe(sends, flow.iter().flat_map(|flow| &flow.own_ends));
        }
    }

    /// Takes the last counters of a run.
    pub fn observe_result(&mut self, observation: &ThroughputObservation) {
        for run in [Some(observation), observation.reverse.as_deref()].into_iter().flatten() {
            let own_end: fn(&ObservedStream) -> &StreamEnd =
                if run.forward { |stream| &stream.sender } else { |stream| &stream.receiver };
            self.observe(run.forward, run.streams.iter().map(own_end));
        }
    }

    /// Takes the counters of connections on which this host sends or receives. New ones have begun
    /// now.
    pub fn observe<'a>(&mut self, sends: bool, ends: impl IntoIterator<Item = &'a StreamEnd>) {
        let now = Timestamp::now();
        for end in ends {
            let address = |text: &Option<String>| text.as_ref()?.parse().ok();
            let Some((source, destination)) = address(&end.local).zip(address(&end.peer)) else {
                continue;
            };
            let flow = FlowAddresses { source, destination, is_tcp: self.is_tcp };
            let end = StreamEnd {
                samples: end.samples.last().cloned().into_iter().collect(),
                ..end.clone()
            };
            match self.flows.get_mut(&flow) {
                Some(known) if count_moved(&end) == count_moved(&known.end) => {}
                Some(known) => (known.updated, known.end) = (now, end),
                None => {
                    let begun = ReportedFlow { started: now, updated: now, sends, end };
                    self.send(FlowState::Start, &flow, &begun);
                    self.flows.insert(flow, begun);
                }
            }
        }
        self.report_progress();
    }

    fn report_progress(&mut self) {
        let begun = *self.reported.get_or_insert_with(Instant::now);
        if begun.elapsed() < REPORT_INTERVAL {
            return;
        }
        self.reported = Some(Instant::now());
        let flows = std::mem::take(&mut self.flows);
        for (flow, state) in &flows {
            self.send(FlowState::Ongoing, flow, state);
        }
        self.flows = flows;
    }

    /// Reports that all connections of a run have ended. Returns what its mark lacks.
    pub fn finish_run(&mut self) -> Vec<ReportCaveat> {
        let is_v4 = self.flows.keys().any(|flow| flow.destination.is_ipv4());
        let unlabelled = is_v4.then(|| {
            let text = "the packets have no flow label, because IPv4 has none: only fireflies carry \
                        the SciTag";
            ReportCaveat::new("no_flow_label", text)
        });
        self.end_flows();
        let unsent = self.failure.take().map(|error| {
            ReportCaveat::new("fireflies_not_sent", format!("cannot send fireflies: {error}"))
        });
        unlabelled.into_iter().chain(unsent).collect()
    }

    fn end_flows(&mut self) {
        for (flow, state) in std::mem::take(&mut self.flows) {
            self.send(FlowState::End, &flow, &state);
        }
    }

    fn send(&mut self, state: FlowState, flow: &FlowAddresses, reported: &ReportedFlow) {
        let message = self.describe_flow(state, flow, reported);
        let datagram = message.to_datagram(&self.host);
        let mut peer = flow.destination;
        peer.set_port(FIREFLY_PORT);
        let collector = self.collector.filter(|it| *it != peer);
        for to in [Some(peer), collector].into_iter().flatten() {
            if let Err(error) = send_datagram(&datagram, to) {
                self.failure.get_or_insert(error);
            }
        }
    }

    fn describe_flow(
        &self,
        state: FlowState,
        flow: &FlowAddresses,
        reported: &ReportedFlow,
    ) -> FireflyMessage {
        let ReportedFlow { started, updated, sends, end } = reported;
        let tcp = end.samples.last().and_then(|sample| sample.tcp.clone());
        let counted = |sent: bool| Some(if *sends == sent { end.bytes } else { 0 });
        FireflyMessage {
            state,
            flow: *flow,
            scitag: self.scitag,
            application: Some(concat!("longhaul v", env!("CARGO_PKG_VERSION")).to_owned()),
            started: *started,
            reported_at: Some(*updated),
            sent_bytes: tcp.as_ref().and_then(|tcp| tcp.bytes_acked).or_else(|| counted(true)),
            received_bytes: tcp
                .as_ref()
                .and_then(|tcp| tcp.bytes_received)
                .or_else(|| counted(false)),
            congestion_control: end.congestion_control.clone(),
            tcp,
        }
    }
}

/// Returns the counters that grow while a connection moves data.
fn count_moved(end: &StreamEnd) -> (u64, Option<u64>) {
    let tcp = end.samples.last().and_then(|sample| sample.tcp.as_ref());
    (end.bytes, tcp.and_then(|tcp| tcp.bytes_acked))
}

impl Drop for FireflySender {
    fn drop(&mut self) {
        self.end_flows();
    }
}

fn send_datagram(datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0))?.send_to(datagram, to).map(drop)
}
