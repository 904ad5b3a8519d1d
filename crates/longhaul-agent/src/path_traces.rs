//! Selects the runs to read, so that every lasting route is found.

use longhaul_analysis::path::compare_routes;
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::RouteChangeKind;
use longhaul_store::{RunEntry, StoreError};
use std::collections::BTreeMap;

/// The maximum number of evenly spread runs.
const MAX_SPREAD_RUNS: usize = 400;
/// The maximum number of further runs that locate the changes.
const MAX_BISECTION_RUNS: usize = 300;

/// Returns traces of some of `entries`, both in chronological order.
pub fn sample_traces(
    entries: &[RunEntry],
    mut read: impl FnMut(&RunEntry) -> Result<Option<PathReport>, StoreError>,
) -> Result<Vec<PathReport>, StoreError> {
    let mut found = BTreeMap::new();
    for index in spread_indices(entries.len()) {
        if let Some(trace) = read(&entries[index])? {
            found.insert(index, trace);
        }
    }
    let mut ahead = find_gaps(&found);
    for _ in 0..MAX_BISECTION_RUNS {
        let Some((before, after)) = ahead.pop() else {
            break;
        };
        let middle = before.midpoint(after);
        let Some(trace) = read(&entries[middle])? else {
            continue;
        };
        let sides = [(before, middle), (middle, after)];
        found.insert(middle, trace);
        ahead.extend(sides.into_iter().filter(|side| hides_change(&found, *side)));
    }
    Ok(found.into_values().collect())
}

/// Returns at most [`MAX_SPREAD_RUNS`] of `count` indices, including the first and the last.
fn spread_indices(count: usize) -> Vec<usize> {
    if count <= MAX_SPREAD_RUNS {
        return (0..count).collect();
    }
    let last = count - 1;
    (0..MAX_SPREAD_RUNS).map(|it| it * last / (MAX_SPREAD_RUNS - 1)).collect()
}

/// Returns neighbours that differ and have runs between them; the latest last.
fn find_gaps(found: &BTreeMap<usize, PathReport>) -> Vec<(usize, usize)> {
    let indices: Vec<usize> = found.keys().copied().collect();
    let neighbours = indices.windows(2).map(|two| (two[0], two[1]));
    neighbours.filter(|two| hides_change(found, *two)).collect()
}

fn hides_change(found: &BTreeMap<usize, PathReport>, (before, after): (usize, usize)) -> bool {
    let route = |index| found.get(&index).and_then(|it| it.observation.route.as_ref());
    let Some((here, there)) = route(before).zip(route(after)) else {
        return false;
    };
    let differs = compare_routes(there, here).kind > RouteChangeKind::SilentHop;
    after - before > 1 && differs
}

#[cfg(test)]
mod tests {
    use super::{MAX_SPREAD_RUNS, spread_indices};

    #[test]
    fn few_are_all_read_and_many_are_spread_from_end_to_end() {
        assert_eq!(spread_indices(3), [0, 1, 2]);
        assert!(spread_indices(0).is_empty());
        let many = spread_indices(52_560);
        assert_eq!((many.len(), many[0], many[MAX_SPREAD_RUNS - 1]), (MAX_SPREAD_RUNS, 0, 52_559));
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
