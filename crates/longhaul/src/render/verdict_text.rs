//! The result of a run: goodput with its interval, RTT, limiter, and advice.

use super::goodput_picture;
use super::number_format::{RateUnit, format_micros, format_millis, format_percent, format_rate};
use super::style::{FAINT, STRONG, paint};
use super::text_page::{LABEL, TextPage, WIDTH};
use longhaul_analysis::throughput::limiter_text::name_limiter;
use longhaul_model::report::v1::analysis::{LoadedRtt, ThroughputAnalysis};
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::ReceiveMode;
use longhaul_model::report::v1::{FindingAdvice, ReportFinding};

/// Returns the words that accompany every quoted rate.
pub fn mode_label(mode: ReceiveMode) -> &'static str {
    match mode {
        ReceiveMode::Delivered => "delivered",
        ReceiveMode::Wire => "wire (discarded in the receiver's kernel)",
    }
}

/// Writes ramp, goodput and RTT of one direction.
pub fn write_result(
    page: &mut TextPage,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
    mode: ReceiveMode,
) {
    if let Some((picture, legend)) = goodput_picture::draw_goodput(observation, WIDTH - LABEL) {
        page.line(&format!(
            "{}{picture}",
            paint(FAINT, format!("{:<LABEL$}", "over time"))
        ));
        page.label_line_styled("", &legend, FAINT);
    }
    page.label_line("ramp", &describe_ramp(analysis));
    if let Some(goodput) = analysis.goodput_bps {
        let interval = analysis.goodput_interval_bps.map(|[low, high]| {
            let unit = RateUnit::for_max(high);
            let (low, high) = (unit.short(low), unit.short(high));
            format!(", 95 % interval {low} to {high} {}", unit.name)
        });
        let interval = interval.unwrap_or_default();
        let text = format!("{} {}{interval}", format_rate(goodput), mode_label(mode));
        page.label_line_styled("goodput", &text, STRONG);
    }
    if let Some(mean) = analysis.mean_goodput_bps {
        page.label_line(
            "total",
            &format!("{}, including the ramp", format_rate(mean)),
        );
    }
    if let Some(idle) = observation.idle_rtt_us {
        page.label_line("RTT idle", &format!("{} ms", format_millis(idle)));
    }
    if let Some(rtt) = analysis.rtt_us {
        page.label_line("RTT under load", &format_rtt_spread(rtt));
    }
}

fn describe_ramp(analysis: &ThroughputAnalysis) -> String {
    match (analysis.ramp_us, analysis.steady) {
        (Some(ramp), Some(steady)) => format!(
            "{} until steady; steady for {}",
            format_micros(ramp),
            format_micros(steady.to_us.saturating_sub(steady.from_us))
        ),
        (None, Some(steady)) => format!(
            "none detected; steady for {}",
            format_micros(steady.to_us.saturating_sub(steady.from_us))
        ),
        _ => "the run ended before the rate was steady".to_owned(),
    }
}

fn format_rtt_spread(rtt: LoadedRtt) -> String {
    // All four values have the precision of the mean.
    let decimals = if rtt.mean >= 10_000 { 1 } else { 3 };
    let ms = |us: u64| format!("{:.decimals$}", us as f64 / 1e3);
    format!(
        "min {}, mean {}, max {}, stddev {} ms",
        ms(rtt.min),
        ms(rtt.mean),
        ms(rtt.max),
        ms(rtt.stddev)
    )
}

/// The prefix by which the analysis marks findings about the `reverse` half of a run.
const REVERSE_PREFIX: &str = "Other direction: ";

/// Writes the limiter of one direction with its evidence, the next limit, and the findings.
pub fn write_verdict(
    page: &mut TextPage,
    analysis: &ThroughputAnalysis,
    findings: &[&ReportFinding],
) {
    let limiter = analysis.limited_by;
    let line = format!("limited by {}", name_limiter(limiter));
    let sure = format_percent(analysis.confidence_ratio);
    let remark = format!("[{limiter}, confidence {sure}]");
    if line.len() + 2 + remark.len() <= WIDTH {
        page.line(&format!(
            "{}  {}",
            paint(STRONG, line),
            paint(FAINT, remark)
        ));
    } else {
        page.line(&paint(STRONG, line));
        page.hanging_paragraph_styled("  ", &remark, FAINT);
    }
    let own = analysis.bounds.iter().find(|b| b.limiter == limiter);
    if let Some(bound) = own {
        let text = format!("{}, about {}", bound.why, format_rate(bound.rate_bps));
        page.hanging_paragraph("  evidence    ", &text);
    }
    if let Some(next) = &analysis.next_limit {
        let text = format!(
            "{1}, about {0}: {2}",
            format_rate(next.rate_bps),
            name_limiter(next.limiter),
            next.why
        );
        page.hanging_paragraph("  next limit  ", &text);
    }
    for finding in findings {
        page.blank();
        write_finding(page, finding);
    }
}

/// Returns the findings about the first half of a run, or about its `reverse`.
pub fn select_findings(findings: &[ReportFinding], reverse: bool) -> Vec<&ReportFinding> {
    findings
        .iter()
        .filter(|finding| finding.summary.starts_with(REVERSE_PREFIX) == reverse)
        .collect()
}

/// Writes all findings, each after a blank line.
pub fn write_findings(page: &mut TextPage, findings: &[ReportFinding]) {
    for finding in findings {
        page.blank();
        write_finding(page, finding);
    }
}

/// Writes one finding: the cause, the evidence, and the advice.
pub fn write_finding(page: &mut TextPage, finding: &ReportFinding) {
    let summary = finding.summary.trim_start_matches(REVERSE_PREFIX);
    page.hanging_paragraph("  ", &format!("{}: {summary}", finding.cause));
    for support in &finding.supports {
        page.hanging_paragraph("    evidence ", support);
    }
    for contradiction in &finding.contradicts {
        page.hanging_paragraph("    against  ", contradiction);
    }
    for advice in &finding.advice {
        page.hanging_paragraph("    -> ", &describe_advice(advice));
        if let Some(command) = &advice.command {
            page.command(7, command);
        }
    }
}

fn describe_advice(advice: &FindingAdvice) -> String {
    let text = advice.text.trim_end_matches('.');
    let place = &advice.place;
    match advice.expected_bps {
        Some(expected) => format!(
            "{place}: {text} (expected: about {}).",
            format_rate(expected)
        ),
        None => format!("{place}: {text}."),
    }
}
