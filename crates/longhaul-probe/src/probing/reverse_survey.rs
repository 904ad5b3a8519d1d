//! Server-side answers that need no trains: reverse route, reverse round trips, TCP options, flows.
//!
//! Probes only the address of the control connection's peer, and watches only connections with it.

use crate::flow_watch::{FlowSelector, watch_flows};
use crate::path::route_trace::TraceRequest;
use crate::path::{self, EchoSeriesRequest, ProbeTarget};
use crate::plan_limits::{MAX_TRACE_TIME, MAX_WATCHED_FLOWS};
use crate::probe_error::describe_error_chain;
use crate::wire::{
    Base64Bytes, FlowWatchRequest, MAX_BASE64_BYTES, ReverseTraceRequest, SessionReply,
    SessionRequest, SessionTcpOptions,
};
use longhaul_model::report::v1::flows::FlowsPlan;
use longhaul_model::report::v1::path::{ProbeProtocol, RoundTripPlan};
use longhaul_model::units::Rate;
use longhaul_sys::host::{ethtool, network_interface};
use longhaul_sys::tcp_info;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The server's knowledge of both addresses.
pub(crate) struct ReverseSurveyor {
    pub local: IpAddr,
    pub peer: IpAddr,
    pub device: Option<String>,
    /// The control connection.
    pub control: Option<Arc<TcpStream>>,
}

impl ReverseSurveyor {
    /// Answers a request that does not concern trains or files.
    pub fn answer(&self, ask: SessionRequest, stop: &AtomicBool) -> SessionReply {
        match ask {
            SessionRequest::Trace(back) => self.trace_reverse(back, stop),
            SessionRequest::Echoes(round_trips) => self.measure_round_trips(round_trips, stop),
            SessionRequest::Flows(watch) => self.watch_flows(watch, stop),
            SessionRequest::Options => SessionReply::Options(self.read_tcp_options()),
            SessionRequest::Arm(_)
            | SessionRequest::Collect(_)
            | SessionRequest::Send(_)
            | SessionRequest::Files(_) => {
                SessionReply::Failed("this request is not for the surveyor".to_owned())
            }
        }
    }

    fn probe_target(&self, protocol: ProbeProtocol, port: Option<u16>) -> ProbeTarget {
        ProbeTarget {
            destination: self.peer,
            source: Some(self.local),
            device: self.device.clone(),
            protocol,
            port,
            source_id: None,
        }
    }

    fn trace_reverse(&self, back: ReverseTraceRequest, stop: &AtomicBool) -> SessionReply {
        let asked = TraceRequest {
            target: self.probe_target(back.protocol, back.port),
            trace: back.trace,
            max_time: MAX_TRACE_TIME,
        };
        match path::route_trace::trace_route(&asked, stop, &mut |_| {}) {
            Ok(route) => SessionReply::Route(Box::new(route)),
            Err(error) => SessionReply::Failed(describe_error_chain(&error)),
        }
    }

    fn measure_round_trips(&self, round_trips: RoundTripPlan, stop: &AtomicBool) -> SessionReply {
        let asked = EchoSeriesRequest {
            target: self.probe_target(round_trips.protocol, None),
            round_trips,
            give_up_after: None,
        };
        match path::measure_round_trips(&asked, stop, &mut |_| {}) {
            Ok(measured) => SessionReply::Echoes(measured.echoes),
            Err(error) => SessionReply::Failed(describe_error_chain(&error)),
        }
    }

    /// Watches the connections between this host and the client's.
    fn watch_flows(&self, watch: FlowWatchRequest, stop: &AtomicBool) -> SessionReply {
        let plan = FlowsPlan {
            selector: self.peer.to_string(),
            duration_us: watch.duration_us,
            interval_us: watch.interval_us,
            flows_max: MAX_WATCHED_FLOWS,
            namespace: None,
        };
        let selector = FlowSelector::Peer(vec![self.peer]);
        let watched = watch_flows(&plan, &selector, stop);
        let encoded = watched.and_then(|observed| Ok(serde_json::to_vec(&observed)?));
        match encoded {
            Ok(bytes) if bytes.len() <= MAX_BASE64_BYTES => SessionReply::Flows(Base64Bytes(bytes)),
            Ok(_) => SessionReply::Failed("the flows are too many for one message".to_owned()),
            Err(error) => SessionReply::Failed(describe_error_chain(&error)),
        }
    }

    fn read_tcp_options(&self) -> SessionTcpOptions {
        let info = self.control.as_ref().and_then(|control| tcp_info::read_tcp_info(control).ok());
        SessionTcpOptions {
            in_force: info.as_ref().map(|info| info.options),
            mss_bytes: info.as_ref().map(|info| info.reading.mss_bytes as u32),
            offered: crate::path::read_offered_options(true),
        }
    }
}

/// Returns the speed of the interface between two addresses, if the kernel reports it.
pub(super) fn interface_bps(local: IpAddr, peer: IpAddr) -> Option<u64> {
    let name = network_interface::interface_between(local, peer)?;
    ethtool::link_speed(&name).map(Rate::as_bps)
}
