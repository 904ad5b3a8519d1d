//! Checks that the distance adds up, omits no city, and respects the speed of light.
//!
//! Legs add up to the total; the total is the same length in every unit; each router's city is the
//! end of a leg; the airports of two cities are as far apart as their leg is long; and half an RTT
//! in fibre covers at least the distance. Error: the point chosen for a city: some per cent of a
//! leg.

use super::claim_figure::{ClaimFigure, METRES};
use super::{ClaimChecks, read_figure, read_optional};
use crate::RecordError;
use crate::airport_table::AirportTable;
use crate::published_claim::{ClaimVerdict, ClaimedDistance};

/// The speed of light in fibre in m/s.
pub(crate) const LIGHT_IN_FIBRE_MPS: f64 = 299_792_458.0 / 1.468;
/// A leg that differs this much from the airports' distance probably uses another point, and a whole
/// path that differs this much takes another way.
const OTHER_POINT_RATIO: f64 = 0.02;

/// Checks the distance, and returns the total that is printed first.
pub fn check_distance(
    claimed: &ClaimedDistance,
    airports: &AirportTable,
    to: &mut ClaimChecks,
) -> Result<Option<ClaimFigure>, RecordError> {
    let totals = claimed.totals.iter();
    let totals = totals.map(|total| read_figure("distance.totals", total, &METRES));
    let totals = totals.collect::<Result<Vec<_>, _>>()?;
    let legs = claimed.legs.iter();
    let lengths = legs.map(|leg| read_optional("distance.legs", leg.length.as_ref(), &METRES));
    let lengths = lengths.collect::<Result<Vec<_>, _>>()?;
    check_distance_units(&totals, to);
    let known: Option<Vec<&ClaimFigure>> = lengths.iter().map(Option::as_ref).collect();
    if let (Some(parts), Some(total)) = (known.filter(|it| !it.is_empty()), totals.first()) {
        to.check_sum("legs", &parts, "total", total, parts[0]);
    }
    check_router_cities(claimed, to);
    check_city_points(claimed, &lengths, airports, to);
    Ok(totals.into_iter().next())
}

/// Checks that the total is the same in all units.
fn check_distance_units(totals: &[ClaimFigure], to: &mut ClaimChecks) {
    let Some((first, others)) = totals.split_first() else {
        return;
    };
    for other in others {
        let recomputed = other.format_like(first.value);
        let (verdict, text) = if first.span.overlaps(other.span) {
            (ClaimVerdict::Agrees, format!("{} is {}", first.text, other.text))
        } else {
            let text = format!("{} is {recomputed}, and not {}", first.text, other.text);
            (ClaimVerdict::Differs, text)
        };
        to.add("distance_units", verdict, text);
    }
}

/// Compares cities without an airport code that may follow the name.
fn is_same_city(one: &str, other: &str) -> bool {
    let name = |city: &str| city.split('(').next().unwrap_or(city).trim().to_lowercase();
    name(one) == name(other)
}

/// Reports cities of routers that are not the end of a leg.
fn check_router_cities(claimed: &ClaimedDistance, to: &mut ClaimChecks) {
    if claimed.legs.is_empty() || claimed.routers.is_empty() {
        return;
    }
    let is_end = |city: &str| {
        let mut ends = claimed.legs.iter().flat_map(|leg| [&leg.from, &leg.to]);
        ends.any(|end| is_same_city(end, city))
    };
    let missing: Vec<&String> = claimed.routers.iter().filter(|city| !is_end(city)).collect();
    if missing.is_empty() {
        let text = "every city of a router is the end of a leg".to_owned();
        to.add("routers", ClaimVerdict::Agrees, text);
    }
    for city in missing {
        let text = format!("a router is in {city}, and no leg begins or ends there");
        to.add("routers", ClaimVerdict::Differs, text);
    }
}

/// Compares each leg with the distance between the airports of its cities.
fn check_city_points(
    claimed: &ClaimedDistance,
    lengths: &[Option<ClaimFigure>],
    places: &AirportTable,
    to: &mut ClaimChecks,
) {
    let (mut claimed_m, mut whole_m, mut off) = (0.0, 0.0, Vec::new());
    for (leg, length) in claimed.legs.iter().zip(lengths) {
        let found = places.measure_cities(&leg.from, &leg.to);
        let (Some(length), Some(found)) = (length, found) else {
            continue;
        };
        claimed_m += length.value;
        whole_m += found.metres;
        let ratio = length.value / found.metres - 1.0;
        if ratio.abs() > OTHER_POINT_RATIO {
            let percent = 100.0 * ratio;
            let points = found.points;
            off.push(format!("{} to {} ({points}) by {percent:+.1} %", leg.from, leg.to));
        }
    }
    if whole_m <= 0.0 {
        return;
    }
    let ratio = claimed_m / whole_m - 1.0;
    let single = if off.is_empty() {
        String::new()
    } else {
        format!("; single legs differ: {}", off.join(", "))
    };
    let text = format!(
        "by airports of the cities the legs add up to {:.0} km; what is claimed is {:+.2} % beside \
         it{single}",
        whole_m / 1e3,
        100.0 * ratio,
    );
    let verdict =
        match (ratio.abs() > OTHER_POINT_RATIO, claimed.points.is_some() || off.is_empty()) {
            (true, _) => ClaimVerdict::Differs,
            (false, true) => ClaimVerdict::Agrees,
            (false, false) => ClaimVerdict::Loose,
        };
    let remedy = "say which point stands for each city".to_owned();
    let remedy = (verdict != ClaimVerdict::Agrees).then_some(remedy);
    to.add_with_remedy("points", verdict, text, remedy);
}

/// Checks the RTT against the speed of light in fibre.
pub fn check_light_speed(total: &ClaimFigure, rtt: &ClaimFigure, to: &mut ClaimChecks) {
    let least_s = 2.0 * total.value / LIGHT_IN_FIBRE_MPS;
    let stretch = rtt.value / least_s;
    let (verdict, beside) = if rtt.span.high * LIGHT_IN_FIBRE_MPS < 2.0 * total.span.low {
        let beside = format!(", and the round trip is {}", rtt.text);
        (ClaimVerdict::Impossible, beside)
    } else {
        let beside = format!("; the round trip of {} is {stretch:.2} times that", rtt.text);
        (ClaimVerdict::Agrees, beside)
    };
    let text = format!(
        "{} there and back take light in fibre {}{beside}",
        total.text,
        rtt.format_like(least_s)
    );
    to.add("light", verdict, text);
}
