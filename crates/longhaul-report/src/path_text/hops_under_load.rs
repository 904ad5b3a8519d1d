//! Hops before, during and after load, and the narrow link.

use super::format_ms;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{ABSENT, format_micros, format_percent, format_rate, or_absent};
use longhaul_model::report::v1::path::{
    HopWatch, NarrowLink, PathAnalysis, PathObservation, WatchedHop,
};
use longhaul_model::units::Bytes;

/// Writes the hops under load. `told`: a finding already explains the verdict.
pub fn write_hops_under_load(
    page: &mut ReportDocument,
    observation: &PathObservation,
    analysis: &PathAnalysis,
    told: bool,
) {
    if observation.hop_load.is_none() && analysis.narrow_link.is_none() {
        return;
    }
    page.gap();
    if let Some(watch) = &observation.hop_load {
        write_hop_watch(page, watch);
    }
    if let Some(link) = &analysis.narrow_link {
        write_narrow_link(page, link, told);
    }
}

fn write_hop_watch(page: &mut ReportDocument, watch: &HopWatch) {
    let way = if watch.forward { "client sends" } else { "server sends" };
    let time = watch.load_until_us.saturating_sub(watch.load_from_us);
    let bytes =
        watch.load_bytes.map_or_else(String::new, |bytes| format!(", {} received", Bytes(bytes)));
    page.heading(3, format!("UNDER LOAD: {way} for {}{bytes}", format_micros(time)));
    let mut table = DocumentTable::new([
        right("hop"),
        left("address"),
        right("idle min"),
        right("under load"),
        right("after"),
    ]);
    for hop in watch.hops.iter().filter(|hop| has_answer(hop)) {
        table.row(format_hop_cells(hop, watch));
    }
    page.table(table);
    let mut notes = vec!["median under load, min before and after, in ms".to_owned()];
    if let Some(bytes) = watch.own_backlog_bytes {
        notes.push(format!("max local queue {}", Bytes(bytes)));
    }
    notes.extend(watch.run_id.as_ref().map(|id| format!("load: run {id}")));
    page.faint(notes.join("; "));
}

fn has_answer(hop: &WatchedHop) -> bool {
    hop.echoes.iter().any(|echo| echo.rtt_ns.is_some())
}

fn format_hop_cells(hop: &WatchedHop, watch: &HopWatch) -> [String; 5] {
    let within = |from: u64, until: u64| {
        let inside = hop.echoes.iter().filter(move |echo| (from..until).contains(&echo.at_us));
        let mut rtts: Vec<u64> = inside.filter_map(|echo| echo.rtt_ns).collect();
        rtts.sort_unstable();
        rtts
    };
    let before = within(0, watch.load_from_us);
    let under = within(watch.load_from_us, watch.load_until_us);
    let after = within(watch.load_until_us, u64::MAX);
    let median = under.get(under.len().saturating_sub(1) / 2);
    let [before, median, after] =
        [before.first(), median, after.first()].map(|rtt| or_absent(rtt.copied(), format_ms));
    let address = hop.address.as_deref().unwrap_or(ABSENT);
    [hop.ttl.to_string(), address.to_owned(), before, median, after]
}

fn write_narrow_link(page: &mut ReportDocument, link: &NarrowLink, told: bool) {
    let sure = format_percent(link.confidence_ratio);
    let verdict = link.verdict.replace('_', " ");
    let place = match (link.after_ttl, link.before_ttl) {
        (Some(after), Some(before)) => format!("{verdict}, between hop {after} and hop {before}"),
        _ => verdict,
    };
    page.strong_fact("narrow link", format!("{place}; confidence {sure}"));
    if told {
        return;
    }
    page.fact("", &link.text);
    if let Some(capacity) = link.capacity_bps {
        let interval = link.capacity_interval_bps;
        let interval = interval.map_or_else(String::new, |[low, high]| {
            format!(" ({} to {})", format_rate(low), format_rate(high))
        });
        page.fact("", format!("path capacity {}{interval}", format_rate(capacity)));
    }
}
