//! Hops before, during and after load, and the narrow link.

use super::format_ms;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    format_interval, format_micros, format_percent, format_rate, join_parts, or_absent,
};
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
    let within = |hop: &WatchedHop, from: u64, until: u64| {
        let inside = hop.echoes.iter().filter(|echo| (from..until).contains(&echo.at_us));
        let mut rtts: Vec<u64> = inside.filter_map(|echo| echo.rtt_ns).collect();
        rtts.sort_unstable();
        rtts
    };
    let (from, until) = (watch.load_from_us, watch.load_until_us);
    let under_load = |hop: &WatchedHop| {
        let rtts = within(hop, from, until);
        or_absent(rtts.get(rtts.len().saturating_sub(1) / 2).copied(), format_ms)
    };
    let min = |rtts: Vec<u64>| or_absent(rtts.first().copied(), format_ms);
    page.table(
        DocumentTable::from_rows(watch.hops.iter().filter(|hop| has_answer(hop)))
            .number("hop", |hop| hop.ttl.to_string())
            .text("address", |hop| or_absent(hop.address.clone(), |it| it))
            .number("idle min", |hop| min(within(hop, 0, from)))
            .number("under load", under_load)
            .number("after", |hop| min(within(hop, until, u64::MAX)))
            .finish(),
    );
    let notes = [
        Some("median under load, min before and after, in ms".to_owned()),
        watch.own_backlog_bytes.map(|bytes| format!("max local queue {}", Bytes(bytes))),
        watch.run_id.as_ref().map(|id| format!("load: run {id}")),
    ];
    page.faint(join_parts("; ", notes));
}

fn has_answer(hop: &WatchedHop) -> bool {
    hop.echoes.iter().any(|echo| echo.rtt_ns.is_some())
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
        let interval = format_interval(link.capacity_interval_bps, format_rate);
        page.fact("", format!("path capacity {}{interval}", format_rate(capacity)));
    }
}
