//! Checks across tables: runs longer than their interval, budgets smaller than a run, links busy
//! for more than 100 % of the time.

use super::section_table::format_long_duration;
use super::watch_file_problem::ProblemCollector;
use super::{HostSetKind, MeasureConfig, MeasureKind, WatchFile};
use crate::watch::measure_jobs::{count_runs_per_path, find_path_rate};
use crate::watch::mesh_rounds;
use crate::watch::watch_forecast::{self, ResourceShare};
use longhaul_model::units::Bytes;
use std::time::Duration;

/// The maximum number of pairs in all sets.
const PAIRS_MAX: usize = 2_000_000;

pub(super) fn check_watch_file(file: &WatchFile, found: &ProblemCollector) {
    // A collector need not measure anything itself.
    if file.measures.is_empty() && file.api.senders.is_empty() && found.is_empty() {
        let advice = "write [[measure]] with name, kind and every";
        found.add(1, "measure", "the file has no measurement", advice);
    }
    let agents = mesh_rounds::list_agents(file);
    if has_too_many_pairs(file, &agents, found) {
        return;
    }
    for measure in &file.measures {
        check_targets(file, measure, &agents, found);
        check_interval(measure, found);
        check_budget(file, measure, &agents, found);
    }
    // Other problems would distort the shares of time.
    if found.is_empty() {
        check_resource_shares(file, found);
        check_mesh_cycle(file, found);
    }
}

fn has_too_many_pairs(file: &WatchFile, agents: &[usize], found: &ProblemCollector) -> bool {
    let pairs = file.sets.iter().map(|set| match set.kind {
        HostSetKind::Mesh => set.hosts.len() * set.hosts.len() / 2,
        HostSetKind::Group | HostSetKind::Target => set.hosts.len() * agents.len(),
    });
    let pairs: usize = pairs.sum();
    if pairs > PAIRS_MAX {
        let what = format!("{pairs} pairs of hosts are too many");
        found.add(
            1,
            "mesh",
            what,
            format!("make meshes smaller; at most {PAIRS_MAX} pairs are allowed"),
        );
    }
    pairs > PAIRS_MAX
}

fn check_targets(
    file: &WatchFile,
    measure: &MeasureConfig,
    agents: &[usize],
    found: &ProblemCollector,
) {
    let has_pairs = || !mesh_rounds::list_pairs(file, &measure.sets, agents).is_empty();
    // Problems of the sets have been reported already.
    if measure.kind == MeasureKind::Host || !found.is_empty() || has_pairs() {
        return;
    }
    let key = format!("measure.{}.groups", measure.name);
    let advice = "name a group with hosts other than the agent's own";
    found.add(measure.line, key, "there is no host to measure", advice);
}

fn check_interval(measure: &MeasureConfig, found: &ProblemCollector) {
    let runs = count_runs_per_path(measure);
    let needs = measure.kind.min_duration() * runs;
    if needs <= measure.every {
        return;
    }
    let both = if runs == 2 {
        ", one for each direction"
    } else {
        ""
    };
    let what = format!(
        "{} is shorter than its runs: {runs} x {} s{both}",
        format_long_duration(measure.every),
        format_seconds(measure.kind.min_duration())
    );
    let advice = format!(
        "write at least {} s, or shorten the run",
        format_seconds(needs)
    );
    found.add(
        measure.every_line,
        format!("measure.{}.every", measure.name),
        what,
        advice,
    );
}

fn check_budget(
    file: &WatchFile,
    measure: &MeasureConfig,
    agents: &[usize],
    found: &ProblemCollector,
) {
    let pairs = mesh_rounds::list_pairs(file, &measure.sets, agents);
    let most = pairs
        .iter()
        .map(|(one, other)| measure.kind.max_bytes(find_path_rate(file, *one, *other)))
        .max();
    let Some(most) = most.filter(|_| measure.kind != MeasureKind::Host) else {
        return;
    };
    let too_small = |line: usize, key: String, budget: u64| {
        let what = format!(
            "{} is less than one run of `{}` can send, {}",
            Bytes(budget),
            measure.name,
            Bytes(most)
        );
        let advice = "raise it, or lower time or rate of the run";
        found.add(line, key, what, advice);
    };
    if let Some(budget) = measure.bytes_per_day.filter(|budget| *budget < most) {
        let key = format!("measure.{}.bytes_per_day", measure.name);
        too_small(measure.budget_line, key, budget);
    }
    if let Some(budget) = file.agent.bytes_per_day.filter(|budget| *budget < most) {
        too_small(file.agent.line, "agent.bytes_per_day".to_owned(), budget);
    }
}

/// Heavy runs lock host, interface and link, so their durations add up.
fn check_resource_shares(file: &WatchFile, found: &ProblemCollector) {
    if let Some(busiest) = watch_forecast::compute_shares(file)
        .first()
        .filter(|it| it.share > 1.0)
    {
        let heaviest = busiest
            .measures
            .iter()
            .max_by(|a, b| (a.1 * a.2 as f64).total_cmp(&(b.1 * b.2 as f64)));
        let measure =
            heaviest.and_then(|(name, ..)| file.measures.iter().find(|it| it.name == *name));
        let (line, key) = measure.map_or((1, String::new()), |it| {
            (it.every_line, format!("measure.{}.every", it.name))
        });
        found.add(
            line,
            key,
            format_share(busiest),
            "measure less often, or shorter",
        );
    }
}

/// Formats, for example, `link x would be busy 150 % of the time: bulk 2,880 runs a day x 15 s +
/// …`.
fn format_share(share: &ResourceShare) -> String {
    let terms: Vec<String> = share
        .measures
        .iter()
        .map(|(name, runs, lasts_us)| {
            let lasts = Duration::from_micros((*lasts_us).unsigned_abs());
            format!(
                "`{name}` {runs:.0} runs a day x {} s",
                format_seconds(lasts)
            )
        })
        .collect();
    format!(
        "{} would be busy {:.0} % of the time: {}, and a day has 86400 s",
        share.resource,
        share.share * 100.0,
        terms.join(" + ")
    )
}

/// Each pair of a mesh has one turn per cycle, which all measurements share.
fn check_mesh_cycle(file: &WatchFile, found: &ProblemCollector) {
    let Some(turns) = watch_forecast::forecast_mesh(file).filter(|_| found.is_empty()) else {
        return;
    };
    let cycle = Duration::from_micros(turns.cycle_us.unsigned_abs());
    let heavy: Vec<&MeasureConfig> = file
        .measures
        .iter()
        .filter(|it| it.kind.is_heavy())
        .collect();
    let share = |it: &MeasureConfig| cycle.as_secs_f64() / it.every.as_secs_f64();
    let asked: f64 = heavy.iter().map(|it| share(it)).sum();
    let quickest = heavy.iter().min_by_key(|it| it.every);
    if let Some(quickest) = quickest.filter(|_| asked > 1.0) {
        let terms: Vec<String> = heavy
            .iter()
            .map(|it| format!("`{}` every {}", it.name, format_long_duration(it.every)))
            .collect();
        let what = format!(
            "a pair has one turn in {}: {} rounds of {} s; {} would take {:.0} % of the turns",
            format_long_duration(cycle),
            turns.rounds,
            turns.turn_us / 1_000_000,
            terms.join(" + "),
            asked * 100.0
        );
        let key = format!("measure.{}.every", quickest.name);
        let advice = format!(
            "measure heavy ones less often; the min for one is {}",
            format_long_duration(cycle)
        );
        found.add(quickest.every_line, key, what, advice);
    }
}

/// Formats seconds without a unit, with a decimal only if needed.
fn format_seconds(time: Duration) -> String {
    let text = format!("{:.1}", time.as_secs_f64());
    text.trim_end_matches(".0").to_owned()
}
