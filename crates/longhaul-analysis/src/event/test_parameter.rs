//! Cause: the measurement itself changed.
//!
//! We would see: streams, windows, congestion control, pacing or mode of the runs change at the
//! time of the event. Refuted by: a change that would move the rate the other way.
//! Needs: the plans of runs before and after, or changes of the agent's file. To do: compare only
//! runs with the same parameters. Wrong when: the change was a reaction to the event (a re-tune):
//! then it comes after it.

use super::candidate::{Candidate, weight};
use super::case::{Case, is_window};
use super::evidence::Seen;
use super::turn::Reading;
use super::words;
use crate::diagnose::advice;
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::plan::{Mode, Plan, Transport};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeMap;

/// Parameters and values as printed.
type Parameters = BTreeMap<&'static str, String>;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let by_runs = by_runs(case);
    let by_file = by_file(case);
    let score = |found: &Candidate| found.score(case.event.between_us, case.tau_us());
    match (by_runs, by_file) {
        (Some(runs), Some(file)) if score(&runs) >= score(&file) => Some(runs),
        (runs, file) => file.or(runs),
    }
}

fn by_runs(case: &Case) -> Option<Candidate> {
    if !case.of_transfer() {
        return None;
    }
    let reading = |seen: &Seen<Throughput>| Reading {
        at_us: seen.at_us,
        value: parameters(&seen.report.plan),
    };
    let readings = case.evidence.throughput.iter().map(reading).collect();
    let found = case.turns(readings, PartialEq::eq);
    let turn = found
        .into_iter()
        .max_by(|a, b| case.rank(a).total_cmp(&case.rank(b)))?;
    let changed = changes(&turn.from, &turn.to);
    let mut found = named(turn.between_us, &changed);
    found.consistency = if turn.lasted {
        consistency(case, &turn.from, &turn.to)
    } else {
        0.0
    };
    if found.consistency < 0.5 {
        found.contradicts.push(String::from(
            "such a change would move the throughput the other way, or the former setting is back",
        ));
    }
    Some(found)
}

fn by_file(case: &Case) -> Option<Candidate> {
    let timing = |at_us: i64| case.timing([at_us, at_us]);
    let nearest = case
        .evidence
        .plan_changes
        .iter()
        .max_by(|a, b| timing(a.at_us).total_cmp(&timing(b.at_us)))?;
    let same_time = case
        .evidence
        .plan_changes
        .iter()
        .filter(|change| change.at_us == nearest.at_us);
    let changed: Vec<String> = same_time
        .map(|c| {
            format!(
                "{} from {} to {}",
                words::quoted(&c.name),
                words::quoted(&c.before),
                words::quoted(&c.after)
            )
        })
        .collect();
    let mut found = named([nearest.at_us; 2], &changed);
    found
        .supports
        .push(String::from("the agent's file was changed then"));
    found.consistency = way(
        case,
        &nearest.name,
        number(&nearest.before),
        number(&nearest.after),
    );
    Some(found)
}

fn named(between_us: [i64; 2], changed: &[String]) -> Candidate {
    let text = format!(
        "The measurement itself changed {}: {}",
        words::span(between_us),
        changed.join(", ")
    );
    let mut found = Candidate::new("test_parameter", between_us, text);
    found.weight = weight::TEST_PARAMETER;
    found.advice.push(advice(
        "initiator",
        String::from("Compare only runs with the same parameters; the path need not have changed"),
    ));
    found
}

fn parameters(plan: &Plan) -> Parameters {
    let kernel = || String::from("left to the kernel");
    let bytes = |bytes: Option<u64>| bytes.map_or_else(kernel, |b| Bytes(b).to_string());
    let rate = |bps: Option<u64>| {
        bps.map_or_else(
            || String::from("none"),
            |b| Rate::bits_per_second(b).to_string(),
        )
    };
    let transport = match plan.transport {
        Transport::Tcp => String::from("TCP"),
        Transport::Udp { rate_bps } => format!("UDP at {}", Rate::bits_per_second(rate_bps)),
    };
    let mode = match plan.mode {
        Mode::Delivered => "delivered",
        Mode::Wire => "wire",
    };
    BTreeMap::from([
        ("streams", plan.streams.to_string()),
        ("send buffer", bytes(plan.send_buffer_bytes)),
        ("receive buffer", bytes(plan.receive_buffer_bytes)),
        (
            "congestion control",
            plan.congestion_control
                .as_deref()
                .map_or_else(kernel, words::quoted),
        ),
        ("pacing", rate(plan.pacing_bps)),
        ("write rate", rate(plan.write_rate_bps)),
        ("read rate", rate(plan.read_rate_bps)),
        ("MSS", plan.mss_bytes.map_or_else(kernel, |b| b.to_string())),
        (
            "DSCP",
            plan.dscp
                .map_or_else(|| String::from("none"), |d| d.to_string()),
        ),
        ("scavenger", plan.scavenger.to_string()),
        ("transport", transport),
        ("mode", String::from(mode)),
    ])
}

fn changes(from: &Parameters, to: &Parameters) -> Vec<String> {
    let changed = from
        .iter()
        .zip(to.values())
        .filter(|((_, old), new)| old != new);
    changed
        .map(|((name, old), new)| format!("{name} from {old} to {new}"))
        .collect()
}

/// Returns the fit of the changed parameters; of several, the best.
fn consistency(case: &Case, from: &Parameters, to: &Parameters) -> f64 {
    let window = |all: &Parameters| number(&all["receive buffer"]).or(number(&all["send buffer"]));
    let streams = |all: &Parameters| number(&all["streams"]);
    let total = |all: &Parameters| Some(streams(all)? * window(all)?);
    let both = total(from).zip(total(to));
    let mut best: f64 = 0.0;
    for (name, old) in from.iter().filter(|(name, old)| to[*name] != **old) {
        let fit = match (*name, both) {
            // The total that all streams may have in flight counts.
            ("streams" | "send buffer" | "receive buffer", Some((old, new))) => {
                way(case, name, Some(old), Some(new))
            }
            _ => way(case, name, number(old), number(&to[name])),
        };
        best = best.max(fit);
    }
    best
}

/// Returns 1 if the direction fits, 0 if it is the opposite, 0.5 if that is unknown.
fn way(case: &Case, name: &str, old: Option<f64>, new: Option<f64>) -> f64 {
    if name.contains("mode") || name.contains("transport") || name.contains("scavenger") {
        return 1.0;
    }
    if name.contains("congestion") || !case.is(Quantity::Goodput) {
        return 0.8;
    }
    let Some((old, new)) = old.zip(new) else {
        return 0.5;
    };
    let less = new < old;
    match (less == case.fell(), case.limiter(true)) {
        (true, _) => 1.0,
        // More streams or larger windows may also overrun a queue, unless windows limit now.
        (false, Some(limiter)) if !is_window(limiter) && case.fell() => 0.5,
        (false, _) => 0.0,
    }
}

/// Parses values like `512 KiB`, `100 Mbit/s`, `8`.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|value| value.is_finite());
    let bytes = || text.parse::<Bytes>().ok().map(|b| b.0 as f64);
    let rate = || text.parse::<Rate>().ok().map(|r| r.as_bps() as f64);
    plain.or_else(bytes).or_else(rate)
}

#[cfg(test)]
mod tests {
    use super::super::evidence::PlanChange;
    use super::super::sketch::{self, DAY, HOUR};
    use super::*;

    fn score(sketch: &sketch::Sketch) -> f64 {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = Case {
            event: &event,
            evidence: &evidence,
        };
        candidate(&case).map_or(0.0, |found| found.score(event.between_us, case.tau_us()))
    }

    fn streams(before: u32, after: u32) -> sketch::Sketch {
        let mut sketch = sketch::fell();
        for (at, streams) in [(-HOUR, before), (HOUR, after)] {
            sketch.run(at, |report| report.plan.streams = streams);
        }
        sketch
    }

    #[test]
    fn fewer_streams_explain_a_lower_rate() {
        assert!((score(&streams(8, 1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_streams_contradict_a_lower_rate() {
        assert!(score(&streams(1, 8)).abs() < 1e-9);
    }

    #[test]
    fn the_same_parameters_are_no_candidate() {
        assert!(score(&streams(8, 8)).abs() < 1e-9);
    }

    #[test]
    fn what_all_streams_hold_together_counts() {
        let mut sketch = sketch::fell();
        for (at, streams, window) in [(-HOUR, 8, 1 << 20), (HOUR, 16, 64 << 10)] {
            sketch.run(at, move |report| {
                report.plan.streams = streams;
                report.plan.receive_buffer_bytes = Some(window);
            });
        }
        assert!((score(&sketch) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_change_of_the_file_counts_by_its_own_time() {
        let change = |at_us| PlanChange {
            at_us,
            name: String::from("streams"),
            before: String::from("8"),
            after: String::from("2"),
        };
        let mut sketch = sketch::fell();
        sketch.plan_changes.push(change(sketch::T0));
        assert!((score(&sketch) - 1.0).abs() < 1e-9);
        sketch.plan_changes[0].at_us = sketch::T0 - 3 * DAY;
        assert!(score(&sketch) < 0.01);
    }
}
