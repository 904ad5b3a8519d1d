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
//! Source: the reports' own analyses. Units: of the quantity (`PathQuantity::unit`), us.
//! Error: that of the report. Wrong when: RTT floors come from different protocols; hosts answer
//! them differently.

use longhaul_model::report::v1::available::{AvailableEstimate, EstimateVerdict};
use longhaul_model::report::v1::path::ObservedRoute;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_model::report::v1::{
    AnyReport, AvailableReport, ImportedReport, LoadReport, PathReport, RunInfo, ThroughputReport,
    analysis,
};

/// A value with the series that it belongs to.
pub type ReportPoint = (HostPair, PathQuantity, SeriesPoint);

/// Returns the points of a report; `near` and `far` are the names of initiator and responder in the
/// series, by default those of the run.
pub fn extract_points(
    report: &AnyReport,
    near: Option<&str>,
    far: Option<&str>,
) -> Vec<ReportPoint> {
    let Some(ends) = SeriesEnds::new(report.run(), near, far) else {
        return Vec::new();
    };
    match report {
        AnyReport::Throughput(it) => list_throughput_points(it, &ends),
        AnyReport::Available(it) => list_available_points(it, &ends),
        AnyReport::Path(it) => list_path_points(it, &ends),
        AnyReport::Load(it) => list_load_points(it, &ends),
        AnyReport::Imported(it) => list_imported_points(it, &ends),
        AnyReport::Scan(_) | AnyReport::Host(_) | AnyReport::Predict(_) | AnyReport::Copy(_) => {
            Vec::new()
        }
    }
}

struct SeriesEnds {
    near: String,
    far: String,
    at_us: i64,
}

impl SeriesEnds {
    /// Returns `None` for a part of a larger run, and if the start time cannot be parsed.
    fn new(run: &RunInfo, near: Option<&str>, far: Option<&str>) -> Option<SeriesEnds> {
        if run.part_of.is_some() {
            return None;
        }
        Some(SeriesEnds {
            near: near.unwrap_or(&run.initiator.host).to_owned(),
            far: far.unwrap_or(&run.responder.host).to_owned(),
            at_us: run.started_at.parse::<jiff::Timestamp>().ok()?.as_microsecond(),
        })
    }

    fn point(&self, forward: bool, quantity: PathQuantity, value: f64) -> ReportPoint {
        let (from, to) = if forward { (&self.near, &self.far) } else { (&self.far, &self.near) };
        let pair = HostPair { from: from.clone(), to: to.clone() };
        let at_us = self.at_us;
        (pair, quantity, SeriesPoint { at_us, value })
    }
}

fn list_throughput_points(report: &ThroughputReport, ends: &SeriesEnds) -> Vec<ReportPoint> {
    let forward = report.plan.direction != RunDirection::Reverse;
    let mut placed = list_transfer_points(&report.analysis, ends, forward);
    if let Some(other) = &report.analysis.reverse {
        placed.extend(list_transfer_points(other, ends, !forward));
    }
    placed
}

fn list_transfer_points(
    analysis: &analysis::ThroughputAnalysis,
    ends: &SeriesEnds,
    forward: bool,
) -> Vec<ReportPoint> {
    let totals = &analysis.totals;
    let sent = totals.data_segments_sent.filter(|segments| *segments > 0);
    let again = totals.retransmitted_segments.zip(sent);
    let readings = [
        // A transfer without payload failed; it is not a value of the path.
        (PathQuantity::Goodput, positive_bps(analysis.goodput_bps)),
        (PathQuantity::Retransmits, again.map(|(part, all)| (part as f64 / all as f64).min(1.0))),
        (PathQuantity::Loss, totals.loss_ratio),
    ];
    build_points(ends, forward, readings)
}

/// A rate without a known direction belongs to no series.
fn list_imported_points(report: &ImportedReport, ends: &SeriesEnds) -> Vec<ReportPoint> {
    let goodput = report.observation.forward.map_or_else(Vec::new, |forward| {
        let value = positive_bps(report.analysis.goodput_bps);
        build_points(ends, forward, [(PathQuantity::Goodput, value)])
    });
    let floor = report.analysis.rtt_min_us.map(|us| us as f64);
    let floor = build_points(ends, true, [(PathQuantity::RttFloor, floor)]);
    goodput.into_iter().chain(floor).collect()
}

fn list_available_points(report: &AvailableReport, ends: &SeriesEnds) -> Vec<ReportPoint> {
    let (there, back) = (&report.analysis.forward, &report.analysis.reverse);
    let mut found = there.as_ref().map_or_else(Vec::new, |it| list_estimate_points(it, ends, true));
    found.extend(back.iter().flat_map(|it| list_estimate_points(it, ends, false)));
    found
}

fn list_estimate_points(
    estimate: &AvailableEstimate,
    ends: &SeriesEnds,
    forward: bool,
) -> Vec<ReportPoint> {
    let sound =
        matches!(estimate.verdict, EstimateVerdict::Estimated | EstimateVerdict::CapacityOnly);
    let capacity = estimate.capacity_bps.filter(|_| sound);
    let available = estimate.available_bps.map(|bps| bps as f64);
    let readings = [
        (PathQuantity::Available, available.filter(|_| sound)),
        (PathQuantity::Capacity, positive_bps(capacity)),
    ];
    build_points(ends, forward, readings)
}

fn list_path_points(report: &PathReport, ends: &SeriesEnds) -> Vec<ReportPoint> {
    let seen = &report.observation;
    let mut found = Vec::new();
    let directions = [
        (true, report.analysis.rtt.as_ref(), seen.route.as_ref()),
        (false, report.analysis.rtt_reverse.as_ref(), seen.route_reverse.as_ref()),
    ];
    for (forward, rtt, route) in directions {
        // A host that answers no probe may just not reply to them, so it has no loss either.
        let rtt = rtt.filter(|rtt| rtt.answered > 0);
        let readings = [
            (PathQuantity::RttFloor, rtt.map(|rtt| rtt.min_ns as f64 / 1e3)),
            (PathQuantity::Loss, rtt.map(|rtt| rtt.loss_ratio)),
            (PathQuantity::Hops, route.and_then(count_hops)),
        ];
        found.extend(build_points(ends, forward, readings));
    }
    found
}

fn list_load_points(report: &LoadReport, ends: &SeriesEnds) -> Vec<ReportPoint> {
    let idle = report.analysis.idle.filter(|idle| idle.rtt_min_ns > 0);
    let readings = [
        (PathQuantity::RttFloor, idle.map(|idle| idle.rtt_min_ns as f64 / 1e3)),
        (PathQuantity::Loss, idle.map(|idle| idle.loss_ratio)),
    ];
    build_points(ends, true, readings)
}

fn build_points<const N: usize>(
    ends: &SeriesEnds,
    forward: bool,
    readings: [(PathQuantity, Option<f64>); N],
) -> Vec<ReportPoint> {
    let taken = readings.into_iter().filter_map(|(quantity, value)| Some((quantity, value?)));
    taken
        .filter(|(_, value)| value.is_finite())
        .map(|(quantity, value)| ends.point(forward, quantity, value))
        .collect()
}

fn positive_bps(bps: Option<u64>) -> Option<f64> {
    bps.filter(|bps| *bps > 0).map(|bps| bps as f64)
}

/// Returns the number of hops, if the trace reached the end.
fn count_hops(route: &ObservedRoute) -> Option<f64> {
    (route.reached && !route.hops.is_empty()).then_some(route.hops.len() as f64)
}

#[cfg(test)]
mod tests;
