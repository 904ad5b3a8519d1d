//! Cause: the measurement itself changed.
//!
//! We would see: streams, windows, congestion control, pacing or mode of the runs change at the
//! time of the event. Refuted by: a change that would move the rate the other way.
//! Needs: the plans of runs before and after. To do: compare only runs with the same parameters.
//! Wrong when: the change was a reaction to the event (a re-tune): then it comes after it.

use super::cause_selection::weight;
use super::change_evidence::EvidenceReport;
use super::event_case::EventCase;
use super::event_format;
use super::state_change::StateReading;
use longhaul_model::report::v1::plan::{ReceiveMode, RunTransport, ThroughputPlan};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeMap;

/// Parameters and values as printed.
type RunParameters = BTreeMap<&'static str, String>;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let reading = |seen: &EvidenceReport<ThroughputReport>| StateReading {
        at_us: seen.at_us,
        value: list_parameters(&seen.report.plan),
    };
    let readings = case.evidence.throughput.iter().map(reading).collect();
    let turn = case.nearest_state_change(readings, PartialEq::eq)?;
    let changed = format_changes(&turn.from, &turn.to);
    // Other programs choose the settings of their connections.
    let is_transfer = case.transfer().is_some();
    let text = format!(
        "{} changed {}: {}",
        if is_transfer { "The program's own settings" } else { "The measurement itself" },
        event_format::format_time_span(turn.between_us),
        changed.join(", ")
    );
    let mut found = case.candidate("test_parameter", weight::TEST_PARAMETER, turn.between_us, text);
    let advice = if is_transfer {
        "Look for a change of the program or its options; the path need not have changed"
    } else {
        "Compare only runs with the same parameters; the path need not have changed"
    };
    found.advise("initiator", advice);
    let fit = if turn.lasted { rate_parameter_fit(case, &turn.from, &turn.to) } else { 0.0 };
    found.confidence_ratio *= fit;
    if fit < 0.5 {
        found.contradict(
            "such a change would move the throughput the other way, or the former setting is back",
        );
    }
    Some(found)
}

fn list_parameters(plan: &ThroughputPlan) -> RunParameters {
    let kernel = || String::from("autotuned");
    let bytes = |bytes: Option<u64>| bytes.map_or_else(kernel, |b| Bytes(b).to_string());
    let rate = |bps: Option<u64>| {
        bps.map_or_else(|| String::from("none"), |b| Rate::bits_per_second(b).to_string())
    };
    let transport = match plan.transport {
        RunTransport::Tcp => String::from("TCP"),
        RunTransport::Udp { rate_bps } => format!("UDP at {}", Rate::bits_per_second(rate_bps)),
    };
    let mode = match plan.mode {
        ReceiveMode::Delivered => "delivered",
        ReceiveMode::Wire => "wire",
    };
    BTreeMap::from([
        ("streams", plan.streams.to_string()),
        ("send buffer", bytes(plan.send_buffer_bytes)),
        ("receive buffer", bytes(plan.receive_buffer_bytes)),
        (
            "congestion control",
            plan.congestion_control.as_deref().map_or_else(kernel, event_format::sanitize_name),
        ),
        ("pacing", rate(plan.pacing_bps)),
        ("write rate", rate(plan.write_rate_bps)),
        ("read rate", rate(plan.read_rate_bps)),
        ("MSS", plan.mss_bytes.map_or_else(kernel, |b| b.to_string())),
        ("DSCP", plan.dscp.map_or_else(|| String::from("none"), |d| d.to_string())),
        ("scavenger", plan.scavenger.to_string()),
        ("transport", transport),
        ("mode", String::from(mode)),
    ])
}

fn format_changes(from: &RunParameters, to: &RunParameters) -> Vec<String> {
    let changed = from.iter().zip(to.values()).filter(|((_, old), new)| old != new);
    changed.map(|((name, old), new)| format!("{name} from {old} to {new}")).collect()
}

/// Returns the fit of the changed parameters; of several, the best.
fn rate_parameter_fit(case: &EventCase, from: &RunParameters, to: &RunParameters) -> f64 {
    let window = |all: &RunParameters| {
        parse_quantity(&all["receive buffer"]).or(parse_quantity(&all["send buffer"]))
    };
    let streams = |all: &RunParameters| parse_quantity(&all["streams"]);
    let total = |all: &RunParameters| Some(streams(all)? * window(all)?);
    let both = total(from).zip(total(to));
    let mut best: f64 = 0.0;
    for (name, old) in from.iter().filter(|(name, old)| to[*name] != **old) {
        let fit = match (*name, both) {
            // The total that all streams may have in flight counts.
            ("streams" | "send buffer" | "receive buffer", Some((old, new))) => {
                rate_direction_fit(case, name, Some(old), Some(new))
            }
            _ => rate_direction_fit(case, name, parse_quantity(old), parse_quantity(&to[name])),
        };
        best = best.max(fit);
    }
    best
}

/// Returns 1 if the direction fits, 0 if it is the opposite, 0.5 if that is unknown.
fn rate_direction_fit(case: &EventCase, name: &str, old: Option<f64>, new: Option<f64>) -> f64 {
    if name.contains("mode") || name.contains("transport") || name.contains("scavenger") {
        return 1.0;
    }
    if name.contains("congestion") || !case.is_quantity(PathQuantity::Goodput) {
        return 0.8;
    }
    let Some((old, new)) = old.zip(new) else {
        return 0.5;
    };
    let less = new < old;
    match (less == case.has_fallen(), case.frequent_limiter(true)) {
        (true, _) => 1.0,
        // More streams or larger windows may also overrun a queue, unless windows limit now.
        (false, Some(limiter)) if !limiter.is_window() && case.has_fallen() => 0.5,
        (false, _) => 0.0,
    }
}

/// Parses values like `512 KiB`, `100 Mbit/s`, `8`.
fn parse_quantity(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|value| value.is_finite());
    let bytes = || text.parse::<Bytes>().ok().map(|b| b.0 as f64);
    let rate = || text.parse::<Rate>().ok().map(|r| r.as_bps() as f64);
    plain.or_else(bytes).or_else(rate)
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn score(sketch: &event_test_builder::EvidenceBuilder) -> f64 {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        find_candidate(&case).map_or(0.0, |found| found.confidence_ratio)
    }

    fn streams(before: u32, after: u32) -> event_test_builder::EvidenceBuilder {
        let mut sketch = event_test_builder::build_goodput_drop();
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
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, streams, window) in [(-HOUR, 8, 1 << 20), (HOUR, 16, 64 << 10)] {
            sketch.run(at, move |report| {
                report.plan.streams = streams;
                report.plan.receive_buffer_bytes = Some(window);
            });
        }
        assert!((score(&sketch) - 1.0).abs() < 1e-9);
    }
}
