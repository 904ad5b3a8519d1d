//! A load report as text: the effect of each load, and findings.
//!
//! - [`load_step_text`]: descriptions of loads

pub mod load_step_text;

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    count_of, format_micros, format_percent, format_rate, non_empty, or_absent,
};
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{LoadStepResult, ProbeDelays};

/// Renders the report, from the plan to the caveats.
pub fn build_load_document(report: &LoadReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
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
        .text("load", |it| or_absent(step(it), load_step_text::describe_step))
        .number("goodput", |it| or_absent(it.goodput_bps.or(it.competitor_bps), format_rate))
        .number("RTT", |it| or_absent(it.delays, |d| format_nanos(d.rtt_median_ns)))
        .number("p95", |it| or_absent(it.delays, |d| format_nanos(d.rtt_p95_ns)))
        .number("lost", |it| or_absent(it.delays, |d| format_percent(d.loss_ratio)))
        .details(|it| non_empty(load_step_text::describe_step_result(it)))
        .finish()
}

/// Formats nanoseconds in the unit that fits.
pub fn format_nanos(ns: u64) -> String {
    format_micros(ns / 1000)
}
