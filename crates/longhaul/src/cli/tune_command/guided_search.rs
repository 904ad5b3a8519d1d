//! The guided search: the limiters of the probes so far determine the next probe.

use super::active_scan::{ActiveScan, ProbeRequest, ScanHalt};
use super::scan_history;
use super::scan_plan;
use longhaul_analysis::tune::{
    ProbeTrial, SearchProbe, SearchSpent, SearchStart, SearchStep, SearchStop, SettingSearch,
};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanBudget, ScanCell, ScanPlan};
use std::time::Duration;

/// Searches each requested direction, and returns the reason for the end of the scan.
pub fn search_all_directions(
    course: &mut ActiveScan<'_>,
    idle_rtt: Duration,
) -> Result<&'static str, ScanHalt> {
    let ways: &[bool] = match course.plan.direction {
        RunDirection::Forward => &[true],
        RunDirection::Reverse => &[false],
        RunDirection::Both => &[true, false],
    };
    let mut stopped = SearchStop::Settled;
    for (place, &forward) in ways.iter().enumerate() {
        let stop = search_direction(course, forward, ways.len() - place, idle_rtt)?;
        // The first reason other than settled is the reason of the whole scan.
        if stopped == SearchStop::Settled {
            stopped = stop;
        }
    }
    Ok(stopped.word())
}

/// Searches one direction with its share of the remaining budget.
fn search_direction(
    course: &mut ActiveScan<'_>,
    forward: bool,
    ways_left: usize,
    idle_rtt: Duration,
) -> Result<SearchStop, ScanHalt> {
    let plan = direction_budget(&course.plan, course.budget_spent(Some(!forward)), ways_left);
    let remembered = scan_history::recall_setting(course.args, &plan, forward, idle_rtt);
    let start = SearchStart {
        remembered: remembered.is_some(),
        present: plan
            .present
            .clone()
            .or_else(|| remembered.as_ref().map(|found| found.setting.clone())),
        idle_rtt: Some(idle_rtt),
    };
    let mut search = SettingSearch::new(&plan, start);
    if let Some(found) = remembered {
        search = search.expecting(found.goodput_bps);
    }
    replay_probes(course, &mut search, forward);
    course.progress.print_direction_budget(&plan.budget, forward);
    loop {
        let probe = match search.next(course.budget_spent(Some(forward))) {
            SearchStep::Probe(probe) => probe,
            SearchStep::Done(stop) => return Ok(stop),
        };
        if course.is_interrupted() {
            return Err(ScanHalt::Interrupted);
        }
        let wanted = next_request(course, probe, forward);
        let trial = match course.measure_cell(&wanted)? {
            Some(report) => ProbeTrial::of(wanted.setting.clone(), report),
            None => ProbeTrial::failed(wanted.setting.clone()),
        };
        search.record(trial);
    }
}

/// Returns the budget of a direction if `ways_left` directions share the rest.
fn direction_budget(plan: &ScanPlan, elsewhere: SearchSpent, ways_left: usize) -> ScanPlan {
    let ways = ways_left.max(1) as u64;
    let time_us = u64::try_from(elsewhere.time.as_micros()).unwrap_or(u64::MAX);
    let budget = plan.budget;
    let left = u64::from(budget.probes.saturating_sub(elsewhere.probes));
    ScanPlan {
        budget: ScanBudget {
            probes: u32::try_from(left.div_ceil(ways)).unwrap_or(u32::MAX),
            time_us: budget.time_us.saturating_sub(time_us) / ways,
            bytes: budget.bytes.map(|bytes| bytes.saturating_sub(elsewhere.bytes) / ways),
        },
        ..plan.clone()
    }
}

fn next_request(course: &ActiveScan<'_>, probe: SearchProbe, forward: bool) -> ProbeRequest {
    let asked = Duration::from_micros(scan_plan::probe_time_us(&course.plan));
    let time = match course.args.time {
        Some(_) => asked,
        None => probe.time.max(asked),
    };
    ProbeRequest {
        index: course.next_index(),
        setting: probe.setting,
        forward,
        sentinel: false,
        why: Some(probe.why),
        time,
    }
}

/// Replays the earlier probes to the search. The search is asked for each next probe, as it was
/// then, so that each cell gets its reason back.
fn replay_probes(course: &mut ActiveScan<'_>, search: &mut SettingSearch, forward: bool) {
    let mut spent = SearchSpent::default();
    for run in course.runs.iter().filter(|run| run.observation.forward == forward) {
        let own = |cell: &&mut ScanCell| cell.run_id.as_ref() == Some(&run.run.id);
        let Some(cell) = course.observation.cells.iter_mut().find(own) else {
            continue;
        };
        if let SearchStep::Probe(probe) = search.next(spent)
            && probe.setting == cell.setting
        {
            cell.why = Some(probe.why);
        }
        spent.probes += 1;
        spent.bytes += cell.receiver_bytes.unwrap_or(0);
        spent.time += Duration::from_micros(cell.duration_us);
        search.record(ProbeTrial::of(cell.setting.clone(), run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ScanPlan {
        let text = r#"{"search": "guided", "direction": "both", "windows_bytes": [],
            "streams": [], "congestion_controls": [], "repeats": 1, "seed": 1,
            "budget": {"probes": 15, "time_us": 600, "bytes": 1000}}"#;
        let mut value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let probe = longhaul_model::report::v1::plan::ThroughputPlan::default();
        value["probe"] = serde_json::to_value(probe).expect("a plan");
        serde_json::from_value(value).expect("a plan")
    }

    #[test]
    fn two_directions_share_the_budget_and_the_second_gets_what_is_left() {
        let first = direction_budget(&plan(), SearchSpent::default(), 2).budget;
        assert_eq!((first.probes, first.time_us, first.bytes), (8, 300, Some(500)));
        let spent = SearchSpent { probes: 5, bytes: 900, time: Duration::from_micros(100) };
        let second = direction_budget(&plan(), spent, 1).budget;
        assert_eq!((second.probes, second.time_us, second.bytes), (10, 500, Some(100)));
    }
}
