//! Chooses the measurements that would decide between the remaining causes.
//!
//! Nothing is requested if a single cause remains and needs no proof. Light measurements come
//! first; the caller runs those that fit its budget.
//!
//! Source: longhaul's own. Units: none. Error: none. Wrong when: the problem disappears before the
//! measurement.

use super::EventExplanation;
use super::change_evidence::ChangeEvidence;
use super::event_case::EventCase;
use longhaul_model::report::v1::ChangeEvent;
use longhaul_model::report::v1::available::AvailableMode;

/// A kind of follow-up measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FollowUpKind {
    /// `longhaul path` with the return route.
    PathBothWays,
    /// `longhaul available`.
    Available,
    /// `longhaul available --shaper`: at full rate for some seconds.
    AvailableShaper,
    /// `longhaul tune`: several bulk runs.
    Tune,
}

impl FollowUpKind {
    /// Returns the word used in JSON and in the agent's file.
    pub const fn word(self) -> &'static str {
        match self {
            FollowUpKind::PathBothWays => "path",
            FollowUpKind::Available => "available",
            FollowUpKind::AvailableShaper => "available_shaper",
            FollowUpKind::Tune => "tune",
        }
    }
}

/// A requested measurement and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUpMeasurement {
    pub measurement: FollowUpKind,
    pub reason: &'static str,
}

/// Returns the requested measurements, light ones first; empty if the cause is decided.
pub fn plan_follow_ups(
    event: &ChangeEvent,
    explained: &EventExplanation,
    evidence: &ChangeEvidence,
) -> Vec<FollowUpMeasurement> {
    let case = EventCase { event, evidence };
    let named = |cause: &str| explained.causes.iter().any(|finding| finding.cause == cause);
    // A recovery needs no follow-up, and a changed measurement is not a change of the path.
    // The program of a transfer cannot be asked to repeat it.
    if named("recovery") || named("test_parameter") || case.transfer().is_some() {
        return Vec::new();
    }
    let all = [
        (
            needs_path_run(&case, explained),
            FollowUpKind::PathBothWays,
            "no route was traced in both directions since the event: a trace distinguishes a route change from a change at the hosts",
        ),
        (
            needs_available_run(&case, explained),
            FollowUpKind::Available,
            "available bandwidth was not measured since the event: it distinguishes an unsuitable setting, cross traffic and a slower link",
        ),
        (
            needs_shaper_run(&case, explained),
            FollowUpKind::AvailableShaper,
            "a shaper or policer passes short bursts: only a longer measurement distinguishes it from a slower link, cross traffic or random loss",
        ),
        (
            named("retune"),
            FollowUpKind::Tune,
            "runs do not reach the available bandwidth: a scan finds the right setting, and proves it",
        ),
    ];
    let wanted = all.into_iter().filter(|(needed, ..)| *needed);
    wanted.map(|(_, measurement, reason)| FollowUpMeasurement { measurement, reason }).collect()
}

/// Returns true if there is a single cause that names the fault, not only its location.
fn is_cause_decided(explained: &EventExplanation) -> bool {
    const PLAIN: [&str; 10] = [
        "host_setting",
        "interface",
        "path_mtu",
        "shaper_appeared",
        "shaper_gone",
        "shaper_changed",
        "policer_appeared",
        "policer_gone",
        "policer_changed",
        "retune",
    ];
    matches!(&explained.causes[..], [only] if PLAIN.contains(&only.cause.as_str()))
}

fn needs_path_run(case: &EventCase, explained: &EventExplanation) -> bool {
    let end = case.event.between_us[1];
    let mut since = case.evidence.paths.iter().filter(|seen| seen.at_us >= end);
    // The return route matters only while no other cause was found.
    let enough = |seen: &super::EvidenceReport<_>| {
        seen.route().is_some() && (seen.return_route().is_some() || !explained.causes.is_empty())
    };
    !is_cause_decided(explained) && !since.any(enough)
}

fn needs_available_run(case: &EventCase, explained: &EventExplanation) -> bool {
    !is_cause_decided(explained)
        && case.median_available_since().is_none()
        && !is_tried_since(case)
        && case.is_link_quantity()
}

/// Returns true if a sufficiently long run was made; another one would not give more.
fn is_tried_since(case: &EventCase) -> bool {
    let end = case.event.between_us[1];
    let mut all = case.evidence.available.iter();
    all.any(|seen| seen.at_us >= end && seen.report.plan.mode != AvailableMode::Light)
}

fn needs_shaper_run(case: &EventCase, explained: &EventExplanation) -> bool {
    let named = |cause: &str| explained.causes.iter().any(|f| f.cause == cause);
    let end = case.event.between_us[1];
    let mut since = case.evidence.available.iter().filter(|seen| seen.at_us >= end);
    let looked = since.any(|seen| {
        let found = seen.estimate().is_some_and(|e| e.bucket.is_some());
        found || seen.report.plan.shaper_time_us.is_some()
    });
    if looked || !case.is_rate_quantity() || !case.has_fallen() || named("retune") {
        return false;
    }
    let possible =
        ["capacity_change", "cross_traffic", "random_loss", "shaper_appeared", "policer_appeared"];
    // A slower link alone may still be a token bucket; if no available bandwidth is known, that is
    // measured first. A policer with a small bucket looks like random loss.
    possible.into_iter().any(named)
        || (explained.causes.len() != 1
            && (case.available().is_some() || case.median_available_since().is_some()))
        // A changed route gives the location, not the fault.
        || (named("route_change") && case.median_available_since().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR, build_bucket};
    use super::super::explain_event;
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;
    use longhaul_model::report::v1::available::TokenBucketKind;

    const OLD: [&str; 3] = ["10.1.0.1", "10.2.0.1", "10.9.0.1"];
    const NEW: [&str; 3] = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];

    fn wanted(sketch: &event_test_builder::EvidenceBuilder) -> Vec<FollowUpKind> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let explained = explain_event(&event, &evidence);
        plan_follow_ups(&event, &explained, &evidence).into_iter().map(|w| w.measurement).collect()
    }

    #[test]
    fn without_evidence_the_cheap_ones_are_wanted_first() {
        assert_eq!(
            wanted(&event_test_builder::build_goodput_drop()),
            [FollowUpKind::PathBothWays, FollowUpKind::Available]
        );
    }

    #[test]
    fn a_changed_route_asks_what_there_is_on_it() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &NEW);
        assert_eq!(wanted(&sketch), [FollowUpKind::Available]);
    }

    #[test]
    fn a_slower_link_may_be_a_bucket() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 155e6, 150e6, None);
        assert_eq!(wanted(&sketch), [FollowUpKind::AvailableShaper]);
    }

    #[test]
    fn a_setting_that_does_not_fit_asks_for_a_scan() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch.estimate(-HOUR, 622e6, 200e6, None).estimate(HOUR, 622e6, 280e6, None);
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::ReceiveWindow);
        assert_eq!(wanted(&sketch), [FollowUpKind::Tune]);
    }

    #[test]
    fn what_is_decided_asks_for_nothing() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(shaper));
        assert_eq!(wanted(&sketch), []);
        let mut parameter = event_test_builder::build_goodput_drop();
        parameter.run(-HOUR, |r| r.plan.streams = 8).run(HOUR, |r| r.plan.streams = 2);
        assert_eq!(wanted(&parameter), []);
    }

    #[test]
    fn random_loss_may_be_that_of_a_policer() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 400e6, None);
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::Loss);
        assert_eq!(wanted(&sketch), [FollowUpKind::AvailableShaper]);
    }
}
