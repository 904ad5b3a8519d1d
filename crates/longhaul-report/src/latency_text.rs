//! A latency report as text: delays and their variation, losses of each direction, and the clocks.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    count_of, format_difference, format_micros, format_percent, join_parts,
};
use crate::path_text::format_ms;
use longhaul_model::report::v1::LatencyReport;
use longhaul_model::report::v1::latency::{
    ClockComparison, DelayPercentiles, LatencyAnalysis, LatencyProtocol, OneWayCounts,
    OneWayLatency, WallClockState,
};
use longhaul_model::units::format_duration;
use std::time::Duration;

/// The TTL with which packets leave.
const FIRST_TTL: u8 = 255;

/// Renders the report, from the plan to the caveats.
pub fn build_latency_document(report: &LatencyReport) -> ReportDocument {
    let (seen, analysis) = (&report.observation, &report.analysis);
    let mut page = ReportDocument::for_run(&report.run);
    page.answer("result", summarize_latency(report));
    page.answer("one way", describe_one_way(analysis));
    page.fact("test", describe_plan(report));
    if analysis.rtt.is_some() {
        page.gap();
        page.table(build_delay_table(analysis));
        page.gap();
    }
    page.fact("lost", describe_losses(analysis));
    if analysis.rtt.is_some() {
        page.facts("clocks", analysis.clocks.as_ref().map(describe_clocks));
        page.fact("clock here", describe_clock(&seen.near_clock));
        page.facts("reflector", seen.far_clock.as_ref().map(describe_clock));
        page.facts("routers", describe_routers(seen.forward_ttl, seen.reverse_ttl));
        page.fact("timestamps", describe_timestamps(report));
    }
    page.conclude(&report.findings, &report.caveats)
}

/// Summarizes round trips and loss.
pub fn summarize_latency(report: &LatencyReport) -> String {
    let analysis = &report.analysis;
    let Some(rtt) = analysis.rtt else {
        return "no answer".to_owned();
    };
    let lost = if analysis.loss_ratio > 0.0 {
        format!("{} lost", format_percent(analysis.loss_ratio))
    } else {
        "none lost".to_owned()
    };
    let [median, p99] = [rtt.p50_ns, rtt.p99_ns].map(format_signed_ms);
    format!("RTT {median} ms, p99 {p99} ms, {lost}")
}

fn describe_one_way(analysis: &LatencyAnalysis) -> String {
    let delay = |direction: &Option<OneWayLatency>| direction.as_ref()?.delay;
    let error = analysis.forward.as_ref().and_then(|it| it.delay_error_ns);
    match (delay(&analysis.forward), delay(&analysis.reverse), &analysis.one_way_refused) {
        (Some(forward), Some(reverse), _) => format!(
            "forward {} ms, reverse {} ms{}",
            format_signed_ms(forward.p50_ns),
            format_signed_ms(reverse.p50_ns),
            match error {
                Some(0) => ", by one clock".to_owned(),
                Some(ns) => format!(", each ± {}", format_nanos(ns)),
                None => String::new(),
            }
        ),
        (_, _, Some(reason)) => format!("no delays: {reason}"),
        _ => "no delays".to_owned(),
    }
}

fn describe_plan(report: &LatencyReport) -> String {
    let plan = &report.plan;
    let protocol = match plan.protocol {
        LatencyProtocol::Stamp => "STAMP",
        LatencyProtocol::TwampLight => "TWAMP Light",
        LatencyProtocol::Twamp => "TWAMP",
    };
    let parts = [
        Some(format!(
            "{protocol} to port {}: {} of {} every {}",
            plan.port,
            count_of(u64::from(report.analysis.sent), "packet"),
            count_of(u64::from(plan.payload_bytes), "byte"),
            format_micros(plan.interval_us)
        )),
        plan.dscp.map(|dscp| format!("DSCP {dscp}")),
        plan.authenticated.then(|| "authenticated".to_owned()),
    ];
    join_parts(", ", parts)
}

/// Returns a row for the round trip, and two for each direction.
fn build_delay_table(analysis: &LatencyAnalysis) -> DocumentTable {
    let mut rows: Vec<(String, DelayPercentiles)> = Vec::new();
    rows.extend(analysis.rtt.map(|rtt| ("round trip".to_owned(), rtt)));
    let directions = [("forward", &analysis.forward), ("reverse", &analysis.reverse)];
    for (name, direction) in directions {
        let delay = direction.as_ref().and_then(|it| it.delay);
        rows.extend(delay.map(|delay| (name.to_owned(), delay)));
    }
    for (name, direction) in directions {
        let variation = direction.as_ref().and_then(|it| it.variation);
        rows.extend(variation.map(|delays| (format!("{name} variation"), delays)));
    }
    DocumentTable::from_rows(rows.iter())
        .text("ms", |(name, _)| name.clone())
        .number("min", |(_, it)| format_signed_ms(it.min_ns))
        .number("p50", |(_, it)| format_signed_ms(it.p50_ns))
        .number("p90", |(_, it)| format_signed_ms(it.p90_ns))
        .number("p95", |(_, it)| format_signed_ms(it.p95_ns))
        .number("p99", |(_, it)| format_signed_ms(it.p99_ns))
        .number("max", |(_, it)| format_signed_ms(it.max_ns))
        .finish()
}

fn describe_losses(analysis: &LatencyAnalysis) -> String {
    let counts = |direction: &Option<OneWayLatency>| direction.as_ref()?.counts;
    let lost = analysis.sent.saturating_sub(analysis.answered_packets);
    if let Some((forward, reverse)) = counts(&analysis.forward).zip(counts(&analysis.reverse)) {
        let unknown = lost.saturating_sub(forward.lost.saturating_add(reverse.lost));
        let parts = [
            Some(format!("forward {}", describe_counts(&forward))),
            Some(format!("reverse {}", describe_counts(&reverse))),
            (unknown > 0).then(|| format!("{unknown} after the last answer")),
        ];
        return join_parts("; ", parts);
    }
    let parts = [
        Some(format!("{lost} of {}", count_of(u64::from(analysis.sent), "packet"))),
        describe_count(analysis.duplicates, "duplicate"),
        (analysis.reordered > 0).then(|| format!("{} reordered", analysis.reordered)),
        (analysis.answered_packets > 0)
            .then(|| "the reflector's numbers do not tell in which direction".to_owned()),
    ];
    join_parts(", ", parts)
}

fn describe_counts(counts: &OneWayCounts) -> String {
    let parts = [
        Some(format!("{} of {}", counts.lost, counts.sent)),
        describe_count(counts.duplicates, "duplicate"),
        (counts.reordered > 0).then(|| format!("{} reordered", counts.reordered)),
    ];
    join_parts(", ", parts)
}

fn describe_count(count: u32, noun: &str) -> Option<String> {
    (count > 0).then(|| count_of(u64::from(count), noun))
}

fn describe_clocks(clocks: &ClockComparison) -> String {
    let way = if clocks.offset_ns < 0 { "behind" } else { "ahead" };
    let skew = clocks
        .skew_ppm
        .zip(clocks.skew_error_ppm)
        .map(|(skew, error)| format!("skew {} ppm ± {error:.1}", format_difference(skew, 1)));
    let offset = format!(
        "the reflector's is {} {way}, ± {}",
        format_nanos(clocks.offset_ns.unsigned_abs()),
        format_nanos(clocks.offset_error_ns)
    );
    join_parts("; ", [Some(offset), skew])
}

fn describe_clock(clock: &WallClockState) -> String {
    let error = format_nanos(clock.error_ns);
    if clock.synchronized {
        format!("synchronised, maximum error {error}")
    } else {
        "not synchronised".to_owned()
    }
}

/// Returns the routers of both directions, if the ends begin with the usual TTL.
fn describe_routers(forward: Option<u8>, reverse: Option<u8>) -> Option<String> {
    /// Of ends that begin with another TTL, the difference is greater.
    const MAX_ROUTERS: u8 = 64;
    let routers = |ttl: Option<u8>| ttl.map(|ttl| FIRST_TTL - ttl).filter(|it| *it <= MAX_ROUTERS);
    let parts = [
        routers(forward).map(|count| format!("forward {count}")),
        routers(reverse).map(|count| format!("reverse {count}")),
    ];
    let text = join_parts(", ", parts);
    (!text.is_empty()).then_some(text)
}

fn describe_timestamps(report: &LatencyReport) -> String {
    let own = match report.observation.timestamps.as_str() {
        "kernel" => "of the kernel",
        "kernel_receive" => "of the kernel on receipt, of this program on departure",
        _ => "of this program",
    };
    let inside =
        report.analysis.reflector_ns.map(|ns| format!("{} in the reflector", format_nanos(ns)));
    join_parts("; ", [Some(own.to_owned()), inside])
}

fn format_nanos(ns: u64) -> String {
    format_duration(Duration::from_nanos(ns))
}

/// Formats nanoseconds in milliseconds; within the error of clocks, delays may be negative.
fn format_signed_ms(ns: i64) -> String {
    let sign = if ns < 0 { "−" } else { "" };
    format!("{sign}{}", format_ms(ns.unsigned_abs()))
}
