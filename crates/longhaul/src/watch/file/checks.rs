//! Checks across tables: runs longer than their interval, budgets smaller than a run, links busy
//! for more than 100 % of the time.

use super::problem::Found;
use super::table::span;
use super::{Form, Measure, WatchFile, Work};
use crate::watch::forecast::{self, Share};
use crate::watch::jobs::{path_rate, runs_each};
use crate::watch::rounds;
use longhaul_model::units::Bytes;
use std::time::Duration;

/// The maximum number of pairs in all sets.
const PAIRS_MAX: usize = 2_000_000;

pub(super) fn check(file: &WatchFile, found: &Found) {
    // A collector need not measure anything itself.
    if file.measures.is_empty() && file.api.senders.is_empty() && found.is_empty() {
        let advice = "write [[measure]] with name, kind and every";
        found.add(1, "measure", "nothing is measured", advice);
    }
    let agents = rounds::agents(file);
    if is_too_large(file, &agents, found) {
        return;
    }
    for measure in &file.measures {
        measures_somebody(file, measure, &agents, found);
        fits_its_interval(measure, found);
        fits_its_budget(file, measure, &agents, found);
    }
    // Other problems would distort the shares of time.
    if found.is_empty() {
        parts_have_time(file, found);
        rounds_have_time(file, found);
    }
}

fn is_too_large(file: &WatchFile, agents: &[usize], found: &Found) -> bool {
    let pairs = file.sets.iter().map(|set| match set.form {
        Form::Mesh => set.hosts.len() * set.hosts.len() / 2,
        Form::Group | Form::Target => set.hosts.len() * agents.len(),
    });
    let pairs: usize = pairs.sum();
    if pairs > PAIRS_MAX {
        let what = format!("{pairs} pairs of hosts");
        found.add(
            1,
            "mesh",
            what,
            format!("at most {PAIRS_MAX}; make meshes smaller"),
        );
    }
    pairs > PAIRS_MAX
}

fn measures_somebody(file: &WatchFile, measure: &Measure, agents: &[usize], found: &Found) {
    let has_pairs = || !rounds::pairs(file, &measure.sets, agents).is_empty();
    // Problems of the sets have been reported already.
    if measure.work == Work::Host || !found.is_empty() || has_pairs() {
        return;
    }
    let key = format!("measure.{}.groups", measure.name);
    let advice = "name a group with other hosts than the agent's own";
    found.add(measure.line, key, "there is nobody to measure", advice);
}

fn fits_its_interval(measure: &Measure, found: &Found) {
    let runs = runs_each(measure);
    let needs = measure.work.takes() * runs;
    if needs <= measure.every {
        return;
    }
    let both = if runs == 2 {
        ", one for each direction"
    } else {
        ""
    };
    let what = format!(
        "{} is shorter than its runs last: {runs} x {} s{both}",
        span(measure.every),
        seconds(measure.work.takes())
    );
    let advice = format!("at least {} s, or shorten the run", seconds(needs));
    found.add(
        measure.every_line,
        format!("measure.{}.every", measure.name),
        what,
        advice,
    );
}

fn fits_its_budget(file: &WatchFile, measure: &Measure, agents: &[usize], found: &Found) {
    let pairs = rounds::pairs(file, &measure.sets, agents);
    let most = pairs
        .iter()
        .map(|(one, other)| measure.work.bytes(path_rate(file, *one, *other)))
        .max();
    let Some(most) = most.filter(|_| measure.work != Work::Host) else {
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
fn parts_have_time(file: &WatchFile, found: &Found) {
    if let Some(busiest) = forecast::shares(file).first().filter(|it| it.share > 1.0) {
        let heaviest = busiest
            .of
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
            arithmetic(busiest),
            "measure less often, or shorter",
        );
    }
}

/// Formats, for example, `link x would be busy 150 % of the time: bulk 2,880 runs a day x 15 s +
/// …`.
fn arithmetic(share: &Share) -> String {
    let terms: Vec<String> = share
        .of
        .iter()
        .map(|(name, runs, lasts_us)| {
            let lasts = Duration::from_micros((*lasts_us).unsigned_abs());
            format!("`{name}` {runs:.0} runs a day x {} s", seconds(lasts))
        })
        .collect();
    format!(
        "{} would be busy {:.0} % of the time: {}, and a day has 86400 s",
        share.need,
        share.share * 100.0,
        terms.join(" + ")
    )
}

/// Each pair of a mesh has one turn per cycle, which all measurements share.
fn rounds_have_time(file: &WatchFile, found: &Found) {
    let Some(turns) = forecast::turns(file).filter(|_| found.is_empty()) else {
        return;
    };
    let cycle = Duration::from_micros(turns.cycle_us.unsigned_abs());
    let heavy: Vec<&Measure> = file
        .measures
        .iter()
        .filter(|it| it.work.is_heavy())
        .collect();
    let share = |it: &Measure| cycle.as_secs_f64() / it.every.as_secs_f64();
    let asked: f64 = heavy.iter().map(|it| share(it)).sum();
    let quickest = heavy.iter().min_by_key(|it| it.every);
    if let Some(quickest) = quickest.filter(|_| asked > 1.0) {
        let terms: Vec<String> = heavy
            .iter()
            .map(|it| format!("`{}` every {}", it.name, span(it.every)))
            .collect();
        let what = format!(
            "a pair has one turn in {}: {} rounds of {} s; {} would take {:.0} % of the turns",
            span(cycle),
            turns.rounds,
            turns.turn_us / 1_000_000,
            terms.join(" + "),
            asked * 100.0
        );
        let key = format!("measure.{}.every", quickest.name);
        let advice = format!(
            "measure heavy ones less often; {} is the least for one",
            span(cycle)
        );
        found.add(quickest.every_line, key, what, advice);
    }
}

/// Formats seconds without a unit, with a decimal only if needed.
fn seconds(time: Duration) -> String {
    let text = format!("{:.1}", time.as_secs_f64());
    text.trim_end_matches(".0").to_owned()
}
