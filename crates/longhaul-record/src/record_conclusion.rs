//! Evaluates a record: its class, its distance, its mark, and its compliance with the rules.
//!
//! The mark is bits times metres over seconds. Bytes, microseconds and millimetres are integers and
//! are multiplied as such; the only division comes last. Source: the metric of the Internet2 Land
//! Speed Record. Units: bit·m/s. Error: the choice of a city's point, some per cent of a short leg.
//! Wrong when: the data does not pass the named cities.
//!
//! - [`record_rules`]: checks of each rule against the measurement
//!
//! # Record distance
//!
//! Computes the distance through the cities and the light travel time.
//!
//! Source: geodesics on WGS84 (Karney 2013); great circles on a sphere of the
//! earth's mean radius; light in fibre with a refractive index of 1.468. Units: mm, ns. Error: half
//! a millimetre for each leg; the sphere is up to 0.6 % off.
//! Wrong when: points do not represent their cities.

pub mod record_rules;

/// Mean radius of the earth (IUGG), in metres.
const RADIUS_M: f64 = 6_371_008.8;

/// Degrees of latitude and longitude.
pub type GeoPoint = (f64, f64);

/// Returns the distance on WGS84 (Karney 2013).
pub fn geodesic_metres(from: GeoPoint, to: GeoPoint) -> f64 {
    Geodesic::wgs84().inverse(from.0, from.1, to.0, to.1)
}

/// Returns the legs between consecutive stops.
pub fn compute_legs(stops: &[RecordStop]) -> Vec<RecordLeg> {
    let pairs = stops.windows(2);
    pairs
        .map(|pair| {
            let (from, to) = (locate_stop(&pair[0]), locate_stop(&pair[1]));
            RecordLeg {
                from: pair[0].city.clone(),
                to: pair[1].city.clone(),
                length_mm: round_to_millimetres(geodesic_metres(from, to)),
                sphere_mm: round_to_millimetres(compute_sphere_distance(from, to)),
            }
        })
        .collect()
}

fn locate_stop(stop: &RecordStop) -> GeoPoint {
    (stop.latitude, stop.longitude)
}

fn round_to_millimetres(metres: f64) -> u64 {
    // NaN becomes 0.
    (metres * 1e3).round() as u64
}

/// Returns the great-circle distance in metres, by haversines: exact for near points too.
pub fn compute_sphere_distance(from: GeoPoint, to: GeoPoint) -> f64 {
    let (lat1, lat2) = (from.0.to_radians(), to.0.to_radians());
    let half = |a: f64, b: f64| ((b - a) / 2.0).sin().powi(2);
    let turn = half(from.1.to_radians(), to.1.to_radians());
    let haversine = half(lat1, lat2) + lat1.cos() * lat2.cos() * turn;
    2.0 * RADIUS_M * haversine.clamp(0.0, 1.0).sqrt().asin()
}

/// Compares the round trip of light in fibre with the measured RTT.
pub fn compare_with_light(distance_mm: u64, rtt_ns: u64) -> FibreLimit {
    let least_ns = 2.0 * distance_mm as f64 / 1e3 / LIGHT_IN_FIBRE_MPS * 1e9;
    FibreLimit {
        least_rtt_ns: least_ns.round() as u64,
        stretch_ratio: if least_ns > 0.0 { rtt_ns as f64 / least_ns } else { 0.0 },
        possible: rtt_ns as f64 >= least_ns,
    }
}

#[cfg(test)]
mod tests;

use crate::claim_check::LIGHT_IN_FIBRE_MPS;
use crate::speed_record::{
    BestKnownMark, FibreLimit, MarkHistory, PastMark, RecordAnalysis, RecordLeg, RecordObservation,
    RecordStop, RuleSet,
};
use geographiclib_rs::{Geodesic, InverseGeodesic};

/// The version of the analysis.
pub const VERSION: u32 = 1;

/// Draws all conclusions from a transfer and its route.
pub fn conclude_record(
    seen: &RecordObservation,
    rules: &RuleSet,
    history: &MarkHistory,
) -> RecordAnalysis {
    let legs = compute_legs(&seen.stops);
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
        light: distance_mm.zip(seen.rtt_min_ns).map(|(mm, ns)| compare_with_light(mm, ns)),
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
