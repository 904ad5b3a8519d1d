//! Hops before, during and after load, and the narrow link.

use super::ms;
use crate::render::figures::{ABSENT, duration, or_absent, percent, rate};
use crate::render::page::Page;
use crate::render::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::path::{Analysis, HopWatch, NarrowLink, Observation, WatchedHop};
use longhaul_model::units::Bytes;

/// Writes the hops under load. `told`: a finding already explains the verdict.
pub fn block(page: &mut Page, observation: &Observation, analysis: &Analysis, told: bool) {
    if observation.hop_load.is_none() && analysis.narrow_link.is_none() {
        return;
    }
    page.blank();
    if let Some(watch) = &observation.hop_load {
        watched(page, watch);
    }
    if let Some(link) = &analysis.narrow_link {
        narrow_link(page, link, told);
    }
}

fn watched(page: &mut Page, watch: &HopWatch) {
    let way = if watch.forward {
        "this end sends"
    } else {
        "the far end sends"
    };
    let time = watch.load_until_us.saturating_sub(watch.load_from_us);
    let bytes = watch
        .load_bytes
        .map_or_else(String::new, |bytes| format!(", {} arrived", Bytes(bytes)));
    page.heading(&format!("UNDER LOAD: {way} for {}{bytes}", duration(time)));
    let head = format!(
        "{:>3} {:<40}{:>12}{:>12}{:>12}",
        "hop", "address", "idle min", "under load", "after"
    );
    page.line(&paint(STRONG, head));
    for hop in watch.hops.iter().filter(|hop| answered(hop)) {
        page.line(&row(hop, watch));
    }
    let mut notes = vec!["median under load, least before and after, in ms".to_owned()];
    if let Some(bytes) = watch.own_backlog_bytes {
        notes.push(format!("most in this host's own queue {}", Bytes(bytes)));
    }
    notes.extend(watch.run_id.as_ref().map(|id| format!("load: run {id}")));
    page.hanging_in("", &notes.join("; "), FAINT);
}

fn answered(hop: &WatchedHop) -> bool {
    hop.echoes.iter().any(|echo| echo.rtt_ns.is_some())
}

fn row(hop: &WatchedHop, watch: &HopWatch) -> String {
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
        .map(|rtt| format!("{:>12}", or_absent(rtt.copied(), ms)));
    let address = hop.address.as_deref().unwrap_or(ABSENT);
    format!("{:>3} {address:<40}{}", hop.ttl, figures.concat())
}

fn narrow_link(page: &mut Page, link: &NarrowLink, told: bool) {
    let sure = percent(link.confidence_ratio);
    let verdict = link.verdict.replace('_', " ");
    let place = match (link.after_ttl, link.before_ttl) {
        (Some(after), Some(before)) => format!("{verdict}, between hop {after} and hop {before}"),
        _ => verdict,
    };
    page.labelled_in(
        "narrow link",
        &format!("{place}; confidence {sure}"),
        STRONG,
    );
    if told {
        return;
    }
    page.labelled("", &link.text);
    if let Some(capacity) = link.capacity_bps {
        let interval = link.capacity_interval_bps;
        let interval = interval.map_or_else(String::new, |[low, high]| {
            format!(" ({} to {})", rate(low), rate(high))
        });
        page.labelled(
            "",
            &format!("the path carries {}{interval}", rate(capacity)),
        );
    }
}
