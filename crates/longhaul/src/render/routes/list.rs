//! The list of numbered routes, and of the changes between them.

use super::minute;
use crate::render::figures::{count_of, millis, or_absent};
use crate::render::page::Page;
use crate::render::style::{FAINT, paint};
use longhaul_analysis::path::table::{Distinct, Table, Trace};
use longhaul_analysis::path::words;
use longhaul_model::report::v1::path::{ChangeKind, ChangedRange, Hop, RouteChange};

/// The maximum number of changes listed; the latest are shown.
const MOST_CHANGES: usize = 40;

pub fn routes(page: &mut Page, table: &Table, several: bool) {
    page.heading(&title("ROUTES", table, several));
    for route in &table.routes {
        head(page, route);
        let hops: Vec<String> = route.route.hops.iter().map(hop).collect();
        page.hanging("    ", &hops.join(" "));
    }
}

fn title(word: &str, table: &Table, several: bool) -> String {
    if several {
        format!("{word} to {}", table.host)
    } else {
        word.to_owned()
    }
}

fn head(page: &mut Page, route: &Distinct) {
    let hops = count_of(route.route.hops.len() as u64, "hop");
    let floor = or_absent(route.rtt_min_ns, |ns| format!("{} ms", millis(ns / 1000)));
    let open = if route.route.reached {
        ""
    } else {
        ", end not reached"
    };
    page.line(&format!(
        "{:<3} {hops}{open}, RTT from {floor}, {}",
        route.number,
        count_of(u64::from(route.traces), "trace")
    ));
    page.line(&paint(
        FAINT,
        format!(
            "    first seen {}, last {}",
            minute(&route.first_seen),
            minute(&route.last_seen)
        ),
    ));
}

/// Formats a hop without a space, so that lines never break inside it: `3:192.0.2.1`, `4:*`.
fn hop(hop: &Hop) -> String {
    let address = hop.answers.first().map_or("*", |a| a.address.as_str());
    format!("{}:{address}", hop.ttl)
}

pub fn changes(page: &mut Page, table: &Table, several: bool) {
    let changed: Vec<(&Trace, &RouteChange)> = table
        .traces
        .iter()
        .filter_map(|trace| Some((trace, trace.change.as_ref()?)))
        .filter(|(_, change)| change.kind > ChangeKind::SilentHop)
        .collect();
    if changed.is_empty() {
        return;
    }
    page.blank();
    page.heading(&title("CHANGES", table, several));
    let left_out = changed.len().saturating_sub(MOST_CHANGES);
    if left_out > 0 {
        page.line(&format!(
            "({left_out} earlier ones are left out; --csv has them all)"
        ));
    }
    for (trace, change) in &changed[left_out..] {
        let first = format!("{}  ", minute(&trace.at));
        page.hanging(&first, &sentence(trace, change));
    }
}

fn sentence(trace: &Trace, change: &RouteChange) -> String {
    let other = or_absent(change.other_number, |n| n.to_string());
    let mut parts = vec![format!(
        "{other} -> {}: {}",
        trace.number,
        meaning(change.kind)
    )];
    parts.extend(change.ranges.iter().copied().map(range));
    parts.extend(change.rtt_step_ns.and_then(step));
    parts.join("; ")
}

/// Describes a kind of change.
fn meaning(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Same => "the same",
        ChangeKind::SilentHop => "the same, hops silent",
        ChangeKind::Stutter => "one router stutters",
        ChangeKind::LastOctet => "last octet",
        ChangeKind::SameAs => "same AS",
        ChangeKind::OneHop => "one hop",
        ChangeKind::SeveralHops => "several hops",
        ChangeKind::EndNotReached => "end not reached",
    }
}

fn range(range: ChangedRange) -> String {
    match (range.here, range.other) {
        (here, None) => format!("{} came in", words::hops(here)),
        (None, gone) => format!("{} went", words::hops(gone)),
        (here, other) => format!("{} for {}", words::hops(here), words::hops(other)),
    }
}

/// Describes an RTT step, if it exceeds the scatter of a trace.
fn step(ns: i64) -> Option<String> {
    let sign = if ns < 0 { "-" } else { "+" };
    let told = format!("RTT {sign}{}", words::delay(ns));
    (ns.unsigned_abs() >= words::LEAST_STEP_NS).then_some(told)
}
