//! A throughput report as text.
//!
//! Goodput over time, drawn in one line, which shows ramps and gaps.
//!
//! The drawing uses the receiver's samples and is not a statistic: each column is the payload
//! between two moments, interpolated linearly, and the highest column is the maximum.

use super::{end_table, stream_table, verdict_text};
use crate::document::{ReportDocument, select_findings};
use crate::number_format::{count_of, format_micros, format_rate, join_parts};
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::observation::{
    ObservedStream, SocketBuffer, StreamSample, ThroughputObservation,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};
use longhaul_model::units::Bytes;

/// Renders the report, from the hosts to the caveats.
pub fn build_throughput_document(report: &ThroughputReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    page.fact("test", describe_plan(&report.plan));
    let (observation, analysis) = (&report.observation, &report.analysis);
    let reverse = observation.reverse.as_deref().zip(analysis.reverse.as_deref());
    for half in std::iter::once((observation, analysis)).chain(reverse) {
        let findings = select_findings(&report.findings, reverse == Some(half));
        write_direction(&mut page, report, half, &findings);
    }
    super::capture_text::write_captures(&mut page, &report.observation);
    page.caveats(&report.caveats);
    page
}

/// Describes the plan in one sentence, without kernel defaults.
pub fn describe_plan(plan: &ThroughputPlan) -> String {
    let streams = u64::from(plan.streams);
    let transport = match plan.transport {
        RunTransport::Tcp => count_of(streams, "TCP stream"),
        RunTransport::Udp { rate_bps } => {
            format!("{} at {}", count_of(streams, "UDP stream"), format_rate(rate_bps))
        }
    };
    let direction = match plan.direction {
        RunDirection::Forward => "forward (client sends)",
        RunDirection::Reverse => "reverse (server sends)",
        RunDirection::Both => "both directions at once",
    };
    let stop = match plan.stop {
        StopCondition::TimeUs(us) => format_micros(us),
        StopCondition::Bytes(bytes) => Bytes(bytes).to_string(),
        StopCondition::Blocks(blocks) => count_of(blocks, "write"),
    };
    let size = |name: &str, bytes: Option<u64>| bytes.map(|n| format!("{name} {}", Bytes(n)));
    let speed = |name: &str, bps: Option<u64>| bps.map(|n| format!("{name} {}", format_rate(n)));
    let parts = [
        Some(transport),
        Some(direction.to_owned()),
        Some(stop),
        plan.congestion_control.clone(),
        plan.write_bytes.map(|n| match plan.transport {
            RunTransport::Tcp => format!("writes of {}", Bytes(n)),
            RunTransport::Udp { .. } => format!("datagrams of {n} B"),
        }),
        size("reads of", plan.read_bytes),
        speed("paced at", plan.pacing_bps),
        speed("writing at", plan.write_rate_bps),
        speed("reading at", plan.read_rate_bps),
        plan.mss_bytes.map(|n| format!("MSS {n} B")),
        plan.dscp.map(|n| format!("DSCP {n}")),
        plan.scavenger.then(|| "scavenger".to_owned()),
        plan.no_delay.then(|| "no delay".to_owned()),
        plan.zero_copy.then(|| "zero-copy writes".to_owned()),
        plan.warm_up_us.map(|us| format!("first {} omitted", format_micros(us))),
    ];
    join_parts(", ", parts)
}

fn write_direction(
    page: &mut ReportDocument,
    report: &ThroughputReport,
    (observation, analysis): (&ThroughputObservation, &ThroughputAnalysis),
    findings: &[&ReportFinding],
) {
    if report.observation.reverse.is_some() {
        page.heading(
            3,
            if observation.forward { "FORWARD: client sends" } else { "REVERSE: server sends" },
        );
    }
    write_buffers(page, &report.plan, observation);
    page.gap();
    stream_table::write_stream_table(page, observation, analysis);
    page.gap();
    end_table::write_end_table(page, observation, analysis);
    page.gap();
    verdict_text::write_result(page, observation, analysis, report.plan.mode);
    page.gap();
    verdict_text::write_verdict(page, analysis, findings);
}

/// Writes requested and granted buffers of TCP streams.
fn write_buffers(
    page: &mut ReportDocument,
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
) {
    let granted = |pick: fn(&ObservedStream) -> Option<SocketBuffer>| {
        let all = observation.streams.iter().filter_map(pick);
        all.collect::<Vec<SocketBuffer>>()
    };
    let send = granted(|s| s.sender.send_buffer);
    page.facts("send buffer", describe_buffer(plan.send_buffer_bytes, &send));
    let receive = granted(|s| s.receiver.receive_buffer);
    page.facts("receive buffer", describe_buffer(plan.receive_buffer_bytes, &receive));
    let first = observation.streams.first();
    if let Some(name) = first.and_then(|s| s.sender.congestion_control.as_ref()) {
        let mss = first.and_then(|s| s.sender.mss_bytes);
        let mss = mss.map_or_else(String::new, |mss| format!(", MSS {mss} B"));
        page.fact("TCP", format!("{name}{mss}"));
    }
}

/// Describes one buffer over all streams; `None` if no stream has one.
fn describe_buffer(planned_bytes: Option<u64>, all: &[SocketBuffer]) -> Option<String> {
    let least = all.iter().map(|b| b.granted_bytes).min()?;
    let most = all.iter().map(|b| b.granted_bytes).max()?;
    let granted = if least == most {
        Bytes(most).to_string()
    } else {
        format!("{} to {}", Bytes(least), Bytes(most))
    };
    Some(match (planned_bytes, all[0].asked_bytes) {
        (Some(asked), _) if most < asked => {
            format!("requested {}, got only {granted}", Bytes(asked))
        }
        (Some(asked), _) => format!("requested {}, got {granted}", Bytes(asked)),
        (None, Some(_)) => format!("chosen by longhaul, got {granted}"),
        (None, None) => format!("autotuned, {granted} at end"),
    })
}

/// A dot stands for a column without payload.
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minimum number of samples for a drawing.
const MIN_SAMPLES: usize = 8;

/// Returns the drawing, at most `columns` wide, and its legend.
pub fn draw_goodput(
    observation: &ThroughputObservation,
    columns: usize,
) -> Option<(String, String)> {
    let samples = || observation.streams.iter().map(|stream| stream.receiver.samples.len());
    let finest = samples().max().filter(|count| *count >= MIN_SAMPLES)?;
    // At least two samples per column, so that sampling jitter does not look like the path's.
    let steps = split_goodput(observation, columns.min(finest / 2));
    let until_us = steps.last()?.until_us;
    let rates: Vec<f64> = steps.iter().map(|step| step.bps).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let top = format_rate(most as u64);
    let legend = format!("0 to {:.1} s; █ = {top}", until_us as f64 / 1e6);
    Some((draw_blocks(&rates), legend))
}

/// The goodput of all streams together in one step.
#[derive(Debug, Clone, Copy)]
pub struct GoodputStep {
    pub until_us: u64,
    pub bps: f64,
}

/// Splits a run into `count` even steps; none without samples.
pub fn split_goodput(observation: &ThroughputObservation, count: usize) -> Vec<GoodputStep> {
    let samples = || observation.streams.iter().map(|stream| stream.receiver.samples.as_slice());
    let ends = samples().filter_map(|samples| Some(samples.last()?.at_us));
    let end_us = ends.max().unwrap_or(0) as f64;
    let step_us = end_us / count.max(1) as f64;
    let bytes = |at_us: f64| -> f64 { samples().map(|it| interpolate_bytes(it, at_us)).sum() };
    let steps = (1..=count).map(|number| {
        let (from_us, until_us) = ((number - 1) as f64 * step_us, number as f64 * step_us);
        let grown = (bytes(until_us) - bytes(from_us)).max(0.0);
        GoodputStep { until_us: until_us as u64, bps: grown * 8e6 / step_us }
    });
    if end_us > 0.0 { steps.collect() } else { Vec::new() }
}

/// Draws values relative to their maximum; any value above zero is visible.
fn draw_blocks(values: &[f64]) -> String {
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let block = |value: &f64| {
        let eighths = (value / most * 8.0).round().clamp(0.0, 8.0) as usize;
        BLOCKS[if *value > 0.0 { eighths.max(1) } else { 0 }]
    };
    values.iter().map(block).collect()
}

/// Returns the payload of one stream at a time, interpolated between samples.
fn interpolate_bytes(samples: &[StreamSample], at_us: f64) -> f64 {
    let after = samples.partition_point(|sample| (sample.at_us as f64) < at_us);
    let point = |sample: &StreamSample| (sample.at_us as f64, sample.bytes as f64);
    let (from, to) = match (after.checked_sub(1), samples.get(after)) {
        (None, Some(first)) => ((0.0, 0.0), point(first)),
        (Some(before), Some(next)) => (point(&samples[before]), point(next)),
        (Some(last), None) => return samples[last].bytes as f64,
        (None, None) => return 0.0,
    };
    let span = to.0 - from.0;
    if span <= 0.0 {
        return to.1;
    }
    from.1 + (to.1 - from.1) * (at_us - from.0) / span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_between_samples_lies_on_a_line() {
        let sample = |at_us, bytes| StreamSample { at_us, bytes, ..StreamSample::default() };
        let samples = [sample(100, 0), sample(200, 50)];
        for (at, bytes) in [(0.0, 0.0), (100.0, 0.0), (150.0, 25.0), (200.0, 50.0), (900.0, 50.0)] {
            assert!((interpolate_bytes(&samples, at) - bytes).abs() < 1e-9, "{at}");
        }
        assert!(interpolate_bytes(&[], 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_moved_at_all_is_seen() {
        assert_eq!(draw_blocks(&[0.0, 0.001, 0.5, 1.0]), "·▁▄█");
    }
}
