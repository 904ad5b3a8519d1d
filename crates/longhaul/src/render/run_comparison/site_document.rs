//! All paths of an archive on one page.

use super::add_caveats;
use super::change_format;
use crate::render::document::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument};
use crate::render::number_format::{ABSENT, RateUnit, format_millis, format_rate, or_absent};
use longhaul_model::report::v1::site::{SitePath, SiteReport};

pub fn build_site_document(site: &SiteReport) -> ReportDocument {
    let mut document = ReportDocument {
        title: String::from("Paths of this archive"),
        foot: format!("longhaul {} from its archive", site.longhaul),
        parts: Vec::new(),
    };
    if let Some(period) = site.period {
        let count = site.paths.len();
        document.faint(format!(
            "{count} direction{} of paths, measured {}.",
            if count == 1 { "" } else { "s" },
            change_format::format_period(period)
        ));
    }
    add_caveats(&mut document, &site.caveats);
    if site.paths.is_empty() {
        document.paragraph("Nothing was measured between two hosts in this time.");
        return document;
    }
    document.heading(2, "Throughput");
    document
        .parts
        .push(DocumentPart::Table(build_throughput_table(site)));
    document.faint(
        "maximum: the rate above which a tenth of the bulk runs lie, probes of scans included; * the \
         greatest of fewer than ten. Best setting: what the latest scan recommends; without a scan \
         the one whose runs have the best median.",
    );
    document.heading(2, "Round trips and links");
    document
        .parts
        .push(DocumentPart::Table(build_link_table(site)));
    document.faint(
        "RTT: least of all, and the middle of each run's least. Capacity and available bandwidth: \
         the latest of each. What was not measured is absent (-).",
    );
    add_narrow_links(&mut document, site);
    document
}

fn build_throughput_table(site: &SiteReport) -> DocumentTable {
    let greatest = site.paths.iter().filter_map(|path| path.greatest_bps).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let mut table = DocumentTable {
        columns: vec![
            ("path", ColumnAlign::Left),
            ("runs", ColumnAlign::Right),
            ("maximum", ColumnAlign::Right),
            ("median", ColumnAlign::Right),
            ("best setting", ColumnAlign::Left),
            ("last measured", ColumnAlign::Right),
        ],
        ..DocumentTable::default()
    };
    for path in &site.paths {
        let maximum = match (&path.top_tenth, path.greatest_bps) {
            (Some(top), _) => format!("{} {}", unit.short(top.goodput_bps), unit.name),
            (None, Some(bps)) => format!("*{} {}", unit.short(bps), unit.name),
            (None, None) => ABSENT.to_owned(),
        };
        let best = path.best.as_ref();
        table.rows.push(vec![
            change_format::format_pair(&path.pair),
            path.bulk_run_count.to_string(),
            maximum,
            or_absent(path.median_bps, |bps| unit.short(bps)),
            or_absent(best, |best| change_format::format_setting(&best.setting)),
            change_format::format_moment(path.last_at_us - path.last_at_us.rem_euclid(60_000_000))
                .trim_end_matches(" UTC")
                .to_owned(),
        ]);
    }
    table
}

fn build_link_table(site: &SiteReport) -> DocumentTable {
    let mut table = DocumentTable {
        columns: vec![
            ("path", ColumnAlign::Left),
            ("RTT ms", ColumnAlign::Right),
            ("median", ColumnAlign::Right),
            ("capacity", ColumnAlign::Right),
            ("available", ColumnAlign::Right),
            ("mostly limited by", ColumnAlign::Left),
        ],
        ..DocumentTable::default()
    };
    for path in &site.paths {
        table.rows.push(vec![
            change_format::format_pair(&path.pair),
            or_absent(path.rtt_min_us, format_millis),
            or_absent(path.rtt_median_us, format_millis),
            or_absent(path.capacity_bps, |point| format_rate(point.value as u64)),
            or_absent(path.available_bps, |point| format_rate(point.value as u64)),
            or_absent(path.limited_by, |limiter| {
                let name = longhaul_analysis::throughput::limiter_text::name_limiter(limiter);
                name.trim_start_matches("the ").to_owned()
            }),
        ]);
    }
    table
}

fn add_narrow_links(document: &mut ReportDocument, site: &SiteReport) {
    let told = |path: &SitePath| {
        let link = path.narrow_link.as_ref()?;
        Some(format!(
            "{}: {}",
            change_format::format_pair(&path.pair),
            link.text
        ))
    };
    let lines: Vec<String> = site.paths.iter().filter_map(told).collect();
    document.heading(2, "Narrow links");
    if lines.is_empty() {
        document.paragraph(
            "No path was looked at under load; `longhaul path HOST --load` finds the narrow link.",
        );
    }
    document.list(lines);
}
