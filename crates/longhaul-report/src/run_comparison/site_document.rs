//! All paths of an archive on one page.

use super::change_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{ABSENT, RateUnit, count_of, format_millis, format_rate, or_absent};
use crate::scan_text::setting_format::format_setting;
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::{SeriesPoint, SitePath, SiteReport};

pub fn build_site_document(site: &SiteReport) -> ReportDocument {
    let mut document = ReportDocument::from_archive("Paths of this archive", &site.longhaul);
    if let Some(period) = site.period {
        let count = count_of(site.paths.len() as u64, "path direction");
        document.faint(format!("{count}, measured {}.", change_format::format_period(period)));
    }
    document.caveats(&site.caveats);
    if site.paths.is_empty() {
        document.paragraph("No measurement between two hosts in this period.");
        return document;
    }
    document.heading(2, "Throughput");
    document.table(build_throughput_table(site));
    document.faint(
        "maximum: the rate that a tenth of the bulk runs exceed, including the probes of scans; * the \
         highest of fewer than ten runs. Best setting: the recommendation of the latest scan; without \
         a scan, the setting with the best median.",
    );
    document.heading(2, "Round trips and links");
    document.table(build_link_table(site));
    document.faint(
        "RTT: min of all runs, and median of the min of each run. Capacity and available bandwidth: \
         the latest values. Values that were not measured are absent (-).",
    );
    add_narrow_links(&mut document, site);
    document
}

fn build_throughput_table(site: &SiteReport) -> DocumentTable {
    let greatest = site.paths.iter().filter_map(|path| path.greatest_bps).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let maximum = |path: &SitePath| match (&path.top_tenth, path.greatest_bps) {
        (Some(top), _) => format!("{} {}", unit.short(top.goodput_bps), unit.name),
        (None, Some(bps)) => format!("*{} {}", unit.short(bps), unit.name),
        (None, None) => ABSENT.to_owned(),
    };
    let last_minute = |path: &SitePath| {
        let at_us = path.last_at_us - path.last_at_us.rem_euclid(60_000_000);
        change_format::format_moment(at_us).trim_end_matches(" UTC").to_owned()
    };
    DocumentTable::from_rows(&site.paths)
        .text("path", |path| change_format::format_pair(&path.pair))
        .number("runs", |path| path.bulk_run_count.to_string())
        .number("maximum", maximum)
        .number("median", |path| or_absent(path.median_bps, |bps| unit.short(bps)))
        .text("best setting", |path| {
            or_absent(path.best.as_ref(), |best| format_setting(&best.setting))
        })
        .number("last measured", last_minute)
        .finish()
}

fn build_link_table(site: &SiteReport) -> DocumentTable {
    let latest = |point: Option<SeriesPoint>| or_absent(point, |it| format_rate(it.value as u64));
    DocumentTable::from_rows(&site.paths)
        .text("path", |path| change_format::format_pair(&path.pair))
        .number("RTT ms", |path| or_absent(path.rtt_min_us, format_millis))
        .number("median", |path| or_absent(path.rtt_median_us, format_millis))
        .number("capacity", |path| latest(path.capacity_bps))
        .number("available", |path| latest(path.available_bps))
        .text("mostly limited by", |path| {
            or_absent(path.limited_by, |it| name_limiter(it).trim_start_matches("the ").to_owned())
        })
        .finish()
}

fn add_narrow_links(document: &mut ReportDocument, site: &SiteReport) {
    let told = |path: &SitePath| {
        let link = path.narrow_link.as_ref()?;
        Some(format!("{}: {}", change_format::format_pair(&path.pair), link.text))
    };
    let lines: Vec<String> = site.paths.iter().filter_map(told).collect();
    document.heading(2, "Narrow links");
    if lines.is_empty() {
        document.paragraph(
            "No path was measured under load. Run `longhaul path HOST --load` to find the narrow link.",
        );
    }
    document.list(lines);
}
