//! Chooses the measurements that would decide between the remaining causes.
//!
//! Nothing is requested if a single cause remains and needs no proof. Light measurements come
//! first; the caller runs those that fit its budget.
//!
//! Source: longhaul's own. Units: none. Error: none. Wrong when: the problem disappears before the
//! measurement.

use super::Explained;
use super::case::Case;
use super::evidence::Evidence;
use longhaul_model::report::v1::available::Mode;
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::quantity::Quantity;

/// A kind of follow-up measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measurement {
    /// `longhaul path` with the return route.
    PathBothWays,
    /// `longhaul available`.
    Available,
    /// `longhaul available --shaper`: at full rate for some seconds.
    AvailableShaper,
    /// `longhaul tune`: several bulk runs.
    Tune,
}

impl Measurement {
    /// Returns the word used in JSON and in the agent's file.
    pub const fn word(self) -> &'static str {
        match self {
            Measurement::PathBothWays => "path",
            Measurement::Available => "available",
            Measurement::AvailableShaper => "available_shaper",
            Measurement::Tune => "tune",
        }
    }

    pub const fn cost(self) -> Cost {
        match self {
            Measurement::PathBothWays => Cost::Light,
            Measurement::Available => Cost::Moderate,
            Measurement::AvailableShaper | Measurement::Tune => Cost::Heavy,
        }
    }
}

/// The load of a measurement on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cost {
    /// Some hundred packets.
    Light,
    /// Some megabytes, in short trains.
    Moderate,
    /// Fills the path for seconds or minutes.
    Heavy,
}

impl Cost {
    pub const fn word(self) -> &'static str {
        match self {
            Cost::Light => "light",
            Cost::Moderate => "moderate",
            Cost::Heavy => "heavy",
        }
    }
}

/// A requested measurement and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub measurement: Measurement,
    pub reason: String,
}

/// Returns the requested measurements, light ones first; empty if the cause is decided.
pub fn follow_up(event: &Event, explained: &Explained, evidence: &Evidence) -> Vec<Wanted> {
    let case = Case { event, evidence };
    let named = |cause: &str| {
        explained
            .causes
            .iter()
            .any(|finding| finding.cause == cause)
    };
    let mut wanted = Vec::new();
    let mut want = |measurement, reason: &str| {
        wanted.push(Wanted {
            measurement,
            reason: reason.to_owned(),
        });
    };
    // A recovery needs no follow-up, and a changed measurement is not a change of the path.
    if named("recovery") || named("test_parameter") {
        return wanted;
    }
    if needs_path(&case, explained) {
        want(
            Measurement::PathBothWays,
            "no route was traced in both directions since the event: it would tell a change of the way from one of the hosts",
        );
    }
    if needs_available(&case, explained) {
        want(
            Measurement::Available,
            "nothing tells what the path has left since the event: a setting that no longer fits, other traffic and a slower link differ in it",
        );
    }
    if needs_shaper(&case, explained) {
        want(
            Measurement::AvailableShaper,
            "a shaper or policer passes short bursts: only a longer look tells its rate and burst from a slower link or other traffic",
        );
    }
    if named("retune") {
        want(
            Measurement::Tune,
            "available bandwidth is there and runs do not reach it: a scan finds the setting that fits, and proves it",
        );
    }
    wanted
}

/// Returns true if there is a single cause that names the fault, not only its location.
fn decided(explained: &Explained) -> bool {
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

fn needs_path(case: &Case, explained: &Explained) -> bool {
    let end = case.event.between_us[1];
    let mut since = case.evidence.paths.iter().filter(|seen| seen.at_us >= end);
    // The return route matters only while no other cause was found.
    let enough = |seen: &super::Seen<_>| {
        seen.route().is_some() && (seen.route_back().is_some() || !explained.causes.is_empty())
    };
    !decided(explained) && !since.any(enough)
}

fn needs_available(case: &Case, explained: &Explained) -> bool {
    !decided(explained) && !is_known_since(case) && !tried_since(case) && case.of_link()
}

/// Returns true if a sufficiently long run was made; another one would not give more.
fn tried_since(case: &Case) -> bool {
    let end = case.event.between_us[1];
    let mut all = case.evidence.available.iter();
    all.any(|seen| seen.at_us >= end && seen.report.plan.mode != Mode::Light)
}

/// Returns true if the available bandwidth was measured after the event.
fn is_known_since(case: &Case) -> bool {
    case.available_since().is_some()
}

/// A changed route gives the location, not the fault.
fn named_route(explained: &Explained) -> bool {
    explained.causes.iter().any(|f| f.cause == "route_change")
}

fn needs_shaper(case: &Case, explained: &Explained) -> bool {
    let end = case.event.between_us[1];
    let mut since = case
        .evidence
        .available
        .iter()
        .filter(|seen| seen.at_us >= end);
    let looked = since.any(|seen| {
        let found = seen.estimate().is_some_and(|e| e.bucket.is_some());
        found || seen.report.plan.shaper_time_us.is_some()
    });
    let of_rate = matches!(
        case.event.quantity,
        Quantity::Goodput | Quantity::Available | Quantity::Capacity
    );
    if looked || !of_rate || !case.fell() || explained.causes.iter().any(|f| f.cause == "retune") {
        return false;
    }
    let link = [
        "capacity_change",
        "cross_traffic",
        "shaper_appeared",
        "policer_appeared",
    ];
    // A slower link alone may still be a token bucket; if no available bandwidth is known, that is
    // measured first.
    explained
        .causes
        .iter()
        .any(|f| link.contains(&f.cause.as_str()))
        || (explained.causes.len() != 1 && (case.available().is_some() || is_known_since(case)))
        || (named_route(explained) && is_known_since(case))
}

#[cfg(test)]
mod tests {
    use super::super::explain;
    use super::super::sketch::{self, HOUR, bucket};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;
    use longhaul_model::report::v1::available::BucketKind;

    const OLD: [&str; 3] = ["10.1.0.1", "10.2.0.1", "10.9.0.1"];
    const NEW: [&str; 3] = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];

    fn wanted(sketch: &sketch::Sketch) -> Vec<Measurement> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let explained = explain(&event, &evidence);
        follow_up(&event, &explained, &evidence)
            .into_iter()
            .map(|w| w.measurement)
            .collect()
    }

    #[test]
    fn without_evidence_the_cheap_ones_are_wanted_first() {
        assert_eq!(
            wanted(&sketch::fell()),
            [Measurement::PathBothWays, Measurement::Available]
        );
    }

    #[test]
    fn a_changed_route_asks_what_there_is_on_it() {
        let mut sketch = sketch::fell();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &NEW);
        assert_eq!(wanted(&sketch), [Measurement::Available]);
    }

    #[test]
    fn a_slower_link_may_be_a_bucket() {
        let mut sketch = sketch::fell();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch
            .estimate(-HOUR, 622e6, 400e6, None)
            .estimate(HOUR, 155e6, 150e6, None);
        assert_eq!(wanted(&sketch), [Measurement::AvailableShaper]);
    }

    #[test]
    fn a_setting_that_does_not_fit_asks_for_a_scan() {
        let mut sketch = sketch::fell();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch
            .estimate(-HOUR, 622e6, 200e6, None)
            .estimate(HOUR, 622e6, 280e6, None);
        sketch
            .run_limited(-HOUR, Limiter::PathCapacity)
            .run_limited(HOUR, Limiter::ReceiveWindow);
        assert_eq!(wanted(&sketch), [Measurement::Tune]);
    }

    #[test]
    fn what_is_decided_asks_for_nothing() {
        let mut sketch = sketch::fell();
        let shaper = bucket(BucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.trace(-HOUR, &OLD).trace(HOUR, &OLD);
        sketch
            .estimate(-HOUR, 622e6, 400e6, None)
            .estimate(HOUR, 622e6, 150e6, Some(shaper));
        assert_eq!(wanted(&sketch), []);
        let mut parameter = sketch::fell();
        parameter
            .run(-HOUR, |r| r.plan.streams = 8)
            .run(HOUR, |r| r.plan.streams = 2);
        assert_eq!(wanted(&parameter), []);
    }

    #[test]
    fn costs_rise_with_what_is_sent() {
        assert!(Measurement::PathBothWays.cost() < Measurement::Available.cost());
        assert!(Measurement::Available.cost() < Measurement::Tune.cost());
    }
}
