//! A path measurement: runs every requested part in order.
//!
//! A part that fails is listed in [`Observation::missing`] with its remedy, and the others still
//! run. The target need not run longhaul; parts that require it are then missing.

mod far;
mod near;
mod words;

use crate::error::ProbeError;
use crate::throughput::{self, Target};
use longhaul_model::report::v1::path::{Echo, Missing, Observation, Plan, Protocol, Route};
use longhaul_model::report::v1::{Caveat, Party, plan};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Result of a path measurement.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<Caveat>,
    /// The bulk run under which hops were watched: its plan and its outcome.
    pub load: Option<(plan::Plan, throughput::Outcome)>,
}

/// The current step of a path measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Opening a session with the server, if longhaul runs there.
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
pub struct Progress<'a> {
    pub part: Part,
    /// Time since the start of the measurement.
    pub elapsed: Duration,
    /// Results of all finished parts.
    pub observation: &'a Observation,
    /// Round trips to the destination so far, in sending order.
    pub echoes: &'a [Echo],
    /// The partial route while it is traced.
    pub route: Option<&'a Route>,
    /// Progress of the load while it runs.
    pub load: Option<&'a throughput::Progress>,
}

/// Measures the path to `target`. Calls `watch` on every new result, and about five times a second
/// during a bulk run.
///
/// Blocks. Every part has its own deadline. `stop` ends the current part within 100 ms (a query to
/// the server: at its own deadline) and skips the remaining ones. The outcome contains the results
/// up to then.
///
/// # Errors
/// The name has no address of the requested family. All other failures are part of the observation.
pub fn run(
    target: &Target,
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome, ProbeError> {
    let started_at = SystemTime::now();
    let address = throughput::resolve(target)?;
    let mut look = Look::new(target, plan, address, stop, watch);
    look.round_trips();
    look.trace();
    look.mtu();
    look.options();
    look.reverse();
    look.load();
    Ok(look.outcome(started_at))
}

/// A path measurement in progress.
struct Look<'a> {
    target: &'a Target,
    plan: &'a Plan,
    address: SocketAddr,
    stop: &'a AtomicBool,
    watch: &'a mut dyn FnMut(&Progress<'_>),
    begin: Instant,
    observation: Observation,
    /// Round trips so far.
    echoes: Vec<Echo>,
    /// Protocol of the probes that the destination answers.
    answered: Option<Protocol>,
    responder: Option<Party>,
    load: Option<(plan::Plan, throughput::Outcome)>,
}

impl<'a> Look<'a> {
    fn new(
        target: &'a Target,
        plan: &'a Plan,
        address: SocketAddr,
        stop: &'a AtomicBool,
        watch: &'a mut dyn FnMut(&Progress<'_>),
    ) -> Look<'a> {
        Look {
            target,
            plan,
            address,
            stop,
            watch,
            begin: Instant::now(),
            observation: Observation {
                address: address.ip().to_canonical().to_string(),
                ..Observation::default()
            },
            echoes: Vec::new(),
            answered: None,
            responder: None,
            load: None,
        }
    }

    fn destination(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether a part runs now; records it as missing if a stop prevents it.
    fn begins(&mut self, asked: bool, part: Part) -> bool {
        if asked && self.stopped() {
            self.misses(part, words::STOPPED);
        }
        let begins = asked && !self.stopped();
        if begins {
            self.tell(part, None, None);
        }
        begins
    }

    fn tell(&mut self, part: Part, route: Option<&Route>, load: Option<&throughput::Progress>) {
        (self.watch)(&Progress {
            part,
            elapsed: self.begin.elapsed(),
            observation: &self.observation,
            echoes: &self.echoes,
            route,
            load,
        });
    }

    fn misses(&mut self, part: Part, why: impl Into<String>) {
        self.observation.missing.push(Missing {
            what: words::of_part(part).to_owned(),
            why: why.into(),
        });
    }

    fn outcome(self, started_at: SystemTime) -> Outcome {
        let initiator = Party {
            address: self.observation.source.clone(),
            ..crate::own_party()
        };
        let responder = Party {
            host: self.target.host.clone(),
            address: Some(self.observation.address.clone()),
            ..self.responder.unwrap_or_default()
        };
        Outcome {
            observation: self.observation,
            initiator,
            responder,
            started_at,
            duration: self.begin.elapsed(),
            caveats: Vec::new(),
            load: self.load,
        }
    }
}

#[cfg(test)]
mod tests;
