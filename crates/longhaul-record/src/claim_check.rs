//! Checks the figures of a published claim against each other and against physical limits.
//!
//! A printed figure is an interval, given by its precision; two figures that must be equal agree if
//! their intervals overlap. Differences that rounding explains are therefore not reported. Source:
//! arithmetic; geodesics on WGS84 between airports (Karney 2013); light in fibre with a refractive
//! index of 1.468. Wrong when: two of three counts have the same error, or a city is known by
//! several names.
//!
//! # Distance checks
//!
//! Checks that the distance adds up, omits no city, and respects the speed of light.
//!
//! Legs add up to the total; the total is the same length in every unit; each router's city is the
//! end of a leg; the airports of two cities are as far apart as their leg is long; and half an RTT
//! in fibre covers at least the distance. Error: the point chosen for a city: some per cent of a
//! leg.

mod claim_figure;

/// The speed of light in fibre in m/s.
pub(crate) const LIGHT_IN_FIBRE_MPS: f64 = 299_792_458.0 / 1.468;
/// A leg that differs this much from the airports' distance probably uses another point, and a whole
/// path that differs this much takes another way.
const OTHER_POINT_RATIO: f64 = 0.02;

/// Checks the distance, and returns the total that is printed first.
fn check_distance(
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
fn check_light_speed(total: &ClaimFigure, rtt: &ClaimFigure, to: &mut ClaimChecks) {
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

#[cfg(test)]
mod tests;

use crate::RecordError;
use crate::airport_table::AirportTable;
use crate::published_claim::{
    CheckedClaim, ClaimCheck, ClaimVerdict, ClaimedDistance, ClaimedMark, ClaimedTransfer,
    PublishedClaim, SCHEMA,
};
use claim_figure::{
    BIT_METRES_PER_SECOND, BITS_PER_SECOND, BYTES, ClaimFigure, FigureInterval, FigureKind, METRES,
    NUMBER, RATIO, SECONDS,
};
use longhaul_model::units::Bytes;

fn read_figure(
    field: impl Into<String>,
    text: &str,
    of: &FigureKind,
) -> Result<ClaimFigure, RecordError> {
    let hint = "write figures with their unit, such as `4.92 GB`, `1001 s`, `6.25 Gbit/s`";
    ClaimFigure::parse(text, of).map_err(|why| {
        RecordError::input(format!("{} cannot be read", field.into())).cause(why).hint(hint)
    })
}

fn read_optional(
    field: impl Into<String>,
    text: Option<&String>,
    of: &FigureKind,
) -> Result<Option<ClaimFigure>, RecordError> {
    text.map(|text| read_figure(field, text, of)).transpose()
}

/// The results so far.
#[derive(Default)]
struct ClaimChecks(Vec<ClaimCheck>);

impl ClaimChecks {
    fn add(&mut self, check: &str, verdict: ClaimVerdict, text: String) {
        self.add_with_remedy(check, verdict, text, None);
    }

    fn add_with_remedy(
        &mut self,
        check: &str,
        verdict: ClaimVerdict,
        text: String,
        remedy: Option<String>,
    ) {
        self.0.push(ClaimCheck { check: check.to_owned(), verdict, text, remedy });
    }

    /// Checks that parts add up to the printed `whole`; their sum is shown in the unit of `like`.
    fn check_sum(
        &mut self,
        parts_name: &str,
        parts: &[&ClaimFigure],
        whole_name: &str,
        whole: &ClaimFigure,
        like: &ClaimFigure,
    ) {
        let sum = FigureInterval {
            low: parts.iter().map(|it| it.span.low).sum(),
            high: parts.iter().map(|it| it.span.high).sum(),
        };
        let value: f64 = parts.iter().map(|it| it.value).sum();
        let (verdict, word) = if sum.overlaps(whole.span) {
            (ClaimVerdict::Agrees, "as")
        } else {
            (ClaimVerdict::Differs, "and")
        };
        let text = format!(
            "the {} {parts_name} add up to {}, {word} the {whole_name} is printed: {}",
            parts.len(),
            like.format_like(value),
            whole.text,
        );
        self.add(parts_name, verdict, text);
    }
}

/// Compares all figures of a claim that must agree.
pub fn check_claim(
    claim: &PublishedClaim,
    airports: &AirportTable,
) -> Result<CheckedClaim, RecordError> {
    let mut checks = ClaimChecks::default();
    let mut rates = Vec::new();
    for (transfer, number) in claim.transfers.iter().zip(1..) {
        rates.extend(check_transfer(transfer, number, &mut checks)?);
    }
    let total = match &claim.distance {
        Some(distance) => check_distance(distance, airports, &mut checks)?,
        None => None,
    };
    let rtt = read_optional("claim.rtt", claim.rtt.as_ref(), &SECONDS)?;
    if let (Some(total), Some(rtt)) = (&total, &rtt) {
        check_light_speed(total, rtt, &mut checks);
    }
    if let Some(mark) = &claim.mark {
        check_mark(mark, rates.first(), total.as_ref(), &mut checks)?;
    }
    Ok(CheckedClaim { schema: SCHEMA.to_owned(), claim: claim.clone(), checks: checks.0 })
}

/// One way to count the bytes of a transfer.
struct VolumeCount {
    what: &'static str,
    value: f64,
    span: FigureInterval,
}

/// Checks the counts and the streams of a transfer, and returns its rate.
fn check_transfer(
    transfer: &ClaimedTransfer,
    number: usize,
    to: &mut ClaimChecks,
) -> Result<Option<ClaimFigure>, RecordError> {
    let field = |name: &str| format!("transfers.{number}.{name}");
    let volume = read_optional(field("volume"), transfer.volume.as_ref(), &BYTES)?;
    let duration = read_optional(field("duration"), transfer.duration.as_ref(), &SECONDS)?;
    let rate = read_optional(field("rate"), transfer.rate.as_ref(), &BITS_PER_SECOND)?;
    let mut counts = Vec::new();
    counts.extend(volume.as_ref().map(|volume| VolumeCount {
        what: "the volume",
        value: volume.value,
        span: volume.span,
    }));
    if let Some(buffers) = &transfer.buffers {
        let count = read_figure(field("buffers.count"), &buffers.count, &NUMBER)?;
        let size = read_figure(field("buffers.size"), &buffers.size, &BYTES)?;
        counts.push(VolumeCount {
            what: "buffers by their size",
            value: count.value * size.value,
            // The size is a setting and not a measurement.
            span: count.span.scaled(size.value),
        });
    }
    let timed = rate.as_ref().zip(duration.as_ref());
    counts.extend(timed.map(|(rate, duration)| VolumeCount {
        what: "rate by duration",
        value: rate.value * duration.value / 8.0,
        span: rate.span.times(duration.span).scaled(1.0 / 8.0),
    }));
    check_volume(&counts, volume.as_ref(), timed, to);
    let streams = transfer.streams.iter();
    let streams = streams.map(|text| read_figure(field("streams"), text, &BITS_PER_SECOND));
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    if let Some(rate) = rate.as_ref().filter(|_| streams.len() > 1) {
        let streams: Vec<&ClaimFigure> = streams.iter().collect();
        to.check_sum("streams", &streams, "rate", rate, rate);
    }
    Ok(rate)
}

/// Compares the counts with the one that agrees with most others; of two, with the rate.
fn check_volume(
    counts: &[VolumeCount],
    volume: Option<&ClaimFigure>,
    timed: Option<(&ClaimFigure, &ClaimFigure)>,
    to: &mut ClaimChecks,
) {
    let agreeing = |count: &&VolumeCount| {
        let all = counts.iter();
        all.filter(|it| it.span.overlaps(count.span)).count()
    };
    // In a tie, takes the last count, which is the rate.
    let Some(believed) = counts.iter().max_by_key(agreeing).filter(|_| counts.len() > 1) else {
        return;
    };
    let show = |bytes: f64| match volume {
        Some(volume) => volume.format_like(bytes),
        None => Bytes(bytes as u64).to_string(),
    };
    let mut names = Vec::new();
    for count in counts {
        if count.span.overlaps(believed.span) {
            names.push(count.what);
            continue;
        }
        let apart = count.value - believed.value;
        let text = format!(
            "{} is {}, but {} is {}: {} ({:+.3} %) apart",
            count.what,
            show(count.value),
            believed.what,
            show(believed.value),
            show(apart.abs()),
            100.0 * apart / believed.value,
        );
        let remedy = timed.map(|(rate, duration)| {
            format!(
                "{} at {} take {}, and in {} are {}",
                show(count.value),
                rate.text,
                duration.format_like(count.value * 8.0 / rate.value),
                duration.text,
                rate.format_like(count.value * 8.0 / duration.value),
            )
        });
        to.add_with_remedy("volume", ClaimVerdict::Differs, text, remedy);
    }
    if names.len() > 1 {
        let text = format!("{} agree: {}", names.join(" and "), show(believed.value));
        to.add("volume", ClaimVerdict::Agrees, text);
    }
}

/// Checks that the mark is the product of its factors. `measured`: the rate of the first transfer;
/// `total`: the whole distance.
fn check_mark(
    mark: &ClaimedMark,
    measured: Option<&ClaimFigure>,
    total: Option<&ClaimFigure>,
    to: &mut ClaimChecks,
) -> Result<(), RecordError> {
    let value = read_figure("mark.value", &mark.value, &BIT_METRES_PER_SECOND)?;
    let rate = read_optional("mark.rate", mark.rate.as_ref(), &BITS_PER_SECOND)?;
    let distance = read_optional("mark.distance", mark.distance.as_ref(), &METRES)?;
    if let (Some(rate), Some(distance)) = (rate.as_ref().or(measured), distance.as_ref().or(total))
    {
        // Half of the last digit as a ratio of the value.
        let error = |it: &ClaimFigure| (it.span.high - it.span.low) / (2.0 * it.value);
        let finer = measured.filter(|finer| error(finer) < error(rate) / 2.0);
        check_product(&value, rate, distance, finer, to);
    }
    check_gain(mark, &value, to)
}

fn check_product(
    mark: &ClaimFigure,
    rate: &ClaimFigure,
    distance: &ClaimFigure,
    finer: Option<&ClaimFigure>,
    to: &mut ClaimChecks,
) {
    let product = rate.value * distance.value;
    let printed = mark.format_like(product);
    let factors = format!("{} by {}", rate.text, distance.text);
    let finer = finer.filter(|finer| !finer.span.times(distance.span).overlaps(mark.span));
    let (verdict, text, remedy) = if !rate.span.times(distance.span).overlaps(mark.span) {
        let needs = format!(
            "{} needs {} at that rate, or {} over that distance",
            mark.text,
            distance.format_like(mark.value / rate.value),
            rate.format_like(mark.value / distance.value),
        );
        let text = format!("{factors} is {printed}, and not {}", mark.text);
        (ClaimVerdict::Differs, text, Some(needs))
    } else if let Some(finer) = finer {
        let exact = finer.value * distance.value;
        let text = format!(
            "a rounded rate was multiplied: {factors} is {printed}, but the rate was {}, and that \
             is {} ({:+.2} %)",
            finer.text,
            mark.format_like(exact),
            100.0 * (exact / mark.value - 1.0),
        );
        let remedy = "multiply bytes, seconds and metres as they were measured, and round once";
        (ClaimVerdict::Differs, text, Some(remedy.to_owned()))
    } else if mark.span.contains(product) {
        let text = format!("{factors} is {printed}, as printed");
        (ClaimVerdict::Agrees, text, None)
    } else {
        let text = format!(
            "{factors} is {printed}, and {} is printed: a factor had more digits than are printed, \
             or the mark was rounded twice",
            mark.text,
        );
        (ClaimVerdict::Loose, text, None)
    };
    to.add_with_remedy("mark", verdict, text, remedy);
}

fn check_gain(
    mark: &ClaimedMark,
    value: &ClaimFigure,
    to: &mut ClaimChecks,
) -> Result<(), RecordError> {
    let previous = mark.previous.as_ref();
    let previous = read_optional("mark.previous", previous, &BIT_METRES_PER_SECOND)?;
    let gain = read_optional("mark.gain", mark.gain.as_ref(), &RATIO)?;
    let Some(previous) = previous else {
        return Ok(());
    };
    let over = format!(
        "{} is {:+.1} % beside {}",
        value.text,
        100.0 * (value.value / previous.value - 1.0),
        previous.text
    );
    let Some(gain) = gain else {
        to.add("gain", ClaimVerdict::Agrees, over);
        return Ok(());
    };
    let ratio = FigureInterval {
        low: value.span.low / previous.span.high - 1.0,
        high: value.span.high / previous.span.low - 1.0,
    };
    let (verdict, word) = if gain.span.overlaps(ratio) {
        (ClaimVerdict::Agrees, "as printed")
    } else {
        (ClaimVerdict::Differs, "and printed is")
    };
    to.add("gain", verdict, format!("{over}, {word}: {}", gain.text));
    Ok(())
}
