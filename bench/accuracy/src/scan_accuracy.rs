//! Synthetic scans of a path with known goodput for every setting, steady or with one step.

use super::{AccuracyRow, ErrorTally, convert_interval};
use longhaul_analysis::scan::{self, ScanSlot};
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan;
use longhaul_model::report::v1::scan::{
    ScanAnalysis, ScanBudget, ScanCell, ScanObservation, ScanPlan, SearchMode, TransferSetting,
};
use longhaul_model::splitmix::SplitMix64;

/// The number of scans in each row.
const SCANS: usize = 200;
/// The number of draws of each cell for the true distribution of the measurements.
const DRAWS: usize = 200;
const CELL_US: u64 = 10_000_000;
/// The level of the path after the drop, in the scans with a step.
const STEP: f64 = 0.7;

/// Evaluates the top tenth, the recommended setting, and steps that exist and that do not.
pub fn evaluate_scans(seed: u64) -> Vec<AccuracyRow> {
    let mut rng = SplitMix64::new(seed);
    vec![
        evaluate_top_tenth(&mut rng),
        evaluate_recommendation(&mut rng),
        evaluate_scan_steps("scan, steady path cut (5-10 % noise)", &mut rng, 1.0),
        evaluate_scan_steps("scan, step of 30 % (5-10 % noise)", &mut rng, STEP),
    ]
}

/// A path: capacity, RTT and scatter of one probe.
struct ScanPathCase {
    capacity_bps: f64,
    rtt_s: f64,
    noise: f64,
}

impl ScanPathCase {
    fn draw(rng: &mut SplitMix64) -> ScanPathCase {
        ScanPathCase {
            capacity_bps: 10f64.powf(rng.between(7.0, 9.5)),
            rtt_s: rng.between(0.02, 0.2),
            noise: rng.between(0.05, 0.1),
        }
    }

    /// Limited by the windows until unsynchronised streams fill the path but for their sawtooth.
    fn truth_bps(&self, setting: &TransferSetting) -> f64 {
        let streams = f64::from(setting.streams);
        let window = setting.window_bytes.unwrap_or(4 << 20) as f64;
        let by_windows = streams * window * 8.0 / self.rtt_s;
        by_windows.min(self.capacity_bps * (1.0 - 1.0 / (1.0 + 3.0 * streams)))
    }

    fn probe(&self, slot: &ScanSlot, level: f64, rng: &mut SplitMix64) -> ScanCell {
        let scatter = (self.noise * rng.normal()).exp();
        let goodput = self.truth_bps(&slot.setting) * scatter * level;
        let at_us = u64::from(slot.index) * CELL_US;
        let blank = ScanCell {
            index: slot.index,
            setting: slot.setting.clone(),
            forward: slot.forward,
            sentinel: slot.sentinel,
            at_us,
            duration_us: CELL_US,
            ..ScanCell::default()
        };
        ScanCell {
            goodput_bps: Some(goodput.round() as u64),
            limited_by: Some(Limiter::PathCapacity),
            idle_rtt_us: Some((self.rtt_s * 1e6 * (1.0 + 0.005 * rng.normal().abs())) as u64),
            ..blank
        }
    }
}

/// Six windows around the bandwidth-delay product, and six stream counts.
fn build_grid_plan(path: &ScanPathCase, repeats: u32, seed: u64) -> ScanPlan {
    let holds = (path.capacity_bps * path.rtt_s / 8.0) as u64;
    ScanPlan {
        search: SearchMode::Grid,
        direction: plan::RunDirection::Forward,
        windows_bytes: (0..6).map(|i| Some((holds >> 4 << i).max(4096))).collect(),
        streams: vec![1, 2, 4, 8, 16, 32],
        congestion_controls: vec![None],
        repeats,
        seed,
        present: None,
        budget: ScanBudget { probes: 1000, time_us: 3_600_000_000, bytes: None },
        probe: plan::ThroughputPlan::default(),
    }
}

/// Returns the scan's conclusions if the path drops to `level` at `at` (0 to 1) of the scan.
fn simulate_scan(
    path: &ScanPathCase,
    plan: &ScanPlan,
    (at, level): (f64, f64),
    rng: &mut SplitMix64,
) -> ScanAnalysis {
    let slots = scan::order_cells(plan);
    let change = at * slots.len() as f64;
    let cells = slots.iter().map(|slot| {
        let level = if f64::from(slot.index) < change { 1.0 } else { level };
        path.probe(slot, level, rng)
    });
    let observation = ScanObservation { cells: cells.collect() };
    scan::conclude_scan(plan, &observation, &[], "grid_done").analysis
}

/// Compares with the true quantile of the measurements; the error is that of the value.
fn evaluate_top_tenth(rng: &mut SplitMix64) -> AccuracyRow {
    let mut tally = ErrorTally::default();
    for seed in 0..SCANS {
        let path = ScanPathCase::draw(rng);
        let plan = build_grid_plan(&path, 2, seed as u64);
        let truth = compute_true_quantile(&path, &plan, rng);
        let found = simulate_scan(&path, &plan, (1.0, 1.0), rng);
        let top = found.directions.first().and_then(|d| d.top_tenth.as_ref());
        let interval = top.and_then(|top| top.goodput_interval_bps);
        tally.add_interval(interval.map(convert_interval), truth);
        tally.add_error(top.map(|top| (top.goodput_bps as f64 / truth - 1.0).abs()));
    }
    tally.row("scan, top tenth")
}

fn compute_true_quantile(path: &ScanPathCase, plan: &ScanPlan, rng: &mut SplitMix64) -> f64 {
    let mut all = Vec::new();
    for slot in scan::order_cells(plan).iter().filter(|s| !s.sentinel) {
        let truth = path.truth_bps(&slot.setting);
        all.extend((0..DRAWS).map(|_| truth * (path.noise * rng.normal()).exp()));
    }
    quantile(&sort_finite(all), 0.9).unwrap_or(f64::NAN)
}

/// The share of the best setting's true goodput that the recommended setting loses.
fn evaluate_recommendation(rng: &mut SplitMix64) -> AccuracyRow {
    let errors = (0..SCANS).map(|seed| {
        let path = ScanPathCase::draw(rng);
        let plan = build_grid_plan(&path, 3, seed as u64);
        let found = simulate_scan(&path, &plan, (1.0, 1.0), rng);
        let chosen = found.directions.first().and_then(|d| d.recommended.as_ref());
        let truths = scan::order_cells(&plan);
        let best = truths.iter().map(|s| path.truth_bps(&s.setting)).fold(0.0, f64::max);
        chosen.map(|c| 1.0 - path.truth_bps(&c.setting) / best)
    });
    ErrorTally::of(errors).row("scan, regret of the recommended")
}

/// Answered: scans with a reported change. The error is that of its position, as a share of the
/// scan.
fn evaluate_scan_steps(method: &'static str, rng: &mut SplitMix64, level: f64) -> AccuracyRow {
    let errors = (0..SCANS).map(|seed| {
        let path = ScanPathCase::draw(rng);
        let plan = build_grid_plan(&path, 1 + (seed % 3) as u32, seed as u64);
        let at = rng.between(0.3, 0.7);
        let found = simulate_scan(&path, &plan, (at, level), rng);
        let all = scan::order_cells(&plan).len() as f64;
        found.regimes.get(1).map(|r| (f64::from(r.first_cell) / all - at).abs())
    });
    ErrorTally::of(errors).row(method)
}
