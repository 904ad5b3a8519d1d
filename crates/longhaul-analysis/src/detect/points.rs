//! Extracts from a finished report the points that it adds to series.
//!
//! - throughput: goodput and retransmit ratio of each direction; loss of UDP
//! - available: available bandwidth and capacity of each direction
//! - path: RTT floor, loss and hops of each measured direction
//! - load: RTT floor and loss of its idle phases
//!
//! Missing readings give no point. Neither do probes of a scan or of a before/after test, whose
//! settings are not those of the series, nor capacities that are bounds.
//!
//! Source: the reports' own analyses. Units: of the quantity (`Quantity::unit`), us.
//! Error: that of the report. Wrong when: RTT floors come from different protocols; hosts answer
//! them differently.

use crate::available::track;
use longhaul_model::report::v1::available::{Estimate, Verdict};
use longhaul_model::report::v1::path::{Route, Rtt};
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_model::report::v1::{
    AnyReport, Available, Imported, Load, Path, Run, Throughput, analysis,
};

/// A value with the series that it belongs to.
pub type Placed = (Pair, Quantity, Point);

/// Returns the points of a report; `near` and `far` are the names of initiator and responder in the
/// series, by default those of the run.
pub fn points_of(report: &AnyReport, near: Option<&str>, far: Option<&str>) -> Vec<Placed> {
    let begun = |run: &Run| Ends::new(run, near, far);
    match report {
        AnyReport::Throughput(it) => begun(&it.run).map(|ends| throughput(it, &ends)),
        AnyReport::Available(it) => begun(&it.run).map(|ends| available(it, &ends)),
        AnyReport::Path(it) => begun(&it.run).map(|ends| path(it, &ends)),
        AnyReport::Load(it) => begun(&it.run).map(|ends| load(it, &ends)),
        AnyReport::Imported(it) => begun(&it.run).map(|ends| imported(it, &ends)),
        AnyReport::Scan(_) | AnyReport::Host(_) | AnyReport::Predict(_) | AnyReport::Copy(_) => {
            None
        }
    }
    .unwrap_or_default()
}

struct Ends {
    near: String,
    far: String,
    at_us: i64,
}

impl Ends {
    /// Returns `None` for a part of a larger run, and if the start time cannot be parsed.
    fn new(run: &Run, near: Option<&str>, far: Option<&str>) -> Option<Ends> {
        if run.part_of.is_some() {
            return None;
        }
        Some(Ends {
            near: near.unwrap_or(&run.initiator.host).to_owned(),
            far: far.unwrap_or(&run.responder.host).to_owned(),
            at_us: unix_us(&run.started_at)?,
        })
    }

    fn point(&self, forward: bool, quantity: Quantity, value: f64) -> Placed {
        let (from, to) = if forward {
            (&self.near, &self.far)
        } else {
            (&self.far, &self.near)
        };
        let pair = Pair {
            from: from.clone(),
            to: to.clone(),
        };
        let at_us = self.at_us;
        (pair, quantity, Point { at_us, value })
    }
}

/// Parses a UTC time such as `2026-01-31T12:00:00.25Z` into microseconds since 1970.
fn unix_us(rfc3339: &str) -> Option<i64> {
    let whole = (track::minutes(rfc3339)? * 60.0).round() as i64;
    let digits = rfc3339.split_once('.').map_or("", |(_, rest)| rest);
    let places = (0..6u32).zip(digits.bytes().take_while(u8::is_ascii_digit));
    let fraction = places.map(|(i, digit)| i64::from(digit - b'0') * 10_i64.pow(5 - i));
    Some(
        whole
            .saturating_mul(1_000_000)
            .saturating_add(fraction.sum()),
    )
}

fn throughput(report: &Throughput, ends: &Ends) -> Vec<Placed> {
    let forward = report.plan.direction != Direction::Reverse;
    let mut placed = transfer(&report.analysis, ends, forward);
    if let Some(other) = &report.analysis.reverse {
        placed.extend(transfer(other, ends, !forward));
    }
    placed
}

fn transfer(analysis: &analysis::Analysis, ends: &Ends, forward: bool) -> Vec<Placed> {
    let totals = &analysis.totals;
    let again = totals.retransmitted_segments.zip(totals.data_segments_sent);
    let readings = [
        // A transfer without payload failed; it is not a value of the path.
        (Quantity::Goodput, above_zero(analysis.goodput_bps)),
        (
            Quantity::Retransmits,
            again.and_then(|(part, all)| share(part, all)),
        ),
        (Quantity::Loss, totals.loss_ratio),
    ];
    placed(ends, forward, readings)
}

/// A rate without a known direction belongs to no series.
fn imported(report: &Imported, ends: &Ends) -> Vec<Placed> {
    let goodput = report.observation.forward.map_or_else(Vec::new, |forward| {
        let value = above_zero(report.analysis.goodput_bps);
        placed(ends, forward, [(Quantity::Goodput, value)])
    });
    let floor = report.analysis.rtt_min_us.map(|us| us as f64);
    let floor = placed(ends, true, [(Quantity::RttFloor, floor)]);
    goodput.into_iter().chain(floor).collect()
}

fn available(report: &Available, ends: &Ends) -> Vec<Placed> {
    let (there, back) = (&report.analysis.forward, &report.analysis.reverse);
    let mut found = there
        .as_ref()
        .map_or_else(Vec::new, |it| estimate(it, ends, true));
    found.extend(back.iter().flat_map(|it| estimate(it, ends, false)));
    found
}

fn estimate(estimate: &Estimate, ends: &Ends, forward: bool) -> Vec<Placed> {
    let sound = matches!(estimate.verdict, Verdict::Estimated | Verdict::CapacityOnly);
    let capacity = estimate.capacity_bps.filter(|_| sound);
    let available = estimate.available_bps.map(|bps| bps as f64);
    let readings = [
        (Quantity::Available, available.filter(|_| sound)),
        (Quantity::Capacity, above_zero(capacity)),
    ];
    placed(ends, forward, readings)
}

fn path(report: &Path, ends: &Ends) -> Vec<Placed> {
    let seen = &report.observation;
    let mut found = Vec::new();
    let directions = [
        (true, report.analysis.rtt.as_ref(), seen.route.as_ref()),
        (
            false,
            report.analysis.rtt_reverse.as_ref(),
            seen.route_reverse.as_ref(),
        ),
    ];
    for (forward, rtt, route) in directions {
        let readings = [
            (Quantity::RttFloor, rtt.and_then(floor_us)),
            (Quantity::Loss, rtt.and_then(loss)),
            (Quantity::Hops, route.and_then(hops)),
        ];
        found.extend(placed(ends, forward, readings));
    }
    found
}

fn load(report: &Load, ends: &Ends) -> Vec<Placed> {
    let idle = report.analysis.idle.filter(|idle| idle.rtt_min_ns > 0);
    let readings = [
        (
            Quantity::RttFloor,
            idle.map(|idle| idle.rtt_min_ns as f64 / 1e3),
        ),
        (Quantity::Loss, idle.map(|idle| idle.loss_ratio)),
    ];
    placed(ends, true, readings)
}

fn placed<const N: usize>(
    ends: &Ends,
    forward: bool,
    readings: [(Quantity, Option<f64>); N],
) -> Vec<Placed> {
    let taken = readings
        .into_iter()
        .filter_map(|(quantity, value)| Some((quantity, value?)));
    taken
        .filter(|(_, value)| value.is_finite())
        .map(|(quantity, value)| ends.point(forward, quantity, value))
        .collect()
}

fn above_zero(bps: Option<u64>) -> Option<f64> {
    bps.filter(|bps| *bps > 0).map(|bps| bps as f64)
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (part as f64 / all as f64).min(1.0))
}

fn floor_us(rtt: &Rtt) -> Option<f64> {
    (rtt.answered > 0).then_some(rtt.min_ns as f64 / 1e3)
}

/// Returns the loss ratio; a host that answers no probe may just not reply to them.
fn loss(rtt: &Rtt) -> Option<f64> {
    (rtt.answered > 0).then_some(rtt.loss_ratio)
}

/// Returns the number of hops, if the trace reached the end.
fn hops(route: &Route) -> Option<f64> {
    (route.reached && !route.hops.is_empty()).then_some(route.hops.len() as f64)
}

#[cfg(test)]
mod tests;
