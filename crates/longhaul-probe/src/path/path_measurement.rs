//! A path measurement: runs every requested part in order.
//!
//! A part that fails is listed in [`PathObservation::missing`] with its remedy, and the others still
//! run. The target need not run longhaul; parts that require it are then missing.

mod local_parts;
pub(super) mod missing_reasons;
mod server_parts;

use crate::probe_error::ProbeError;
use crate::throughput::{self, TargetHost};
use longhaul_model::report::v1::path::{
    MissingPart, ObservedRoute, PathObservation, PathPlan, ProbeEcho, ProbeProtocol,
};
use longhaul_model::report::v1::{RunParty, plan};
use longhaul_model::serde_name::name_variant;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Result of a path measurement.
#[derive(Debug, Clone)]
pub struct PathOutcome {
    pub observation: PathObservation,
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
/// the server: at its own deadline) and skips the remaining ones. The outcome contains the results
/// up to then.
///
/// # Errors
/// The name has no address of the requested family. All other failures are part of the observation.
pub fn run(
    target: &TargetHost,
    plan: &PathPlan,
    source_id: Option<u16>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&PathProgress<'_>),
) -> Result<PathOutcome, ProbeError> {
    let started_at = SystemTime::now();
    let address = throughput::resolve_target(target)?;
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
    stop: &'a AtomicBool,
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
            self.record_missing(part, missing_reasons::STOPPED);
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
            ..self.responder.unwrap_or_default()
        };
        PathOutcome {
            observation: self.observation,
            initiator,
            responder,
            started_at,
            duration: self.begin.elapsed(),
            load: self.load,
        }
    }
}

#[cfg(test)]
mod tests;
