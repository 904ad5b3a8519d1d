//! Hops before, during and after load, and the narrow link.

use super::format_ms;
use crate::render::number_format::{ABSENT, format_micros, format_percent, format_rate, or_absent};
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::TextPage;
use longhaul_model::report::v1::path::{
    HopWatch, NarrowLink, PathAnalysis, PathObservation, WatchedHop,
};
use longhaul_model::units::Bytes;

/// Writes the hops under load. `told`: a finding already explains the verdict.
pub fn write_hops_under_load(
    page: &mut TextPage,
    observation: &PathObservation,
    analysis: &PathAnalysis,
    told: bool,
) {
    if observation.hop_load.is_none() && analysis.narrow_link.is_none() {
        return;
    }
    page.blank();
    if let Some(watch) = &observation.hop_load {
        write_hop_watch(page, watch);
    }
    if let Some(link) = &analysis.narrow_link {
        write_narrow_link(page, link, told);
    }
}

fn write_hop_watch(page: &mut TextPage, watch: &HopWatch) {
    let way = if watch.forward {
        "client sends"
    } else {
        "server sends"
    };
    let time = watch.load_until_us.saturating_sub(watch.load_from_us);
    let bytes = watch
        .load_bytes
        .map_or_else(String::new, |bytes| format!(", {} received", Bytes(bytes)));
    page.heading(&format!(
        "UNDER LOAD: {way} for {}{bytes}",
        format_micros(time)
    ));
    let head = format!(
        "{:>3} {:<40}{:>12}{:>12}{:>12}",
        "hop", "address", "idle min", "under load", "after"
    );
    page.line(&paint(STRONG, head));
    for hop in watch.hops.iter().filter(|hop| has_answer(hop)) {
        page.line(&format_hop_row(hop, watch));
    }
    let mut notes = vec!["median under load, min before and after, in ms".to_owned()];
    if let Some(bytes) = watch.own_backlog_bytes {
        notes.push(format!("max local queue {}", Bytes(bytes)));
    }
    notes.extend(watch.run_id.as_ref().map(|id| format!("load: run {id}")));
    page.hanging_paragraph_styled("", &notes.join("; "), FAINT);
}

fn has_answer(hop: &WatchedHop) -> bool {
    hop.echoes.iter().any(|echo| echo.rtt_ns.is_some())
}

fn format_hop_row(hop: &WatchedHop, watch: &HopWatch) -> String {
    let within = |from: u64, until: u64| {
        let inside = hop
            .echoes
            .iter()
            .filter(move |echo| (from..until).contains(&echo.at_us));
        let mut rtts: Vec<u64> = inside.filter_map(|echo| echo.rtt_ns).collect();
        rtts.sort_unstable();
        rtts
    };
    let before = within(0, watch.load_from_us);
    let under = within(watch.load_from_us, watch.load_until_us);
    let after = within(watch.load_until_us, u64::MAX);
    let median = under.get(under.len().saturating_sub(1) / 2);
    let figures = [before.first(), median, after.first()]
        .map(|rtt| format!("{:>12}", or_absent(rtt.copied(), format_ms)));
    let address = hop.address.as_deref().unwrap_or(ABSENT);
    format!("{:>3} {address:<40}{}", hop.ttl, figures.concat())
}

fn write_narrow_link(page: &mut TextPage, link: &NarrowLink, told: bool) {
    let sure = format_percent(link.confidence_ratio);
    let verdict = link.verdict.replace('_', " ");
    let place = match (link.after_ttl, link.before_ttl) {
        (Some(after), Some(before)) => format!("{verdict}, between hop {after} and hop {before}"),
        _ => verdict,
    };
    page.label_line_styled(
        "narrow link",
        &format!("{place}; confidence {sure}"),
        STRONG,
    );
    if told {
        return;
    }
    page.label_line("", &link.text);
    if let Some(capacity) = link.capacity_bps {
        let interval = link.capacity_interval_bps;
        let interval = interval.map_or_else(String::new, |[low, high]| {
            format!(" ({} to {})", format_rate(low), format_rate(high))
        });
        page.label_line(
            "",
            &format!("path capacity {}{interval}", format_rate(capacity)),
        );
    }
}
