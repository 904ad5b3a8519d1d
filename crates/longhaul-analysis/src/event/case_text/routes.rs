//! Formats two routes side by side and marks the hops that differ.

use super::super::case::{Case, same_route};
use super::super::words;
use super::letter::Letter;
use crate::path::compare;
use crate::path::words::{count, hops};
use longhaul_model::report::v1::path::{ChangedRange, Hop, Route, RouteChange};

/// Columns for the name of a hop.
const NAME: usize = 32;
/// The minimum timing score of the route change that is shown.
const NEAR: f64 = 0.3;

/// Writes the forward route, and the return route if it is known.
pub fn both(case: &Case, letter: &mut Letter) {
    let pair = &case.event.pair;
    for (back, from, to) in [(false, &pair.from, &pair.to), (true, &pair.to, &pair.from)] {
        let (from, to) = (words::quoted(from), words::quoted(to));
        let Some((before, after)) = beside(case, back) else {
            if !back {
                letter.section(&format!("Route from {from} to {to}"));
                letter.text("Not traced both before and after the change.");
            }
            continue;
        };
        letter.section(&format!("Route from {from} to {to}"));
        if same_route(after.0, before.0) {
            letter.text(&format!(
                "The same before and after, {}:",
                count(after.0.hops.len(), "hop")
            ));
            after
                .0
                .hops
                .iter()
                .for_each(|hop| letter.row(&format!("    {}", cell(Some(hop)))));
        } else {
            two(before, after, letter);
        }
    }
}

type Traced<'a> = (&'a Route, i64);

/// Returns the routes before and after the change near the event, or else those nearest to it.
fn beside<'a>(case: &Case<'a>, back: bool) -> Option<(Traced<'a>, Traced<'a>)> {
    let turn = case
        .reroute(back)
        .filter(|turn| case.timing(turn.between_us) >= NEAR);
    if let Some(turn) = turn {
        let [from, to] = turn.between_us;
        return Some(((turn.before, from), (turn.after, to)));
    }
    let (before, after) = case.routes_beside(back);
    let traced = |r: super::super::turn::Reading<&'a Route>| (r.value, r.at_us);
    Some((traced(before?), traced(after?)))
}

fn two(before: Traced, after: Traced, letter: &mut Letter) {
    let change = compare(after.0, before.0);
    letter.text(&format!("{}.", differing(&change)));
    let head = |word: &str, at: i64| format!("    {word}, {}", words::moment(at));
    letter.row(&format!(
        "    {:<38}{}",
        head("before", before.1).trim(),
        head("after", after.1).trim()
    ));
    for (differs, old, new) in rows(before.0, after.0, &change.ranges) {
        let mark = if differs { '*' } else { ' ' };
        letter.row(&format!("  {mark} {}  {}", cell(old), cell(new)));
    }
}

fn differing(change: &RouteChange) -> String {
    let one = |range: &ChangedRange| match (range.other, range.here) {
        (Some(_), Some(_)) => format!(
            "{} before are {} after",
            hops(range.other),
            hops(range.here)
        ),
        (Some(_), None) => format!("{} went", hops(range.other)),
        (None, _) => format!("{} came in", hops(range.here)),
    };
    let all: Vec<String> = change.ranges.iter().map(one).collect();
    if all.is_empty() {
        return String::from("No hop differs as far as both traces go");
    }
    format!("What differs is marked: {}", all.join(", "))
}

/// Flag for a difference, and the hops of both sides; `None` if that side has no hop there.
pub type Row<'r> = (bool, Option<&'r Hop>, Option<&'r Hop>);

/// Pairs the hops in order; each changed range is paired with the range it replaced.
pub fn rows<'r>(before: &'r Route, after: &'r Route, ranges: &[ChangedRange]) -> Vec<Row<'r>> {
    let (mut old, mut new) = (before.hops.iter().peekable(), after.hops.iter().peekable());
    let mut rows: Vec<Row> = Vec::new();
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
fn cell(hop: Option<&Hop>) -> String {
    let Some(hop) = hop else {
        return " ".repeat(NAME + 4);
    };
    let name = hop.answers.first().map_or_else(
        || String::from("(silent)"),
        |answer| words::harmless(answer.name.as_ref().unwrap_or(&answer.address)),
    );
    let short: String = if name.chars().count() > NAME {
        name.chars().take(NAME - 2).chain("..".chars()).collect()
    } else {
        name
    };
    format!("{:>3} {short:<NAME$}", hop.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::scene::route;

    fn numbers(before: &[&str], after: &[&str]) -> Vec<(bool, Option<u8>, Option<u8>)> {
        let (before, after) = (route(before), route(after));
        let change = compare(&after, &before);
        let ttl = |hop: Option<&Hop>| hop.map(|hop| hop.ttl);
        rows(&before, &after, &change.ranges)
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
            [
                (false, Some(1), Some(1)),
                (true, None, Some(2)),
                (false, Some(2), Some(3))
            ]
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
            let refs = |all: &[String]| route(&all.iter().map(String::as_str).collect::<Vec<_>>());
            let (before, after) = (refs(&a), refs(&b));
            let change = compare(&after, &before);
            let rows = rows(&before, &after, &change.ranges);
            let left: Vec<u8> = rows.iter().filter_map(|r| r.1).map(|h| h.ttl).collect();
            let right: Vec<u8> = rows.iter().filter_map(|r| r.2).map(|h| h.ttl).collect();
            proptest::prop_assert_eq!(left, (1..=a.len() as u8).collect::<Vec<_>>());
            proptest::prop_assert_eq!(right, (1..=b.len() as u8).collect::<Vec<_>>());
        }
    }
}
