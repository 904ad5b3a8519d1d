//! The result of a run: goodput with its interval, RTT, limiter, and advice.

use super::figures::{RateUnit, duration, millis, percent, rate};
use super::page::{LABEL, Page, WIDTH};
use super::shape;
use super::style::{FAINT, STRONG, paint};
use longhaul_analysis::throughput::words::name;
use longhaul_model::report::v1::analysis::{Analysis, Rtt};
use longhaul_model::report::v1::observation::Observation;
use longhaul_model::report::v1::plan::Mode;
use longhaul_model::report::v1::{Advice, Finding};

/// Returns the words that accompany every quoted rate.
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Delivered => "delivered",
        Mode::Wire => "wire (discarded in the receiver's kernel)",
    }
}

/// Writes ramp, goodput and RTT of one direction.
pub fn result(page: &mut Page, observation: &Observation, analysis: &Analysis, mode: Mode) {
    if let Some((picture, legend)) = shape::draw(observation, WIDTH - LABEL) {
        page.line(&format!(
            "{}{picture}",
            paint(FAINT, format!("{:<LABEL$}", "over time"))
        ));
        page.labelled_in("", &legend, FAINT);
    }
    page.labelled("ramp", &ramp(analysis));
    if let Some(goodput) = analysis.goodput_bps {
        let interval = analysis.goodput_interval_bps.map(|[low, high]| {
            let unit = RateUnit::for_greatest(high);
            let (low, high) = (unit.short(low), unit.short(high));
            format!(", 95 % interval {low} to {high} {}", unit.name)
        });
        let interval = interval.unwrap_or_default();
        let text = format!("{} {}{interval}", rate(goodput), mode_word(mode));
        page.labelled_in("goodput", &text, STRONG);
    }
    if let Some(mean) = analysis.mean_goodput_bps {
        page.labelled("whole run", &format!("{}, ramp included", rate(mean)));
    }
    if let Some(idle) = observation.idle_rtt_us {
        page.labelled("RTT idle", &format!("{} ms", millis(idle)));
    }
    if let Some(rtt) = analysis.rtt_us {
        page.labelled("RTT under load", &spread(rtt));
    }
}

fn ramp(analysis: &Analysis) -> String {
    match (analysis.ramp_us, analysis.steady) {
        (Some(ramp), Some(steady)) => format!(
            "{} until steady; steady for {}",
            duration(ramp),
            duration(steady.to_us.saturating_sub(steady.from_us))
        ),
        (None, Some(steady)) => format!(
            "none seen; steady for {}",
            duration(steady.to_us.saturating_sub(steady.from_us))
        ),
        _ => "the run ended before it was steady".to_owned(),
    }
}

fn spread(rtt: Rtt) -> String {
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
const OTHER_DIRECTION: &str = "Other direction: ";

/// Writes the limiter of one direction with its evidence, the next limit, and the findings.
pub fn verdict(page: &mut Page, analysis: &Analysis, findings: &[&Finding]) {
    let limiter = analysis.limited_by;
    let line = format!("limited by {}", name(limiter));
    let sure = percent(analysis.confidence_ratio);
    let remark = format!("[{limiter}, confidence {sure}]");
    if line.len() + 2 + remark.len() <= WIDTH {
        page.line(&format!(
            "{}  {}",
            paint(STRONG, line),
            paint(FAINT, remark)
        ));
    } else {
        page.line(&paint(STRONG, line));
        page.hanging_in("  ", &remark, FAINT);
    }
    let own = analysis.bounds.iter().find(|b| b.limiter == limiter);
    if let Some(bound) = own {
        let text = format!("{}, about {}", bound.why, rate(bound.rate_bps));
        page.hanging("  proof       ", &text);
    }
    if let Some(next) = &analysis.next_limit {
        let text = format!(
            "about {}, by {}: {}",
            rate(next.rate_bps),
            name(next.limiter),
            next.why
        );
        page.hanging("  next limit  ", &text);
    }
    for finding in findings {
        page.blank();
        explain(page, finding);
    }
}

/// Returns the findings about the first half of a run, or about its `reverse`.
pub fn findings_of(findings: &[Finding], reverse: bool) -> Vec<&Finding> {
    findings
        .iter()
        .filter(|finding| finding.summary.starts_with(OTHER_DIRECTION) == reverse)
        .collect()
}

/// Writes all findings, each after a blank line.
pub fn explain_all(page: &mut Page, findings: &[Finding]) {
    for finding in findings {
        page.blank();
        explain(page, finding);
    }
}

/// Writes one finding: the cause, the evidence, and the advice.
pub fn explain(page: &mut Page, finding: &Finding) {
    let summary = finding.summary.trim_start_matches(OTHER_DIRECTION);
    page.hanging("  ", &format!("{}: {summary}", finding.cause));
    for support in &finding.supports {
        page.hanging("    for      ", support);
    }
    for contradiction in &finding.contradicts {
        page.hanging("    against  ", contradiction);
    }
    for advice in &finding.advice {
        page.hanging("    -> ", &advice_sentence(advice));
        if let Some(command) = &advice.command {
            page.command(7, command);
        }
    }
}

fn advice_sentence(advice: &Advice) -> String {
    let text = advice.text.trim_end_matches('.');
    let place = &advice.place;
    match advice.expected_bps {
        Some(expected) => format!("{place}: {text} (then about {}).", rate(expected)),
        None => format!("{place}: {text}."),
    }
}
