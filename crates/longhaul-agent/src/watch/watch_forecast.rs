//! The cost of a watch file: runs and bytes per day, and the use of its busiest resources.

use super::measure_jobs::{
    MeshTurns, count_runs_per_path, count_target_hosts, find_path_rate, list_target_hosts,
    to_micros,
};
use super::path_resources::ResourceTable;
use super::watch_file::{MeasureConfig, MeasureDirections, WatchFile};
use super::{DAY_US, mesh_rounds};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The number of busiest resources in a forecast.
const SHARES_SHOWN: usize = 3;

/// The forecast for one agent.
#[derive(Debug, Clone, Serialize)]
pub struct WatchForecast {
    /// The number of hosts that this agent measures.
    pub targets: usize,
    /// The number of directed paths of this agent.
    pub pairs: usize,
    pub measures: Vec<MeasureForecast>,
    pub bytes_per_day: u64,
    pub runs_per_day: f64,
    /// Heavy runs of all agents by resource, for the busiest resources.
    #[serde(rename = "busiest")]
    pub shares: Vec<ResourceShare>,
    pub mesh: Option<MeshForecast>,
    pub longest_round: Option<HeavyRound>,
    /// Runs that will certainly be missed, as sentences.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasureForecast {
    pub name: String,
    pub kind: &'static str,
    pub heavy: bool,
    pub every_us: i64,
    /// Runs per interval.
    pub runs: u64,
    #[serde(rename = "lasts_us")]
    pub max_duration_us: i64,
    pub runs_per_day: f64,
    pub bytes_per_day: u64,
    /// The maximum number of bytes that one run sends.
    #[serde(rename = "most_bytes")]
    pub max_bytes: u64,
    #[serde(rename = "budget_bytes_per_day")]
    pub budget_bytes: Option<u64>,
}

/// All heavy runs of one measurement of this agent in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeavyRound {
    pub measure: String,
    pub duration_us: i64,
}

/// The share of time for which heavy runs lock a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceShare {
    #[serde(rename = "part")]
    pub resource: String,
    #[serde(rename = "share_ratio")]
    pub share: f64,
    /// Each measurement with its runs per day and the duration of one.
    #[serde(skip)]
    pub measures: Vec<(String, f64, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MeshForecast {
    pub agents: usize,
    pub rounds: u32,
    #[serde(rename = "least_rounds")]
    pub min_rounds: u32,
    pub turn_us: i64,
    pub cycle_us: i64,
}

pub fn build_forecast(file: &WatchFile) -> WatchForecast {
    let measures: Vec<MeasureForecast> =
        file.measures.iter().map(|it| forecast_measure(file, it)).collect();
    let heavy = measures.iter().filter(|it| it.heavy && it.runs > 0);
    let rounds = heavy.map(|it| HeavyRound {
        measure: it.name.clone(),
        duration_us: it.max_duration_us * it.runs as i64,
    });
    let mut shares = compute_shares(file);
    shares.truncate(SHARES_SHOWN);
    WatchForecast {
        targets: count_target_hosts(file),
        pairs: count_pairs(file),
        bytes_per_day: measures.iter().fold(0_u64, |sum, it| sum.saturating_add(it.bytes_per_day)),
        runs_per_day: measures.iter().map(|it| it.runs_per_day).sum(),
        shares,
        mesh: forecast_mesh(file),
        longest_round: rounds.max_by_key(|it| it.duration_us),
        warnings: list_warnings(file, &measures),
        measures,
    }
}

fn count_pairs(file: &WatchFile) -> usize {
    let mut found = BTreeSet::new();
    for measure in file.measures.iter().filter(|it| !it.kind.is_local()) {
        for far in list_target_hosts(file, measure) {
            if measure.directions != MeasureDirections::Reverse {
                found.insert((file.agent.host, far));
            }
            if measure.directions != MeasureDirections::Forward {
                found.insert((far, file.agent.host));
            }
        }
    }
    found.len()
}

fn forecast_measure(file: &WatchFile, measure: &MeasureConfig) -> MeasureForecast {
    let own = file.agent.host;
    let far = list_target_hosts(file, measure);
    let each = u64::from(count_runs_per_path(measure));
    let runs = if measure.kind.is_local() { 1 } else { far.len() as u64 * each };
    let per_day = runs_per_day(measure);
    let most = far.iter().map(|far| measure.max_bytes(find_path_rate(file, own, *far)));
    let bytes: u128 = most.clone().map(|bytes| u128::from(bytes * each)).sum();
    MeasureForecast {
        name: measure.name.clone(),
        kind: measure.kind.word(),
        heavy: measure.is_heavy(),
        every_us: to_micros(measure.every),
        runs,
        max_duration_us: to_micros(measure.max_duration()),
        runs_per_day: runs as f64 * per_day,
        bytes_per_day: (bytes as f64 * per_day) as u64,
        budget_bytes: measure.bytes_per_day,
        max_bytes: most.max().unwrap_or(0),
    }
}

/// Returns how long heavy runs of all agents of this file lock each resource, the busiest first.
pub fn compute_shares(file: &WatchFile) -> Vec<ResourceShare> {
    let parts = ResourceTable::new(file);
    let agents = mesh_rounds::list_agents(file);
    let mut shares: BTreeMap<usize, ResourceShare> = BTreeMap::new();
    for measure in file.measures.iter().filter(|it| it.is_heavy()) {
        let mut pairs: BTreeMap<usize, u32> = BTreeMap::new();
        for (one, other) in mesh_rounds::list_pairs(file, &measure.sets, &agents) {
            for need in parts.pair_resources(one, other) {
                *pairs.entry(need).or_default() += 1;
            }
        }
        let per_pair = f64::from(count_runs_per_path(measure)) * runs_per_day(measure);
        let lasts_us = to_micros(measure.max_duration());
        for (need, pairs) in pairs {
            let runs = f64::from(pairs) * per_pair;
            let share = shares.entry(need).or_insert_with(|| ResourceShare {
                resource: parts.resource(need).to_string(),
                share: 0.0,
                measures: Vec::new(),
            });
            share.share += runs * lasts_us as f64 / DAY_US as f64;
            share.measures.push((measure.name.clone(), runs, lasts_us));
        }
    }
    let mut shares: Vec<ResourceShare> = shares.into_values().collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.resource.cmp(&b.resource)));
    shares
}

/// Returns how often a measurement is due in a day.
fn runs_per_day(measure: &MeasureConfig) -> f64 {
    DAY_US as f64 / to_micros(measure.every) as f64
}

/// Returns the forecast of the mesh, if there is one.
pub fn forecast_mesh(file: &WatchFile) -> Option<MeshForecast> {
    let turns = MeshTurns::from_file(file)?;
    Some(MeshForecast {
        agents: mesh_rounds::list_agents(file).len(),
        rounds: turns.rounds.count,
        min_rounds: turns.rounds.min_count,
        turn_us: turns.turn_us,
        cycle_us: turns.cycle_us(),
    })
}

fn list_warnings(file: &WatchFile, measures: &[MeasureForecast]) -> Vec<String> {
    let mut warnings = Vec::new();
    for measure in measures {
        if let Some(most) = measure.budget_bytes.filter(|most| *most < measure.bytes_per_day) {
            let allowed = most as f64 / measure.bytes_per_day as f64 * 100.0;
            warnings.push(format!(
                "the budget of `{}` covers {allowed:.0} % of its runs at full rate; the other runs of \
                 a day may be skipped",
                measure.name
            ));
        }
    }
    let all: u64 = measures.iter().fold(0, |sum, it| sum.saturating_add(it.bytes_per_day));
    if let Some(most) = file.agent.bytes_per_day.filter(|most| *most < all) {
        let allowed = most as f64 / all as f64 * 100.0;
        warnings.push(format!(
            "the agent's budget covers {allowed:.0} % of all runs at full rate; the other runs of a \
             day may be skipped"
        ));
    }
    warnings
}
