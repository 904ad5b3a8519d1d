//! Computes the distance through the cities, the light travel time, and the cities left out.
//!
//! Source: geodesics on WGS84 (Karney 2013), given by the caller; great circles on a sphere of the
//! earth's mean radius; light in fibre with a refractive index of 1.468. Units: mm, ns. Error: half
//! a millimetre for each leg; the sphere is up to 0.6 % off.
//! Wrong when: points do not represent their cities.

use crate::claim_check::LIGHT_IN_FIBRE_MPS;
use longhaul_model::report::v1::record::{
    FibreLimit, LocatedRouter, OmittedCity, RecordLeg, RecordObservation, RecordStop,
};

/// Mean radius of the earth (IUGG), in metres.
const RADIUS_M: f64 = 6_371_008.8;
/// The maximum distance between a router and a stop in the same city.
const SAME_CITY_MM: u64 = 60_000_000;

/// Degrees of latitude and longitude.
pub type GeoPoint = (f64, f64);

/// Computes distances on the ellipsoid.
pub trait GeodesicModel {
    fn metres(&self, from: GeoPoint, to: GeoPoint) -> f64;
}

/// Returns the legs between consecutive stops.
pub fn compute_legs(stops: &[RecordStop], globe: &dyn GeodesicModel) -> Vec<RecordLeg> {
    let pairs = stops.windows(2);
    pairs
        .map(|pair| {
            let (from, to) = (locate_stop(&pair[0]), locate_stop(&pair[1]));
            RecordLeg {
                from: pair[0].city.clone(),
                to: pair[1].city.clone(),
                length_mm: round_to_millimetres(globe.metres(from, to)),
                sphere_mm: round_to_millimetres(compute_sphere_distance(from, to)),
            }
        })
        .collect()
}

pub fn locate_stop(stop: &RecordStop) -> GeoPoint {
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
        stretch_ratio: if least_ns > 0.0 {
            rtt_ns as f64 / least_ns
        } else {
            0.0
        },
        possible: rtt_ns as f64 >= least_ns,
    }
}

/// Returns the cities of routers far from every stop; each city once, at its first router.
pub fn find_omitted_cities(
    seen: &RecordObservation,
    globe: &dyn GeodesicModel,
) -> Vec<OmittedCity> {
    let mut found: Vec<OmittedCity> = Vec::new();
    for router in &seen.routers {
        let at = (router.latitude, router.longitude);
        let near = |stop: &RecordStop| {
            round_to_millimetres(globe.metres(locate_stop(stop), at)) <= SAME_CITY_MM
        };
        if seen.stops.is_empty()
            || seen.stops.iter().any(near)
            || found.iter().any(|it| it.city == router.city)
        {
            continue;
        }
        found.push(OmittedCity {
            ttl: router.ttl,
            city: router.city.clone(),
            known_by: router.known_by.clone(),
            detour_mm: compute_min_detour(&seen.stops, router, globe),
        });
    }
    found
}

/// Returns the minimum detour of any leg by way of the router's city.
fn compute_min_detour(
    stops: &[RecordStop],
    router: &LocatedRouter,
    globe: &dyn GeodesicModel,
) -> u64 {
    let at = (router.latitude, router.longitude);
    let pairs = stops.windows(2);
    let longer = pairs.map(|pair| {
        let (from, to) = (locate_stop(&pair[0]), locate_stop(&pair[1]));
        globe.metres(from, at) + globe.metres(at, to) - globe.metres(from, to)
    });
    round_to_millimetres(longer.fold(f64::INFINITY, f64::min).max(0.0))
}
