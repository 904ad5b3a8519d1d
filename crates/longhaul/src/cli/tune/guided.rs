//! The guided search: the limiters of the probes so far determine the next probe.

use super::asked;
use super::course::{Course, Halt, Wanted};
use super::history;
use longhaul_analysis::tune::{Probe, Search, Spent, Start, Step, Stop, Trial};
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::scan::{Budget, Cell, Plan};
use std::time::Duration;

/// Searches each requested direction, and returns the reason for the end of the scan.
pub fn search(course: &mut Course<'_>, idle_rtt: Duration) -> Result<&'static str, Halt> {
    let ways: &[bool] = match course.plan.direction {
        Direction::Forward => &[true],
        Direction::Reverse => &[false],
        Direction::Both => &[true, false],
    };
    let mut stopped = Stop::Settled;
    for (place, &forward) in ways.iter().enumerate() {
        let stop = one_way(course, forward, ways.len() - place, idle_rtt)?;
        // The first reason other than settled is the reason of the whole scan.
        if stopped == Stop::Settled {
            stopped = stop;
        }
    }
    Ok(stopped.word())
}

/// Searches one direction with its share of the remaining budget.
fn one_way(
    course: &mut Course<'_>,
    forward: bool,
    ways_left: usize,
    idle_rtt: Duration,
) -> Result<Stop, Halt> {
    let plan = share(&course.plan, course.spent(Some(!forward)), ways_left);
    let remembered = history::remembered(course.args, &plan, forward, idle_rtt);
    let start = Start {
        remembered: remembered.is_some(),
        present: plan
            .present
            .clone()
            .or_else(|| remembered.as_ref().map(|found| found.setting.clone())),
        idle_rtt: Some(idle_rtt),
    };
    let mut search = Search::new(&plan, start);
    if let Some(found) = remembered {
        search = search.expecting(found.goodput_bps);
    }
    replay(course, &mut search, forward);
    course.told.budget_of_direction(&plan.budget, forward);
    loop {
        let probe = match search.next(course.spent(Some(forward))) {
            Step::Probe(probe) => probe,
            Step::Done(stop) => return Ok(stop),
        };
        if course.interrupted() {
            return Err(Halt::Interrupted);
        }
        let wanted = wanted(course, probe, forward);
        let trial = match course.measure(&wanted)? {
            Some(report) => Trial::of(wanted.setting.clone(), report),
            None => Trial::failed(wanted.setting.clone()),
        };
        search.record(trial);
    }
}

/// Returns the budget of a direction if `ways_left` directions share the rest.
fn share(plan: &Plan, elsewhere: Spent, ways_left: usize) -> Plan {
    let ways = ways_left.max(1) as u64;
    let time_us = u64::try_from(elsewhere.time.as_micros()).unwrap_or(u64::MAX);
    let budget = plan.budget;
    let left = u64::from(budget.probes.saturating_sub(elsewhere.probes));
    Plan {
        budget: Budget {
            probes: u32::try_from(left.div_ceil(ways)).unwrap_or(u32::MAX),
            time_us: budget.time_us.saturating_sub(time_us) / ways,
            bytes: budget
                .bytes
                .map(|bytes| bytes.saturating_sub(elsewhere.bytes) / ways),
        },
        ..plan.clone()
    }
}

fn wanted(course: &Course<'_>, probe: Probe, forward: bool) -> Wanted {
    let asked = Duration::from_micros(asked::time_us(&course.plan));
    let time = match course.args.time {
        Some(_) => asked,
        None => probe.time.max(asked),
    };
    Wanted {
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
fn replay(course: &mut Course<'_>, search: &mut Search, forward: bool) {
    let mut spent = Spent::default();
    for run in course
        .runs
        .iter()
        .filter(|run| run.observation.forward == forward)
    {
        let own = |cell: &&mut Cell| cell.run_id.as_ref() == Some(&run.run.id);
        let Some(cell) = course.observation.cells.iter_mut().find(own) else {
            continue;
        };
        if let Step::Probe(probe) = search.next(spent)
            && probe.setting == cell.setting
        {
            cell.why = Some(probe.why);
        }
        spent.probes += 1;
        spent.bytes += cell.receiver_bytes.unwrap_or(0);
        spent.time += Duration::from_micros(cell.duration_us);
        search.record(Trial::of(cell.setting.clone(), run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = r#"{"search": "guided", "direction": "both", "windows_bytes": [],
            "streams": [], "congestion_controls": [], "repeats": 1, "seed": 1,
            "budget": {"probes": 15, "time_us": 600, "bytes": 1000}}"#;
        let mut value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let probe = longhaul_model::report::v1::plan::Plan::default();
        value["probe"] = serde_json::to_value(probe).expect("a plan");
        serde_json::from_value(value).expect("a plan")
    }

    #[test]
    fn two_directions_share_the_budget_and_the_second_gets_what_is_left() {
        let first = share(&plan(), Spent::default(), 2).budget;
        assert_eq!(
            (first.probes, first.time_us, first.bytes),
            (8, 300, Some(500))
        );
        let spent = Spent {
            probes: 5,
            bytes: 900,
            time: Duration::from_micros(100),
        };
        let second = share(&plan(), spent, 1).budget;
        assert_eq!(
            (second.probes, second.time_us, second.bytes),
            (10, 500, Some(100))
        );
    }
}
