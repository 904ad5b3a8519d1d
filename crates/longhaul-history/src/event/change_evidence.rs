//! The evidence around a change: borrowed archived reports, each with its time.
//!
//! The caller passes what it has from some days around the event; all of it is optional. Missing
//! evidence is reported as not measured, never as unchanged.

use longhaul_model::report::v1::path::ObservedRoute;
use longhaul_model::report::v1::{
    AvailableReport, ChangeEvent, HostPair, HostReport, PathReport, SeriesPoint, ThroughputReport,
    analysis, available, observation, path,
};

/// A report, and its relation to the event.
#[derive(Debug)]
pub struct EvidenceReport<'a, R> {
    /// Start of the run.
    pub at_us: i64,
    pub report: &'a R,
    /// True if the event's sender (`pair.from`) initiated the run, so that both have the same
    /// forward direction.
    pub forward: bool,
}

/// A host, by its role in the direction of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostRole {
    Sender,
    Receiver,
}

impl HostRole {
    pub const fn word(self) -> &'static str {
        match self {
            HostRole::Sender => "sender",
            HostRole::Receiver => "receiver",
        }
    }
}

/// A change of another path.
#[derive(Debug)]
pub struct OtherPathChange<'a> {
    pub event: &'a ChangeEvent,
    /// The route after the change, in the direction of that path.
    pub route: Option<&'a ObservedRoute>,
}

/// Another path that was measured before and after the event and did not change.
#[derive(Debug)]
pub struct UnchangedPath<'a> {
    pub pair: &'a HostPair,
    pub route: Option<&'a ObservedRoute>,
}

/// The number of route changes on this path in the last 30 days, and how many had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChangeBaseRate {
    /// All route changes.
    pub route_changes: u32,
    /// Route changes that coincided with a change of throughput.
    pub with_effect: u32,
}

/// All evidence around one event.
#[derive(Debug, Default)]
pub struct ChangeEvidence<'a> {
    /// The usual interval between two values of the event's series.
    pub period_us: i64,
    /// Acceleration of time, for example if a day is replayed in minutes; 0 means real time.
    pub time_factor: u64,
    pub paths: Vec<EvidenceReport<'a, PathReport>>,
    pub throughput: Vec<EvidenceReport<'a, ThroughputReport>>,
    pub available: Vec<EvidenceReport<'a, AvailableReport>>,
    /// Audits of the host that made them.
    pub hosts: Vec<EvidenceReport<'a, HostReport>>,
    /// The series of the RTT floor, us.
    pub rtt: Vec<SeriesPoint>,
    pub other_path_changes: Vec<OtherPathChange<'a>>,
    pub unchanged_paths: Vec<UnchangedPath<'a>>,
    pub base_rate: Option<RouteChangeBaseRate>,
    /// Earlier events of the same pair and quantity that are not yet recovered.
    pub open_events: Vec<&'a ChangeEvent>,
}

impl<R> EvidenceReport<'_, R> {
    /// Returns the role of the host that initiated the run.
    pub fn initiator_role(&self) -> HostRole {
        if self.forward { HostRole::Sender } else { HostRole::Receiver }
    }
}

impl<'a> EvidenceReport<'a, PathReport> {
    /// Returns the route in the direction of the event.
    pub fn route(&self) -> Option<&'a ObservedRoute> {
        let seen = &self.report.observation;
        if self.forward { seen.route.as_ref() } else { seen.route_reverse.as_ref() }
    }

    /// Returns the route against the direction of the event.
    pub fn return_route(&self) -> Option<&'a ObservedRoute> {
        let seen = &self.report.observation;
        if self.forward { seen.route_reverse.as_ref() } else { seen.route.as_ref() }
    }

    /// Returns the minimum RTT, us.
    pub fn rtt_us(&self) -> Option<f64> {
        let judged: &path::PathAnalysis = &self.report.analysis;
        let rtt = judged.rtt.filter(|rtt| rtt.answered > 0)?;
        Some(rtt.min_ns as f64 / 1e3)
    }
}

impl<'a> EvidenceReport<'a, ThroughputReport> {
    /// Returns observation and analysis of the direction of the event.
    pub fn direction(
        &self,
    ) -> Option<(&'a observation::ThroughputObservation, &'a analysis::ThroughputAnalysis)> {
        let (seen, judged) = (&self.report.observation, &self.report.analysis);
        if seen.forward == self.forward {
            return Some((seen, judged));
        }
        let back = seen.reverse.as_deref().zip(judged.reverse.as_deref())?;
        (back.0.forward == self.forward).then_some(back)
    }

    /// Returns what one host reported about itself.
    pub fn end(&self, place: HostRole) -> Option<&'a observation::EndObservation> {
        let ends = &self.direction()?.0.ends;
        Some(match place {
            HostRole::Sender => &ends.sender,
            HostRole::Receiver => &ends.receiver,
        })
    }
}

impl<'a> EvidenceReport<'a, AvailableReport> {
    /// Returns the estimate in the direction of the event.
    pub fn estimate(&self) -> Option<&'a available::AvailableEstimate> {
        let judged = &self.report.analysis;
        if self.forward { judged.forward.as_ref() } else { judged.reverse.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    /// The same report, from a run that the other host initiated.
    fn turned<'a, R>(seen: &EvidenceReport<'a, R>) -> EvidenceReport<'a, R> {
        EvidenceReport { at_us: seen.at_us, report: seen.report, forward: !seen.forward }
    }

    #[test]
    fn a_run_that_the_far_end_began_is_read_the_other_way_round() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(HOUR, &["10.1.0.1", "10.2.0.1"]);
        sketch.run(HOUR, |report| {
            report.observation.ends.sender.host.name = String::from("slac");
        });
        sketch.estimate(HOUR, 622e6, 400e6, None);
        let evidence = sketch.evidence();
        let path = turned(&evidence.paths[0]);
        assert!(path.route().is_none());
        assert_eq!(path.return_route().map(|route| route.hops.len()), Some(2));
        let run = &evidence.throughput[0];
        let sender = run.end(HostRole::Sender).map(|end| end.host.name.as_str());
        assert_eq!(sender, Some("slac"));
        // The run had payload in the other direction only.
        assert!(turned(run).direction().is_none());
        assert!(turned(&evidence.available[0]).estimate().is_none());
    }
}
