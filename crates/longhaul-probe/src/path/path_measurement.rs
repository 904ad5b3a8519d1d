//! A path measurement: runs every requested part in order.
//!
//! A part that fails is listed in [`PathObservation::missing`] with its remedy, and the others still
//! run. The target need not run longhaul; parts that require it are then missing.

mod local_parts;

use crate::path::PathError;
use crate::path::hop_watch::{self, HopWatchRequest};
use crate::path::path_error::protocol_name;
use crate::probe_error::{ProbeError, describe_error_chain};
use crate::probing::ProbeClient;
use crate::supervise::StopFlag;
use crate::throughput::{self, ChosenAddress, TargetHost};
use longhaul_model::report::v1::path::{
    MissingPart, ObservedRoute, PathObservation, PathPlan, PathTcpOptions, ProbeEcho, ProbeProtocol,
};
use longhaul_model::report::v1::{RunParty, plan};
use longhaul_model::serde_name::name_variant;
use longhaul_sys::host::kernel_route;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Result of a path measurement.
#[derive(Debug, Clone)]
pub struct PathOutcome {
    pub observation: PathObservation,
    /// The address whose path was measured, for further measurements of this path.
    pub chosen: Option<ChosenAddress>,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub started_at: SystemTime,
    pub duration: Duration,
    /// The bulk run under which hops were watched: its plan and its outcome.
    pub load: Option<(plan::ThroughputPlan, throughput::ThroughputOutcome)>,
}

/// The current step of a path measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPart {
    /// Opening a session with the server, if longhaul runs there.
    #[serde(rename = "reverse")]
    Session,
    RoundTrips,
    Route,
    Mtu,
    Options,
    /// Querying the server's view of the path.
    Reverse,
    /// Watching hops under load.
    Load,
}

/// Progress of a path measurement.
#[derive(Debug, Clone, Copy)]
pub struct PathProgress<'a> {
    pub part: PathPart,
    /// Time since the start of the measurement.
    pub elapsed: Duration,
    /// Results of all finished parts.
    pub observation: &'a PathObservation,
    /// Round trips to the destination so far, in sending order.
    pub echoes: &'a [ProbeEcho],
    /// The partial route while it is traced.
    pub route: Option<&'a ObservedRoute>,
    /// Progress of the load while it runs.
    pub load: Option<&'a throughput::ThroughputProgress>,
}

/// Measures the path to `target`, with probes from the source port or ICMP identifier `source_id`
/// if it is free. Calls `watch` on every new result, and about five times a second
/// during a bulk run.
///
/// Blocks. Every part has its own deadline. `stop` ends the current part within 100 ms (a query to
/// the server: within 200 ms) and skips the remaining ones. The outcome contains the results up to
/// then.
///
/// # Errors
/// The name has no address of the requested family. All other failures are part of the observation.
pub fn run(
    target: &TargetHost,
    plan: &PathPlan,
    source_id: Option<u16>,
    stop: &StopFlag,
    watch: &mut dyn FnMut(&PathProgress<'_>),
) -> Result<PathOutcome, ProbeError> {
    let started_at = SystemTime::now();
    let chosen = throughput::choose_path_address(target)?;
    let address = chosen.address;
    let target = &target.with_address(chosen.clone());
    let mut look = PathRun {
        target,
        plan,
        source_id,
        address,
        stop,
        watch,
        begin: Instant::now(),
        observation: PathObservation {
            address: address.ip().to_canonical().to_string(),
            ..PathObservation::default()
        },
        echoes: Vec::new(),
        answered: None,
        responder: None,
        load: None,
    };
    look.measure_round_trips();
    look.trace_route();
    look.search_mtu();
    look.read_tcp_options();
    look.measure_reverse();
    look.measure_hops_under_load();
    Ok(look.into_outcome(started_at))
}

/// A path measurement in progress.
struct PathRun<'a> {
    target: &'a TargetHost,
    plan: &'a PathPlan,
    source_id: Option<u16>,
    address: SocketAddr,
    stop: &'a StopFlag,
    watch: &'a mut dyn FnMut(&PathProgress<'_>),
    begin: Instant,
    observation: PathObservation,
    /// Round trips so far.
    echoes: Vec<ProbeEcho>,
    /// Protocol of the probes that the destination answers.
    answered: Option<ProbeProtocol>,
    responder: Option<RunParty>,
    load: Option<(plan::ThroughputPlan, throughput::ThroughputOutcome)>,
}

impl PathRun<'_> {
    fn destination(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether a part runs now; records it as missing if a stop prevents it.
    fn start_part(&mut self, asked: bool, part: PathPart) -> bool {
        if asked && self.is_stopped() {
            self.record_missing(part, STOPPED);
        }
        let begins = asked && !self.is_stopped();
        if begins {
            self.report_progress(part, None, None);
        }
        begins
    }

    fn report_progress(
        &mut self,
        part: PathPart,
        route: Option<&ObservedRoute>,
        load: Option<&throughput::ThroughputProgress>,
    ) {
        (self.watch)(&PathProgress {
            part,
            elapsed: self.begin.elapsed(),
            observation: &self.observation,
            echoes: &self.echoes,
            route,
            load,
        });
    }

    fn record_missing(&mut self, part: PathPart, why: impl Into<String>) {
        self.observation
            .missing
            .push(MissingPart { what: name_variant(&part).to_owned(), why: why.into() });
    }

    fn into_outcome(self, started_at: SystemTime) -> PathOutcome {
        let initiator =
            RunParty { address: self.observation.source.clone(), ..crate::local_party_info() };
        let responder = RunParty {
            host: self.target.host.clone(),
            address: Some(self.observation.address.clone()),
            failed_addresses: self.target.failed_addresses(),
            port: self.target.changed_port(),
            ..self.responder.unwrap_or_default()
        };
        PathOutcome {
            chosen: self.target.chosen.clone(),
            observation: self.observation,
            initiator,
            responder,
            started_at,
            duration: self.begin.elapsed(),
            load: self.load,
        }
    }
}

pub(in crate::path) const STOPPED: &str = "interrupted before this step";

fn add_hint(mut text: String, hint: Option<impl AsRef<str>>) -> String {
    if let Some(hint) = hint {
        text.push_str("; ");
        text.push_str(hint.as_ref());
    }
    text
}

pub(in crate::path) fn describe_path_error(error: &PathError) -> String {
    add_hint(describe_error_chain(error), error.hint())
}

pub(in crate::path) fn describe_server_error(error: &ProbeError) -> String {
    add_hint(describe_error_chain(error), error.hint())
}

/// Describes a part that requires longhaul on the target, which did not take part.
pub(in crate::path) fn describe_missing_server(what: &str, error: &ProbeError) -> String {
    format!("{what} requires `longhaul serve` on the target: {}", describe_server_error(error))
}

/// Describes an unanswered series of probes.
fn describe_unanswered_probes(
    protocol: ProbeProtocol,
    denied: Option<(IpAddr, &'static str)>,
) -> String {
    let name = protocol_name(protocol);
    match denied {
        Some((by, word)) => format!("{name} probes are not answered: {by} reports {word}"),
        None => format!("{name} probes are not answered: a firewall may drop them"),
    }
}

/// Describes the failure of the requested probes, and the protocol used instead.
fn describe_substitute_protocol(troubles: &[String], used: ProbeProtocol) -> String {
    let why = troubles.join("; ");
    format!("{why}; measured with {} instead", protocol_name(used))
}

/// Caveat for UDP, whose answers are rate limited.
const UDP_LIMIT: &str = "most hosts answer UDP probes only about once a second: \
     losses at shorter intervals are not losses of the path";

impl PathRun<'_> {
    /// Measures the reverse route and round trips, and reads the server's view of the TCP options.
    fn measure_reverse(&mut self) {
        let wanted = self.plan.reverse || self.plan.options;
        if !self.start_part(wanted, PathPart::Session) {
            return;
        }
        match ProbeClient::connect(self.target, self.stop) {
            Ok(mut far) => {
                self.report_progress(PathPart::Reverse, None, None);
                self.responder = Some(far.parties().1.clone());
                if self.observation.source.is_none() {
                    self.observation.source = far.parties().0.address.clone();
                }
                self.query_server(&mut far);
                far.close();
            }
            Err(error) => {
                let (part, what) = if self.plan.reverse {
                    (PathPart::Reverse, "the return path")
                } else {
                    (PathPart::Options, "reading the TCP options of the server")
                };
                self.record_missing(part, describe_missing_server(what, &error));
            }
        }
    }

    /// Queries the server; a failed query does not prevent the others.
    fn query_server(&mut self, far: &mut ProbeClient) {
        if self.plan.options {
            match far.read_server_tcp_options() {
                Ok(there) => {
                    let options = self.observation.options.get_or_insert_default();
                    *options = PathTcpOptions {
                        there: there.in_force,
                        mss_there_bytes: there.mss_bytes,
                        offered_there: there.offered,
                        ..options.clone()
                    };
                }
                Err(error) => self.record_server_error(PathPart::Options, &error),
            }
        }
        if !self.plan.reverse {
            return;
        }
        if self.plan.round_trips.probes > 0 && !self.is_stopped() {
            match far.measure_reverse_round_trips(&self.plan.round_trips) {
                Ok(echoes) => self.observation.round_trips_reverse = Some(echoes),
                Err(error) => self.record_server_error(PathPart::Reverse, &error),
            }
        }
        if !self.is_stopped() {
            self.trace_reverse(far);
        }
    }

    fn record_server_error(&mut self, part: PathPart, error: &ProbeError) {
        self.record_missing(part, describe_server_error(error));
    }

    fn trace_reverse(&mut self, far: &mut ProbeClient) {
        let Some(asked) = self.plan.trace.as_ref() else {
            return;
        };
        let at_us = self.begin.elapsed().as_micros() as u64;
        // No TCP port is open on this host; the port in the plan belongs to the server.
        match far.trace_reverse(self.plan.protocol, None, asked) {
            Ok(route) => self.observation.route_reverse = Some(ObservedRoute { at_us, ..route }),
            Err(error) => self.record_server_error(PathPart::Reverse, &error),
        }
    }

    /// Watches the hops of the traced route before, during and after a bulk run.
    fn measure_hops_under_load(&mut self) {
        let Some(load) = self.plan.load.as_ref() else {
            return;
        };
        if !self.start_part(true, PathPart::Load) {
            return;
        }
        let (Some(traced), Some(trace)) = (self.observation.route.clone(), &self.plan.trace) else {
            self.record_missing(
                PathPart::Load,
                "watching hops requires a traced route, and there is none",
            );
            return;
        };
        let asked = HopWatchRequest {
            target: self.target,
            load,
            trace: self.trace_request(trace, traced.protocol),
            route: &traced,
            interface: self.interface(),
        };
        let stop = self.stop;
        let watched = hop_watch::watch_hops(&asked, stop, &mut |progress| {
            self.report_progress(PathPart::Load, None, progress);
        });
        match watched {
            Ok(watched) => {
                self.observation.hop_load = Some(watched.watch);
                self.responder.get_or_insert(watched.outcome.responder.clone());
                self.load = Some((watched.plan, watched.outcome));
            }
            Err(why) => self.record_missing(PathPart::Load, why),
        }
    }

    fn interface(&self) -> Option<String> {
        let bound = self.target.bind.device.clone();
        bound.or_else(|| kernel_route::query_route(self.destination()).ok()?.interface)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod missing_reasons_tests {
    use super::*;
    use std::io;

    #[test]
    fn a_reason_names_its_causes_and_what_to_do() {
        let address = "192.0.2.1:5201".parse().expect("an address");
        let refused = io::ErrorKind::ConnectionRefused.into();
        let error = ProbeError::connect(&TargetHost::new("far"), address, refused);
        let text = describe_missing_server("the return route", &error);
        for part in ["the return route", "cannot connect to far", "refused", "longhaul serve"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn who_denies_is_named() {
        let router = "192.0.2.1".parse().expect("an address");
        let text = describe_unanswered_probes(ProbeProtocol::Tcp, Some((router, "prohibited")));
        assert_eq!(text, "TCP probes are not answered: 192.0.2.1 reports prohibited");
    }
}
