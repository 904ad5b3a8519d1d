//! One look at a path: every part that the plan asks for, one after another.
//!
//! A part that fails is named in [`Observation::missing`], with what would mend it, and the
//! others still run. The far end need not be a longhaul; what needs one is then missing.

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

/// What a look at a path gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<Caveat>,
    /// The bulk run under which hops were watched, as it was asked and as it went.
    pub load: Option<(plan::Plan, throughput::Outcome)>,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Opening a session with the far end, if there is a longhaul.
    Session,
    RoundTrips,
    Route,
    Mtu,
    Options,
    /// The far end says what it sees.
    Reverse,
    /// Hops watched under load.
    Load,
}

/// How far a look has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    pub part: Part,
    /// Since the begin of the look.
    pub elapsed: Duration,
    /// All parts that are finished.
    pub observation: &'a Observation,
    /// Round trips to the far end so far, in the order of sending.
    pub echoes: &'a [Echo],
    /// The route as it is being traced.
    pub route: Option<&'a Route>,
    /// The load as it runs.
    pub load: Option<&'a throughput::Progress>,
}

/// Looks at the path to `target`. `watch` is called when something new is known, and in a bulk run
/// about five times a second.
///
/// Blocks; every part has a deadline of its own, and `stop` ends the part under way within 100 ms
/// (asking the far end: at its own deadline) and leaves out those after it. What was seen until
/// then is the outcome.
///
/// # Errors
/// The name has no address of the family asked for. All else is said in the observation.
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

/// A look under way.
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
    /// Probes that the far end is known to answer.
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

    /// Whether a part is to be done now; if it is left out for a stop, that is said.
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
