//! A load report as text: the effect of each load, a timeline, and findings.
//!
//! - [`load_step_text`]: descriptions of loads; [`load_timeline`]: the timeline
//! - [`load_csv`]: one CSV line per probe

pub mod load_csv;
pub mod load_step_text;
mod load_timeline;

use super::number_format::{ABSENT, count_of, format_micros, format_percent, format_rate};
use super::style::{FAINT, paint};
use super::text_page::TextPage;
use super::{throughput_text, verdict_text};
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{LoadStepResult, ProbeDelays};

/// Renders the report, from the plan to the caveats.
pub fn render_load(report: &LoadReport) -> String {
    let mut page = TextPage::default();
    throughput_text::write_title(&mut page, &report.run);
    page.label_line("test", &describe_plan(report));
    if let Some(idle) = &report.analysis.idle {
        page.label_line("idle path", &describe_idle(idle));
    }
    if !report.analysis.steps.is_empty() {
        page.blank();
        write_step_table(&mut page, report);
    }
    load_timeline::draw_timeline(&mut page, report);
    if let Some(scavenger) = &report.analysis.scavenger {
        page.blank();
        let verdict = if scavenger.yields {
            "yields"
        } else {
            "does not yield"
        };
        page.label_line("scavenger", &format!("{verdict}: {}", scavenger.text));
    }
    verdict_text::write_findings(&mut page, &report.findings);
    throughput_text::write_caveats(&mut page, &report.caveats);
    throughput_text::write_footer(&mut page, &report.run);
    page.finish()
}

fn describe_plan(report: &LoadReport) -> String {
    let plan = &report.plan;
    let way = if plan.forward {
        "forward (client sends)"
    } else {
        "reverse (server sends)"
    };
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

/// Writes two lines for each load: goodput and RTT, then the queue.
fn write_step_table(page: &mut TextPage, report: &LoadReport) {
    let head = format!(
        "{:<30} {:>13} {:>10} {:>10} {:>11}",
        "load", "goodput", "RTT", "p95", "lost"
    );
    page.line(&paint(FAINT, head));
    for result in &report.analysis.steps {
        write_step(page, report, result);
    }
}

fn write_step(page: &mut TextPage, report: &LoadReport, result: &LoadStepResult) {
    let step = report.plan.steps.get(result.step as usize);
    let name = step.map_or_else(|| ABSENT.to_owned(), load_step_text::describe_step);
    let of = |pick: &dyn Fn(&ProbeDelays) -> String| {
        let delays = result.delays.as_ref();
        delays.map_or_else(|| ABSENT.to_owned(), pick)
    };
    let speed = result.goodput_bps.or(result.competitor_bps);
    let line = format!(
        "{name:<30} {:>13} {:>10} {:>10} {:>11}",
        speed.map_or_else(|| ABSENT.to_owned(), format_rate),
        of(&|d| format_nanos(d.rtt_median_ns)),
        of(&|d| format_nanos(d.rtt_p95_ns)),
        of(&|d| format_percent(d.loss_ratio)),
    );
    page.line(&line);
    let detail = load_step_text::describe_step_result(result);
    if !detail.is_empty() {
        page.hanging_paragraph("    ", &detail);
    }
}

/// Formats nanoseconds in the unit that fits.
pub fn format_nanos(ns: u64) -> String {
    format_micros(ns / 1000)
}
