//! Draws the conclusions from the cells of a scan, from a grid or a guided search.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed and too few cells followed; then nothing is concluded.

use super::asymmetry::asymmetry;
use super::cells::with_result;
use super::findings::{self, Case};
use super::hosts::Hosts;
use super::needs::{needs, stopgap};
use super::regimes::{regimes, stretches};
use super::{Conclusion, choose, curves, limits, order, top};
use crate::VERSION;
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::scan::{self, Analysis, Cell, Observation, Plan, Search};
use longhaul_model::report::v1::{Finding, Throughput};

/// The grid that a guided search is compared with if its plan names none: 11 windows × 11 streams.
const SPARED_CELLS: u32 = 121;
/// The minimum share of a grid's settings in a stretch that allows conclusions.
const LEAST_SHARE: f64 = 1.0 / 3.0;
/// The minimum number of probes per direction in a stretch of a guided search.
const LEAST_GUIDED: usize = 2;

/// Draws all conclusions from a scan. `runs` are the probes' own reports, in any order; without
/// them the hosts have no names and their findings are missing. Never fails: what cannot be
/// determined stays absent, and the caveats say so.
pub fn conclude(
    plan: &Plan,
    observation: &Observation,
    runs: &[Throughput],
    stopped_by: &str,
) -> Conclusion {
    let all = with_result(observation);
    let stretches = stretches(&all);
    let regimes = regimes(&stretches);
    let cells = judged(plan, &stretches);
    let hosts = [Hosts::of(runs, true), Hosts::of(runs, false)];
    let mut found: Vec<Finding> = findings::path_changed(&regimes).into_iter().collect();
    let mut concluded = Vec::new();
    for forward in directions(plan) {
        let (direction, told) = one_direction(plan, cells, runs, forward);
        found.extend(told);
        concluded.push(direction);
    }
    let analysis = Analysis {
        version: VERSION,
        directions: concluded,
        probes_run: u32::try_from(all.len()).unwrap_or(u32::MAX),
        grid_cells: grid_cells(plan),
        stopped_by: stopped_by.to_owned(),
        asymmetry: asymmetry(cells, hosts),
        regimes,
    };
    let left = all.len() - cells.len();
    let caveats = limits::caveats(plan, observation, cells, left, stopped_by);
    Conclusion {
        analysis,
        findings: found,
        caveats,
    }
}

fn one_direction(
    plan: &Plan,
    cells: &[&Cell],
    runs: &[Throughput],
    forward: bool,
) -> (scan::Conclusion, Vec<Finding>) {
    let hosts = Hosts::of(runs, forward);
    let mut found = scan::Conclusion {
        top_tenth: top::top_tenth(cells, forward),
        curves: curves::curves(cells, forward),
        ..choose::choose(plan, cells, forward)
    };
    let gap = stopgap(&found, cells, hosts);
    found.needs = needs(&found, cells, hosts, gap.as_ref());
    let told = findings::findings(&Case {
        found: &found,
        cells,
        gap: gap.as_ref(),
        runs,
        both: plan.direction == Direction::Both,
    });
    (found, told)
}

/// Returns the latest stretch with enough cells; empty if the path changed and none has enough.
fn judged<'c, 'a>(plan: &Plan, stretches: &[&'c [&'a Cell]]) -> &'c [&'a Cell] {
    if let [only] = stretches {
        return only;
    }
    let least = match plan.search {
        Search::Guided => LEAST_GUIDED,
        Search::Grid => (order::settings(plan).len() as f64 * LEAST_SHARE).ceil() as usize,
    };
    let enough = |stretch: &&&[&Cell]| {
        let held = |forward| stretch.iter().filter(|c| c.forward == forward).count();
        directions(plan)
            .into_iter()
            .all(|forward| held(forward) >= least)
    };
    stretches.iter().rev().find(enough).copied().unwrap_or(&[])
}

/// Returns the directions that the plan scans, forward first.
pub fn directions(plan: &Plan) -> Vec<bool> {
    match plan.direction {
        Direction::Forward => vec![true],
        Direction::Reverse => vec![false],
        Direction::Both => vec![true, false],
    }
}

fn grid_cells(plan: &Plan) -> u32 {
    let unbounded = plan.windows_bytes.is_empty() && plan.streams.is_empty();
    let settings = if plan.search == Search::Guided && unbounded {
        SPARED_CELLS
    } else {
        u32::try_from(order::settings(plan).len()).unwrap_or(u32::MAX)
    };
    let repeats = if plan.search == Search::Grid {
        plan.repeats.max(1)
    } else {
        1
    };
    let directions = directions(plan).len() as u32;
    settings.saturating_mul(repeats).saturating_mul(directions)
}
