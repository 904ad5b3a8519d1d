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

use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::available::{AvailableEstimate, EstimateVerdict};
use longhaul_model::report::v1::path::{ObservedRoute, PathRtt};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, RunInfo};

/// A value with the series that it belongs to.
pub type ReportPoint = (HostPair, PathQuantity, SeriesPoint);

/// Returns the points of a report; `near` and `far` are the names of initiator and responder in the
/// series, by default those of the run.
pub fn extract_points(
    report: &AnyReport,
    near: Option<&str>,
    far: Option<&str>,
) -> Vec<ReportPoint> {
    let Some(mut found) = PointList::new(report.run(), near, far) else {
        return Vec::new();
    };
    match report {
        AnyReport::Throughput(it) => {
            let forward = it.plan.direction != RunDirection::Reverse;
            found.add_transfer(&it.analysis, forward);
            it.analysis.reverse.iter().for_each(|other| found.add_transfer(other, !forward));
        }
        AnyReport::Available(it) => {
            it.analysis.forward.iter().for_each(|estimate| found.add_estimate(estimate, true));
            it.analysis.reverse.iter().for_each(|estimate| found.add_estimate(estimate, false));
        }
        AnyReport::Path(it) => {
            let (seen, judged) = (&it.observation, &it.analysis);
            found.add_path(judged.rtt.as_ref(), seen.route.as_ref(), true);
            found.add_path(judged.rtt_reverse.as_ref(), seen.route_reverse.as_ref(), false);
        }
        AnyReport::Load(it) => {
            let idle = it.analysis.idle.filter(|idle| idle.rtt_min_ns > 0);
            found.add(true, PathQuantity::RttFloor, idle.map(|it| it.rtt_min_ns as f64 / 1e3));
            found.add(true, PathQuantity::Loss, idle.map(|it| it.loss_ratio));
        }
        AnyReport::Imported(it) => {
            // A rate without a known direction belongs to no series.
            if let Some(forward) = it.observation.forward {
                found.add(forward, PathQuantity::Goodput, positive_bps(it.analysis.goodput_bps));
            }
            found.add(true, PathQuantity::RttFloor, it.analysis.rtt_min_us.map(|us| us as f64));
        }
        AnyReport::Scan(_) | AnyReport::Host(_) | AnyReport::Predict(_) | AnyReport::Copy(_) => {}
    }
    found.points
}

/// The points of a report, and the ends of its series.
struct PointList {
    near: String,
    far: String,
    at_us: i64,
    points: Vec<ReportPoint>,
}

impl PointList {
    /// Returns `None` for a part of a larger run, and if the start time cannot be parsed.
    fn new(run: &RunInfo, near: Option<&str>, far: Option<&str>) -> Option<PointList> {
        if run.part_of.is_some() {
            return None;
        }
        Some(PointList {
            near: near.unwrap_or(&run.initiator.host).to_owned(),
            far: far.unwrap_or(&run.responder.host).to_owned(),
            at_us: run.started_at.parse::<jiff::Timestamp>().ok()?.as_microsecond(),
            points: Vec::new(),
        })
    }

    fn add(&mut self, forward: bool, quantity: PathQuantity, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        let (from, to) = if forward { (&self.near, &self.far) } else { (&self.far, &self.near) };
        let pair = HostPair { from: from.clone(), to: to.clone() };
        self.points.push((pair, quantity, SeriesPoint { at_us: self.at_us, value }));
    }

    fn add_transfer(&mut self, analysis: &ThroughputAnalysis, forward: bool) {
        let totals = &analysis.totals;
        let sent = totals.data_segments_sent.filter(|segments| *segments > 0);
        let again = totals.retransmitted_segments.zip(sent);
        let again = again.map(|(part, all)| (part as f64 / all as f64).min(1.0));
        // A transfer without payload failed; it is not a value of the path.
        self.add(forward, PathQuantity::Goodput, positive_bps(analysis.goodput_bps));
        self.add(forward, PathQuantity::Retransmits, again);
        self.add(forward, PathQuantity::Loss, totals.loss_ratio);
    }

    fn add_estimate(&mut self, estimate: &AvailableEstimate, forward: bool) {
        if matches!(estimate.verdict, EstimateVerdict::Estimated | EstimateVerdict::CapacityOnly) {
            let available = estimate.available_bps.map(|bps| bps as f64);
            self.add(forward, PathQuantity::Available, available);
            self.add(forward, PathQuantity::Capacity, positive_bps(estimate.capacity_bps));
        }
    }

    fn add_path(&mut self, rtt: Option<&PathRtt>, route: Option<&ObservedRoute>, forward: bool) {
        // A host that answers no probe may just not reply to them, so it has no loss either.
        let rtt = rtt.filter(|rtt| rtt.answered > 0);
        self.add(forward, PathQuantity::RttFloor, rtt.map(|rtt| rtt.min_ns as f64 / 1e3));
        self.add(forward, PathQuantity::Loss, rtt.map(|rtt| rtt.loss_ratio));
        self.add(forward, PathQuantity::Hops, route.and_then(count_hops));
    }
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
