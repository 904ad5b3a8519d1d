//! Checks that the distance adds up, omits no city, and respects the speed of light.
//!
//! Legs add up to the total; the total is the same length in every unit; each router's city is the
//! end of a leg; the airports of two cities are as far apart as their leg is long; and half an RTT
//! in fibre covers at least the distance. Source: geodesics on WGS84 (Karney 2013); light in fibre
//! with a refractive index of 1.468. Units: metres, seconds. Error: the point chosen for a city:
//! some per cent of a leg. Wrong when: a city is known by several names.

use super::claim_figure::{ClaimFigure, FigureKind};
use super::{ClaimChecks, ClaimFieldError, FieldReader};
use crate::airport_table::AirportTable;
use crate::published_claim::{ClaimVerdict, ClaimedDistance, ClaimedLeg};

/// The speed of light in fibre in m/s.
pub(crate) const LIGHT_IN_FIBRE_MPS: f64 = 299_792_458.0 / 1.468;
/// A leg that differs this much from the airports' distance probably uses another point.
const OTHER_POINT_RATIO: f64 = 0.02;
/// A difference of the whole path above this is not due to the choice of points.
const OTHER_WAY_RATIO: f64 = 0.02;

pub struct DistanceFigures<'a> {
    claimed: &'a ClaimedDistance,
    totals: Vec<ClaimFigure>,
    lengths: Vec<(&'a ClaimedLeg, Option<ClaimFigure>)>,
}

impl<'a> DistanceFigures<'a> {
    pub fn read(
        claimed: &'a ClaimedDistance,
        reader: &FieldReader,
    ) -> Result<DistanceFigures<'a>, ClaimFieldError> {
        let totals = claimed.totals.iter();
        let legs = claimed.legs.iter();
        Ok(DistanceFigures {
            claimed,
            totals: totals
                .map(|total| reader.read("totals", total, FigureKind::Metres))
                .collect::<Result<_, _>>()?,
            lengths: legs
                .map(|leg| {
                    Ok((
                        leg,
                        reader.read_optional("legs", leg.length.as_ref(), FigureKind::Metres)?,
                    ))
                })
                .collect::<Result<_, ClaimFieldError>>()?,
        })
    }

    /// Returns the total that is printed first.
    pub fn total(&self) -> Option<&ClaimFigure> {
        self.totals.first()
    }
}

pub fn check_distance(figures: &DistanceFigures, places: &AirportTable, to: &mut ClaimChecks) {
    check_distance_units(figures, to);
    check_leg_sum(figures, to);
    check_router_cities(figures, places, to);
    check_city_points(figures, places, to);
}

/// Checks that the total is the same in all units.
fn check_distance_units(figures: &DistanceFigures, to: &mut ClaimChecks) {
    let Some((first, others)) = figures.totals.split_first() else {
        return;
    };
    for other in others {
        let recomputed = other.format_like(first.value);
        let (verdict, text) = if first.span.overlaps(other.span) {
            (
                ClaimVerdict::Agrees,
                format!("{} is {}", first.text, other.text),
            )
        } else {
            let text = format!("{} is {recomputed}, and not {}", first.text, other.text);
            (ClaimVerdict::Differs, text)
        };
        to.add("distance_units", verdict, text);
    }
}

fn check_leg_sum(figures: &DistanceFigures, to: &mut ClaimChecks) {
    let known: Option<Vec<&ClaimFigure>> =
        figures.lengths.iter().map(|(_, it)| it.as_ref()).collect();
    let (Some(lengths), Some(total)) = (known, figures.total()) else {
        return;
    };
    if let Some(first) = lengths.first() {
        to.check_sum(("legs", &lengths), ("total", total), first);
    }
}

/// Compares cities without an airport code that may follow the name.
fn is_same_city(one: &str, other: &str) -> bool {
    let name = |city: &str| city.split('(').next().unwrap_or(city).trim().to_lowercase();
    name(one) == name(other)
}

/// Reports cities of routers that are not the end of a leg.
fn check_router_cities(figures: &DistanceFigures, places: &AirportTable, to: &mut ClaimChecks) {
    let claimed = figures.claimed;
    if claimed.legs.is_empty() || claimed.routers.is_empty() {
        return;
    }
    let is_end = |city: &str| {
        let mut ends = claimed.legs.iter().flat_map(|leg| [&leg.from, &leg.to]);
        ends.any(|end| is_same_city(end, city))
    };
    let missing: Vec<&String> = claimed
        .routers
        .iter()
        .filter(|city| !is_end(city))
        .collect();
    if missing.is_empty() {
        let text = "every city of a router is the end of a leg".to_owned();
        to.add("routers", ClaimVerdict::Agrees, text);
    }
    for city in missing {
        let detour = find_detour(claimed, city, places);
        let adds = detour.map_or_else(String::new, |(leg, m)| {
            format!(
                "; {} to {} by way of it is {:.0} km longer",
                leg.from,
                leg.to,
                m / 1e3
            )
        });
        let text = format!("a router is in {city}, and no leg begins or ends there{adds}");
        to.add("routers", ClaimVerdict::Differs, text);
    }
}

/// Returns the leg on which the city lies, and the additional length of the path through it.
fn find_detour<'a>(
    claimed: &'a ClaimedDistance,
    city: &str,
    places: &AirportTable,
) -> Option<(&'a ClaimedLeg, f64)> {
    let at = claimed.routers.iter().position(|it| it == city)?;
    let before = claimed.routers.get(at.checked_sub(1)?)?;
    let leg = claimed
        .legs
        .iter()
        .find(|leg| is_same_city(&leg.from, before))?;
    let length = |from: &str, to: &str| Some(places.measure_cities(from, to)?.metres);
    let direct = length(&leg.from, &leg.to)?;
    Some((
        leg,
        length(&leg.from, city)? + length(city, &leg.to)? - direct,
    ))
}

/// Compares each leg with the distance between the airports of its cities.
fn check_city_points(figures: &DistanceFigures, places: &AirportTable, to: &mut ClaimChecks) {
    let claimed = figures.claimed;
    let beside: Vec<_> = figures
        .lengths
        .iter()
        .filter_map(|(leg, length)| {
            let length = length.as_ref()?;
            let found = places.measure_cities(&leg.from, &leg.to)?;
            Some((*leg, length, found))
        })
        .collect();
    if beside.is_empty() {
        return;
    }
    let whole: f64 = beside.iter().map(|(_, _, found)| found.metres).sum();
    let claimed_m: f64 = beside.iter().map(|(_, length, _)| length.value).sum();
    let off: Vec<String> = beside
        .iter()
        .map(|(leg, length, found)| (leg, found, length.value / found.metres - 1.0))
        .filter(|(_, _, off)| off.abs() > OTHER_POINT_RATIO)
        .map(|(leg, found, off)| {
            format!(
                "{} to {} ({}) by {:+.1} %",
                leg.from,
                leg.to,
                found.points,
                100.0 * off
            )
        })
        .collect();
    let text = format!(
        "by airports of the cities the legs add up to {:.0} km; what is claimed is {:+.2} % beside it{}",
        whole / 1e3,
        100.0 * (claimed_m / whole - 1.0),
        if off.is_empty() {
            String::new()
        } else {
            format!("; single legs differ: {}", off.join(", "))
        },
    );
    let told = claimed.points.is_some();
    let far = (claimed_m / whole - 1.0).abs() > OTHER_WAY_RATIO;
    let verdict = match (far, told || off.is_empty()) {
        (true, _) => ClaimVerdict::Differs,
        (false, true) => ClaimVerdict::Agrees,
        (false, false) => ClaimVerdict::Loose,
    };
    let added = to.add("points", verdict, text);
    if verdict != ClaimVerdict::Agrees {
        added.remedy = Some("say which point stands for each city".to_owned());
    }
}

/// Checks the RTT against the speed of light in fibre.
pub fn check_light_speed(total: &ClaimFigure, rtt: &ClaimFigure, to: &mut ClaimChecks) {
    let least_s = 2.0 * total.value / LIGHT_IN_FIBRE_MPS;
    let stretch = rtt.value / least_s;
    let (verdict, beside) = if rtt.span.high * LIGHT_IN_FIBRE_MPS < 2.0 * total.span.low {
        let beside = format!(", and the round trip is {}", rtt.text);
        (ClaimVerdict::Impossible, beside)
    } else {
        let beside = format!(
            "; the round trip of {} is {stretch:.2} times that",
            rtt.text
        );
        (ClaimVerdict::Agrees, beside)
    };
    let text = format!(
        "{} there and back take light in fibre {}{beside}",
        total.text,
        rtt.format_like(least_s)
    );
    to.add("light", verdict, text);
}
