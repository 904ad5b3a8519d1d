//! Detects token buckets that appeared on the path, disappeared or changed.
//!
//! Both kinds leave traces in two places: available-bandwidth runs measure peak rate, sustained
//! rate and burst; the limiter of bulk runs shows that a bucket exists.
//!
//! Source: longhaul's own; the methods are in docs/methods/policer-and-shaper.md. Units: bit/s of
//! IP, bytes. Error: a bulk run's goodput is some per cent below the sustained rate.
//! Wrong when: the bursts of available-bandwidth runs are too short to empty the bucket.

use super::candidate::{Candidate, weight};
use super::case::{Case, ask_operator};
use super::evidence::Seen;
use super::turn::{Reading, Turn};
use super::words;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::{Bucket, BucketKind};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::units::Bytes;

/// The range of level over sustained rate in which a bucket explains the level after the event
/// (before it, if the bucket disappeared).
const HELD: [f64; 2] = [0.5, 1.3];
/// Sustained rates that differ by less than this ratio belong to the same bucket.
const SAME_RATIO: f64 = 1.15;
/// Consistency if only the limiter of bulk runs shows the bucket.
const BY_LIMITER: f64 = 0.9;
/// Consistency if the bucket exists but the level does not match its rate.
const UNHELD: f64 = 0.3;

type Found<'a> = Turn<Option<&'a Bucket>>;
type Readings<'a> = Vec<Reading<Option<&'a Bucket>>>;

/// Returns the change near the event by which a bucket appeared or got another rate.
pub fn appeared<'a>(case: &Case<'a>, kind: BucketKind) -> Option<Found<'a>> {
    changed(case, kind)
        .filter(|turn| turn.to.is_some() && turn.lasted && case.timing(turn.between_us) > 0.3)
}

/// Returns true if a bucket of either kind appeared, disappeared or changed near the event.
pub fn moved(case: &Case) -> bool {
    let near = |turn: Found| turn.lasted && case.timing(turn.between_us) > 0.3;
    [BucketKind::Shaper, BucketKind::Policer]
        .into_iter()
        .any(|kind| changed(case, kind).is_some_and(near))
}

fn changed<'a>(case: &Case<'a>, kind: BucketKind) -> Option<Found<'a>> {
    let found = case.turns(dated(case, case.buckets(kind)), |a, b| same(*a, *b));
    found
        .into_iter()
        .max_by(|a, b| case.rank(a).total_cmp(&case.rank(b)))
}

/// Only a long available-bandwidth run, made on request, finds a bucket. Bulk runs date it: before
/// the event they were faster than the bucket allows, after it they run at its rate.
fn dated<'a>(case: &Case<'a>, mut readings: Readings<'a>) -> Readings<'a> {
    let [begin, end] = case.event.between_us;
    let rate = matches!(case.event.quantity, Quantity::Goodput | Quantity::Available);
    let found = readings
        .iter()
        .filter(|r| r.at_us >= end)
        .find_map(|r| r.value);
    let Some(found) = found.filter(|_| rate && case.fell()) else {
        return readings;
    };
    let part = |level: f64| level / (found.sustained_bps as f64).max(1.0);
    let outrun = part(case.event.before.median) >= SAME_RATIO;
    let at_its_rate = (HELD[0]..=HELD[1]).contains(&part(case.event.after.median));
    let earlier = readings.iter().filter(|r| r.at_us <= begin);
    let earlier = earlier.max_by_key(|r| r.at_us).and_then(|r| r.value);
    if outrun && at_its_rate && !same(earlier, Some(found)) {
        let reading = |at_us, value| Reading { at_us, value };
        readings.push(reading(begin, earlier));
        readings.push(reading(end, Some(found)));
    }
    readings
}

fn same(a: Option<&Bucket>, b: Option<&Bucket>) -> bool {
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
pub fn told(bucket: Option<&Bucket>) -> String {
    bucket.map_or_else(
        || String::from("none"),
        |bucket| {
            format!(
                "peak {}, sustained {}, burst {}",
                words::rate(bucket.peak_bps as f64),
                words::rate(bucket.sustained_bps as f64),
                Bytes(bucket.burst_bytes)
            )
        },
    )
}

/// The names of one kind of bucket.
pub struct Kind {
    pub bucket: BucketKind,
    pub limiter: Limiter,
    pub appeared: &'static str,
    pub gone: &'static str,
    pub changed: &'static str,
    pub noun: &'static str,
    pub does: &'static str,
}

pub fn candidate(case: &Case, kind: &Kind) -> Option<Candidate> {
    if !case.of_link() {
        return None;
    }
    let by_look = by_look(case, kind);
    let by_runs = by_runs(case, kind);
    let score = |found: &Candidate| found.score(case.event.between_us, case.tau_us());
    match (by_look, by_runs) {
        (Some(look), Some(runs)) if score(&look) >= score(&runs) => {
            let mut look = look;
            look.supports.extend(runs.supports);
            Some(look)
        }
        (look, runs) => runs.or(look),
    }
}

fn by_look(case: &Case, kind: &Kind) -> Option<Candidate> {
    let turn = changed(case, kind.bucket)?;
    let since = words::moment(turn.between_us[1]);
    let (cause, text) = match (turn.from, turn.to) {
        (None, Some(_)) => (
            kind.appeared,
            format!(
                "There is a {} on the path since {since}: {}; it was seen {}",
                kind.noun,
                told(turn.to),
                kind.does
            ),
        ),
        (Some(_), None) => (
            kind.gone,
            format!(
                "The {} on the path is no longer found since {since}; it had {}",
                kind.noun,
                told(turn.from)
            ),
        ),
        (Some(_), Some(_)) => (
            kind.changed,
            format!(
                "The {} on the path has other rates since {since}: {}; before {}",
                kind.noun,
                told(turn.to),
                told(turn.from)
            ),
        ),
        (None, None) => return None,
    };
    let rate = |bucket: Option<&Bucket>| bucket.map_or(u64::MAX, |b| b.sustained_bps);
    let tighter = rate(turn.to) < rate(turn.from);
    let mut found = Candidate::new(cause, turn.between_us, text);
    found.weight = weight::LINK;
    let fits = held(case, &turn, &mut found);
    if case.worse() == Some(tighter) && turn.lasted {
        found.consistency = fits;
    }
    advise(case, kind, turn.to, tighter, &mut found);
    Some(found)
}

/// Returns how well the level matches the sustained rate of the bucket.
fn held(case: &Case, turn: &Found, found: &mut Candidate) -> f64 {
    if !case.is(Quantity::Goodput) {
        return 0.9;
    }
    let (when, level) = match turn.to {
        Some(_) => ("after", case.event.after.median),
        None => ("before", case.event.before.median),
    };
    let sustained = turn
        .to
        .or(turn.from)
        .map_or(0, |bucket| bucket.sustained_bps) as f64;
    let text = format!(
        "the throughput {when} ({}) stands against a sustained rate of {}",
        words::rate(level),
        words::rate(sustained)
    );
    let part = level / sustained.max(1.0);
    if (HELD[0]..=HELD[1]).contains(&part) {
        found.supports.push(text);
        1.0
    } else {
        found.contradicts.push(text);
        UNHELD
    }
}

fn by_runs(case: &Case, kind: &Kind) -> Option<Candidate> {
    let is = |r: Reading<Limiter>| Reading {
        at_us: r.at_us,
        value: r.value == kind.limiter,
    };
    let readings = case.limiters().into_iter().map(is).collect();
    let all = case.turns(readings, PartialEq::eq);
    let turn = all
        .into_iter()
        .max_by(|a, b| case.rank(a).total_cmp(&case.rank(b)))?;
    let came = turn.to;
    let text = if came {
        format!(
            "Bulk runs are held by a {} on the path since {}: it is seen {}",
            kind.noun,
            words::moment(turn.between_us[1]),
            kind.does
        )
    } else {
        format!(
            "Bulk runs are no longer held by a {} on the path since {}",
            kind.noun,
            words::moment(turn.between_us[1])
        )
    };
    let mut found = Candidate::new(
        if came { kind.appeared } else { kind.gone },
        turn.between_us,
        text,
    );
    found.weight = weight::LINK;
    found.consistency = if case.worse() == Some(came) && turn.lasted {
        BY_LIMITER
    } else {
        0.0
    };
    let judged = case.run(came).and_then(Seen::direction);
    let rate = judged.and_then(|(_, analysis)| {
        let own = analysis.bounds.iter().find(|b| b.limiter == kind.limiter)?;
        Some(own.rate_bps)
    });
    found.supports.extend(
        rate.map(|bps| format!("its rate by bulk runs is about {}", words::rate(bps as f64))),
    );
    advise(case, kind, None, came, &mut found);
    Some(found)
}

fn advise(case: &Case, kind: &Kind, bucket: Option<&Bucket>, came: bool, found: &mut Candidate) {
    if !came || case.worse() != Some(true) {
        return;
    }
    found.advice.push(ask_operator(format!(
        "Ask the operator whether this {} is meant for this path, and for which rate and burst",
        kind.noun
    )));
    if let (Some(bucket), BucketKind::Policer) = (bucket, kind.bucket) {
        // Just under the rate: Flach et al. saw almost no losses at 95 %.
        let paced = (bucket.sustained_bps as f64 * 0.95) as u64;
        found.advice.push(longhaul_model::report::v1::Advice {
            expected_bps: Some(paced),
            ..crate::diagnose::advice(
                "sender",
                format!(
                    "Until then pace all streams together to {}",
                    words::rate(paced as f64)
                ),
            )
        });
    }
}
