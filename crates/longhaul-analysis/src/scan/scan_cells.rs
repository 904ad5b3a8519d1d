//! Selects the valid cells, and groups them by setting.
//!
//! A resumed scan may contain a cell twice, a failed cell has no result: each position of the order
//! counts once, with its last result.
//!
//! Source: the cells. Units: bit/s. Error: none. Wrong when: two scans are mixed into one.

use crate::stats::quantile::median;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{ScanCell, ScanObservation, SettingChoice, TransferSetting};
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
