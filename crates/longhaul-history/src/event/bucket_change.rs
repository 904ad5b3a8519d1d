//! Detects token buckets that appeared on the path, disappeared or changed.
//!
//! Both kinds leave traces in two places: available-bandwidth runs measure peak rate, sustained
//! rate and burst; the limiter of bulk runs shows that a bucket exists.
//!
//! Source: longhaul's own; the methods are in docs/methods/policer-and-shaper.md. Units: bit/s of
//! IP, bytes. Error: a bulk run's goodput is some per cent below the sustained rate.
//! Wrong when: the bursts of available-bandwidth runs are too short to empty the bucket.

use super::cause_candidate::{CauseCandidate, weight};
use super::change_evidence::EvidenceReport;
use super::event_case::{EventCase, advise_operator};
use super::event_format;
use super::state_change::{StateChange, StateReading};
use longhaul_model::report::v1::FindingAdvice;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::{TokenBucketEstimate, TokenBucketKind};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::units::Bytes;

/// The range of level over sustained rate in which a bucket explains the level after the event
/// (before it, if the bucket disappeared).
const BUCKET_LEVEL_RANGE: [f64; 2] = [0.5, 1.3];
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

/// The names of one kind of bucket.
pub struct BucketCauseNames {
    pub bucket: TokenBucketKind,
    pub limiter: Limiter,
    pub appeared: &'static str,
    pub gone: &'static str,
    pub changed: &'static str,
    pub noun: &'static str,
    pub does: &'static str,
}

pub fn find_bucket_candidate(case: &EventCase, kind: &BucketCauseNames) -> Option<CauseCandidate> {
    if !case.is_link_quantity() {
        return None;
    }
    let by_look = find_by_estimates(case, kind);
    let by_runs = find_by_runs(case, kind);
    let score = |found: &CauseCandidate| found.score(case.event.between_us, case.tau_us());
    match (by_look, by_runs) {
        (Some(look), Some(runs)) if score(&look) >= score(&runs) => {
            let mut look = look;
            look.supports.extend(runs.supports);
            Some(look)
        }
        (look, runs) => runs.or(look),
    }
}

fn find_by_estimates(case: &EventCase, kind: &BucketCauseNames) -> Option<CauseCandidate> {
    let turn = find_bucket_change(case, kind.bucket)?;
    let since = event_format::format_time(turn.between_us[1]);
    let (cause, text) = match (turn.from, turn.to) {
        (None, Some(_)) => (
            kind.appeared,
            format!(
                "A {} has been on the path since {since}: {}; it was detected {}",
                kind.noun,
                format_bucket(turn.to),
                kind.does
            ),
        ),
        (Some(_), None) => (
            kind.gone,
            format!(
                "The {} on the path has not been detected since {since}; it had {}",
                kind.noun,
                format_bucket(turn.from)
            ),
        ),
        (Some(_), Some(_)) => (
            kind.changed,
            format!(
                "The {} on the path has had different rates since {since}: {}; before: {}",
                kind.noun,
                format_bucket(turn.to),
                format_bucket(turn.from)
            ),
        ),
        (None, None) => return None,
    };
    let rate = |bucket: Option<&TokenBucketEstimate>| bucket.map_or(u64::MAX, |b| b.sustained_bps);
    let tighter = rate(turn.to) < rate(turn.from);
    let mut found = CauseCandidate::new(cause, weight::LINK, turn.between_us, text);
    let fits = rate_bucket_fit(case, &turn, &mut found);
    if case.is_worse() == Some(tighter) && turn.lasted {
        found.consistency = fits;
    }
    add_advice(case, kind, turn.to, tighter, &mut found);
    Some(found)
}

/// Returns how well the level matches the sustained rate of the bucket.
fn rate_bucket_fit(case: &EventCase, turn: &BucketChange, found: &mut CauseCandidate) -> f64 {
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
    if (BUCKET_LEVEL_RANGE[0]..=BUCKET_LEVEL_RANGE[1]).contains(&part) {
        found.support(text);
        1.0
    } else {
        found.contradict(text);
        MISMATCH_CONSISTENCY
    }
}

fn find_by_runs(case: &EventCase, kind: &BucketCauseNames) -> Option<CauseCandidate> {
    let is =
        |r: StateReading<Limiter>| StateReading { at_us: r.at_us, value: r.value == kind.limiter };
    let readings = case.limiters().into_iter().map(is).collect();
    let turn = case.nearest_state_change(readings, PartialEq::eq)?;
    let came = turn.to;
    let text = if came {
        format!(
            "Bulk runs have been limited by a {} on the path since {}: it is detected {}",
            kind.noun,
            event_format::format_time(turn.between_us[1]),
            kind.does
        )
    } else {
        format!(
            "Bulk runs have not been limited by a {} on the path since {}",
            kind.noun,
            event_format::format_time(turn.between_us[1])
        )
    };
    let mut found = CauseCandidate::new(
        if came { kind.appeared } else { kind.gone },
        weight::LINK,
        turn.between_us,
        text,
    );
    found.consistency =
        if case.is_worse() == Some(came) && turn.lasted { LIMITER_ONLY_CONSISTENCY } else { 0.0 };
    let judged = case.nearest_run(came).and_then(EvidenceReport::direction);
    let rate = judged.and_then(|(_, analysis)| {
        let own = analysis.bounds.iter().find(|b| b.limiter == kind.limiter)?;
        Some(own.rate_bps)
    });
    found.supports.extend(rate.map(|bps| {
        format!("its rate in bulk runs is about {}", event_format::format_rate(bps as f64))
    }));
    add_advice(case, kind, None, came, &mut found);
    Some(found)
}

fn add_advice(
    case: &EventCase,
    kind: &BucketCauseNames,
    bucket: Option<&TokenBucketEstimate>,
    came: bool,
    found: &mut CauseCandidate,
) {
    if !came || case.is_worse() != Some(true) {
        return;
    }
    found.advice.push(advise_operator(format!(
        "Ask the operator whether this {} is intended on this path, and with which rate and burst",
        kind.noun
    )));
    if let (Some(bucket), TokenBucketKind::Policer) = (bucket, kind.bucket) {
        // Just under the rate: Flach et al. saw almost no losses at 95 %.
        let paced = (bucket.sustained_bps as f64 * 0.95) as u64;
        found.advice.push(FindingAdvice {
            expected_bps: Some(paced),
            ..FindingAdvice::new(
                "sender",
                format!(
                    "Until then pace all streams together to {}",
                    event_format::format_rate(paced as f64)
                ),
            )
        });
    }
}
