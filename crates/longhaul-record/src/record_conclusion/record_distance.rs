//! Computes the distance through the cities and the light travel time.
//!
//! Source: geodesics on WGS84 (Karney 2013); great circles on a sphere of the
//! earth's mean radius; light in fibre with a refractive index of 1.468. Units: mm, ns. Error: half
//! a millimetre for each leg; the sphere is up to 0.6 % off.
//! Wrong when: points do not represent their cities.

use crate::claim_check::LIGHT_IN_FIBRE_MPS;
use crate::speed_record::{FibreLimit, RecordLeg, RecordStop};
use geographiclib_rs::{Geodesic, InverseGeodesic};

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
