//! Comparison of two routes.

use super::words;
use crate::render::document::{Align, Document, Part, Table};
use longhaul_analysis::event::hops_beside;
use longhaul_analysis::path::words::{count, hops};
use longhaul_model::report::v1::case::{RouteCase, TracedRoute};
use longhaul_model::report::v1::path::{ChangeKind, Hop, RouteChange};

pub fn write(document: &mut Document, case: &RouteCase) {
    document.heading(3, format!("Route {}", words::pair(&case.pair)));
    let seen = |route: Option<&TracedRoute>| route.map_or_else(|| String::from("not traced"), told);
    document.parts.push(Part::Facts(vec![
        (String::from("before"), seen(case.before.as_ref())),
        (String::from("after"), seen(case.after.as_ref())),
    ]));
    match (&case.before, &case.after, &case.change) {
        (Some(before), Some(after), Some(change)) => {
            document.paragraph(differing(before, after, change));
            if change.kind > ChangeKind::SilentHop {
                document
                    .parts
                    .push(Part::Table(table(before, after, change)));
            }
        }
        (Some(one), None, _) | (None, Some(one), _) => {
            let lines = one.route.hops.iter().map(|hop| cell(Some(hop)));
            document
                .parts
                .push(Part::Verbatim(lines.collect::<Vec<_>>().join("\n")));
        }
        _ => {}
    }
}

fn told(traced: &TracedRoute) -> String {
    let route = &traced.route;
    let [of_it, all] = traced.run_counts;
    let end = if route.reached {
        ""
    } else {
        ", end not reached"
    };
    format!(
        "{}{end}; seen in {of_it} of {}, shown as of {}",
        count(route.hops.len(), "hop"),
        count(all as usize, "trace"),
        words::moment(traced.at_us)
    )
}

fn differing(before: &TracedRoute, after: &TracedRoute, change: &RouteChange) -> String {
    if change.kind <= ChangeKind::SilentHop {
        return String::from("The same route before and after, as far as hops answered.");
    }
    let parts: Vec<String> = change
        .ranges
        .iter()
        .map(|range| match (range.other, range.here) {
            (Some([first, last]), Some(_)) if first == last => {
                format!("{} before is {} after", hops(range.other), hops(range.here))
            }
            (Some(_), Some(_)) => {
                format!(
                    "{} before are {} after",
                    hops(range.other),
                    hops(range.here)
                )
            }
            (Some(_), None) => format!("{} went", hops(range.other)),
            (None, _) => format!("{} came in", hops(range.here)),
        })
        .collect();
    let same_ends = ends_alike(before, after, change);
    format!(
        "{} before, {} after. {}{same_ends}",
        count(before.route.hops.len(), "hop"),
        count(after.route.hops.len(), "hop"),
        if parts.is_empty() {
            String::from("They differ in what one router answers with.")
        } else {
            format!("What differs: {}.", parts.join(", "))
        }
    )
}

/// Describes the number of equal hops at both ends of the route.
fn ends_alike(before: &TracedRoute, after: &TracedRoute, change: &RouteChange) -> String {
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
        " The same: {} at the begin, {} at the end.",
        count(usize::from(head), "hop"),
        count(usize::from(tail), "hop")
    )
}

fn table(before: &TracedRoute, after: &TracedRoute, change: &RouteChange) -> Table {
    let mut table = Table {
        columns: vec![
            ("", Align::Left),
            ("before", Align::Left),
            ("after", Align::Left),
        ],
        ..Table::default()
    };
    let rows = hops_beside(&before.route, &after.route, &change.ranges);
    for (place, (differs, old, new)) in rows.into_iter().enumerate() {
        if differs {
            table.marked.push(place);
        }
        let mark = if differs { "*" } else { "" };
        table.rows.push(vec![mark.to_owned(), cell(old), cell(new)]);
    }
    table
}

/// Formats a hop: `4 router.example.net`.
fn cell(hop: Option<&Hop>) -> String {
    let Some(hop) = hop else {
        return String::new();
    };
    let name = hop.answers.first().map_or("(silent)", |answer| {
        answer.name.as_deref().unwrap_or(&answer.address)
    });
    format!("{:>2} {name}", hop.ttl)
}
