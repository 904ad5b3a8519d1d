//! Detects token buckets that appeared on the path, disappeared or changed.
//!
//! Both kinds leave traces in two places: available-bandwidth runs measure peak rate, sustained
//! rate and burst; the limiter of bulk runs shows that a bucket exists.
//!
//! Source: longhaul's own; the methods are in docs/methods/policer-and-shaper.md. Units: bit/s of
//! IP, bytes. Error: a bulk run's goodput is some per cent below the sustained rate.
//! Wrong when: the bursts of available-bandwidth runs are too short to empty the bucket.

use super::cause_selection::weight;
use super::change_evidence::EvidenceReport;
use super::event_case::EventCase;
use super::event_format;
use super::state_change::{StateChange, StateReading};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::{TokenBucketEstimate, TokenBucketKind};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::serde_name;
use longhaul_model::units::Bytes;

/// The range of level over sustained rate in which a bucket explains the level after the event
/// (before it, if the bucket disappeared). Others may use most of its rate.
const BUCKET_LEVEL_RANGE: [f64; 2] = [0.3, 1.3];
/// Sustained rates that differ by less than this ratio belong to the same bucket.
const SAME_RATIO: f64 = 1.15;
/// Consistency if only the limiter of bulk runs shows the bucket.
const LIMITER_ONLY_CONSISTENCY: f64 = 0.9;
/// Consistency if the bucket exists but the level does not match its rate.
const MISMATCH_CONSISTENCY: f64 = 0.3;

type BucketChange<'a> = StateChange<Option<&'a TokenBucketEstimate>>;
type BucketReadings<'a> = Vec<StateReading<Option<&'a TokenBucketEstimate>>>;

/// Returns the change near the event by which a bucket appeared or got another rate.
pub fn find_appeared_bucket<'a>(
    case: &EventCase<'a>,
    kind: TokenBucketKind,
) -> Option<BucketChange<'a>> {
    find_bucket_change(case, kind)
        .filter(|turn| turn.to.is_some() && turn.lasted && case.timing(turn.between_us) > 0.3)
}

/// Returns true if a bucket of either kind appeared, disappeared or changed near the event.
pub fn has_bucket_changed(case: &EventCase) -> bool {
    let near = |turn: BucketChange| turn.lasted && case.timing(turn.between_us) > 0.3;
    [TokenBucketKind::Shaper, TokenBucketKind::Policer]
        .into_iter()
        .any(|kind| find_bucket_change(case, kind).is_some_and(near))
}

fn find_bucket_change<'a>(case: &EventCase<'a>, kind: TokenBucketKind) -> Option<BucketChange<'a>> {
    let readings = date_bucket_by_runs(case, case.buckets(kind));
    case.nearest_state_change(readings, |a, b| is_same_bucket(*a, *b))
}

/// Only a long available-bandwidth run, made on request, finds a bucket. Bulk runs date it: before
/// the event they were faster than the bucket allows, after it they run at its rate.
fn date_bucket_by_runs<'a>(
    case: &EventCase<'a>,
    mut readings: BucketReadings<'a>,
) -> BucketReadings<'a> {
    let [begin, end] = case.event.between_us;
    let rate = matches!(case.event.quantity, PathQuantity::Goodput | PathQuantity::Available);
    let found = readings.iter().filter(|r| r.at_us >= end).find_map(|r| r.value);
    let Some(found) = found.filter(|_| rate && case.has_fallen()) else {
        return readings;
    };
    let part = |level: f64| level / (found.sustained_bps as f64).max(1.0);
    let outrun = part(case.event.before.median) >= SAME_RATIO;
    let at_its_rate =
        (BUCKET_LEVEL_RANGE[0]..=BUCKET_LEVEL_RANGE[1]).contains(&part(case.event.after.median));
    let earlier = readings.iter().filter(|r| r.at_us <= begin);
    let earlier = earlier.max_by_key(|r| r.at_us).and_then(|r| r.value);
    if outrun && at_its_rate && !is_same_bucket(earlier, Some(found)) {
        let reading = |at_us, value| StateReading { at_us, value };
        readings.push(reading(begin, earlier));
        readings.push(reading(end, Some(found)));
    }
    readings
}

fn is_same_bucket(a: Option<&TokenBucketEstimate>, b: Option<&TokenBucketEstimate>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let ratio = a.sustained_bps as f64 / b.sustained_bps.max(1) as f64;
            (1.0 / SAME_RATIO..=SAME_RATIO).contains(&ratio)
        }
        _ => false,
    }
}

/// Formats a bucket: `peak 135 Mbit/s, sustained 67 Mbit/s, burst 1.2 MiB`.
pub fn format_bucket(bucket: Option<&TokenBucketEstimate>) -> String {
    bucket.map_or_else(
        || String::from("none"),
        |bucket| {
            format!(
                "peak {}, sustained {}, burst {}",
                event_format::format_rate(bucket.peak_bps as f64),
                event_format::format_rate(bucket.sustained_bps as f64),
                Bytes(bucket.burst_bytes)
            )
        },
    )
}

/// Cause: a shaper appeared on the path or disappeared.
///
/// We would see: an available-bandwidth run that finds peak rate, sustained rate and burst, not
/// found before, or bulk runs limited by a shaper, and a throughput near the sustained rate.
/// Refuted by: a level far from that rate, the same shaper before, or a change the other way.
/// Needs: `longhaul available --shaper` before and after, or bulk runs longer than the burst.
/// To do: ask the operator, with the three figures.
/// Wrong when: the bucket was never emptied before the event, so that it existed unnoticed.
pub fn find_shaper_candidate(case: &EventCase) -> Option<ReportFinding> {
    find_bucket_candidate(case, TokenBucketKind::Shaper)
}

/// Cause: a policer appeared on the path or disappeared.
///
/// We would see: an available-bandwidth run that finds its rate and burst where earlier runs found
/// none, or bulk runs limited by a policer, and a throughput near the policed rate.
/// Refuted by: a level far from that rate, the same policer before, or a change the other way.
/// Needs: `longhaul available --shaper` before and after, or bulk runs. To do: pace below the rate;
/// ask the operator.
/// Wrong when: a queue too short to show drops in its place.
pub fn find_policer_candidate(case: &EventCase) -> Option<ReportFinding> {
    find_bucket_candidate(case, TokenBucketKind::Policer)
}

/// Returns the noun for a kind of bucket.
pub fn name_bucket(kind: TokenBucketKind) -> &'static str {
    serde_name::name_variant(&kind)
}

fn describe_excess(kind: TokenBucketKind) -> String {
    let verb = if kind == TokenBucketKind::Shaper { "queue" } else { "drop" };
    format!("to {verb} the excess over its rate")
}

fn find_bucket_candidate(case: &EventCase, kind: TokenBucketKind) -> Option<ReportFinding> {
    match (find_by_estimates(case, kind), find_by_runs(case, kind)) {
        (Some(mut look), Some(runs)) if look.confidence_ratio >= runs.confidence_ratio => {
            look.supports.extend(runs.supports);
            Some(look)
        }
        (look, runs) => runs.or(look),
    }
}

fn find_by_estimates(case: &EventCase, kind: TokenBucketKind) -> Option<ReportFinding> {
    let turn = find_bucket_change(case, kind)?;
    let since = event_format::format_time(turn.between_us[1]);
    let (noun, does) = (name_bucket(kind), describe_excess(kind));
    let [old, new] = [turn.from, turn.to].map(format_bucket);
    let (word, text) = match (turn.from, turn.to) {
        (None, Some(_)) => {
            let seen = format!("has been on the path since {since}: {new}; it was detected {does}");
            ("appeared", format!("A {noun} {seen}"))
        }
        (Some(_), None) => {
            let seen = format!("on the path has not been detected since {since}; it had {old}");
            ("gone", format!("The {noun} {seen}"))
        }
        _ => {
            let seen = format!("has had different rates since {since}: {new}; before: {old}");
            ("changed", format!("The {noun} on the path {seen}"))
        }
    };
    let rate = |bucket: Option<&TokenBucketEstimate>| bucket.map_or(u64::MAX, |b| b.sustained_bps);
    let tighter = rate(turn.to) < rate(turn.from);
    let cause = format!("{noun}_{word}");
    let mut found = case.candidate(&cause, weight::LINK, turn.between_us, text);
    let fits = rate_bucket_fit(case, &turn, &mut found);
    let expected = case.is_worse() == Some(tighter) && turn.lasted;
    found.confidence_ratio *= if expected { fits } else { 0.0 };
    add_advice(case, kind, turn.to, tighter, &mut found);
    Some(found)
}

/// Returns how well the level matches the sustained rate of the bucket.
fn rate_bucket_fit(case: &EventCase, turn: &BucketChange, found: &mut ReportFinding) -> f64 {
    if !case.is_quantity(PathQuantity::Goodput) {
        return 0.9;
    }
    let (when, level) = match turn.to {
        Some(_) => ("after", case.event.after.median),
        None => ("before", case.event.before.median),
    };
    let sustained = turn.to.or(turn.from).map_or(0, |bucket| bucket.sustained_bps) as f64;
    let text = format!(
        "throughput {when} {}, sustained rate {}",
        event_format::format_rate(level),
        event_format::format_rate(sustained)
    );
    let part = level / sustained.max(1.0);
    let fits = (BUCKET_LEVEL_RANGE[0]..=BUCKET_LEVEL_RANGE[1]).contains(&part);
    found.add_evidence(fits, text);
    if fits { 1.0 } else { MISMATCH_CONSISTENCY }
}

fn find_by_runs(case: &EventCase, kind: TokenBucketKind) -> Option<ReportFinding> {
    let limiter = match kind {
        TokenBucketKind::Shaper => Limiter::Shaper,
        TokenBucketKind::Policer => Limiter::Policer,
    };
    let is = |r: StateReading<Limiter>| StateReading { at_us: r.at_us, value: r.value == limiter };
    let readings = case.limiters().into_iter().map(is).collect();
    let turn = case.nearest_state_change(readings, PartialEq::eq)?;
    let came = turn.to;
    let since = event_format::format_time(turn.between_us[1]);
    let noun = name_bucket(kind);
    let (word, text) = if came {
        let text = format!("Bulk runs have been limited by a {noun} on the path since {since}");
        ("appeared", format!("{text}: it is detected {}", describe_excess(kind)))
    } else {
        let text = format!("Bulk runs have not been limited by a {noun} on the path since {since}");
        ("gone", text)
    };
    let cause = format!("{noun}_{word}");
    let mut found = case.candidate(&cause, weight::LINK, turn.between_us, text);
    let expected = case.is_worse() == Some(came) && turn.lasted;
    found.confidence_ratio *= if expected { LIMITER_ONLY_CONSISTENCY } else { 0.0 };
    let judged = case.nearest_run(came).and_then(EvidenceReport::direction);
    let own = judged.and_then(|(_, it)| it.bounds.iter().find(|b| b.limiter == limiter));
    found.supports.extend(own.map(|bound| {
        let rate = event_format::format_rate(bound.rate_bps as f64);
        format!("its rate in bulk runs is about {rate}")
    }));
    add_advice(case, kind, None, came, &mut found);
    Some(found)
}

fn add_advice(
    case: &EventCase,
    kind: TokenBucketKind,
    bucket: Option<&TokenBucketEstimate>,
    came: bool,
    found: &mut ReportFinding,
) {
    if !came || case.is_worse() != Some(true) {
        return;
    }
    found.advise("path", format!(
        "Ask the operator whether this {} is intended on this path, and with which rate and burst",
        name_bucket(kind)
    ));
    if let (Some(bucket), TokenBucketKind::Policer) = (bucket, kind) {
        // Just under the rate: Flach et al. saw almost no losses at 95 %.
        let paced = (bucket.sustained_bps as f64 * 0.95) as u64;
        let rate = event_format::format_rate(paced as f64);
        let text = format!("Until then pace all streams together to {rate}");
        found.advise("sender", text).expected_bps = Some(paced);
    }
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR, build_bucket};
    use super::*;

    fn found(sketch: &event_test_builder::EvidenceBuilder) -> Option<(f64, ReportFinding)> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        let found = find_shaper_candidate(&case)?;
        Some((found.confidence_ratio, found))
    }

    #[test]
    fn a_new_shaper_at_the_level_counts_in_full() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 140e6, Some(shaper));
        let (score, found) = found(&sketch).expect("a candidate");
        assert!((score - 0.8).abs() < 1e-9, "{score}");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(found.summary.contains("sustained 155 Mbit/s"), "{}", found.summary);
    }

    #[test]
    fn one_far_above_the_level_hardly_counts() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 622_000_000, 600_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 400e6, Some(shaper));
        assert!(found(&sketch).expect("a candidate").0 < 0.3);
    }

    #[test]
    fn the_same_one_as_before_is_no_cause() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(-HOUR, 622e6, 140e6, Some(shaper.clone())).estimate(
            HOUR,
            622e6,
            140e6,
            Some(shaper),
        );
        assert!(found(&sketch).is_none());
    }

    #[test]
    fn a_lower_rate_of_the_same_one_is_told_as_such() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = |bps| Some(build_bucket(TokenBucketKind::Shaper, 622_000_000, bps));
        sketch.estimate(-HOUR, 622e6, 250e6, shaper(260_000_000));
        sketch.estimate(HOUR, 622e6, 150e6, shaper(160_000_000));
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_changed");
        assert!((score - 0.8).abs() < 1e-9, "{score}");
    }

    #[test]
    fn one_that_went_raises_a_rate_and_does_not_lower_it() {
        let gone = |mut sketch: event_test_builder::EvidenceBuilder| {
            let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
            sketch.estimate(-HOUR, 622e6, 140e6, Some(shaper)).estimate(HOUR, 622e6, 400e6, None);
            found(&sketch)
        };
        let (score, found) =
            gone(event_test_builder::build_level_step(PathQuantity::Goodput, 140e6, 280e6))
                .expect("one");
        assert_eq!((found.cause.as_str(), score > 0.7), ("shaper_gone", true));
        // A short run after a fall fits into the burst, so it cannot show that the bucket is gone.
        assert!(gone(event_test_builder::build_goodput_drop()).is_none());
    }

    #[test]
    fn one_that_was_looked_for_late_is_there_since_runs_have_its_rate() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch
            .capacity(-2 * HOUR, 622e6)
            .capacity(HOUR, 622e6)
            .capacity(2 * HOUR, 622e6)
            .estimate(9 * HOUR, 622e6, 140e6, Some(shaper))
            .capacity(10 * HOUR, 622e6);
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(score > 0.75, "{score}");
    }

    #[test]
    fn without_any_look_before_faster_runs_say_that_it_was_not_there() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(2 * HOUR, 622e6, 140e6, Some(shaper));
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(score > 0.75, "{score}");
    }

    #[test]
    fn bulk_runs_that_a_shaper_holds_say_it_too() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::Shaper);
        assert!(found(&sketch).expect("a candidate").0 > 0.7);
    }

    #[test]
    fn a_new_policer_comes_with_a_rate_to_pace_to() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let policer = build_bucket(TokenBucketKind::Policer, 622_000_000, 160_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(policer));
        let found = sketch.run_cause(find_policer_candidate).expect("a candidate");
        assert_eq!(found.cause, "policer_appeared");
        assert!((found.confidence_ratio - weight::LINK).abs() < 1e-9);
        assert!(
            found.advice.iter().any(|a| a.expected_bps == Some(152_000_000)),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn a_shaper_is_no_policer() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 622_000_000, 160_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(shaper));
        assert!(sketch.run_cause(find_policer_candidate).is_none());
    }
}
