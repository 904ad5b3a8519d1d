//! Comparison of two routes.

use super::change_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::count_of;
use longhaul_analysis::path::path_format::format_hop_change;
use longhaul_history::event::pair_hops;
use longhaul_model::report::v1::case::{RouteCase, TracedRoute};
use longhaul_model::report::v1::path::{ObservedHop, RouteChangeKind, RouteDifference};

pub fn add_route_comparison(document: &mut ReportDocument, case: &RouteCase) {
    document.heading(3, format!("Route {}", change_format::format_pair(&case.pair)));
    let seen = |route: Option<&TracedRoute>| {
        route.map_or_else(|| String::from("not traced"), describe_traced_route)
    };
    document.fact("before", seen(case.before.as_ref()));
    document.fact("after", seen(case.after.as_ref()));
    match (&case.before, &case.after, &case.change) {
        (Some(before), Some(after), Some(change)) => {
            document.paragraph(describe_difference(before, after, change));
            if change.kind > RouteChangeKind::SilentHop {
                document.table(build_route_table(before, after, change));
            }
        }
        (Some(one), None, _) | (None, Some(one), _) => {
            let lines = one.route.hops.iter().map(|hop| format_hop(Some(hop)));
            document.verbatim(lines.collect::<Vec<_>>().join("\n"));
        }
        _ => {}
    }
}

fn describe_traced_route(traced: &TracedRoute) -> String {
    let route = &traced.route;
    let [of_it, all] = traced.run_counts;
    let end = if route.reached { "" } else { ", destination not reached" };
    format!(
        "{}{end}; seen in {of_it} of {}, shown as of {}",
        count_of(route.hops.len() as u64, "hop"),
        count_of(u64::from(all), "trace"),
        change_format::format_moment(traced.at_us)
    )
}

fn describe_difference(
    before: &TracedRoute,
    after: &TracedRoute,
    change: &RouteDifference,
) -> String {
    if change.kind <= RouteChangeKind::SilentHop {
        return String::from("Same route before and after, as far as hops answered.");
    }
    let parts: Vec<String> = change.ranges.iter().map(format_hop_change).collect();
    let same_ends = describe_same_ends(before, after, change);
    format!(
        "{} before, {} after. {}{same_ends}",
        count_of(before.route.hops.len() as u64, "hop"),
        count_of(after.route.hops.len() as u64, "hop"),
        if parts.is_empty() {
            String::from("Only the answers of one router differ.")
        } else {
            format!("Differences: {}.", parts.join(", "))
        }
    )
}

/// Describes the number of equal hops at both ends of the route.
fn describe_same_ends(
    before: &TracedRoute,
    after: &TracedRoute,
    change: &RouteDifference,
) -> String {
    let first = change.ranges.first().and_then(|range| range.other);
    let last = change.ranges.last();
    let length = |traced: &TracedRoute| traced.route.hops.last().map_or(0, |hop| hop.ttl);
    let (Some([first, _]), Some(last)) = (first, last) else {
        return String::new();
    };
    let behind = |range: Option<[u8; 2]>, route: &TracedRoute| {
        range.map(|[_, last]| length(route).saturating_sub(last))
    };
    let after_change = behind(last.other, before).or_else(|| behind(last.here, after));
    let (head, tail) = (first.saturating_sub(1), after_change.unwrap_or(0));
    format!(
        " Unchanged: {} at the start, {} at the end.",
        count_of(u64::from(head), "hop"),
        count_of(u64::from(tail), "hop")
    )
}

fn build_route_table(
    before: &TracedRoute,
    after: &TracedRoute,
    change: &RouteDifference,
) -> DocumentTable {
    DocumentTable::from_rows(pair_hops(&before.route, &after.route, &change.ranges))
        .text("", |(differs, _, _)| if differs { "*" } else { "" }.to_owned())
        .text("before", |(_, old, _)| format_hop(old))
        .text("after", |(_, _, new)| format_hop(new))
        .mark_rows(|(differs, _, _)| differs)
        .finish()
}

/// Formats a hop: `4 router.example.net`.
fn format_hop(hop: Option<&ObservedHop>) -> String {
    let Some(hop) = hop else {
        return String::new();
    };
    let name = hop
        .answers
        .first()
        .map_or("(silent)", |answer| answer.name.as_deref().unwrap_or(&answer.address));
    format!("{:>2} {name}", hop.ttl)
}
