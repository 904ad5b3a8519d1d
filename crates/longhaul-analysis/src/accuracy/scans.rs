//! Synthetic scans of a path with known goodput for every setting, steady or with one step.

use super::rng::Rng;
use super::{Row, row};
use crate::scan::{self, Slot};
use crate::stats::quantile::{quantile, sorted};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{
    Analysis, Budget, Cell, Observation, Plan, Search, Setting,
};
use longhaul_model::report::v1::{plan, scan as shape};

/// The number of scans in each row.
const SCANS: usize = 200;
/// The number of draws of each cell for the true distribution of the measurements.
const DRAWS: usize = 200;
const CELL_US: u64 = 10_000_000;
/// The level of the path after the drop, in the scans with a step.
const STEP: f64 = 0.7;

/// Evaluates the top tenth, the recommended setting, and steps that exist and that do not.
pub fn rows(seed: u64) -> Vec<Row> {
    let mut rng = Rng::new(seed);
    vec![
        top_tenth(&mut rng),
        recommended(&mut rng),
        steps("scan, steady path cut (5-10 % noise)", &mut rng, 1.0),
        steps("scan, step of 30 % (5-10 % noise)", &mut rng, STEP),
    ]
}

/// A path: capacity, RTT and scatter of one probe.
struct PathCase {
    capacity_bps: f64,
    rtt_s: f64,
    noise: f64,
}

impl PathCase {
    fn draw(rng: &mut Rng) -> PathCase {
        PathCase {
            capacity_bps: 10f64.powf(rng.between(7.0, 9.5)),
            rtt_s: rng.between(0.02, 0.2),
            noise: rng.between(0.05, 0.1),
        }
    }

    /// Limited by the windows until unsynchronised streams fill the path but for their sawtooth.
    fn truth_bps(&self, setting: &Setting) -> f64 {
        let streams = f64::from(setting.streams);
        let window = setting.window_bytes.unwrap_or(4 << 20) as f64;
        let by_windows = streams * window * 8.0 / self.rtt_s;
        by_windows.min(self.capacity_bps * (1.0 - 1.0 / (1.0 + 3.0 * streams)))
    }

    fn probe(&self, slot: &Slot, level: f64, rng: &mut Rng) -> Cell {
        let scatter = (self.noise * rng.normal()).exp();
        let goodput = self.truth_bps(&slot.setting) * scatter * level;
        let at_us = u64::from(slot.index) * CELL_US;
        let blank = scan::failed(
            slot.index,
            slot.setting.clone(),
            slot.forward,
            slot.sentinel,
            at_us,
            CELL_US,
            String::new(),
        );
        Cell {
            error: None,
            goodput_bps: Some(goodput.round() as u64),
            limited_by: Some(Limiter::PathCapacity),
            idle_rtt_us: Some((self.rtt_s * 1e6 * (1.0 + 0.005 * rng.normal().abs())) as u64),
            ..blank
        }
    }
}

/// Six windows around the bandwidth-delay product, and six stream counts.
fn grid(path: &PathCase, repeats: u32, seed: u64) -> Plan {
    let holds = (path.capacity_bps * path.rtt_s / 8.0) as u64;
    Plan {
        search: Search::Grid,
        direction: plan::Direction::Forward,
        windows_bytes: (0..6).map(|i| Some((holds >> 4 << i).max(4096))).collect(),
        streams: vec![1, 2, 4, 8, 16, 32],
        congestion_controls: vec![None],
        repeats,
        seed,
        present: None,
        budget: Budget {
            probes: 1000,
            time_us: 3_600_000_000,
            bytes: None,
        },
        probe: plan::Plan::default(),
    }
}

/// Returns the scan's conclusions if the path drops to `level` at `at` (0 to 1) of the scan.
fn scanned(path: &PathCase, plan: &Plan, (at, level): (f64, f64), rng: &mut Rng) -> Analysis {
    let slots = scan::order(plan);
    let change = at * slots.len() as f64;
    let cells = slots.iter().map(|slot| {
        let level = if f64::from(slot.index) < change {
            1.0
        } else {
            level
        };
        path.probe(slot, level, rng)
    });
    let observation = Observation {
        cells: cells.collect(),
    };
    scan::conclude(plan, &observation, &[], "grid_done").analysis
}

/// Compares with the true quantile of the measurements; the error is that of the value.
fn top_tenth(rng: &mut Rng) -> Row {
    let (mut errors, mut held, mut intervals) = (Vec::new(), 0usize, 0usize);
    for seed in 0..SCANS {
        let path = PathCase::draw(rng);
        let plan = grid(&path, 2, seed as u64);
        let truth = true_quantile(&path, &plan, rng);
        let found = scanned(&path, &plan, (1.0, 1.0), rng);
        let Some(top) = found.directions.first().and_then(|d| d.top_tenth.clone()) else {
            continue;
        };
        errors.push((top.goodput_bps as f64 / truth - 1.0).abs());
        if let Some([low, high]) = top.goodput_interval_bps {
            intervals += 1;
            held += usize::from((low as f64..=high as f64).contains(&truth));
        }
    }
    Row {
        cases: SCANS,
        coverage_ratio: Some(held as f64 / intervals.max(1) as f64),
        ..row("scan, top tenth", errors)
    }
}

fn true_quantile(path: &PathCase, plan: &Plan, rng: &mut Rng) -> f64 {
    let mut all = Vec::new();
    for slot in scan::order(plan).iter().filter(|s| !s.sentinel) {
        let truth = path.truth_bps(&slot.setting);
        all.extend((0..DRAWS).map(|_| truth * (path.noise * rng.normal()).exp()));
    }
    quantile(&sorted(all), 0.9).unwrap_or(f64::NAN)
}

/// The share of the best setting's true goodput that the recommended setting loses.
fn recommended(rng: &mut Rng) -> Row {
    let mut errors = Vec::new();
    for seed in 0..SCANS {
        let path = PathCase::draw(rng);
        let plan = grid(&path, 3, seed as u64);
        let found = scanned(&path, &plan, (1.0, 1.0), rng);
        let chosen: Option<&shape::Choice> = found
            .directions
            .first()
            .and_then(|d| d.recommended.as_ref());
        let truths = scan::order(&plan);
        let best = truths
            .iter()
            .map(|s| path.truth_bps(&s.setting))
            .fold(0.0, f64::max);
        errors.extend(chosen.map(|c| 1.0 - path.truth_bps(&c.setting) / best));
    }
    Row {
        cases: SCANS,
        ..row("scan, regret of the recommended", errors)
    }
}

/// Answered: scans with a reported change. The error is that of its position, as a share of the
/// scan.
fn steps(method: &'static str, rng: &mut Rng, level: f64) -> Row {
    let mut errors = Vec::new();
    for seed in 0..SCANS {
        let path = PathCase::draw(rng);
        let plan = grid(&path, 1 + (seed % 3) as u32, seed as u64);
        let at = rng.between(0.3, 0.7);
        let found = scanned(&path, &plan, (at, level), rng);
        let all = scan::order(&plan).len() as f64;
        let place = found.regimes.get(1).map(|r| f64::from(r.first_cell) / all);
        errors.extend(place.map(|place| (place - at).abs()));
    }
    Row {
        cases: SCANS,
        ..row(method, errors)
    }
}
