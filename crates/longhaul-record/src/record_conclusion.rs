//! Evaluates a record: its class, its distance, its mark, and its compliance with the rules.
//!
//! The mark is bits times metres over seconds. Bytes, microseconds and millimetres are integers and
//! are multiplied as such; the only division comes last. Source: the metric of the Internet2 Land
//! Speed Record. Units: bit·m/s. Error: the choice of a city's point, some per cent of a short leg.
//! Wrong when: the data does not pass the named cities.
//!
//! - [`record_distance`]: legs, light in fibre
//! - [`record_rules`]: checks of each rule against the measurement

pub mod record_distance;
pub mod record_rules;
#[cfg(test)]
mod tests;

use crate::speed_record::{
    BestKnownMark, MarkHistory, PastMark, RecordAnalysis, RecordObservation, RuleSet,
};

/// The version of the analysis.
pub const VERSION: u32 = 1;

/// Draws all conclusions from a transfer and its route.
pub fn conclude_record(
    seen: &RecordObservation,
    rules: &RuleSet,
    history: &MarkHistory,
) -> RecordAnalysis {
    let legs = record_distance::compute_legs(&seen.stops);
    let total = |lengths: &mut dyn Iterator<Item = u64>| {
        let sum = lengths.fold(0u64, u64::saturating_add);
        (!legs.is_empty()).then_some(sum)
    };
    let distance_mm = total(&mut legs.iter().map(|leg| leg.length_mm));
    let distance_sphere_mm = total(&mut legs.iter().map(|leg| leg.sphere_mm));
    let class = classify_record(seen);
    let mark = distance_mm.and_then(|mm| compute_mark(seen.received_bytes, seen.elapsed_us, mm));
    let mut analysis = RecordAnalysis {
        version: VERSION,
        goodput_bps: compute_goodput_bps(seen),
        distance_mm,
        distance_sphere_mm,
        mark_bit_m_per_s: mark,
        light: distance_mm
            .zip(seen.rtt_min_ns)
            .map(|(mm, ns)| record_distance::compare_with_light(mm, ns)),
        beside: mark.and_then(|mark| compare_with_best(mark, class.as_deref()?, history)),
        class,
        legs,
        rules: format!("{} version {}", rules.name, rules.version),
        standing: rules.standing.clone(),
        checks: Vec::new(),
    };
    analysis.checks = record_rules::check_rules(rules, seen, &analysis);
    analysis
}

/// Returns bits times metres over seconds; `None` if no time passed.
pub fn compute_mark(received_bytes: u64, elapsed_us: u64, distance_mm: u64) -> Option<f64> {
    // 2^64 bytes over the distance to the Moon stay below 2^128.
    let bits = u128::from(received_bytes) * 8;
    let product = bits.checked_mul(u128::from(distance_mm))?;
    // Millimetres per microsecond are thousands of metres per second.
    (elapsed_us > 0).then(|| product as f64 / elapsed_us as f64 * 1e3)
}

fn compute_goodput_bps(seen: &RecordObservation) -> u64 {
    let bits = u128::from(seen.received_bytes) * 8_000_000;
    let bps = bits.checked_div(u128::from(seen.elapsed_us)).unwrap_or(0);
    u64::try_from(bps).unwrap_or(u64::MAX)
}

/// Returns `None` if it is not TCP, or the address family is unknown.
fn classify_record(seen: &RecordObservation) -> Option<String> {
    let version = seen.ip_version.filter(|_| seen.transport == "tcp")?;
    let streams = match seen.streams {
        0 => return None,
        1 => "single_stream",
        _ => "multiple_streams",
    };
    Some(format!("ipv{version}_{streams}"))
}

/// Compares the mark with the best one of its class.
fn compare_with_best(mark: f64, class: &str, history: &MarkHistory) -> Option<BestKnownMark> {
    let of_class = |it: &&PastMark| it.classes.iter().any(|name| name == class);
    let marks = history.marks.iter().filter(of_class);
    let best = marks.max_by(|a, b| a.mark_bit_m_per_s.total_cmp(&b.mark_bit_m_per_s))?;
    Some(BestKnownMark {
        name: format!("{}, {}", best.team, best.date),
        mark_bit_m_per_s: best.mark_bit_m_per_s,
        gain_ratio: mark / best.mark_bit_m_per_s - 1.0,
        source: best.source.clone(),
        confidence: best.confidence.clone(),
    })
}
