//! Comparison of two routes.

use super::change_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::count_of;
use longhaul_analysis::path::trace_table::format_hop_change;
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
            document.paragraph(describe_difference(change));
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

fn describe_difference(change: &RouteDifference) -> String {
    if change.kind <= RouteChangeKind::SilentHop {
        return String::from("Same route before and after, as far as hops answered.");
    }
    let parts: Vec<String> = change.ranges.iter().map(format_hop_change).collect();
    if parts.is_empty() {
        return String::from("Only the answers of one router differ.");
    }
    format!("Differences: {}.", parts.join(", "))
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
