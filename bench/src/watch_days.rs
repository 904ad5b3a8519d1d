//! Days of an agent on paths that change once, without its knowledge.
//!
//! Each day is a network of namespaces in a Linux guest whose clock is virtual, on which
//! `longhaul watch` measures for some hours, and others send datagrams or TCP. At a time that the seed
//! draws, one thing is done to the path, or nothing. The events of the agent are then compared with it.
//!
//! Found: a confirmed event in a quantity that the change must move, within half an hour before and an
//! hour after. Right: most of these events have the right first cause. All other confirmed events
//! are false, unless they are in a quantity that the change may also move.
//!
//! Wrong when: the traffic of others is looked at between measurements: it pauses then.

mod day_kinds;

use crate::guest_cells::{
    CellKind, GuestCell, JudgedCell, group_by_kind, judge_cells, parse_report,
};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::verdict_matrix::matrix_cell::{DrawnPath, NETWORK};
use crate::{BenchArguments, BenchOutcome};
use day_kinds::KINDS;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState};
use longhaul_model::serde_name;
use serde::Deserialize;
use std::path::Path;

/// The agent, the schedule and the traffic of others.
const DAY_SCRIPT: &str = include_str!("watch_days/day_script.sh");
/// The times around a change in which an event is of it, in us.
const BEFORE_US: i64 = 1800 * 1_000_000;
const AFTER_US: i64 = 3600 * 1_000_000;
/// The minimum shares of the changed days that are found, and of those with the right first cause.
const FOUND_RATIO_MIN: f64 = 0.95;
const RIGHT_RATIO_MIN: f64 = 0.9;
/// The maximum number of false events in a series and day.
const FALSE_EVENTS_MAX: f64 = 0.03;

/// The effects of a change.
#[derive(Debug, Clone, Copy)]
struct DayTruth {
    /// One of these must have an event; empty if nothing is done.
    moves: &'static [PathQuantity],
    /// Events in these are neither required nor false.
    may_move: &'static [PathQuantity],
    /// The right first cause; none if no cause can be known.
    causes: &'static [&'static str],
}

/// A path, and what is done to it.
#[derive(Debug, Clone)]
struct DayCell {
    path: DrawnPath,
    queue_bytes: u64,
    /// Arguments of iperf3.
    traffic: &'static str,
    /// The rate of the traffic of others in each slot, in bit/s.
    loads: Vec<u64>,
    change_s: u64,
    /// The command that changes the path.
    change: String,
    note: String,
    truth: DayTruth,
}

impl DayCell {
    /// The duration of a day, and of the slots in which the traffic of others has one rate.
    const DAY_S: u64 = 4 * 3600;
    const SLOT_S: u64 = 600;
    const SLOTS: u64 = Self::DAY_S / Self::SLOT_S + 1;

    fn title(&self) -> String {
        let load_bps = self.loads.iter().sum::<u64>() / self.loads.len() as u64;
        let path = &self.path;
        format!(
            "{:.1} Mbit/s, {} ms; others {:.1} Mbit/s ({}); {}",
            path.rate_bps as f64 / 1e6,
            path.rtt_ms,
            load_bps as f64 / 1e6,
            if !self.traffic.contains("-u") {
                "TCP"
            } else if self.traffic.contains('/') {
                "UDP in bursts"
            } else {
                "UDP"
            },
            self.note
        )
    }
}

/// The output of a day.
#[derive(Debug, Clone, Deserialize)]
struct DayRecord {
    changed_at_us: i64,
    /// The number of series in which changes are looked for.
    series: u64,
    runs: u64,
    events: Vec<ChangeEvent>,
}

/// The comparison of the events of a day with what was done.
#[derive(Debug, Clone)]
struct DayVerdict {
    /// The events of the change, the first announced first.
    found: Vec<ChangeEvent>,
    false_events: Vec<String>,
    /// From the change to the first announcement of an event of it, in minutes.
    delay_min: Option<f64>,
    series: u64,
    runs: u64,
}

impl DayVerdict {
    fn new(record: DayRecord, truth: DayTruth) -> DayVerdict {
        let DayRecord { changed_at_us, series, runs, mut events } = record;
        events.retain(|it| matches!(it.state, EventState::Confirmed | EventState::Recovered));
        events.sort_by_key(|event| event.announced_at_us);
        let is_near = |event: &ChangeEvent| {
            let [begin, end] = event.between_us;
            end > changed_at_us - BEFORE_US && begin < changed_at_us + AFTER_US
        };
        let (found, others): (Vec<_>, Vec<_>) = events
            .into_iter()
            .partition(|event| is_near(event) && truth.moves.contains(&event.quantity));
        let minutes = |us: i64| (us - changed_at_us) as f64 / 60e6;
        let is_false =
            |event: &&ChangeEvent| !is_near(event) || !truth.may_move.contains(&event.quantity);
        let describe = |event: &ChangeEvent| {
            let at_min = minutes(event.between_us[1]);
            let percent = event.change_ratio.map(|ratio| 100.0 * (ratio - 1.0));
            let change = format_number(percent, 0);
            format!("{} {change} % at {at_min:+.0} min", serde_name::name_variant(&event.quantity))
        };
        DayVerdict {
            delay_min: found.first().map(|event| minutes(event.announced_at_us)),
            false_events: others.iter().filter(is_false).map(describe).collect(),
            found,
            series,
            runs,
        }
    }

    /// Returns whether most events of the change have the right first cause.
    fn is_right(&self, truth: DayTruth) -> bool {
        let is_right = |event: &&ChangeEvent| match event.causes.first() {
            Some(first) => truth.causes.contains(&first.cause.as_str()),
            None => truth.causes.is_empty(),
        };
        2 * self.found.iter().filter(is_right).count() > self.found.len()
    }
}

impl JudgedCell<DayCell> {
    fn is_changed(&self) -> bool {
        !self.drawn.cell.truth.moves.is_empty()
    }

    fn is_found(&self) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| !verdict.found.is_empty())
    }

    fn is_right(&self) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| verdict.is_right(self.drawn.cell.truth))
    }
}

/// Runs the days that the arguments select, or judges kept ones again, and tabulates them.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let judged = judge_cells::<DayCell>(longhaul, arguments)?;
    let columns =
        "day | path | found in | after, min | first cause |  | false events | series | runs";
    let mut days = MarkdownTable::new("Days", columns);
    for one in &judged {
        days.row(DayCell::format_row(one));
    }
    Ok(BenchOutcome::new(&[tabulate_kinds(&judged), days], check_gates(&judged)))
}

impl GuestCell for DayCell {
    type Verdict = DayVerdict;
    const KINDS: &'static [CellKind<DayCell>] = &KINDS;

    fn script(&self, longhaul: &str) -> String {
        let loads: Vec<String> = self.loads.iter().map(|bps| (bps / 1000).to_string()).collect();
        format!(
            "LONGHAUL='{longhaul}'\n{}{NETWORK}\n\
             RATE={}bit QUEUE={} TRAFFIC='{}' LOADS='{}' SLOT_S={} DAY_S={} CHANGE_S={}\n\
             change() {{ {}; }}\n{DAY_SCRIPT}",
            self.path.variables(),
            self.path.rate_bps,
            self.queue_bytes,
            self.traffic,
            loads.join(" "),
            Self::SLOT_S,
            Self::DAY_S,
            self.change_s,
            self.change,
        )
    }

    fn judge(&self, text: &str) -> Result<DayVerdict, String> {
        let (record, _) = parse_report::<DayRecord>(text)?;
        Ok(DayVerdict::new(record, self.truth))
    }

    fn format_row(judged: &JudgedCell<DayCell>) -> Vec<String> {
        let drawn = &judged.drawn;
        let mut row = vec![drawn.name(), drawn.cell.title()];
        match &judged.verdict {
            Ok(verdict) => row.extend([
                list_words(&verdict.found, |event| serde_name::name_variant(&event.quantity)),
                format_number(verdict.delay_min, 0),
                list_words(&verdict.found, |event| {
                    event.causes.first().map_or("none", |first| first.cause.as_str())
                }),
                match (judged.is_changed(), judged.is_found(), judged.is_right()) {
                    (false, ..) => "–",
                    (true, false, _) => "**not found**",
                    (true, true, true) => "right",
                    (true, true, false) => "**wrong**",
                }
                .to_owned(),
                verdict.false_events.join(", "),
                verdict.series.to_string(),
                verdict.runs.to_string(),
            ]),
            Err(why) => {
                row.push(format!("no answer: {why}"));
                row.resize(9, "–".to_owned());
            }
        }
        row
    }

    fn is_wrong(judged: &JudgedCell<DayCell>) -> bool {
        let has_false_events =
            judged.verdict.as_ref().map_or(true, |verdict| !verdict.false_events.is_empty());
        has_false_events || (judged.is_changed() && !(judged.is_found() && judged.is_right()))
    }
}

/// Lists a word of each event, without repetitions in a row.
fn list_words(events: &[ChangeEvent], word: impl Fn(&ChangeEvent) -> &str) -> String {
    let mut words: Vec<&str> = events.iter().map(word).collect();
    words.dedup();
    words.join(", ")
}

fn tabulate_kinds(judged: &[JudgedCell<DayCell>]) -> MarkdownTable {
    let columns = "what was done | days | found | first cause right | median time, min | \
                   false events | series and days";
    let mut table = MarkdownTable::new("Days by kind", columns);
    for (kind, days) in group_by_kind(judged) {
        let verdicts = || days.iter().filter_map(|day| day.verdict.as_ref().ok());
        let count = |holds: fn(&JudgedCell<DayCell>) -> bool| {
            if days.iter().any(|day| day.is_changed()) {
                days.iter().filter(|day| holds(day)).count().to_string()
            } else {
                "–".to_owned()
            }
        };
        let delays: Vec<f64> = verdicts().filter_map(|verdict| verdict.delay_min).collect();
        table.row(vec![
            kind.to_owned(),
            days.len().to_string(),
            count(JudgedCell::is_found),
            count(|day| day.is_found() && day.is_right()),
            format_number(median(&delays), 0),
            verdicts().map(|verdict| verdict.false_events.len()).sum::<usize>().to_string(),
            verdicts().map(|verdict| verdict.series).sum::<u64>().to_string(),
        ]);
    }
    table
}

fn check_gates(judged: &[JudgedCell<DayCell>]) -> Vec<String> {
    let mut missed = Vec::new();
    let changed: Vec<_> = judged.iter().filter(|day| day.is_changed()).collect();
    let mut check_share = |name: &str, good: usize, least: f64| {
        let share = good as f64 / changed.len().max(1) as f64;
        if !changed.is_empty() && share < least {
            let (percent, least) = (100.0 * share, 100.0 * least);
            missed.push(format!("{name} on {percent:.0} % of the days, not {least:.0} %"));
        }
    };
    let found = changed.iter().filter(|day| day.is_found());
    let right = found.clone().filter(|day| day.is_right()).count();
    check_share("the change was found", found.count(), FOUND_RATIO_MIN);
    check_share("the first cause was right", right, RIGHT_RATIO_MIN);
    let verdicts = || judged.iter().filter_map(|day| day.verdict.as_ref().ok());
    let false_events: usize = verdicts().map(|verdict| verdict.false_events.len()).sum();
    let series: u64 = verdicts().map(|verdict| verdict.series).sum();
    let rate = false_events as f64 / series.max(1) as f64;
    if rate > FALSE_EVENTS_MAX {
        missed.push(format!("{rate:.3} false events in a series and day, not {FALSE_EVENTS_MAX}"));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::ReportFinding;
    use serde_json::json;

    const TRUTH: DayTruth = DayTruth {
        moves: &[PathQuantity::Capacity, PathQuantity::Available],
        may_move: &[PathQuantity::Retransmits],
        causes: &["capacity_change"],
    };
    const CHANGED_US: i64 = 1_000_000_000_000;

    fn judge(events: &[(&str, i64, &str)]) -> DayVerdict {
        let level = json!({ "median": 1e6, "deviation": 0.0, "samples": 9 });
        let events = events.iter().map(|(quantity, after_min, cause)| {
            let at_us = CHANGED_US + after_min * 60_000_000;
            json!({
                "id": "x", "pair": { "from": "near", "to": "far" }, "quantity": quantity,
                "state": "confirmed", "between_us": [at_us - 600_000_000, at_us],
                "before": level, "after": level, "score": 2.0, "autocorrelation": 0.0,
                "announced_at_us": at_us + 1_800_000_000,
                "causes": [ReportFinding::new(cause, 0.8, "")],
            })
        });
        let events: Vec<_> = events.collect();
        let record = json!({
            "changed_at_us": CHANGED_US, "series": 9, "runs": 80, "events": events,
        });
        let record = DayRecord::deserialize(record).expect("a record");
        DayVerdict::new(record, TRUTH)
    }

    #[test]
    fn an_event_is_of_the_change_by_its_quantity_and_time() {
        let verdict = judge(&[
            ("capacity", 4, "capacity_change"),
            ("available", 9, "cross_traffic"),
            ("available", 9, "capacity_change"),
            ("retransmits", 9, "cross_traffic"),
        ]);
        assert_eq!((verdict.found.len(), verdict.delay_min), (3, Some(34.0)));
        assert!(verdict.is_right(TRUTH) && verdict.false_events.is_empty(), "{verdict:?}");
    }

    #[test]
    fn events_at_other_times_or_in_other_quantities_are_false() {
        let verdict = judge(&[
            ("capacity", -120, "capacity_change"),
            ("rtt_floor", 5, "route_change"),
            ("retransmits", 100, "none"),
        ]);
        assert_eq!((verdict.found.len(), verdict.false_events.len()), (0, 3));
    }

    #[test]
    fn another_first_cause_of_half_of_the_events_is_wrong() {
        let verdict =
            judge(&[("capacity", 4, "capacity_change"), ("available", 9, "cross_traffic")]);
        assert!(!verdict.is_right(TRUTH));
    }
}
