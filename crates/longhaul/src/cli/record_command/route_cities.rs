//! Finds the cities of a route in imported data and in airport codes of hop names.
//!
//! A city is accepted only if light in fibre could have travelled there and back within the
//! measured round trips: those to that hop or to a later one, whose probes passed it as well.
//! Routers sometimes answer late, so the bound is loose, but it never rejects the right city.

use super::airport_table::AirportTable;
use super::{city_points, hop_name_codes};
use longhaul_analysis::record::record_distance::{
    GeoPoint, GeodesicModel, compare_with_light, locate_stop,
};
use longhaul_model::report::v1::path::{HopReply, ObservedHop, ObservedRoute};
use longhaul_model::report::v1::record::{LocatedRouter, RecordStop};

/// The maximum distance between routers in one city.
const ONE_CITY_METRES: f64 = 60e3;

#[derive(Debug, Default)]
pub struct RouteCities {
    pub routers: Vec<LocatedRouter>,
    pub unplaced_hops: u32,
}

/// Locates the routers of a route. `begin` is the start of the data's route, if known.
pub fn locate_routers(
    route: &ObservedRoute,
    begin: Option<GeoPoint>,
    airports: &AirportTable,
    globe: &dyn GeodesicModel,
) -> RouteCities {
    let mut found = RouteCities::default();
    let mut begin = begin;
    for (place, hop) in route.hops.iter().enumerate() {
        let Some(answer) = hop.answers.first() else {
            continue;
        };
        // The target is not a router.
        if answer.address == route.to {
            continue;
        }
        let within_ns = find_min_rtt(&route.hops[place..]);
        match locate_router(hop, answer, (begin, within_ns), airports, globe) {
            Some(router) => {
                begin.get_or_insert((router.latitude, router.longitude));
                found.routers.push(router);
            }
            None => found.unplaced_hops += 1,
        }
    }
    found
}

/// Returns the minimum round trip of these hops. Probes to the last one passed all others.
fn find_min_rtt(hops: &[ObservedHop]) -> Option<u64> {
    let answers = hops.iter().flat_map(|hop| &hop.answers);
    answers
        .flat_map(|answer| &answer.rtts_ns)
        .copied()
        .filter(|ns| *ns > 0)
        .min()
}

fn locate_router(
    hop: &ObservedHop,
    answer: &HopReply,
    (begin, within_ns): (Option<GeoPoint>, Option<u64>),
    airports: &AirportTable,
    globe: &dyn GeodesicModel,
) -> Option<LocatedRouter> {
    let possible = |stop: &RecordStop| match (begin, within_ns) {
        (Some(begin), Some(ns)) => {
            let mm = globe.metres(begin, locate_stop(stop)) * 1e3;
            compare_with_light(mm as u64, ns).possible
        }
        _ => true,
    };
    let by_set = answer.place.as_deref();
    let by_set = by_set.and_then(|place| city_points::resolve_imported_city(place, airports));
    let by_name = || {
        let codes = hop_name_codes::extract_airport_codes(answer.name.as_deref()?).into_iter();
        codes
            .filter_map(|code| city_points::resolve_router_code(&code, airports))
            .find(possible)
    };
    let (stop, known_by) = match by_set.filter(possible) {
        Some(stop) => (stop, "imported_data"),
        None => (by_name()?, "hop_name"),
    };
    Some(LocatedRouter {
        ttl: hop.ttl,
        address: answer.address.clone(),
        name: answer.name.clone(),
        city: stop.city,
        latitude: stop.latitude,
        longitude: stop.longitude,
        known_by: known_by.to_owned(),
    })
}

/// Returns the stops through the cities of all routers. Adjacent routers in one city are one stop.
pub fn merge_into_stops(routers: &[LocatedRouter], globe: &dyn GeodesicModel) -> Vec<RecordStop> {
    let mut stops: Vec<RecordStop> = Vec::new();
    for router in routers {
        let at = (router.latitude, router.longitude);
        let near = |stop: &RecordStop| globe.metres(locate_stop(stop), at) <= ONE_CITY_METRES;
        if stops.last().is_some_and(near) {
            continue;
        }
        let by = router.known_by.replace('_', " ");
        stops.push(RecordStop {
            city: router.city.clone(),
            latitude: router.latitude,
            longitude: router.longitude,
            point: format!("airports of the city, by {by} of hop {}", router.ttl),
        });
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::super::wgs84_geodesic::Wgs84Globe;
    use super::*;
    use longhaul_model::report::v1::path::ProbeProtocol;

    fn hop(ttl: u8, name: &str, place: Option<&str>, rtt_ms: u64) -> ObservedHop {
        ObservedHop {
            ttl,
            sent: 1,
            answers: vec![HopReply {
                address: format!("192.0.2.{ttl}"),
                name: Some(name.to_owned()),
                autonomous_system: None,
                place: place.map(str::to_owned),
                rtts_ns: vec![rtt_ms * 1_000_000],
                reply_ttl: None,
                quoted_ttl: None,
                kind: "time_exceeded".to_owned(),
                mpls: Vec::new(),
                rewritten: Vec::new(),
            }],
            rate_limited: false,
        }
    }

    fn route(hops: Vec<ObservedHop>) -> ObservedRoute {
        ObservedRoute {
            from: "192.0.2.250".to_owned(),
            to: "192.0.2.251".to_owned(),
            protocol: ProbeProtocol::Icmp,
            flow: String::new(),
            at_us: 0,
            duration_us: 0,
            hops,
            reached: true,
            ended_by: "reached".to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: 0,
            discarded: 0,
        }
    }

    #[test]
    fn data_goes_before_names_and_light_before_both() {
        let (airports, globe) = (AirportTable::read(), Wgs84Globe::new());
        let route = route(vec![
            hop(1, "gw.example.net", Some("San Jose, US"), 2),
            hop(2, "xe-0.sjc01.example.net", None, 3),
            // Sydney is too far away for 30 ms.
            hop(3, "xe-1.syd1.den2.example.net", Some("Sydney, AU"), 30),
            hop(4, "unnamed.example.net", None, 400),
            hop(5, "xe-0.ord3.example.net", None, 55),
        ]);
        let found = locate_routers(&route, None, &airports, &globe);
        let seen: Vec<(u8, &str, &str)> = found
            .routers
            .iter()
            .map(|it| (it.ttl, it.city.as_str(), it.known_by.as_str()))
            .collect();
        let expected = [
            (1, "San Jose", "imported_data"),
            (2, "San Jose", "hop_name"),
            (3, "Denver", "hop_name"),
            (5, "Chicago", "hop_name"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found.unplaced_hops, 1);
        let stops = merge_into_stops(&found.routers, &globe);
        let cities: Vec<&str> = stops.iter().map(|it| it.city.as_str()).collect();
        assert_eq!(cities, ["San Jose", "Denver", "Chicago"]);
    }
}
