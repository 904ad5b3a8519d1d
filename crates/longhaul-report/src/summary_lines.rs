//! Reports and events in one line each.

use crate::available_text;
use crate::load_text;
use crate::number_format::{
    count_of, format_millis, format_percent, format_rate, join_parts, or_absent,
};
use crate::text_page::TextPage;
use anstyle::Style;
use longhaul_analysis::throughput::name_limiter;
use longhaul_history::event::format_quantity;
use longhaul_history::shared_cause::format_elements;
use longhaul_model::report::v1::available::AvailableEstimate;
use longhaul_model::report::v1::{
    AnyReport, AvailableReport, ChangeEvent, EventState, LoadReport, PathReport, ScanReport,
    ThroughputReport,
};
use longhaul_model::sanitize::sanitize;
use longhaul_model::units::Bytes;

/// Formats a measurement: `bulk slac > cesnet`; an audit has no peer.
pub fn format_measurement(measure: &str, from: &str, to: &str) -> String {
    if from == to { format!("{measure} {from}") } else { format!("{measure} {from} > {to}") }
}

/// Formats a text after its time, wrapped and aligned.
pub fn format_timed_line(time: &str, text: &str) -> String {
    let mut page = TextPage::default();
    page.hanging_paragraph(&format!("{time} "), text, Style::new());
    page.finish()
}

/// Summarizes the result of a run in a few words.
pub fn summarize_report(report: &AnyReport) -> String {
    match report {
        AnyReport::Throughput(it) => summarize_throughput(it),
        AnyReport::Scan(it) => summarize_scan(it),
        AnyReport::Path(it) => summarize_path(it),
        AnyReport::Available(it) => summarize_available(it),
        AnyReport::Load(it) => summarize_load(it),
        AnyReport::Host(it) => count_of(it.findings.len() as u64, "finding"),
        AnyReport::Predict(_) => "predicted".to_owned(),
        AnyReport::Imported(it) => crate::imported_text::summarize_import(it),
        AnyReport::Copy(it) => crate::copy_text::summarize_copy(it),
        AnyReport::Flows(it) => crate::flow_text::summarize_flows(it),
        AnyReport::Latency(it) => crate::latency_text::summarize_latency(it),
    }
}

fn summarize_throughput(report: &ThroughputReport) -> String {
    let analysis = &report.analysis;
    let goodput = or_absent(analysis.goodput_bps, format_rate);
    format!("{goodput}, limited by {}", name_limiter(analysis.limited_by))
}

fn summarize_scan(report: &ScanReport) -> String {
    let mut directions = report.analysis.directions.iter();
    let Some(best) = directions.find_map(|it| it.recommended.as_ref()) else {
        return "no setting found".to_owned();
    };
    let window = best.setting.window_bytes;
    let window = window.map_or("autotuned".to_owned(), |bytes| Bytes(bytes).to_string());
    format!(
        "best: {}, {window} windows: {}",
        count_of(u64::from(best.setting.streams), "stream"),
        format_rate(best.goodput_bps)
    )
}

/// Summarizes RTT, loss and hops.
pub fn summarize_path(report: &PathReport) -> String {
    let rtt = report.analysis.rtt.filter(|rtt| rtt.answered > 0);
    let loss = rtt.map(|rtt| rtt.loss_ratio).filter(|ratio| *ratio > 0.0);
    let rtt = rtt.map(|rtt| format!("RTT {} ms", format_millis(rtt.min_ns / 1000)));
    let hops = report.observation.route.as_ref().map(|route| route.hops.len() as u64);
    let parts = [
        Some(rtt.unwrap_or_else(|| "no answer".to_owned())),
        loss.map(|ratio| format!("{} lost", format_percent(ratio))),
        hops.map(|hops| count_of(hops, "hop")),
    ];
    join_parts(", ", parts)
}

/// Summarizes available bandwidth and capacity of one direction.
pub fn summarize_estimate(estimate: &AvailableEstimate) -> String {
    match (estimate.available_bps, estimate.capacity_bps) {
        (Some(free), Some(all)) => {
            format!("{} of {} available", format_rate(free), format_rate(all))
        }
        (Some(free), None) => format!("{} available", format_rate(free)),
        (None, Some(all)) => {
            let prefix = available_text::capacity_prefix(estimate.verdict);
            format!("capacity {prefix}{}", format_rate(all))
        }
        (None, None) => "no estimate".to_owned(),
    }
}

fn summarize_available(report: &AvailableReport) -> String {
    let there = report.analysis.forward.as_ref().map(summarize_estimate);
    let back = report.analysis.reverse.as_ref().map(summarize_estimate);
    match (there, back) {
        (Some(there), Some(back)) => format!("{there}; reverse {back}"),
        (one, other) => one.or(other).unwrap_or_else(|| "no estimate".to_owned()),
    }
}

/// Summarizes the RTT without and under load.
pub fn summarize_load(report: &LoadReport) -> String {
    if report.plan.responsiveness.is_some() {
        return load_text::summarize_responsiveness(report);
    }
    let median = |ns: u64| format!("{} ms", format_millis(ns / 1000));
    let idle = report.analysis.idle.map(|it| median(it.rtt_median_ns));
    let mut steps = report.analysis.steps.iter();
    let loaded = steps.find_map(|step| step.delays).map(|it| median(it.rtt_median_ns));
    format!("RTT {} idle, {} under load", or_absent(idle, |it| it), or_absent(loaded, |it| it))
}

/// Formats an event: `throughput a > b fell from 400 Mbit/s to 200 Mbit/s: confirmed`, or of several
/// paths `3 of 3 paths through hop 10.2.0.1 changed (throughput, loss): confirmed`.
pub fn format_event_headline(event: &ChangeEvent) -> String {
    if let Some(scope) = &event.shared {
        let quantities: Vec<&str> = scope.quantities.iter().map(|it| it.title()).collect();
        return format!(
            "{} of {} through {} changed ({}): {}",
            scope.affected_paths,
            count_of(u64::from(scope.paths), "path"),
            format_elements(scope),
            quantities.join(", "),
            state_label(event.state),
        );
    }
    let way = if event.after.median < event.before.median { "fell" } else { "rose" };
    sanitize(&format!(
        "{} {way} from {} to {}: {}",
        format_measurement(event.quantity.title(), &event.pair.from, &event.pair.to),
        format_quantity(event.quantity, event.before.median),
        format_quantity(event.quantity, event.after.median),
        state_label(event.state),
    ))
    .into_owned()
}

/// Formats an event with its most likely cause, and the event of several paths that contains it.
pub fn describe_event(event: &ChangeEvent) -> String {
    let part_of = event.part_of.as_ref().map(|id| format!(", part of {}", sanitize(id)));
    let told = format_event_headline(event) + &part_of.unwrap_or_default();
    match event.causes.as_slice() {
        [] if event.state == EventState::Confirmed => format!("{told}, no cause found yet"),
        [] => told,
        [first, ..] => {
            sanitize(&format!("{told}. Likely cause {}: {}", first.cause, first.summary))
                .into_owned()
        }
    }
}

fn state_label(state: EventState) -> &'static str {
    match state {
        EventState::Withdrawn => "withdrawn (not confirmed)",
        other => other.word(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_80_columns_and_continues_under_its_text() {
        let text = "word ".repeat(40);
        let lines = format_timed_line("11:32:58Z", &text);
        assert!(lines.lines().all(|line| line.chars().count() <= 80));
        assert!(lines.lines().skip(1).all(|line| line.starts_with("          word")));
    }

    #[test]
    fn an_audit_is_of_one_host() {
        assert_eq!(format_measurement("audit", "a", "a"), "audit a");
        assert_eq!(format_measurement("bulk", "a", "b"), "bulk a > b");
    }
}
