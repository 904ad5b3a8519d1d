//! All paths of an archive on one page.

use super::caveats;
use super::words;
use crate::render::document::{Align, Document, Part, Table};
use crate::render::figures::{ABSENT, RateUnit, millis, or_absent, rate};
use longhaul_model::report::v1::site::{Site, SitePath};

pub fn document(site: &Site) -> Document {
    let mut document = Document {
        title: String::from("Paths of this archive"),
        foot: format!("longhaul {} from its archive", site.longhaul),
        parts: Vec::new(),
    };
    if let Some(period) = site.period {
        let count = site.paths.len();
        document.faint(format!(
            "{count} direction{} of paths, measured {}.",
            if count == 1 { "" } else { "s" },
            words::period(period)
        ));
    }
    caveats(&mut document, &site.caveats);
    if site.paths.is_empty() {
        document.paragraph("Nothing was measured between two hosts in this time.");
        return document;
    }
    document.heading(2, "Throughput");
    document.parts.push(Part::Table(throughput(site)));
    document.faint(
        "maximum: the rate above which a tenth of the bulk runs lie, probes of scans included; * the \
         greatest of fewer than ten. Best setting: what the latest scan recommends; without a scan \
         the one whose runs have the best median.",
    );
    document.heading(2, "Round trips and links");
    document.parts.push(Part::Table(links(site)));
    document.faint(
        "RTT: least of all, and the middle of each run's least. Capacity and available bandwidth: \
         the latest of each. What was not measured is absent (-).",
    );
    narrow(&mut document, site);
    document
}

fn throughput(site: &Site) -> Table {
    let greatest = site.paths.iter().filter_map(|path| path.greatest_bps).max();
    let unit = RateUnit::for_greatest(greatest.unwrap_or(0));
    let mut table = Table {
        columns: vec![
            ("path", Align::Left),
            ("runs", Align::Right),
            ("maximum", Align::Right),
            ("median", Align::Right),
            ("best setting", Align::Left),
            ("last measured", Align::Right),
        ],
        ..Table::default()
    };
    for path in &site.paths {
        let maximum = match (&path.top_tenth, path.greatest_bps) {
            (Some(top), _) => format!("{} {}", unit.short(top.goodput_bps), unit.name),
            (None, Some(bps)) => format!("*{} {}", unit.short(bps), unit.name),
            (None, None) => ABSENT.to_owned(),
        };
        let best = path.best.as_ref();
        table.rows.push(vec![
            words::pair(&path.pair),
            path.bulk_run_count.to_string(),
            maximum,
            or_absent(path.median_bps, |bps| unit.short(bps)),
            or_absent(best, |best| words::setting(&best.setting)),
            words::moment(path.last_at_us - path.last_at_us.rem_euclid(60_000_000))
                .trim_end_matches(" UTC")
                .to_owned(),
        ]);
    }
    table
}

fn links(site: &Site) -> Table {
    let mut table = Table {
        columns: vec![
            ("path", Align::Left),
            ("RTT ms", Align::Right),
            ("median", Align::Right),
            ("capacity", Align::Right),
            ("available", Align::Right),
            ("mostly limited by", Align::Left),
        ],
        ..Table::default()
    };
    for path in &site.paths {
        table.rows.push(vec![
            words::pair(&path.pair),
            or_absent(path.rtt_min_us, millis),
            or_absent(path.rtt_median_us, millis),
            or_absent(path.capacity_bps, |point| rate(point.value as u64)),
            or_absent(path.available_bps, |point| rate(point.value as u64)),
            or_absent(path.limited_by, |limiter| {
                let name = longhaul_analysis::throughput::words::name(limiter);
                name.trim_start_matches("the ").to_owned()
            }),
        ]);
    }
    table
}

fn narrow(document: &mut Document, site: &Site) {
    let told = |path: &SitePath| {
        let link = path.narrow_link.as_ref()?;
        Some(format!("{}: {}", words::pair(&path.pair), link.text))
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
