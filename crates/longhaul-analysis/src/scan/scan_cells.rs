//! Selects the valid cells, and groups them by setting.
//!
//! A resumed scan may contain a cell twice, a failed cell has no result: each position of the order
//! counts once, with its last result.
//!
//! Source: the cells. Units: bit/s. Error: none. Wrong when: two scans are mixed into one.
//!
//! # Curves
//!
//! Curves of goodput over streams, for each window.
//!
//! Source: medians over repeats. Units: bit/s. Error: the range of the repeats.
//! Wrong when: a point has only one probe; then the line includes chance.
//!
//! # Noise
//!
//! Estimates the scatter of goodput between probes of one setting, and the error of a median.
//!
//! Few settings have enough repeats of their own, so the relative scatter of all of them is pooled.
//! A single probe, without any repeat in the scan, has the interval of its own run.
//!
//! Source: pooled variance of repeats; Student's t. Units: ratios, bit/s. Error: for the interval
//! of a median, the 1.25 of normal values.
//! Wrong when: settings scatter very differently (for example policed and window-limited ones).
//!
//! # Scan probe
//!
//! Converts a setting to the plan of a probe, and its report to a cell.
//!
//! Source: the probe's own report. Units: as named by the fields. Error: that of the run.
//! Wrong when: never; a run without payload is kept as a failed cell.

use crate::stats::mean_interval::student_t_975;
use crate::stats::median;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::SocketBuffer;
use longhaul_model::report::v1::plan::{self, RunDirection};
use longhaul_model::report::v1::scan::{
    CurvePoint, GoodputCurve, ScanCell, ScanObservation, SettingChoice, TransferSetting,
};
use longhaul_model::units::Rate;
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the cells with a result, in the order of time.
pub fn list_measured_cells(observation: &ScanObservation) -> Vec<&ScanCell> {
    let mut places: BTreeMap<(u32, bool), &ScanCell> = BTreeMap::new();
    for cell in observation.cells.iter().filter(|c| has_result(c)) {
        places.insert((cell.index, cell.forward), cell);
    }
    let mut cells: Vec<&ScanCell> = places.into_values().collect();
    cells.sort_by_key(|c| (c.at_us, c.index));
    cells
}

/// Returns the cells that failed and did not succeed on another try.
pub fn list_failed_cells(observation: &ScanObservation) -> Vec<&ScanCell> {
    let made_good: Vec<(u32, bool)> =
        list_measured_cells(observation).iter().map(|c| (c.index, c.forward)).collect();
    let mut places: BTreeMap<(u32, bool), &ScanCell> = BTreeMap::new();
    for cell in &observation.cells {
        if !made_good.contains(&(cell.index, cell.forward)) {
            places.insert((cell.index, cell.forward), cell);
        }
    }
    places.into_values().collect()
}

fn has_result(cell: &ScanCell) -> bool {
    cell.error.is_none() && cell.goodput_bps.is_some_and(|bps| bps > 0)
}

pub fn cell_goodput(cell: &ScanCell) -> f64 {
    cell.goodput_bps.unwrap_or(0) as f64
}

/// All measurements of one setting in one direction.
pub struct SettingGroup<'a> {
    pub setting: &'a TransferSetting,
    pub cells: Vec<&'a ScanCell>,
}

/// Returns the groups of one direction, by setting.
pub fn group_by_setting<'a>(cells: &[&'a ScanCell], forward: bool) -> Vec<SettingGroup<'a>> {
    let mut found: BTreeMap<&TransferSetting, Vec<&ScanCell>> = BTreeMap::new();
    for &cell in cells.iter().filter(|c| c.forward == forward) {
        found.entry(&cell.setting).or_default().push(cell);
    }
    let group = |(setting, cells)| SettingGroup { setting, cells };
    found.into_iter().map(group).collect()
}

impl SettingGroup<'_> {
    pub fn median_bps(&self) -> f64 {
        median(self.cells.iter().map(|c| cell_goodput(c))).unwrap_or(0.0)
    }

    /// Returns minimum and maximum.
    pub fn range_bps(&self) -> [u64; 2] {
        let all = || self.cells.iter().filter_map(|c| c.goodput_bps);
        [all().min().unwrap_or(0), all().max().unwrap_or(0)]
    }

    /// Returns the most frequent limiter; of equal ones, that with the higher confidence.
    pub fn limiter(&self) -> Limiter {
        let mut votes: BTreeMap<Limiter, (usize, f64)> = BTreeMap::new();
        for cell in &self.cells {
            let vote = votes.entry(cell.limited_by.unwrap_or(Limiter::Unknown)).or_default();
            vote.0 += 1;
            vote.1 += cell.confidence_ratio.filter(|c| c.is_finite()).unwrap_or(0.0);
        }
        let most =
            votes.into_iter().max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        most.map_or(Limiter::Unknown, |(limiter, _)| limiter)
    }

    pub fn loaded_rtt_us(&self) -> Option<u64> {
        compute_median(self.cells.iter().filter_map(|c| c.loaded_rtt_us))
    }

    /// Returns retransmitted over sent segments, all probes together.
    pub fn retransmitted_ratio(&self) -> Option<f64> {
        let counts =
            self.cells.iter().filter_map(|c| c.data_segments_sent.zip(c.retransmitted_segments));
        let (sent, again) = counts
            .fold((0.0, 0.0), |sum, (sent, again)| (sum.0 + sent as f64, sum.1 + again as f64));
        (sent > 0.0).then(|| (again / sent).min(1.0))
    }

    /// Returns the bandwidth-delay product of the goodput, per stream.
    fn min_window_bytes(&self) -> Option<u64> {
        let idle = self.cells.iter().filter_map(|c| c.idle_rtt_us).min()?;
        let path = Rate::bits_per_second(self.median_bps() as u64);
        let streams = u64::from(self.setting.streams.max(1));
        let each = path.bytes_in(Duration::from_micros(idle)) / streams;
        (each > 0).then_some(each)
    }

    pub fn choice(&self, goodput_interval_bps: Option<[u64; 2]>) -> SettingChoice {
        SettingChoice {
            setting: self.setting.clone(),
            goodput_bps: self.median_bps().round() as u64,
            goodput_interval_bps,
            probes: u32::try_from(self.cells.len()).unwrap_or(u32::MAX),
            limited_by: self.limiter(),
            loaded_rtt_us: self.loaded_rtt_us(),
            retransmitted_ratio: self.retransmitted_ratio(),
            least_window_bytes: self.min_window_bytes(),
            run_ids: self.cells.iter().filter_map(|c| c.run_id.clone()).collect(),
        }
    }
}

/// Returns the minimum idle RTT of the cells: the path's own.
pub fn find_idle_rtt_us(cells: &[&ScanCell]) -> Option<u64> {
    cells.iter().filter_map(|c| c.idle_rtt_us).min()
}

pub fn compute_median(values: impl Iterator<Item = u64>) -> Option<u64> {
    median(values.map(|v| v as f64)).map(|v| v.round() as u64)
}

/// Returns one curve for each window and congestion control, by rising window.
pub fn build_curves(cells: &[&ScanCell], forward: bool) -> Vec<GoodputCurve> {
    let mut curves: BTreeMap<(Option<u64>, Option<&str>), GoodputCurve> = BTreeMap::new();
    for group in group_by_setting(cells, forward) {
        let setting = group.setting;
        let key = (setting.window_bytes, setting.congestion_control.as_deref());
        let curve = curves.entry(key).or_insert_with(|| GoodputCurve {
            window_bytes: setting.window_bytes,
            congestion_control: setting.congestion_control.clone(),
            points: Vec::new(),
        });
        curve.points.push(build_curve_point(&group));
    }
    let mut curves: Vec<GoodputCurve> = curves.into_values().collect();
    for curve in &mut curves {
        curve.points.sort_by_key(|p| p.streams);
    }
    curves
}

fn build_curve_point(group: &SettingGroup) -> CurvePoint {
    let repeats = u32::try_from(group.cells.len()).unwrap_or(u32::MAX);
    CurvePoint {
        streams: group.setting.streams,
        goodput_bps: group.median_bps().round() as u64,
        range_bps: (repeats > 1).then(|| group.range_bps()),
        repeats,
        limited_by: group.limiter(),
    }
}

/// The minimum degrees of freedom to estimate the scatter from repeats.
const MIN_FREEDOM: f64 = 2.0;
/// The median of normal values scatters this much more than their mean.
const MEDIAN_FACTOR: f64 = 1.25;

/// Relative standard deviation of one probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeNoise {
    pub ratio: f64,
    pub freedom: f64,
}

/// Returns the scatter pooled over the groups with repeats; `None` with too few of them.
pub fn estimate_noise(groups: &[SettingGroup]) -> Option<ProbeNoise> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in groups.iter().filter(|g| g.cells.len() > 1) {
        let count = group.cells.len() as f64;
        let mean = group.cells.iter().map(|c| cell_goodput(c)).sum::<f64>() / count;
        let off = |bps: f64| (bps / mean - 1.0).powi(2);
        squares += group.cells.iter().map(|c| off(cell_goodput(c))).sum::<f64>();
        freedom += count - 1.0;
    }
    (freedom >= MIN_FREEDOM).then(|| ProbeNoise { ratio: (squares / freedom).sqrt(), freedom })
}

/// Returns the 95 % interval of the group's median.
pub fn compute_interval_bps(group: &SettingGroup, noise: Option<ProbeNoise>) -> Option<[u64; 2]> {
    let own = group.cells.iter().filter_map(|c| {
        let [low, high] = c.goodput_interval_bps?;
        Some(high.saturating_sub(low) as f64 / 2.0)
    });
    let count = group.cells.len() as f64;
    let own_half = own.reduce(f64::max).map(|half| half / count.sqrt());
    let median = group.median_bps();
    let pooled_half = noise.map(|n| {
        let factor = if count > 2.0 { MEDIAN_FACTOR } else { 1.0 };
        factor * student_t_975(n.freedom) * n.ratio * median / count.sqrt()
    });
    let half = [own_half, pooled_half].into_iter().flatten().reduce(f64::max)?;
    Some([(median - half).max(0.0) as u64, (median + half) as u64])
}

/// Returns the plan of one probe: the common part of all with this setting and direction.
pub fn build_probe_plan(
    common: &plan::ThroughputPlan,
    setting: &TransferSetting,
    forward: bool,
) -> plan::ThroughputPlan {
    plan::ThroughputPlan {
        direction: if forward { RunDirection::Forward } else { RunDirection::Reverse },
        streams: setting.streams.max(1),
        send_buffer_bytes: setting.window_bytes,
        receive_buffer_bytes: setting.window_bytes,
        congestion_control: setting.congestion_control.clone(),
        pacing_bps: setting.pacing_bps,
        ..common.clone()
    }
}

/// Returns the cell of a finished probe. `at_us` counts from the start of the scan.
pub fn build_cell(
    index: u32,
    setting: TransferSetting,
    forward: bool,
    sentinel: bool,
    at_us: u64,
    report: &ThroughputReport,
) -> ScanCell {
    let (seen, found) = (&report.observation, &report.analysis);
    let goodput_bps = found.goodput_bps.filter(|bps| *bps > 0);
    let asked = setting.window_bytes.is_some();
    let ends = || seen.streams.iter().filter(|_| asked);
    ScanCell {
        index,
        setting,
        forward,
        sentinel,
        at_us,
        duration_us: report.run.duration_us,
        run_id: Some(report.run.id.clone()),
        error: find_failure_reason(report),
        receiver_bytes: Some(found.totals.receiver_bytes),
        goodput_bps,
        goodput_interval_bps: goodput_bps.and(found.goodput_interval_bps),
        limited_by: Some(found.limited_by),
        confidence_ratio: Some(found.confidence_ratio),
        next_limit: found.next_limit.clone(),
        idle_rtt_us: seen.idle_rtt_us,
        loaded_rtt_us: found.rtt_us.map(|rtt| rtt.mean),
        data_segments_sent: found.totals.data_segments_sent,
        retransmitted_segments: found.totals.retransmitted_segments,
        mss_bytes: seen.streams.iter().find_map(|s| s.sender.mss_bytes).map(u64::from),
        granted_send_bytes: find_min_granted(ends().map(|s| s.sender.send_buffer)),
        granted_receive_bytes: find_min_granted(ends().map(|s| s.receiver.receive_buffer)),
        congestion_control: seen.streams.iter().find_map(|s| s.sender.congestion_control.clone()),
        ..ScanCell::default()
    }
}

fn find_failure_reason(report: &ThroughputReport) -> Option<String> {
    if report.analysis.goodput_bps.is_some_and(|bps| bps > 0) {
        return None;
    }
    let streams = report.observation.streams.iter();
    let mut ends = streams.flat_map(|s| [&s.sender, &s.receiver]);
    let reason = ends.find_map(|end| end.error.clone());
    Some(reason.unwrap_or_else(|| String::from("no payload arrived")))
}

/// Returns the minimum that a kernel granted to any stream.
pub fn find_min_granted(buffers: impl Iterator<Item = Option<SocketBuffer>>) -> Option<u64> {
    buffers.flatten().map(|b| b.granted_bytes).min()
}
