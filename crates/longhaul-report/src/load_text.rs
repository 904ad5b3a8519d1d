//! A load report as text: the effect of each load, and findings.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    count_of, format_interval, format_micros, format_percent, format_rate, join_parts, non_empty,
    or_absent,
};
use crate::run_answer;
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{
    DirectionResponsiveness, LoadAnalysis, LoadStep, LoadStepResult, ProbeDelays,
    ResponsivenessObservation, ResponsivenessPlan,
};
use longhaul_model::units::Bytes;

/// Renders the report, from the plan to the caveats.
pub fn build_load_document(report: &LoadReport) -> ReportDocument {
    if let (Some(plan), Some(seen)) =
        (&report.plan.responsiveness, &report.observation.responsiveness)
    {
        return build_responsiveness_document(report, plan, seen);
    }
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_load(&mut page, report);
    page.fact("test", describe_plan(report));
    page.facts("idle path", report.analysis.idle.as_ref().map(describe_idle));
    if !report.analysis.steps.is_empty() {
        page.gap();
        page.table(build_step_table(report));
    }
    if let Some(scavenger) = &report.analysis.scavenger {
        page.gap();
        let verdict = if scavenger.yields { "yields" } else { "does not yield" };
        page.fact("scavenger", format!("{verdict}: {}", scavenger.text));
    }
    page.conclude(&report.findings, &report.caveats)
}

/// Renders a test of responsiveness.
fn build_responsiveness_document(
    report: &LoadReport,
    plan: &ResponsivenessPlan,
    seen: &ResponsivenessObservation,
) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    let rows = list_directions(report);
    for (name, result) in &rows {
        page.answer(*name, describe_responsiveness(result));
    }
    page.fact("test", format!("{}, to {}", plan.config_url, seen.address));
    page.facts(
        "idle path",
        report.observation.idle_rtt_us.map(|us| format!("RTT {}", format_micros(us))),
    );
    if !rows.is_empty() {
        page.gap();
        page.table(build_responsiveness_table(&rows));
    }
    page.conclude(&report.findings, &report.caveats)
}

/// Returns the measured directions with their names.
fn list_directions(report: &LoadReport) -> Vec<(&'static str, &DirectionResponsiveness)> {
    let LoadAnalysis { download, upload, .. } = &report.analysis;
    let both = [("download", download), ("upload", upload)];
    both.into_iter().filter_map(|(name, result)| Some((name, result.as_ref()?))).collect()
}

/// The limits of the draft's classes of responsiveness.
const FAIR_RPM: u32 = 300;
const GOOD_RPM: u32 = 1000;
const EXCELLENT_RPM: u32 = 6000;

/// Describes a direction: `412 RPM, fair (high confidence); 94.1 Mbit/s (high)`.
fn describe_responsiveness(result: &DirectionResponsiveness) -> String {
    let class = |rpm: u32| match rpm {
        ..FAIR_RPM => "poor",
        FAIR_RPM..GOOD_RPM => "fair",
        GOOD_RPM..EXCELLENT_RPM => "good",
        EXCELLENT_RPM.. => "excellent",
    };
    let rpm = result
        .round_trips_per_minute
        .map(|rpm| format!("{rpm} RPM, {} ({} confidence)", class(rpm), result.confidence.word()));
    let capacity = result
        .capacity_bps
        .map(|bps| format!("{} ({})", format_rate(bps), result.capacity_confidence.word()));
    join_parts("; ", [rpm.or_else(|| Some("no responsiveness".to_owned())), capacity])
}

/// Returns a row for each direction, with the parts of its responsiveness.
fn build_responsiveness_table(rows: &[(&'static str, &DirectionResponsiveness)]) -> DocumentTable {
    DocumentTable::from_rows(rows)
        .text("mean of", |(name, _)| (*name).to_owned())
        .number("TCP", |(_, it)| or_absent(it.tcp_us, format_micros))
        .number("TLS", |(_, it)| or_absent(it.tls_us, format_micros))
        .number("HTTP", |(_, it)| or_absent(it.http_us, format_micros))
        .number("RPM", |(_, it)| or_absent(it.foreign_round_trips_per_minute, |it| it.to_string()))
        .number("HTTP under load", |(_, it)| or_absent(it.self_http_us, format_micros))
        .number("RPM", |(_, it)| or_absent(it.self_round_trips_per_minute, |it| it.to_string()))
        .finish()
}

/// Summarizes a test of responsiveness: `412 RPM download, 230 RPM upload`.
pub fn summarize_responsiveness(report: &LoadReport) -> String {
    let parts = list_directions(report).into_iter().map(|(name, result)| {
        let rpm = result.round_trips_per_minute;
        format!("{} {name}", or_absent(rpm, |rpm| format!("{rpm} RPM")))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn describe_plan(report: &LoadReport) -> String {
    let plan = &report.plan;
    let way = if plan.forward { "forward (client sends)" } else { "reverse (server sends)" };
    format!(
        "{} of {}, {way}; probes every {}",
        count_of(plan.steps.len() as u64, "load"),
        format_micros(plan.load_us),
        format_micros(plan.probe_interval_us)
    )
}

fn describe_idle(idle: &ProbeDelays) -> String {
    format!(
        "RTT median {}, min {}, max {}; {} of {} lost",
        format_nanos(idle.rtt_median_ns),
        format_nanos(idle.rtt_min_ns),
        format_nanos(idle.rtt_max_ns),
        format_percent(idle.loss_ratio),
        count_of(u64::from(idle.probes), "probe")
    )
}

/// Returns a row for each load, with the effect on the queue below it.
fn build_step_table(report: &LoadReport) -> DocumentTable {
    let results = &report.analysis.steps;
    let step = |it: &LoadStepResult| report.plan.steps.get(it.step as usize);
    DocumentTable::from_rows(results)
        .text("load", |it| or_absent(step(it), describe_step))
        .number("goodput", |it| or_absent(it.goodput_bps.or(it.competitor_bps), format_rate))
        .number("RTT", |it| or_absent(it.delays, |d| format_nanos(d.rtt_median_ns)))
        .number("p95", |it| or_absent(it.delays, |d| format_nanos(d.rtt_p95_ns)))
        .number("lost", |it| or_absent(it.delays, |d| format_percent(d.loss_ratio)))
        .details(|it| non_empty(describe_step_result(it)))
        .finish()
}

/// Formats nanoseconds in the unit that fits.
pub fn format_nanos(ns: u64) -> String {
    format_micros(ns / 1000)
}

/// Describes a load: `4 streams at 20 Mbit/s, yielding`; usually at most 30 columns.
pub fn describe_step(step: &LoadStep) -> String {
    if step.baseline {
        return "competitor alone".to_owned();
    }
    let mut text = count_of(u64::from(step.streams), "stream");
    if let Some(bps) = step.rate_bps {
        text.push_str(" at ");
        text.push_str(&format_rate(bps));
    }
    if step.scavenger {
        text += ", scavenger";
    }
    if step.competitor {
        text += " + other";
    }
    text
}

/// Describes the effect for the second line: RTT increase, queue, recovery and competitor.
pub fn describe_step_result(result: &LoadStepResult) -> String {
    let grew = match result.grew.as_deref() {
        Some("both") => " in both directions".to_owned(),
        Some(way) => format!(" {way}"),
        None => String::new(),
    };
    let rise = |ns| {
        let interval = format_interval(result.rise_interval_ns, format_nanos);
        format!("RTT +{}{interval}{grew}", format_nanos(ns))
    };
    let queue = result.queue_delay_ns.zip(result.queue_bytes);
    let kept = |(ratio, bps): (f64, u64)| {
        let interval = format_interval(result.competitor_kept_interval_ratio, format_percent);
        format!("competitor keeps {}{interval}, {}", format_percent(ratio), format_rate(bps))
    };
    let parts = [
        result.rise_ns.map(rise),
        queue.map(|(ns, bytes)| format!("queue up to {}, {}", format_nanos(ns), Bytes(bytes))),
        result.round_trips_per_minute.map(|trips| format!("{trips} RPM")),
        result.recovery_us.map(|us| format!("queue drained in {}", format_micros(us))),
        result.competitor_kept_ratio.zip(result.competitor_bps).map(kept),
    ];
    join_parts("; ", parts)
}
