//! Formats two routes side by side and marks the hops that differ.

use super::super::event_case::{EventCase, is_same_route};
use super::super::event_format;
use super::mail_text::MailText;
use longhaul_analysis::path::compare_routes;
use longhaul_analysis::path::path_format::format_hop_change;
use longhaul_model::report::v1::path::{ChangedHops, ObservedHop, ObservedRoute, RouteDifference};
use longhaul_model::sanitize::sanitize;
use longhaul_model::units::count_of;

/// Columns for the name of a hop.
const NAME_COLUMNS: usize = 32;
/// The minimum timing score of the route change that is shown.
const MIN_TIMING: f64 = 0.3;

/// Writes the forward route, and the return route if it is known.
pub fn add_route_sections(case: &EventCase, mail: &mut MailText) {
    let pair = &case.event.pair;
    for (back, from, to) in [(false, &pair.from, &pair.to), (true, &pair.to, &pair.from)] {
        let (from, to) = (event_format::sanitize_name(from), event_format::sanitize_name(to));
        let Some((before, after)) = find_route_pair(case, back) else {
            if !back {
                mail.section(&format!("Route from {from} to {to}"));
                mail.text("Not traced both before and after the change.");
            }
            continue;
        };
        mail.section(&format!("Route from {from} to {to}"));
        if is_same_route(after.0, before.0) {
            mail.text(&format!(
                "The same before and after, {}:",
                count_of(after.0.hops.len() as u64, "hop")
            ));
            after
                .0
                .hops
                .iter()
                .for_each(|hop| mail.row(&format!("    {}", format_hop_cell(Some(hop)))));
        } else {
            add_route_pair(before, after, mail);
        }
    }
}

type TimedRoute<'a> = (&'a ObservedRoute, i64);

/// Returns the routes before and after the change near the event, or else those nearest to it.
fn find_route_pair<'a>(
    case: &EventCase<'a>,
    back: bool,
) -> Option<(TimedRoute<'a>, TimedRoute<'a>)> {
    let turn =
        case.nearest_route_change(back).filter(|turn| case.timing(turn.between_us) >= MIN_TIMING);
    if let Some(turn) = turn {
        let [from, to] = turn.between_us;
        return Some(((turn.before, from), (turn.after, to)));
    }
    let (before, after) = case.routes_around_event(back);
    let traced =
        |r: super::super::state_change::StateReading<&'a ObservedRoute>| (r.value, r.at_us);
    Some((traced(before?), traced(after?)))
}

fn add_route_pair(before: TimedRoute, after: TimedRoute, mail: &mut MailText) {
    let change = compare_routes(after.0, before.0);
    mail.text(&format!("{}.", describe_differences(&change)));
    let head = |word: &str, at: i64| format!("    {word}, {}", event_format::format_time(at));
    mail.row(&format!(
        "    {:<38}{}",
        head("before", before.1).trim(),
        head("after", after.1).trim()
    ));
    for (differs, old, new) in pair_hops(before.0, after.0, &change.ranges) {
        let mark = if differs { '*' } else { ' ' };
        mail.row(&format!("  {mark} {}  {}", format_hop_cell(old), format_hop_cell(new)));
    }
}

fn describe_differences(change: &RouteDifference) -> String {
    let all: Vec<String> = change.ranges.iter().map(format_hop_change).collect();
    if all.is_empty() {
        return String::from("No hop differs up to the end of the shorter trace");
    }
    format!("Differences are marked: {}", all.join(", "))
}

/// Flag for a difference, and the hops of both sides; `None` if that side has no hop there.
pub type HopPair<'r> = (bool, Option<&'r ObservedHop>, Option<&'r ObservedHop>);

/// Pairs the hops in order; each changed range is paired with the range it replaced.
pub fn pair_hops<'r>(
    before: &'r ObservedRoute,
    after: &'r ObservedRoute,
    ranges: &[ChangedHops],
) -> Vec<HopPair<'r>> {
    let (mut old, mut new) = (before.hops.iter().peekable(), after.hops.iter().peekable());
    let mut rows: Vec<HopPair> = Vec::new();
    for range in ranges {
        loop {
            let left = old.next_if(|hop| range.other.is_some_and(|[first, _]| hop.ttl < first));
            let right = new.next_if(|hop| range.here.is_some_and(|[first, _]| hop.ttl < first));
            if left.is_none() && right.is_none() {
                break;
            }
            // A range without hops on one side does not give the position of that side.
            let left = left.or_else(|| range.other.is_none().then(|| old.next()).flatten());
            let right = right.or_else(|| range.here.is_none().then(|| new.next()).flatten());
            rows.push((false, left, right));
        }
        loop {
            let left = old.next_if(|hop| range.other.is_some_and(|[_, last]| hop.ttl <= last));
            let right = new.next_if(|hop| range.here.is_some_and(|[_, last]| hop.ttl <= last));
            if left.is_none() && right.is_none() {
                break;
            }
            rows.push((true, left, right));
        }
    }
    while old.peek().is_some() || new.peek().is_some() {
        rows.push((false, old.next(), new.next()));
    }
    rows
}

/// Formats a hop like `  4 router.example.net`, truncated or padded to its columns.
fn format_hop_cell(hop: Option<&ObservedHop>) -> String {
    let Some(hop) = hop else {
        return " ".repeat(NAME_COLUMNS + 4);
    };
    let name = hop.answers.first().map_or_else(
        || String::from("(silent)"),
        |answer| sanitize(answer.name.as_ref().unwrap_or(&answer.address)).into_owned(),
    );
    let short: String = if name.chars().count() > NAME_COLUMNS {
        name.chars().take(NAME_COLUMNS - 2).chain("..".chars()).collect()
    } else {
        name
    };
    format!("{:>3} {short:<NAME_COLUMNS$}", hop.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_test_builder::build_route;

    fn numbers(before: &[&str], after: &[&str]) -> Vec<(bool, Option<u8>, Option<u8>)> {
        let (before, after) = (build_route(before), build_route(after));
        let change = compare_routes(&after, &before);
        let ttl = |hop: Option<&ObservedHop>| hop.map(|hop| hop.ttl);
        pair_hops(&before, &after, &change.ranges)
            .into_iter()
            .map(|(m, a, b)| (m, ttl(a), ttl(b)))
            .collect()
    }

    #[test]
    fn a_shorter_detour_stands_beside_the_longer_one() {
        let before = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.9.0.1"];
        let after = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];
        assert_eq!(
            numbers(&before, &after),
            [
                (false, Some(1), Some(1)),
                (true, Some(2), Some(2)),
                (true, Some(3), None),
                (false, Some(4), Some(3))
            ]
        );
    }

    #[test]
    fn hops_that_came_in_stand_alone() {
        let before = ["10.1.0.1", "10.9.0.1"];
        let after = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];
        assert_eq!(
            numbers(&before, &after),
            [(false, Some(1), Some(1)), (true, None, Some(2)), (false, Some(2), Some(3))]
        );
    }

    proptest::proptest! {
        #[test]
        fn every_hop_is_shown_once(
            a in proptest::collection::vec(0u8..6, 0..20),
            b in proptest::collection::vec(0u8..6, 0..20),
        ) {
            let named = |hops: &[u8]| -> Vec<String> {
                hops.iter().map(|n| if *n == 0 { String::new() } else { format!("10.{n}.0.1") }).collect()
            };
            let (a, b) = (named(&a), named(&b));
            let refs = |all: &[String]| build_route(&all.iter().map(String::as_str).collect::<Vec<_>>());
            let (before, after) = (refs(&a), refs(&b));
            let change = compare_routes(&after, &before);
            let rows = pair_hops(&before, &after, &change.ranges);
            let left: Vec<u8> = rows.iter().filter_map(|r| r.1).map(|h| h.ttl).collect();
            let right: Vec<u8> = rows.iter().filter_map(|r| r.2).map(|h| h.ttl).collect();
            proptest::prop_assert_eq!(left, (1..=a.len() as u8).collect::<Vec<_>>());
            proptest::prop_assert_eq!(right, (1..=b.len() as u8).collect::<Vec<_>>());
        }
    }
}
