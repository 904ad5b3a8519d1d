//! Parts that this host measures alone: round trips, route, path MTU, TCP options.

use super::{PathPart, PathRun};
use crate::path::mtu_probe::{self, MtuSearchOutcome};
use crate::path::path_error::PathError;
use crate::path::round_trips::{self, EchoSeriesRequest, EchoSeriesResult};
use crate::path::route_trace::{TraceRequest, trace_route};
use crate::path::{ProbeTarget, tcp_options};
use longhaul_model::report::v1::path::{ObservedRoute, ProbeEcho, ProbeProtocol, TracePlan};
use std::time::Duration;

/// Unanswered probes after which another protocol is tried.
const GIVE_UP_AFTER: u32 = 4;
/// Time limits of a trace, without and with alternatives.
const MAX_TRACE_TIME: Duration = Duration::from_secs(60);
const MAX_MULTIPATH_TIME: Duration = Duration::from_secs(180);

impl PathRun<'_> {
    /// Measures with the requested protocol, then with others until the destination answers.
    pub(super) fn measure_round_trips(&mut self) {
        if !self.start_part(self.plan.round_trips.probes > 0, PathPart::RoundTrips) {
            return;
        }
        let wanted = self.plan.round_trips.protocol;
        let all = [ProbeProtocol::Icmp, ProbeProtocol::Tcp, ProbeProtocol::Udp];
        let others = all.into_iter().filter(|protocol| *protocol != wanted);
        let mut troubles = Vec::new();
        for protocol in std::iter::once(wanted).chain(others) {
            match self.run_echo_series(protocol) {
                Ok(ran) if ran.answered > 0 => {
                    self.answered = Some(protocol);
                    if !troubles.is_empty() {
                        let why = super::describe_substitute_protocol(&troubles, protocol);
                        self.record_missing(PathPart::RoundTrips, why);
                    }
                    if protocol == ProbeProtocol::Udp && ran.answered < ran.echoes.sent {
                        self.record_missing(PathPart::RoundTrips, super::UDP_LIMIT);
                    }
                    self.observation.round_trips = Some(ran.echoes);
                    return;
                }
                Ok(ran) => {
                    troubles.push(super::describe_unanswered_probes(protocol, ran.unreachable));
                    // The requested series stays in the report, unanswered.
                    self.observation.round_trips.get_or_insert(ran.echoes);
                }
                Err(error) => troubles.push(super::describe_path_error(&error)),
            }
            if self.is_stopped() {
                break;
            }
        }
        self.record_missing(PathPart::RoundTrips, troubles.join("; "));
    }

    fn run_echo_series(&mut self, protocol: ProbeProtocol) -> Result<EchoSeriesResult, PathError> {
        let asked = EchoSeriesRequest {
            target: self.probe_target(protocol),
            round_trips: self.plan.round_trips.clone(),
            give_up_after: Some(GIVE_UP_AFTER.min(self.plan.round_trips.probes)),
        };
        self.echoes.clear();
        let stop = self.stop;
        round_trips::measure_round_trips(&asked, stop, &mut |echo: &ProbeEcho| {
            self.echoes.push(*echo);
            self.report_progress(PathPart::RoundTrips, None, None);
        })
    }

    /// Returns the target of probes; for TCP with the port where longhaul would listen.
    fn probe_target(&self, protocol: ProbeProtocol) -> ProbeTarget {
        ProbeTarget {
            destination: self.destination(),
            source: self.target.bind.address,
            device: self.target.bind.device.clone(),
            protocol,
            port: match protocol {
                ProbeProtocol::Icmp => None,
                ProbeProtocol::Udp => self.plan.port,
                ProbeProtocol::Tcp => self.plan.port.or(Some(self.target.port)),
            },
            source_id: self.source_id,
        }
    }

    pub(super) fn trace_request(&self, trace: &TracePlan, protocol: ProbeProtocol) -> TraceRequest {
        let most_time =
            if trace.confidence_ratio.is_some() { MAX_MULTIPATH_TIME } else { MAX_TRACE_TIME };
        TraceRequest {
            target: self.probe_target(protocol),
            trace: trace.clone(),
            max_time: most_time,
        }
    }

    /// Traces with the requested protocol, or with UDP if privileges are missing.
    pub(super) fn trace_route(&mut self) {
        let Some(asked) = self.plan.trace.as_ref() else {
            return;
        };
        if !self.start_part(true, PathPart::Route) {
            return;
        }
        let begin = self.begin.elapsed();
        let traced = match self.trace_with_protocol(asked, self.plan.protocol) {
            Err(error @ PathError::Privilege { .. })
                if self.plan.protocol != ProbeProtocol::Udp =>
            {
                let troubles = [super::describe_path_error(&error)];
                self.record_missing(
                    PathPart::Route,
                    super::describe_substitute_protocol(&troubles, ProbeProtocol::Udp),
                );
                self.trace_with_protocol(asked, ProbeProtocol::Udp)
            }
            traced => traced,
        };
        match traced {
            Ok(route) => {
                self.observation.source = Some(route.from.clone());
                self.observation.route =
                    Some(ObservedRoute { at_us: begin.as_micros() as u64, ..route });
            }
            Err(error) => {
                self.record_missing(PathPart::Route, super::describe_path_error(&error));
            }
        }
    }

    fn trace_with_protocol(
        &mut self,
        asked: &TracePlan,
        protocol: ProbeProtocol,
    ) -> Result<ObservedRoute, PathError> {
        let asked = self.trace_request(asked, protocol);
        let stop = self.stop;
        trace_route(&asked, stop, &mut |route| {
            self.report_progress(PathPart::Route, Some(route), None);
        })
    }

    /// Searches with ICMP echoes if they are answered, otherwise with UDP.
    pub(super) fn search_mtu(&mut self) {
        if !self.start_part(self.plan.mtu, PathPart::Mtu) {
            return;
        }
        let protocol = match self.answered {
            Some(ProbeProtocol::Udp | ProbeProtocol::Tcp) => ProbeProtocol::Udp,
            Some(ProbeProtocol::Icmp) | None => ProbeProtocol::Icmp,
        };
        match mtu_probe::search_path_mtu(&self.probe_target(protocol), self.stop) {
            Ok((end, search)) => {
                let why = match end {
                    MtuSearchOutcome::Found => None,
                    MtuSearchOutcome::NoAnswer => Some(format!(
                        "no packet of any size is answered; {}",
                        super::describe_unanswered_probes(protocol, None)
                    )),
                    MtuSearchOutcome::Exhausted => Some(describe_unfinished_search(
                        search.largest_passed(),
                        search.smallest_failed(),
                    )),
                };
                if let Some(why) = why {
                    self.record_missing(PathPart::Mtu, why);
                }
                self.observation.mtu = Some(search.result());
            }
            Err(error) => {
                self.record_missing(PathPart::Mtu, super::describe_path_error(&error));
            }
        }
    }

    /// Reads the options of a connection to longhaul's port; any listening program will do.
    pub(super) fn read_tcp_options(&mut self) {
        if !self.start_part(self.plan.options, PathPart::Options) {
            return;
        }
        let bind = &self.target.bind;
        let timeout = self.target.connect_timeout;
        match tcp_options::probe_local_options(
            self.address,
            bind.address,
            bind.device.as_deref(),
            timeout,
        ) {
            Ok(options) => self.observation.options = Some(options),
            Err(error) => {
                let why = format!(
                    "TCP options are read from a connection, and {} accepts none: {error}; pass \
                     a port on which a service listens",
                    self.address
                );
                self.record_missing(PathPart::Options, why);
            }
        }
    }
}

fn describe_unfinished_search(low: Option<u32>, high: Option<u32>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(
            "the search was not completed: packets of {low} bytes pass, those of {high} do not"
        ),
        (Some(low), None) => format!("the search was not completed: packets of {low} bytes pass"),
        (None, _) => "the search was not completed: no packet was answered".to_owned(),
    }
}
