//! Checks that the distance adds up, omits no city, and respects the speed of light.
//!
//! Legs add up to the total; the total is the same length in every unit; each router's city is the
//! end of a leg; the airports of two cities are as far apart as their leg is long; and half an RTT
//! in fibre covers at least the distance. Source: geodesics on WGS84 (Karney 2013); light in fibre
//! with a refractive index of 1.468. Units: metres, seconds. Error: the point chosen for a city:
//! some per cent of a leg. Wrong when: a city is known by several names.

use super::figure::{Figure, Of};
use super::places::Places;
use super::{Checks, Problem, Reader};
use longhaul_model::report::v1::claim::{Distance, Leg, Verdict};

/// The speed of light in fibre in m/s.
pub(crate) const LIGHT: f64 = 299_792_458.0 / 1.468;
/// A leg that differs this much from the airports' distance probably uses another point.
const OTHER_POINT_RATIO: f64 = 0.02;
/// A difference of the whole path above this is not due to the choice of points.
const OTHER_WAY_RATIO: f64 = 0.02;

pub struct Figures<'a> {
    claimed: &'a Distance,
    totals: Vec<Figure>,
    lengths: Vec<(&'a Leg, Option<Figure>)>,
}

impl<'a> Figures<'a> {
    pub fn read(claimed: &'a Distance, reader: &Reader) -> Result<Figures<'a>, Problem> {
        let totals = claimed.totals.iter();
        let legs = claimed.legs.iter();
        Ok(Figures {
            claimed,
            totals: totals
                .map(|total| reader.read("totals", total, Of::Metres))
                .collect::<Result<_, _>>()?,
            lengths: legs
                .map(|leg| Ok((leg, reader.maybe("legs", leg.length.as_ref(), Of::Metres)?)))
                .collect::<Result<_, Problem>>()?,
        })
    }

    /// Returns the total that is printed first.
    pub fn total(&self) -> Option<&Figure> {
        self.totals.first()
    }
}

pub fn check(figures: &Figures, places: &dyn Places, to: &mut Checks) {
    units(figures, to);
    sum(figures, to);
    left_out(figures, places, to);
    points(figures, places, to);
}

/// Checks that the total is the same in all units.
fn units(figures: &Figures, to: &mut Checks) {
    let Some((first, others)) = figures.totals.split_first() else {
        return;
    };
    for other in others {
        let recomputed = other.like(first.value);
        let (verdict, text) = if first.span.meets(other.span) {
            (Verdict::Agrees, format!("{} is {}", first.text, other.text))
        } else {
            let text = format!("{} is {recomputed}, and not {}", first.text, other.text);
            (Verdict::Differs, text)
        };
        to.add("distance_units", verdict, text);
    }
}

fn sum(figures: &Figures, to: &mut Checks) {
    let known: Option<Vec<&Figure>> = figures.lengths.iter().map(|(_, it)| it.as_ref()).collect();
    let (Some(lengths), Some(total)) = (known, figures.total()) else {
        return;
    };
    if let Some(first) = lengths.first() {
        to.add_up(("legs", &lengths), ("total", total), first);
    }
}

/// Compares cities without an airport code that may follow the name.
fn same_city(one: &str, other: &str) -> bool {
    let name = |city: &str| city.split('(').next().unwrap_or(city).trim().to_lowercase();
    name(one) == name(other)
}

/// Reports cities of routers that are not the end of a leg.
fn left_out(figures: &Figures, places: &dyn Places, to: &mut Checks) {
    let claimed = figures.claimed;
    if claimed.legs.is_empty() || claimed.routers.is_empty() {
        return;
    }
    let is_end = |city: &str| {
        let mut ends = claimed.legs.iter().flat_map(|leg| [&leg.from, &leg.to]);
        ends.any(|end| same_city(end, city))
    };
    let missing: Vec<&String> = claimed
        .routers
        .iter()
        .filter(|city| !is_end(city))
        .collect();
    if missing.is_empty() {
        let text = "every city of a router is the end of a leg".to_owned();
        to.add("routers", Verdict::Agrees, text);
    }
    for city in missing {
        let detour = detour(claimed, city, places);
        let adds = detour.map_or_else(String::new, |(leg, m)| {
            format!(
                "; {} to {} by way of it is {:.0} km longer",
                leg.from,
                leg.to,
                m / 1e3
            )
        });
        let text = format!("a router is in {city}, and no leg begins or ends there{adds}");
        to.add("routers", Verdict::Differs, text);
    }
}

/// Returns the leg on which the city lies, and the additional length of the path through it.
fn detour<'a>(claimed: &'a Distance, city: &str, places: &dyn Places) -> Option<(&'a Leg, f64)> {
    let at = claimed.routers.iter().position(|it| it == city)?;
    let before = claimed.routers.get(at.checked_sub(1)?)?;
    let leg = claimed
        .legs
        .iter()
        .find(|leg| same_city(&leg.from, before))?;
    let length = |from: &str, to: &str| Some(places.between(from, to)?.metres);
    let direct = length(&leg.from, &leg.to)?;
    Some((
        leg,
        length(&leg.from, city)? + length(city, &leg.to)? - direct,
    ))
}

/// Compares each leg with the distance between the airports of its cities.
fn points(figures: &Figures, places: &dyn Places, to: &mut Checks) {
    let claimed = figures.claimed;
    let beside: Vec<_> = figures
        .lengths
        .iter()
        .filter_map(|(leg, length)| {
            let length = length.as_ref()?;
            let found = places.between(&leg.from, &leg.to)?;
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
        (true, _) => Verdict::Differs,
        (false, true) => Verdict::Agrees,
        (false, false) => Verdict::Loose,
    };
    let added = to.add("points", verdict, text);
    if verdict != Verdict::Agrees {
        added.remedy = Some("say which point stands for each city".to_owned());
    }
}

/// Checks the RTT against the speed of light in fibre.
pub fn light(total: &Figure, rtt: &Figure, to: &mut Checks) {
    let least_s = 2.0 * total.value / LIGHT;
    let stretch = rtt.value / least_s;
    let (verdict, beside) = if rtt.span.high * LIGHT < 2.0 * total.span.low {
        let beside = format!(", and the round trip is {}", rtt.text);
        (Verdict::Impossible, beside)
    } else {
        let beside = format!(
            "; the round trip of {} is {stretch:.2} times that",
            rtt.text
        );
        (Verdict::Agrees, beside)
    };
    let text = format!(
        "{} there and back take light in fibre {}{beside}",
        total.text,
        rtt.like(least_s)
    );
    to.add("light", verdict, text);
}
