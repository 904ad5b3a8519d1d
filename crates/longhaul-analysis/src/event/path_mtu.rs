//! Cause: the MTU of the path changed.
//!
//! We would see: another path MTU in searches before and after the event; perhaps a size that is
//! dropped silently. Refuted by: a larger MTU although the path became worse.
//! Needs: `longhaul path --mtu` before and after. To do: find the hop that refuses the old size.
//!
//! Units: bytes of IP. Wrong when: probes of one size were lost by chance at every attempt.

use super::candidate::{Candidate, weight};
use super::case::{Case, ask_operator};
use super::evidence::Seen;
use super::turn::{Reading, Turn};
use super::words;
use longhaul_model::report::v1::{Path, Throughput};

/// Tolerance: a TCP option more or less.
const SAME_BYTES: u32 = 12;

pub fn candidate(case: &Case) -> Option<Candidate> {
    if !case.of_transfer() {
        return None;
    }
    by_search(case).or_else(|| by_segments(case))
}

fn by_search(case: &Case) -> Option<Candidate> {
    let reading = |seen: &Seen<Path>| {
        let mtu = seen.report.analysis.path_mtu.as_ref()?;
        Some(Reading {
            at_us: seen.at_us,
            value: (mtu.bytes, mtu.black_hole),
        })
    };
    let readings = case.evidence.paths.iter().filter_map(reading).collect();
    let turn = nearest(case, case.turns(readings, PartialEq::eq))?;
    let ((old, _), (new, hole)) = (turn.from, turn.to);
    let text = format!(
        "The path MTU changed {} from {old} B to {new} B",
        words::span(turn.between_us)
    );
    let mut found = judged(case, &turn, text, (old, new));
    if hole && case.worse() == Some(true) && turn.lasted {
        found.consistency = 1.0;
    }
    if hole {
        found
            .supports
            .push(String::from("larger packets vanish, and no router says so"));
    }
    Some(found)
}

/// Segments of bulk runs are as large as the path allows, unless a size was requested.
fn by_segments(case: &Case) -> Option<Candidate> {
    let reading = |seen: &Seen<Throughput>| {
        let streams = &seen.direction()?.0.streams;
        let least = streams.iter().filter_map(|s| s.sender.mss_bytes).min()?;
        seen.report.plan.mss_bytes.is_none().then_some(Reading {
            at_us: seen.at_us,
            value: least,
        })
    };
    let readings = case
        .evidence
        .throughput
        .iter()
        .filter_map(reading)
        .collect();
    let turn = nearest(
        case,
        case.turns(readings, |a, b| a.abs_diff(*b) <= SAME_BYTES),
    )?;
    let (old, new) = (turn.from, turn.to);
    let text = format!(
        "The segments of bulk runs changed {} from {old} B to {new} B: so did what fits through the path",
        words::span(turn.between_us)
    );
    Some(judged(case, &turn, text, (old, new)))
}

fn nearest<T>(case: &Case, turns: Vec<Turn<T>>) -> Option<Turn<T>> {
    turns
        .into_iter()
        .max_by(|a, b| case.rank(a).total_cmp(&case.rank(b)))
}

fn judged<T>(case: &Case, turn: &Turn<T>, text: String, (old, new): (u32, u32)) -> Candidate {
    let mut found = Candidate::new("path_mtu", turn.between_us, text);
    found.weight = weight::LINK;
    let worse = case.worse() == Some(true);
    found.consistency = if turn.lasted && (new < old) == worse {
        0.9
    } else {
        0.0
    };
    if worse {
        found.advice.push(ask_operator(format!(
            "Find the hop beyond which packets for {old} B no longer pass (`longhaul path HOST --mtu`)"
        )));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    fn consistency(before: u32, after: u32) -> Option<f64> {
        let mut sketch = sketch::fell();
        sketch.mtu(-HOUR, before).mtu(HOUR, after);
        Some(sketch.found(candidate)?.consistency)
    }

    #[test]
    fn a_smaller_one_explains_a_fall_and_a_larger_one_does_not() {
        assert_eq!(consistency(9000, 1400), Some(0.9));
        assert_eq!(consistency(1400, 9000), Some(0.0));
        assert_eq!(consistency(1500, 1500), None);
    }

    #[test]
    fn segments_of_bulk_runs_show_it_too() {
        let mut sketch = sketch::fell();
        for (at, bytes) in [(-HOUR, 1448), (HOUR, 1148)] {
            sketch.run(at, |report| {
                report.observation.streams.push(sketch::stream(bytes));
            });
        }
        let found = sketch.found(candidate).expect("a candidate");
        assert!((found.consistency - 0.9).abs() < 1e-9);
        assert!(
            found.summary.contains("from 1448 B to 1148 B"),
            "{}",
            found.summary
        );
    }
}
