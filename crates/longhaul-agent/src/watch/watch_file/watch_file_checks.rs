//! Checks across tables: runs longer than their interval, budgets smaller than a run, links busy
//! for more than 100 % of the time.

use super::{HostSetKind, MeasureConfig, WatchFile};
use crate::watch::measure_jobs::{count_runs_per_path, find_path_rate};
use crate::watch::mesh_rounds;
use crate::watch::watch_forecast::{self, ResourceShare};
use longhaul_config::ConfigDocument;
use longhaul_config::config_values::format_long_duration;
use longhaul_model::units::Bytes;
use std::time::Duration;

/// The maximum number of pairs in all sets.
const PAIRS_MAX: usize = 2_000_000;

pub(super) fn check_watch_file(file: &WatchFile, document: &ConfigDocument<'_>) {
    // A collector need not measure anything itself, nor an agent that is told of transfers.
    let is_told = file.api.is_collector() || file.fireflies.is_some();
    if file.measures.is_empty() && !is_told && document.is_valid() {
        let advice = "write [[measure]] with name, kind and every";
        document.add("measure", "the file has no measurement", advice);
    }
    let agents = mesh_rounds::list_agents(file);
    if has_too_many_pairs(file, &agents, document) {
        return;
    }
    for measure in &file.measures {
        check_targets(file, measure, &agents, document);
        check_interval(measure, document);
        check_budget(file, measure, &agents, document);
    }
    // Other problems would distort the shares of time.
    if document.is_valid() {
        check_resource_shares(file, document);
        check_mesh_cycle(file, document);
    }
}

fn has_too_many_pairs(file: &WatchFile, agents: &[usize], document: &ConfigDocument<'_>) -> bool {
    let pairs = file.sets.iter().map(|set| match set.kind {
        HostSetKind::Mesh => set.hosts.len() * set.hosts.len() / 2,
        HostSetKind::Group | HostSetKind::Target => set.hosts.len() * agents.len(),
    });
    let pairs: usize = pairs.sum();
    if pairs > PAIRS_MAX {
        let what = format!("{pairs} pairs of hosts are too many");
        document.add(
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
    document: &ConfigDocument<'_>,
) {
    let has_pairs = || !mesh_rounds::list_pairs(file, &measure.sets, agents).is_empty();
    // Problems of the sets have been reported already.
    if measure.kind.is_local() || !document.is_valid() || has_pairs() {
        return;
    }
    let advice = "name a group with hosts other than the agent's own";
    document.add(&format!("{}.groups", measure.at), "there is no host to measure", advice);
}

pub(super) fn check_interval(measure: &MeasureConfig, document: &ConfigDocument<'_>) {
    let runs = count_runs_per_path(measure);
    let needs = measure.min_duration() * runs;
    if needs <= measure.every {
        return;
    }
    let both = if runs == 2 { ", one for each direction" } else { "" };
    let what = format!(
        "{} is shorter than its runs: {runs} x {} s{both}",
        format_long_duration(measure.every),
        format_seconds(measure.min_duration())
    );
    let advice = format!("write at least {} s, or shorten the run", format_seconds(needs));
    document.add(&format!("{}.every", measure.at), what, advice);
}

fn check_budget(
    file: &WatchFile,
    measure: &MeasureConfig,
    agents: &[usize],
    document: &ConfigDocument<'_>,
) {
    let pairs = mesh_rounds::list_pairs(file, &measure.sets, agents);
    let most = pairs
        .iter()
        .map(|(one, other)| measure.max_bytes(find_path_rate(file, *one, *other)))
        .max();
    let Some(most) = most.filter(|_| !measure.kind.is_local()) else {
        return;
    };
    for (at, budget) in
        [(measure.at.as_str(), measure.bytes_per_day), ("agent", file.agent.bytes_per_day)]
    {
        if let Some(budget) = budget.filter(|budget| *budget < most) {
            let what = format!(
                "{} is less than one run of `{}` can send, {}",
                Bytes(budget),
                measure.name,
                Bytes(most)
            );
            let advice = "raise it, or lower time or rate of the run";
            document.add(&format!("{at}.bytes_per_day"), what, advice);
        }
    }
}

/// Heavy runs lock host, interface and link, so their durations add up.
fn check_resource_shares(file: &WatchFile, document: &ConfigDocument<'_>) {
    if let Some(busiest) = watch_forecast::compute_shares(file).first().filter(|it| it.share > 1.0)
    {
        let heaviest = busiest
            .measures
            .iter()
            .max_by(|a, b| (a.1 * a.2 as f64).total_cmp(&(b.1 * b.2 as f64)));
        let measure =
            heaviest.and_then(|(name, ..)| file.measures.iter().find(|it| it.name == *name));
        let at = measure.map_or_else(String::new, |it| format!("{}.every", it.at));
        document.add(&at, format_share(busiest), "measure less often, or shorter");
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
            format!("`{name}` {runs:.0} runs a day x {} s", format_seconds(lasts))
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
fn check_mesh_cycle(file: &WatchFile, document: &ConfigDocument<'_>) {
    let Some(turns) = watch_forecast::forecast_mesh(file).filter(|_| document.is_valid()) else {
        return;
    };
    let cycle = Duration::from_micros(turns.cycle_us.unsigned_abs());
    let heavy: Vec<&MeasureConfig> = file.measures.iter().filter(|it| it.is_heavy()).collect();
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
        let advice = format!(
            "measure heavy ones less often; the min for one is {}",
            format_long_duration(cycle)
        );
        document.add(&format!("{}.every", quickest.at), what, advice);
    }
}

/// Formats seconds without a unit, with a decimal only if needed.
fn format_seconds(time: Duration) -> String {
    let text = format!("{:.1}", time.as_secs_f64());
    text.trim_end_matches(".0").to_owned()
}
