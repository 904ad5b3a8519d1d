//! A report of a copy as text: the files, the rate, and the bottleneck.

use super::capture_text::sanitize_shown;
use super::scan_text::setting_format::format_span;
use crate::document::ReportDocument;
use crate::number_format::{count_of, format_micros, format_percent, format_rate, join_parts};
use crate::run_answer;
use longhaul_model::report::v1::CopyReport;
use longhaul_model::report::v1::copy::{CopyAdjustment, CopyForecast, CopyTimeSplit, CopyWorkers};
use longhaul_model::units::Bytes;

/// Width of a full bar.
const BAR: usize = 30;

/// Summarizes the result in a few words.
pub fn summarize_copy(report: &CopyReport) -> String {
    let bytes = Bytes(report.observation.bytes);
    match report.analysis.goodput_bps {
        Some(bps) => format!("{bytes} copied at {}", format_rate(bps)),
        None => format!("{bytes} copied"),
    }
}

/// Renders the whole report.
pub fn build_copy_document(report: &CopyReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_copy(&mut page, report);
    let plan = &report.plan;
    let way = if plan.forward { "client to server" } else { "server to client" };
    page.fact(
        "copy",
        format!("{} to {}, {way}", format_source(&plan.source), format_source(&plan.target)),
    );
    page.fact("settings", describe_setting(report));
    page.gap();
    write_result(&mut page, report);
    if let Some(split) = &report.analysis.split {
        page.gap();
        page.heading(3, "time spent per stage");
        write_time_split(&mut page, split);
    }
    page.details(|page| page.findings(&report.findings));
    if report.findings.is_empty() {
        page.gap();
        let why =
            report.analysis.evidence.first().map_or("no data was transferred", String::as_str);
        page.fact("limited by", format!("unknown: {}", sanitize_shown(why)));
    }
    page.caveats(&report.caveats);
    page
}

/// Formats a path; the copied folder itself has an empty one.
fn format_source(typed: &str) -> String {
    match typed {
        "" => ".".to_owned(),
        name => sanitize_shown(name),
    }
}

fn describe_setting(report: &CopyReport) -> String {
    let plan = &report.plan;
    let from = match plan.setting_from.as_str() {
        "tune" => "tuned",
        "option" => "as requested",
        _ => "defaults",
    };
    let parts = [
        Some(count_of(u64::from(plan.streams), "stream")),
        plan.window_bytes.map(|bytes| format!("{} buffers", Bytes(bytes))),
        plan.congestion_control.as_deref().map(sanitize_shown),
        Some(from.to_owned()),
        plan.direct.then(|| "direct I/O".to_owned()),
    ];
    join_parts(", ", parts)
}

fn write_result(page: &mut ReportDocument, report: &CopyReport) {
    let (seen, analysis) = (&report.observation, &report.analysis);
    let mut what = vec![count_of(seen.files, "file")];
    what.extend((seen.folders > 0).then(|| count_of(seen.folders, "folder")));
    page.strong_fact("copied", format!("{}, {}", what.join(", "), Bytes(seen.bytes)));
    page.facts("BLAKE3", seen.blake3.as_deref().map(sanitize_shown));
    if let Some(bps) = analysis.goodput_bps.filter(|_| seen.sent_bytes > 0) {
        page.strong_fact("goodput", format_speed(bps));
    }
    page.fact("sent", describe_sent(report));
    page.fact("time", describe_times(report));
    page.facts("adapted", seen.adjustments.iter().map(describe_adjustment));
    page.facts("forecast", report.analysis.forecasts.first().map(describe_forecast));
}

/// Describes a change of connections or disk threads, with the rate before and after.
fn describe_adjustment(adjustment: &CopyAdjustment) -> String {
    let workers = match adjustment.workers {
        CopyWorkers::Streams => "streams",
        CopyWorkers::Readers => "readers",
        CopyWorkers::Writers => "writers",
    };
    let effect = match (adjustment.after_bps, adjustment.kept) {
        (Some(after_bps), Some(kept)) => {
            let verdict = if kept { "" } else { ", undone" };
            format!(
                ", {} to {}{verdict}",
                format_rate(adjustment.before_bps),
                format_rate(after_bps)
            )
        }
        _ => ", not judged".to_owned(),
    };
    let at = format_span(adjustment.elapsed_us);
    format!(
        "{} to {} {workers} after {at}{effect}",
        adjustment.workers_before, adjustment.workers_after
    )
}

/// Describes the forecast beside which `data` is the truth.
fn describe_forecast(forecast: &CopyForecast) -> String {
    format!(
        "after {}: data {} ({} to {})",
        format_span(forecast.elapsed_us),
        format_span(forecast.finish_us),
        format_span(forecast.finish_low_us),
        format_span(forecast.finish_high_us),
    )
}

/// Formats a speed both as a network rate and as a disk rate.
pub fn format_speed(bps: u64) -> String {
    format!("{} ({}/s)", format_rate(bps), Bytes(bps / 8))
}

fn describe_sent(report: &CopyReport) -> String {
    let seen = &report.observation;
    let some = |bytes: u64, what: &str| (bytes > 0).then(|| format!("{} {what}", Bytes(bytes)));
    let skipped = || format!("{} already present", count_of(seen.skipped_files, "file"));
    let parts = [
        Some(Bytes(seen.sent_bytes).to_string()),
        some(seen.held_bytes, "kept from an earlier run"),
        (seen.skipped_files > 0).then(skipped),
    ];
    join_parts("; ", parts)
}

fn describe_times(report: &CopyReport) -> String {
    let (seen, analysis) = (&report.observation, &report.analysis);
    let (setup, data) = (format_micros(seen.setup_us), format_micros(seen.data_us));
    let model = analysis.startup_us.zip(analysis.asymptotic_bps).map(|(startup, bps)| {
        format!("model: startup {}, then {}", format_micros(startup), format_rate(bps))
    });
    join_parts("; ", [Some(format!("setup {setup}, data {data}")), model])
}

fn write_time_split(page: &mut ReportDocument, split: &CopyTimeSplit) {
    for (name, share) in [
        ("source disk", split.source_disk_ratio),
        ("source CPU", split.source_cpu_ratio),
        ("network", split.network_ratio),
        ("target disk", split.target_disk_ratio),
        ("target CPU", split.target_cpu_ratio),
    ] {
        let bar = "#".repeat((share.clamp(0.0, 1.0) * BAR as f64).round() as usize);
        page.fact(name, format!("{:>5}  {bar}", format_percent(share)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::copy::CopyLimiter;

    #[test]
    fn a_change_is_told_with_both_rates_and_whether_it_stayed() {
        let kept = CopyAdjustment {
            elapsed_us: 4_600_000,
            workers: CopyWorkers::Streams,
            workers_before: 4,
            workers_after: 8,
            limited_by: CopyLimiter::Network,
            before_bps: 20_000_000,
            after_bps: Some(40_000_000),
            kept: Some(true),
        };
        let undone = CopyAdjustment { kept: Some(false), ..kept };
        let open = CopyAdjustment { after_bps: None, kept: None, ..kept };
        let texts = [kept, undone, open].map(|it| describe_adjustment(&it));
        assert_eq!(texts[0], "4 to 8 streams after 4.6 s, 20 Mbit/s to 40 Mbit/s");
        assert_eq!(texts[1], "4 to 8 streams after 4.6 s, 20 Mbit/s to 40 Mbit/s, undone");
        assert_eq!(texts[2], "4 to 8 streams after 4.6 s, not judged");
    }
}
