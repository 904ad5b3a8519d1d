//! Detects lasting changes in the level of a series.
//!
//! Takes logarithms (or another scale that evens out the noise) and ten-minute medians, subtracts
//! the daily season if that helps, splits by rank sums, and merges with less weight for
//! autocorrelated noise. `docs/methods/detection.md` describes the method, its parameters and its
//! measured quality.
//!
//! Source: docs/methods/detection.md. Units: those of the quantity; times in us.
//! Error: docs/methods/detection.md; the test `tests/detection` asserts it.
//! Wrong when: the level drifts instead of stepping, a step lasts fewer than four samples, or less
//! than half of the values show it (occasional loss).
//!
//! # Quantity scale
//!
//! The scale on which a quantity has even noise, and the differences that matter on it.
//!
//! Source: rates and times by ratio (8 %), shares by the arcsine of the root (Anscombe 1948).
//! Units: natural logarithm, radian, count.
//! Error: none. Wrong when: a share is of few packets: its noise is then not even.
//!
//! # Rank split
//!
//! The rank-sum statistic of two neighbouring ranges.
//!
//! The rank sum of Mann and Whitney, standardised and corrected for ties, without continuity
//! correction. Source: Mann and Whitney 1947. Units: standard deviations. Error: none but rounding.
//! Wrong when: neighbours are correlated: the merge corrects for that.
//!
//! # Sudden change
//!
//! Detects a sudden change: the newest values have all left the level to one side.
//!
//! Three consecutive values beyond the usual range, long before the level analysis is certain. The
//! event tracking later confirms or withdraws the suspicion.
//! Source: our own (docs/methods/detection.md). Units: of the quantity.
//! Error: up to 0.4 false alarms in 1000 values of synthetic series with busy hours and low values.
//! Wrong when: low values come in clusters, as with a busy host.
//!
//! # Series sample
//!
//! Cleans a series and thins it to samples.
//!
//! Keeps valid values in time order; if they come faster than the slot, takes the median of each
//! slot.
//! Source: our own (docs/methods/detection.md). Units: those of the values, us.
//! Error: a change is located to one slot at best.
//! Wrong when: a clock was set back: then values with wrong times come first.
//!
//! # Report points
//!
//! Extracts from a finished report the points that it adds to series.
//!
//! - throughput: goodput and retransmit ratio of each direction; loss of UDP
//! - available: available bandwidth and capacity of each direction
//! - path: RTT floor, loss and hops of each measured direction
//! - load: RTT floor and loss of its idle phases
//! - latency: RTT floor, median and p95; delay variation and, if the clocks allow it, delay of each
//!   direction; loss, of each direction if the reflector counts
//! - flows: goodput, retransmit ratio and share of the hosts' limits of the busiest transfers
//!
//! Missing readings give no point. Neither do probes of a scan or of a before/after test, whose
//! settings are not those of the series, nor capacities that are bounds.
//!
//! Source: the reports' own analyses. Units: of the quantity (`PathQuantity::unit`), us.
//! Error: that of the report. Wrong when: RTT floors come from different protocols; hosts answer
//! them differently.

pub mod daily_season;
pub mod event_tracking;
pub mod level_shifts;
pub mod transfer_points;

/// The minimum rate, because the logarithm needs a floor.
const MIN_RATE: f64 = 1e-3;

/// Converts a value to its scale.
pub fn scale_value(value: f64, scale: QuantityScale) -> f64 {
    match scale {
        QuantityScale::Ratio => value.max(MIN_RATE).ln(),
        QuantityScale::Share => value.clamp(0.0, 1.0).sqrt().asin(),
        QuantityScale::Count => value,
    }
}

/// The change of RTT that 10 km of fibre make, there and back.
const DETOUR_US: f64 = 100.0;

/// Returns the minimum lasting difference of a quantity at this level.
///
/// An RTT has little noise, and a detour changes it by a time, not by a ratio: 0.1 ms counts, if it
/// is at least 0.5 %, and 3 % always do. A share must grow from zero to 0.1 %, or from 1 to 1.7 %;
/// one hop counts.
pub fn min_lasting_difference(quantity: PathQuantity, level: f64) -> f64 {
    match (quantity, quantity.scale()) {
        (PathQuantity::RttFloor | PathQuantity::RttMedian, _) => {
            (DETOUR_US / level).clamp(0.005, 0.03).ln_1p()
        }
        (_, QuantityScale::Ratio) => 1.08_f64.ln(),
        (_, QuantityScale::Share) => 0.03,
        (_, QuantityScale::Count) => 0.5,
    }
}

/// Returns the minimum difference of a sudden change.
pub fn min_sudden_difference(quantity: PathQuantity) -> f64 {
    match quantity.scale() {
        QuantityScale::Ratio => 1.15_f64.ln(),
        QuantityScale::Share => 0.06,
        QuantityScale::Count => 0.5,
    }
}

/// Returns the split of the values with the largest |z|, with `margin` values or more on each side.
fn find_best_split(values: &[f64], margin: usize) -> Option<(usize, f64)> {
    if values.len() < 2 * margin {
        return None;
    }
    let ranks = MidRanks::of(values);
    let mut below: usize = ranks.doubled[..margin - 1].iter().sum();
    let mut best = (0, 0.0);
    for left in margin..=values.len() - margin {
        below += ranks.doubled[left - 1];
        let z = standardize_rank_sum(below, left, &ranks);
        if z > best.1 {
            best = (left, z);
        }
    }
    (best.1 > 0.0).then_some(best)
}

/// Returns the |z| of the split of the values at `at`.
fn compute_split_z(values: &[f64], at: usize) -> f64 {
    let ranks = MidRanks::of(values);
    standardize_rank_sum(ranks.doubled[..at].iter().sum(), at, &ranks)
}

/// Standardises twice the rank sum of the left side.
fn standardize_rank_sum(doubled: usize, left: usize, ranks: &MidRanks) -> f64 {
    let over = doubled as f64 / 2.0 - left as f64 * (ranks.doubled.len() as f64 + 1.0) / 2.0;
    let variance = ranks.rank_sum_variance(left);
    if variance > 1e-9 { over.abs() / variance.sqrt() } else { 0.0 }
}

/// Returns the maximum |z| of such a split without ties: all of one side above the other.
fn compute_max_z(left: usize, right: usize) -> f64 {
    let (k, m) = (left as f64, right as f64);
    (3.0 * k * m / (k + m + 1.0)).sqrt()
}

/// The number of consecutive values that raise a suspicion.
const MIN_VALUES_BEYOND: usize = 3;
/// The minimum number of values of the level before them.
const MIN_VALUES_BEFORE: usize = 8;
/// The maximum number of values of the level used for comparison.
const MAX_VALUES_BEFORE: usize = 120;
/// The minimum distance in standard deviations.
const MIN_SIGMAS: f64 = 3.0;

/// Returns the sudden change at the end of the series, if any.
///
/// Its position is the first of the consecutive values beyond the threshold; its score is the
/// smallest distance among the last three, relative to the threshold.
pub fn find_sudden_change(course: &SeriesLevels, quantity: PathQuantity) -> Option<LevelChange> {
    let values = &course.scaled;
    let level_begin = course.levels.shifts.last().map_or(0, |shift| shift.at);
    let last = values.len().checked_sub(MIN_VALUES_BEYOND)?;
    let begin = level_begin.max(last.saturating_sub(MAX_VALUES_BEFORE));
    if last < begin + MIN_VALUES_BEFORE {
        return None;
    }
    let usual = median(values[begin..last].iter().copied())?;
    let reach = (MIN_SIGMAS * course.levels.sigma).max(min_sudden_difference(quantity));
    let downwards = values[last] < usual;
    let distance = |value: &f64| {
        if downwards { usual - value } else { value - usual }
    };
    let least = values[last..].iter().map(distance).fold(f64::MAX, f64::min);
    if least <= reach {
        return None;
    }
    let run = values[begin..].iter().rev().take_while(|v| distance(v) > reach);
    let at = values.len() - run.count();
    if at < begin + MIN_VALUES_BEFORE {
        return None;
    }
    build_level_change(
        &course.samples[begin..at],
        &course.samples[at..],
        &LevelShift { at, score: least / reach },
        course.levels.autocorrelation,
    )
}

/// The maximum value; sums of squares below it are finite.
const MAX_VALUE: f64 = 1e100;

/// The maximum number of samples: a week of ten-minute medians, which the season needs.
pub const MAX_SERIES_SAMPLES: usize = 1008;
/// Values spaced slightly closer than the slot still count as one per slot.
const MIN_SPACING_RATIO: f64 = 0.9;

/// One value, or the median of the values of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesSample {
    /// The time of the first value in it.
    pub first_us: i64,
    /// The time of the last value in it.
    pub last_us: i64,
    pub value: f64,
}

/// Returns the newest samples in time order.
pub fn build_samples(points: &[SeriesPoint], slot_us: u64) -> Vec<SeriesSample> {
    let sound = clean_points(points);
    let all: Vec<SeriesSample> = match median_spacing_us(sound.iter().map(|p| p.at_us)) {
        Some(spacing) if spacing < MIN_SPACING_RATIO * slot_us as f64 => {
            group_by_slot(&sound, slot_us as i64)
        }
        _ => sound.iter().map(|p| summarize_slot(std::slice::from_ref(p))).collect(),
    };
    let first = all.len().saturating_sub(MAX_SERIES_SAMPLES);
    all[first..].to_vec()
}

/// Returns the median interval between times in us; absent for fewer than two.
pub fn median_spacing_us(times: impl Iterator<Item = i64> + Clone) -> Option<f64> {
    let gaps = times.clone().zip(times.skip(1)).map(|(a, b)| b.abs_diff(a));
    median(gaps.map(|gap| gap as f64))
}

fn clean_points(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let mut sound: Vec<SeriesPoint> =
        points.iter().copied().filter(|p| (0.0..MAX_VALUE).contains(&p.value)).collect();
    sound.sort_by(|a, b| a.at_us.cmp(&b.at_us).then(a.value.total_cmp(&b.value)));
    sound.dedup_by_key(|p| p.at_us);
    sound
}

/// Groups by slot. Slots are counted from 1970, so that they do not move as the series grows.
fn group_by_slot(points: &[SeriesPoint], slot_us: i64) -> Vec<SeriesSample> {
    let same = |a: &SeriesPoint, b: &SeriesPoint| {
        a.at_us.div_euclid(slot_us) == b.at_us.div_euclid(slot_us)
    };
    points.chunk_by(same).map(summarize_slot).collect()
}

fn summarize_slot(points: &[SeriesPoint]) -> SeriesSample {
    let mut values: Vec<f64> = points.iter().map(|p| p.value).collect();
    values.sort_by(f64::total_cmp);
    SeriesSample {
        first_us: points[0].at_us,
        last_us: points[points.len() - 1].at_us,
        value: quantile(&values, 0.5).unwrap_or(0.0),
    }
}

/// A value with the series that it belongs to.
pub type ReportPoint = (HostPair, PathQuantity, SeriesPoint);

/// Returns the points of a report; `near` and `far` are the names of initiator and responder in the
/// series, by default those of the run. A measurement that ended early has none.
pub fn extract_points(
    report: &AnyReport,
    near: Option<&str>,
    far: Option<&str>,
) -> Vec<ReportPoint> {
    let Some(mut found) = PointList::new(report.run(), near, far) else {
        return Vec::new();
    };
    if report.caveats().iter().any(ReportCaveat::is_early_end) {
        return Vec::new();
    }
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
        AnyReport::Flows(it) => found.add_flows(it),
        AnyReport::Latency(it) => found.add_latency(&it.analysis),
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
        let (from, to) = if forward { (&self.near, &self.far) } else { (&self.far, &self.near) };
        self.add_to(&HostPair { from: from.clone(), to: to.clone() }, quantity, value);
    }

    fn add_to(&mut self, pair: &HostPair, quantity: PathQuantity, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let point = SeriesPoint { at_us: self.at_us, value };
            self.points.push((pair.clone(), quantity, point));
        }
    }

    /// Adds the values of the busiest transfers.
    fn add_flows(&mut self, report: &FlowsReport) {
        for values in transfer_points::list_transfer_values(report, &self.near) {
            let TransferValues { pair, rate_bps, run } = values;
            self.add_to(&pair, PathQuantity::Goodput, positive_bps(Some(rate_bps)));
            self.add_to(&pair, PathQuantity::Retransmits, compute_retransmit_ratio(run));
            self.add_to(&pair, PathQuantity::HostShare, transfer_points::compute_host_share(run));
        }
    }

    fn add_transfer(&mut self, analysis: &ThroughputAnalysis, forward: bool) {
        let totals = &analysis.totals;
        let again = compute_retransmit_ratio(analysis);
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

    /// Adds the round trips of a session, and its losses: without a count of the reflector, all are of
    /// the forward direction, as those of a path.
    fn add_latency(&mut self, it: &LatencyAnalysis) {
        let rtt = it.rtt.filter(|rtt| rtt.min_ns > 0);
        let as_us = |ns: i64| ns as f64 / 1e3;
        self.add(true, PathQuantity::RttFloor, rtt.map(|rtt| as_us(rtt.min_ns)));
        self.add(true, PathQuantity::RttMedian, rtt.map(|rtt| as_us(rtt.p50_ns)));
        self.add(true, PathQuantity::RttP95, rtt.map(|rtt| as_us(rtt.p95_ns)));
        for (forward, direction) in [(true, &it.forward), (false, &it.reverse)] {
            let delay = direction.as_ref().and_then(|it| it.delay);
            let delay = delay.filter(|delay| delay.min_ns > 0).map(|delay| as_us(delay.min_ns));
            self.add(forward, PathQuantity::OneWayDelay, delay);
            let variation = direction.as_ref().and_then(|it| it.variation);
            let variation = variation.map(|delays| as_us(delays.p95_ns));
            self.add(forward, PathQuantity::DelayVariation, variation);
        }
        let loss = |direction: &Option<OneWayLatency>| Some(direction.as_ref()?.counts?.loss_ratio);
        match loss(&it.forward).zip(loss(&it.reverse)) {
            Some((forward, reverse)) => {
                self.add(true, PathQuantity::Loss, Some(forward));
                self.add(false, PathQuantity::Loss, Some(reverse));
            }
            None => self.add(true, PathQuantity::Loss, (it.sent > 0).then_some(it.loss_ratio)),
        }
    }

    fn add_path(&mut self, rtt: Option<&PathRtt>, route: Option<&ObservedRoute>, forward: bool) {
        // A host that answers no probe may just not reply to them, so it has no loss either.
        let rtt = rtt.filter(|rtt| rtt.answered > 0);
        let as_us = |ns: u64| ns as f64 / 1e3;
        self.add(forward, PathQuantity::RttFloor, rtt.map(|rtt| as_us(rtt.min_ns)));
        self.add(forward, PathQuantity::RttMedian, rtt.map(|rtt| as_us(rtt.median_ns)));
        self.add(forward, PathQuantity::RttP95, rtt.and_then(|rtt| rtt.p95_ns).map(as_us));
        self.add(forward, PathQuantity::Loss, rtt.map(|rtt| rtt.loss_ratio));
        self.add(forward, PathQuantity::Hops, route.and_then(count_hops));
    }
}

/// Returns the retransmitted share of the segments with data.
pub fn compute_retransmit_ratio(analysis: &ThroughputAnalysis) -> Option<f64> {
    let totals = &analysis.totals;
    let sent = totals.data_segments_sent.filter(|segments| *segments > 0)?;
    Some((totals.retransmitted_segments? as f64 / sent as f64).min(1.0))
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

use daily_season::DailySeason;
use level_shifts::{LevelShift, LevelShifts};
use longhaul_analysis::stats::{MidRanks, median, quantile, sort_finite};
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::available::{AvailableEstimate, EstimateVerdict};
use longhaul_model::report::v1::latency::{LatencyAnalysis, OneWayLatency};
use longhaul_model::report::v1::path::{ObservedRoute, PathRtt};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};
use longhaul_model::report::v1::{
    AnyReport, FlowsReport, HostPair, QuantityLevel, ReportCaveat, RunInfo, SeriesPoint,
};
use transfer_points::TransferValues;

/// Parameters of the preparation of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionOptions {
    /// Values closer together than this are replaced by their median over this time.
    pub slot_us: u64,
    /// The period of the season.
    pub day_us: u64,
    /// Set to subtract a season.
    pub season: bool,
    /// The minimum difference of two levels, on the quantity's scale; absent: its default.
    pub least: Option<f64>,
}

impl Default for DetectionOptions {
    fn default() -> Self {
        DetectionOptions { slot_us: 600_000_000, day_us: 86_400_000_000, season: true, least: None }
    }
}

impl DetectionOptions {
    /// Scales all times for a clock that runs `factor` times faster, as in a test.
    #[must_use]
    pub fn with_time_factor(self, factor: u64) -> DetectionOptions {
        let factor = factor.max(1);
        DetectionOptions {
            slot_us: (self.slot_us / factor).max(1),
            day_us: (self.day_us / factor).max(1),
            ..self
        }
    }
}

/// One lasting change of level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelChange {
    /// The index of the first sample after it.
    pub sample: usize,
    /// The times of the last value before it and of the first one after it.
    pub between_us: [i64; 2],
    pub before: QuantityLevel,
    pub after: QuantityLevel,
    /// The score of the change; 1 is the threshold.
    pub score: f64,
    /// The correlation of neighbouring values around their levels.
    pub autocorrelation: f64,
}

impl LevelChange {
    /// Returns `after` divided by `before`; absent if `before` is zero.
    pub fn ratio(&self) -> Option<f64> {
        (self.before.median > 0.0).then(|| self.after.median / self.before.median)
    }
}

/// A series with its samples, levels and changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesLevels {
    pub samples: Vec<SeriesSample>,
    pub changes: Vec<LevelChange>,
    /// On the scale of the quantity, without season.
    pub(crate) scaled: Vec<f64>,
    pub(crate) levels: LevelShifts,
    pub(crate) season: Option<DailySeason>,
}

/// Returns the lasting changes of a series, in time order.
///
/// Ignores values that are negative or not finite, and repeated times; order does not matter. Only
/// the newest 1008 samples count.
pub fn find_level_changes(
    points: &[SeriesPoint],
    quantity: PathQuantity,
    options: &DetectionOptions,
) -> Vec<LevelChange> {
    analyse_series(points, quantity, options).changes
}

/// Returns the changes with the samples and levels that they are based on.
pub fn analyse_series(
    points: &[SeriesPoint],
    quantity: PathQuantity,
    options: &DetectionOptions,
) -> SeriesLevels {
    let samples = build_samples(points, options.slot_us);
    let mut scaled: Vec<f64> =
        samples.iter().map(|it| scale_value(it.value, quantity.scale())).collect();
    let season = options
        .season
        .then(|| daily_season::find_season(&samples, &scaled, options.day_us))
        .flatten();
    if let Some(season) = &season {
        scaled.iter_mut().zip(&samples).for_each(|(y, it)| *y -= season.value_at(it.first_us));
    }
    let least = options.least.unwrap_or_else(|| {
        let level = median(samples.iter().map(|it| it.value)).unwrap_or(0.0);
        min_lasting_difference(quantity, level)
    });
    let levels = level_shifts::find_levels(&scaled, least);
    let changes = list_level_changes(&samples, &levels);
    SeriesLevels { samples, changes, scaled, levels, season }
}

/// Returns the changes at the start of every level but the first.
fn list_level_changes(samples: &[SeriesSample], levels: &LevelShifts) -> Vec<LevelChange> {
    let ranges = levels.ranges(samples.len());
    let sides = ranges.windows(2).zip(&levels.shifts);
    sides
        .filter_map(|(sides, shift)| {
            let [before, after] = [&sides[0], &sides[1]].map(|range| &samples[range.clone()]);
            build_level_change(before, after, shift, levels.autocorrelation)
        })
        .collect()
}

/// Builds the change between two neighbouring parts of a series; `None` if one is empty.
fn build_level_change(
    before: &[SeriesSample],
    after: &[SeriesSample],
    shift: &LevelShift,
    autocorrelation: f64,
) -> Option<LevelChange> {
    let level = |side: &[SeriesSample]| compute_level(side.iter().map(|it| it.value));
    Some(LevelChange {
        sample: shift.at,
        between_us: [before.last()?.last_us, after.first()?.first_us],
        before: level(before)?,
        after: level(after)?,
        score: shift.score,
        autocorrelation,
    })
}

/// Returns the level of the finite values; `None` if there are none.
pub fn compute_level(values: impl Iterator<Item = f64>) -> Option<QuantityLevel> {
    let finite = sort_finite(values);
    let middle = quantile(&finite, 0.5)?;
    Some(QuantityLevel {
        median: middle,
        deviation: median(finite.iter().map(|value| (value - middle).abs()))?,
        samples: u32::try_from(finite.len()).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod quantity_scale_tests {
    use super::*;

    #[test]
    fn a_detour_of_ten_kilometres_counts_within_limits() {
        for (rtt_us, part) in [(300_000.0, 0.005), (10_000.0, 0.01), (1_000.0, 0.03), (0.0, 0.03)] {
            let least = min_lasting_difference(PathQuantity::RttFloor, rtt_us);
            assert!((least.exp_m1() - part).abs() < 1e-9, "{rtt_us} us: {least}");
        }
    }

    #[test]
    fn nothing_measurable_leaves_the_scale() {
        for scale in [QuantityScale::Ratio, QuantityScale::Share, QuantityScale::Count] {
            for value in [0.0, 1e-300, 0.5, 1.0, 7.0, 1e300] {
                assert!(scale_value(value, scale).is_finite(), "{value} on {scale:?}");
            }
        }
    }
}

#[cfg(test)]
mod rank_split_tests {
    use super::*;

    #[test]
    fn a_clean_step_has_the_largest_z_there_is() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 10 + i / 10 * 100)).collect();
        let (at, z) = find_best_split(&values, 3).unwrap();
        assert_eq!(at, 10);
        assert!((z - compute_max_z(10, 10)).abs() < 1e-9, "{z}");
        assert!((compute_split_z(&values, 10) - z).abs() < 1e-9);
    }

    #[test]
    fn ties_are_counted_as_in_a_worked_case() {
        // Ranks 2 2 2 | 5 5 5 with 1.5-fold ties each: U = 0 of 9, variance 9/12 (7 - 48/30).
        let expected = 4.5 / (9.0 / 12.0 * (7.0 - 48.0 / 30.0_f64)).sqrt();
        let z = compute_split_z(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 3);
        assert!((z - expected).abs() < 1e-9);
    }

    #[test]
    fn constants_and_short_ranges_have_no_split() {
        assert_eq!(find_best_split(&[4.0; 30], 3), None);
        assert_eq!(find_best_split(&[1.0, 2.0, 3.0, 4.0, 5.0], 3), None);
    }
}

#[cfg(test)]
mod series_sample_tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn point(at_us: i64, value: f64) -> SeriesPoint {
        SeriesPoint { at_us, value }
    }

    #[test]
    fn what_is_no_value_is_left_out_and_order_does_not_matter() {
        let points = [
            point(90 * MINUTE, 3.0),
            point(0, 1.0),
            point(30 * MINUTE, f64::NAN),
            point(60 * MINUTE, 2.0),
            point(70 * MINUTE, -1.0),
            point(60 * MINUTE, 2.0),
            point(80 * MINUTE, f64::INFINITY),
        ];
        let values: Vec<f64> =
            build_samples(&points, 600_000_000).iter().map(|it| it.value).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn values_each_minute_become_ten_minute_medians() {
        let points: Vec<SeriesPoint> =
            (0..60).map(|i| point(i * MINUTE, (i % 10) as f64)).collect();
        let found = build_samples(&points, 600_000_000);
        assert_eq!(found.len(), 6);
        assert_eq!(found[1].first_us, 10 * MINUTE);
        assert_eq!(found[1].last_us, 19 * MINUTE);
        assert!((found[1].value - 4.5).abs() < 1e-9);
    }

    #[test]
    fn only_the_newest_are_kept_and_no_time_is_too_far() {
        let hour = 60 * MINUTE;
        let many: Vec<SeriesPoint> = (0..3000).map(|i| point(i * hour, 1.0)).collect();
        let found = build_samples(&many, 600_000_000);
        assert_eq!(found.len(), MAX_SERIES_SAMPLES);
        assert_eq!(found[MAX_SERIES_SAMPLES - 1].last_us, 2999 * hour);
        let far = [point(i64::MIN, 1.0), point(0, 1.0), point(i64::MAX, 1.0)];
        assert_eq!(build_samples(&far, 600_000_000).len(), 3);
    }
}

#[cfg(test)]
mod report_points_tests;
