//! The cost of a watch file: runs and bytes per day, and the use of its busiest resources.

use super::DAY_US;
use super::file::{Directions, Measure, WatchFile, Work};
use super::jobs::{Turns, far_hosts, micros, path_rate, runs_each};
use super::needs::{Need, Parts};
use super::rounds;

/// The forecast for one agent.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The number of hosts that this agent measures.
    pub targets: usize,
    /// The number of directed paths of this agent.
    pub pairs: usize,
    pub measures: Vec<OfMeasure>,
    pub bytes_per_day: u64,
    pub runs_per_day: f64,
    /// Heavy runs of all agents by resource, the busiest first.
    pub shares: Vec<Share>,
    pub turns: Option<OfTurns>,
    /// All heavy runs of this agent in a row: the measurement and its total time.
    pub longest_round: Option<(String, i64)>,
    /// Runs that will certainly be missed, as sentences.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OfMeasure {
    pub name: String,
    pub kind: &'static str,
    pub heavy: bool,
    pub every_us: i64,
    /// Runs per interval.
    pub runs: u64,
    pub lasts_us: i64,
    pub runs_per_day: f64,
    pub bytes_per_day: u64,
    pub budget_bytes: Option<u64>,
    /// The maximum number of bytes that one run sends.
    pub most_bytes: u64,
}

/// The share of time for which heavy runs lock a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    pub need: Need,
    pub share: f64,
    /// Each measurement with its runs per day and the duration of one.
    pub of: Vec<(String, f64, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfTurns {
    pub agents: usize,
    pub rounds: u32,
    pub least_rounds: u32,
    pub turn_us: i64,
    pub cycle_us: i64,
}

pub fn forecast(file: &WatchFile) -> Forecast {
    let measures: Vec<OfMeasure> = file
        .measures
        .iter()
        .map(|it| of_measure(file, it))
        .collect();
    let mut targets: Vec<usize> = file
        .measures
        .iter()
        .flat_map(|measure| far_hosts(file, measure))
        .collect();
    targets.sort_unstable();
    targets.dedup();
    let heavy = measures.iter().filter(|it| it.heavy && it.runs > 0);
    let rounds = heavy.map(|it| (it.name.clone(), it.lasts_us * it.runs as i64));
    Forecast {
        targets: targets.len(),
        pairs: pairs(file),
        bytes_per_day: measures
            .iter()
            .fold(0_u64, |sum, it| sum.saturating_add(it.bytes_per_day)),
        runs_per_day: measures.iter().map(|it| it.runs_per_day).sum(),
        shares: shares(file),
        turns: turns(file),
        longest_round: rounds.max_by_key(|(_, length)| *length),
        warnings: warnings(file, &measures),
        measures,
    }
}

fn pairs(file: &WatchFile) -> usize {
    let mut found = std::collections::BTreeSet::new();
    for measure in file.measures.iter().filter(|it| it.work != Work::Host) {
        for far in far_hosts(file, measure) {
            if measure.directions != Directions::Reverse {
                found.insert((file.agent.host, far));
            }
            if measure.directions != Directions::Forward {
                found.insert((far, file.agent.host));
            }
        }
    }
    found.len()
}

fn of_measure(file: &WatchFile, measure: &Measure) -> OfMeasure {
    let own = file.agent.host;
    let far = far_hosts(file, measure);
    let each = u64::from(runs_each(measure));
    let runs = match measure.work {
        Work::Host => 1,
        _ => far.len() as u64 * each,
    };
    let every_us = micros(measure.every);
    let per_day = DAY_US as f64 / every_us as f64;
    let most = far
        .iter()
        .map(|far| measure.work.bytes(path_rate(file, own, *far)));
    let bytes: u128 = most.clone().map(|bytes| u128::from(bytes * each)).sum();
    OfMeasure {
        name: measure.name.clone(),
        kind: measure.work.word(),
        heavy: measure.work.is_heavy(),
        every_us,
        runs,
        lasts_us: micros(measure.work.lasts()),
        runs_per_day: runs as f64 * per_day,
        bytes_per_day: (bytes as f64 * per_day) as u64,
        budget_bytes: measure.bytes_per_day,
        most_bytes: most.max().unwrap_or(0),
    }
}

/// Returns how long heavy runs of all agents of this file lock each resource, the busiest first.
pub fn shares(file: &WatchFile) -> Vec<Share> {
    let parts = Parts::new(file);
    let agents = rounds::agents(file);
    let mut runs = vec![vec![0_u64; file.measures.len()]; parts.len()];
    for (index, measure) in file.measures.iter().enumerate() {
        if !measure.work.is_heavy() {
            continue;
        }
        for (one, other) in rounds::pairs(file, &measure.sets, &agents) {
            for need in parts.of_pair(one, other) {
                runs[need as usize][index] += u64::from(runs_each(measure));
            }
        }
    }
    let mut shares: Vec<Share> = runs
        .iter()
        .enumerate()
        .map(|(need, runs)| share(file, parts.need(need as u32), runs))
        .filter(|share| share.share > 0.0)
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.need.cmp(&b.need)));
    shares
}

fn share(file: &WatchFile, need: &Need, runs: &[u64]) -> Share {
    let heavy = file
        .measures
        .iter()
        .zip(runs)
        .filter(|(_, runs)| **runs > 0);
    let of: Vec<(String, f64, i64)> = heavy
        .map(|(measure, runs)| {
            let per_day = *runs as f64 * DAY_US as f64 / micros(measure.every) as f64;
            (measure.name.clone(), per_day, micros(measure.work.lasts()))
        })
        .collect();
    let held: f64 = of.iter().map(|(_, runs, lasts)| runs * *lasts as f64).sum();
    Share {
        need: need.clone(),
        share: held / DAY_US as f64,
        of,
    }
}

/// Returns the forecast of the mesh, if there is one.
pub fn turns(file: &WatchFile) -> Option<OfTurns> {
    let turns = Turns::of(file)?;
    Some(OfTurns {
        agents: rounds::agents(file).len(),
        rounds: turns.rounds.count,
        least_rounds: turns.rounds.least,
        turn_us: turns.turn_us,
        cycle_us: turns.cycle_us(),
    })
}

fn warnings(file: &WatchFile, measures: &[OfMeasure]) -> Vec<String> {
    let mut warnings = Vec::new();
    for measure in measures {
        if let Some(most) = measure
            .budget_bytes
            .filter(|most| *most < measure.bytes_per_day)
        {
            let allowed = most as f64 / measure.bytes_per_day as f64 * 100.0;
            warnings.push(format!(
                "the budget of `{}` lasts for {allowed:.0} % of its runs at full rate; the rest of \
                 a day may be missed",
                measure.name
            ));
        }
    }
    let all: u64 = measures
        .iter()
        .fold(0, |sum, it| sum.saturating_add(it.bytes_per_day));
    if let Some(most) = file.agent.bytes_per_day.filter(|most| *most < all) {
        let allowed = most as f64 / all as f64 * 100.0;
        warnings.push(format!(
            "the agent's budget lasts for {allowed:.0} % of all runs at full rate; the rest of a \
             day may be missed"
        ));
    }
    warnings
}
