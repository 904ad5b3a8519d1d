//! A throughput report as text.

use super::{end_table, stream_table, verdict_text};
use crate::document::{ReportDocument, select_findings};
use crate::number_format::{count_of, format_micros, format_rate, join_parts};
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::observation::{
    ObservedStream, SocketBuffer, ThroughputObservation,
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
