//! The result of a run: goodput with its interval, RTT, limiter, and advice.

use super::goodput_picture;
use crate::document::ReportDocument;
use crate::number_format::{RateUnit, format_micros, format_millis, format_percent, format_rate};
use crate::style::{FAINT, STRONG};
use crate::text_page::{LABEL, WIDTH};
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::{LoadedRtt, ThroughputAnalysis};
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::ReceiveMode;

/// Returns the words that accompany every quoted rate.
pub fn mode_label(mode: ReceiveMode) -> &'static str {
    match mode {
        ReceiveMode::Delivered => "delivered",
        ReceiveMode::Wire => "wire (discarded in the receiver's kernel)",
    }
}

/// Draws the goodput over time in one line, with its legend.
pub fn write_picture(page: &mut ReportDocument, observation: &ThroughputObservation) {
    if let Some((picture, legend)) = goodput_picture::draw_goodput(observation, WIDTH - LABEL) {
        page.fact("over time", picture);
        page.styled_fact("", legend, FAINT);
    }
}

/// Writes ramp, goodput and RTT of one direction.
pub fn write_result(
    page: &mut ReportDocument,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
    mode: ReceiveMode,
) {
    page.fact("ramp", describe_ramp(analysis));
    if let Some(goodput) = analysis.goodput_bps {
        let interval = analysis.goodput_interval_bps.map(|[low, high]| {
            let unit = RateUnit::for_max(high);
            let (low, high) = (unit.short(low), unit.short(high));
            format!(", 95 % interval {low} to {high} {}", unit.name)
        });
        let interval = interval.unwrap_or_default();
        let text = format!("{} {}{interval}", format_rate(goodput), mode_label(mode));
        page.strong_fact("goodput", text);
    }
    if let Some(mean) = analysis.mean_goodput_bps {
        page.fact("total", format!("{}, including the ramp", format_rate(mean)));
    }
    if let Some(idle) = observation.idle_rtt_us {
        page.fact("RTT idle", format!("{} ms", format_millis(idle)));
    }
    page.facts("RTT under load", analysis.rtt_us.map(format_rtt_spread));
}

fn describe_ramp(analysis: &ThroughputAnalysis) -> String {
    let Some(steady) = analysis.steady else {
        return "the run ended before the rate was steady".to_owned();
    };
    let ramp = analysis.ramp_us.map(|ramp| format!("{} until steady", format_micros(ramp)));
    let ramp = ramp.unwrap_or_else(|| "none detected".to_owned());
    format!("{ramp}; steady for {}", format_micros(steady.to_us.saturating_sub(steady.from_us)))
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

/// Writes the limiter of one direction with its evidence, the next limit, and the findings.
pub fn write_verdict(
    page: &mut ReportDocument,
    analysis: &ThroughputAnalysis,
    findings: &[&ReportFinding],
) {
    let limiter = analysis.limited_by;
    let sure = format_percent(analysis.confidence_ratio);
    let text = format!("limited by {} [{limiter}, confidence {sure}]", name_limiter(limiter));
    page.styled_item("", text, STRONG);
    let own = analysis.bounds.iter().find(|b| b.limiter == limiter);
    if let Some(bound) = own {
        let text = format!("{}, about {}", bound.why, format_rate(bound.rate_bps));
        page.item("  evidence    ", &text);
    }
    if let Some(next) = &analysis.next_limit {
        let text = format!(
            "{1}, about {0}: {2}",
            format_rate(next.rate_bps),
            name_limiter(next.limiter),
            next.why
        );
        page.item("  next limit  ", &text);
    }
    page.findings(findings.iter().copied());
}
