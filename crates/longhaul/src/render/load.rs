//! A load report as text: the effect of each load, a timeline, and findings.
//!
//! - [`words`]: descriptions of loads; [`course`]: the timeline
//! - [`csv`]: one CSV line per probe

mod course;
pub mod csv;
pub mod words;

use super::figures::{ABSENT, count_of, duration, percent, rate};
use super::page::Page;
use super::style::{FAINT, paint};
use super::{text, verdict};
use longhaul_model::report::v1::Load;
use longhaul_model::report::v1::load::{Delays, StepResult};

/// Renders the report, from the plan to the caveats.
pub fn report(report: &Load) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    page.labelled("asked", &asked(report));
    if let Some(idle) = &report.analysis.idle {
        page.labelled("idle path", &idle_line(idle));
    }
    if !report.analysis.steps.is_empty() {
        page.blank();
        table(&mut page, report);
    }
    course::draw(&mut page, report);
    if let Some(scavenger) = &report.analysis.scavenger {
        page.blank();
        let verdict = if scavenger.yields {
            "yields"
        } else {
            "does not yield"
        };
        page.labelled("scavenger", &format!("{verdict}: {}", scavenger.text));
    }
    verdict::explain_all(&mut page, &report.findings);
    text::caveats(&mut page, &report.caveats);
    text::footer(&mut page, &report.run);
    page.finish()
}

fn asked(report: &Load) -> String {
    let plan = &report.plan;
    let way = if plan.forward {
        "forward (this end sends)"
    } else {
        "reverse (the far end sends)"
    };
    format!(
        "{} of {}, {way}; probes every {}",
        count_of(plan.steps.len() as u64, "load"),
        duration(plan.load_us),
        duration(plan.probe_interval_us)
    )
}

fn idle_line(idle: &Delays) -> String {
    format!(
        "RTT {} median, {} least, {} at most; {} of {} lost",
        nanos(idle.rtt_median_ns),
        nanos(idle.rtt_min_ns),
        nanos(idle.rtt_max_ns),
        percent(idle.loss_ratio),
        count_of(u64::from(idle.probes), "probe")
    )
}

/// Writes two lines for each load: goodput and RTT, then the queue.
fn table(page: &mut Page, report: &Load) {
    let head = format!(
        "{:<30} {:>13} {:>10} {:>10} {:>11}",
        "load", "goodput", "RTT", "p95", "lost"
    );
    page.line(&paint(FAINT, head));
    for result in &report.analysis.steps {
        row(page, report, result);
    }
}

fn row(page: &mut Page, report: &Load, result: &StepResult) {
    let step = report.plan.steps.get(result.step as usize);
    let name = step.map_or_else(|| ABSENT.to_owned(), words::step);
    let of = |pick: &dyn Fn(&Delays) -> String| {
        let delays = result.delays.as_ref();
        delays.map_or_else(|| ABSENT.to_owned(), pick)
    };
    let speed = result.goodput_bps.or(result.competitor_bps);
    let line = format!(
        "{name:<30} {:>13} {:>10} {:>10} {:>11}",
        speed.map_or_else(|| ABSENT.to_owned(), rate),
        of(&|d| nanos(d.rtt_median_ns)),
        of(&|d| nanos(d.rtt_p95_ns)),
        of(&|d| percent(d.loss_ratio)),
    );
    page.line(&line);
    let detail = words::detail(result);
    if !detail.is_empty() {
        page.hanging("    ", &detail);
    }
}

/// Formats nanoseconds in the unit that fits.
pub fn nanos(ns: u64) -> String {
    duration(ns / 1000)
}
