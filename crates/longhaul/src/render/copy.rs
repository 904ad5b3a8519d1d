//! A report of a copy as text: the files, the rate, and the bottleneck.

use super::capture::shown;
use super::figures::{count_of, duration, percent, rate};
use super::page::Page;
use super::style::STRONG;
use super::{text, verdict};
use longhaul_model::report::v1::Copied;
use longhaul_model::report::v1::copy::Split;
use longhaul_model::units::Bytes;

/// Width of a full bar.
const BAR: usize = 30;

/// Summarizes the result in a few words.
pub fn summary(report: &Copied) -> String {
    let bytes = Bytes(report.observation.bytes);
    match report.analysis.goodput_bps {
        Some(bps) => format!("{bytes} copied at {}", rate(bps)),
        None => format!("{bytes} copied"),
    }
}

/// Renders the whole report.
pub fn report(report: &Copied) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    let plan = &report.plan;
    let way = if plan.forward {
        "to the far end"
    } else {
        "from the far end"
    };
    page.labelled(
        "asked",
        &format!("{} to {}, {way}", name(&plan.source), name(&plan.target)),
    );
    page.labelled("over", &setting(report));
    page.blank();
    result(&mut page, report);
    if let Some(split) = &report.analysis.split {
        page.blank();
        page.heading("what the copy waited for");
        bars(&mut page, split);
    }
    verdict::explain_all(&mut page, &report.findings);
    if report.findings.is_empty() && plan.dry.is_none() {
        page.blank();
        let why = report
            .analysis
            .evidence
            .first()
            .map_or("nothing was moved", String::as_str);
        page.labelled("limited by", &format!("it cannot be told: {}", shown(why)));
    }
    text::caveats(&mut page, &report.caveats);
    text::footer(&mut page, &report.run);
    page.finish()
}

/// Formats a path; the copied folder itself has an empty one.
fn name(typed: &str) -> String {
    match typed {
        "" => ".".to_owned(),
        name => shown(name),
    }
}

fn setting(report: &Copied) -> String {
    let plan = &report.plan;
    let mut parts = vec![count_of(u64::from(plan.streams), "stream")];
    parts.extend(
        plan.window_bytes
            .map(|bytes| format!("buffers of {}", Bytes(bytes))),
    );
    parts.extend(plan.congestion_control.as_deref().map(shown));
    let from = match plan.setting_from.as_str() {
        "tune" => "as tuned",
        "option" => "as asked",
        _ => "by default",
    };
    parts.push(from.to_owned());
    if plan.direct {
        parts.push("past the page cache".to_owned());
    }
    parts.join(", ")
}

fn result(page: &mut Page, report: &Copied) {
    let (seen, analysis) = (&report.observation, &report.analysis);
    match report.plan.dry.as_deref() {
        Some("disk") => {
            let speeds = [
                ("source", analysis.source_disk_bps),
                ("target", analysis.target_disk_bps),
            ];
            for (whose, bps) in speeds {
                if let Some(bps) = bps {
                    page.labelled_in(&format!("{whose} disk"), &speed(bps), STRONG);
                }
            }
            page.labelled("", "nothing was sent, and nothing kept");
            return;
        }
        Some(_) => {
            if let Some(bps) = analysis.goodput_bps {
                page.labelled_in("network", &speed(bps), STRONG);
            }
            page.labelled("", "no file was read or written");
            return;
        }
        None => {}
    }
    let mut what = vec![count_of(seen.files, "file")];
    if seen.folders > 0 {
        what.push(count_of(seen.folders, "folder"));
    }
    page.labelled_in(
        "copied",
        &format!("{}, {}", what.join(", "), Bytes(seen.bytes)),
        STRONG,
    );
    if let Some(sum) = &seen.blake3 {
        page.labelled("BLAKE3", &shown(sum));
    }
    if let Some(bps) = analysis.goodput_bps.filter(|_| seen.sent_bytes > 0) {
        page.labelled_in("goodput", &speed(bps), STRONG);
    }
    page.labelled("sent", &sent(report));
    page.labelled("time", &times(report));
}

/// Formats a speed both as a network rate and as a disk rate.
fn speed(bps: u64) -> String {
    format!("{} ({}/s)", rate(bps), Bytes(bps / 8))
}

fn sent(report: &Copied) -> String {
    let seen = &report.observation;
    let mut parts = vec![Bytes(seen.sent_bytes).to_string()];
    if seen.held_bytes > 0 {
        parts.push(format!(
            "{} were left of an earlier run",
            Bytes(seen.held_bytes)
        ));
    }
    if seen.hole_bytes > 0 {
        parts.push(format!("{} are hole", Bytes(seen.hole_bytes)));
    }
    if seen.skipped_files > 0 {
        parts.push(format!(
            "{} there already",
            count_of(seen.skipped_files, "file")
        ));
    }
    parts.join("; ")
}

fn times(report: &Copied) -> String {
    let (seen, analysis) = (&report.observation, &report.analysis);
    let mut text = format!(
        "{} to begin, then {}",
        duration(seen.setup_us),
        duration(seen.data_us)
    );
    if let (Some(startup), Some(bps)) = (analysis.startup_us, analysis.asymptotic_bps) {
        let start = format!(
            "; as {} of start and {} from then on",
            duration(startup),
            rate(bps)
        );
        text.push_str(&start);
    }
    text
}

fn bars(page: &mut Page, split: &Split) {
    for (name, share) in [
        ("source disk", split.source_disk_ratio),
        ("source CPU", split.source_cpu_ratio),
        ("network", split.network_ratio),
        ("target disk", split.target_disk_ratio),
        ("target CPU", split.target_cpu_ratio),
    ] {
        let bar = "#".repeat((share * BAR as f64).round() as usize);
        page.labelled(name, &format!("{:>5}  {bar}", percent(share)));
    }
}
