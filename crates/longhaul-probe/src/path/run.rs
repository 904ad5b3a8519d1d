//! One look at a path: every part that the plan asks for, one after another.
//!
//! A part that fails is named in [`Observation::missing`], with what would mend it, and the
//! others still run. The far end need not be a longhaul; what needs one is then missing.

use crate::error::ProbeError;
use crate::throughput::{self, Target};
use longhaul_model::report::v1::path::{Echo, Observation, Plan, Route};
use longhaul_model::report::v1::{Caveat, Party, plan};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

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
/// and leaves out those after it. What was seen until then is the outcome.
///
/// # Errors
/// The name has no address of the family asked for. All else is said in the observation.
pub fn run(
    target: &Target,
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome, ProbeError> {
    let _ = (target, plan, stop, watch);
    Err(ProbeError::Local {
        what: "looking at paths is not built in yet".to_owned(),
        source: None,
    })
}
