//! Selects the runs to read, so that every lasting route is found.

use longhaul_analysis::path::compare;
use longhaul_model::report::v1::Path;
use longhaul_model::report::v1::path::ChangeKind;
use longhaul_store::{Entry, StoreError};
use std::collections::BTreeMap;

/// The maximum number of evenly spread runs.
const SPREAD: usize = 400;
/// The maximum number of further runs that locate the changes.
const BETWEEN: usize = 300;

/// Returns traces of some of `entries`, both in chronological order.
pub fn traces(
    entries: &[Entry],
    mut read: impl FnMut(&Entry) -> Result<Option<Path>, StoreError>,
) -> Result<Vec<Path>, StoreError> {
    let mut found = BTreeMap::new();
    for index in spread(entries.len()) {
        if let Some(trace) = read(&entries[index])? {
            found.insert(index, trace);
        }
    }
    let mut ahead = gaps(&found);
    for _ in 0..BETWEEN {
        let Some((before, after)) = ahead.pop() else {
            break;
        };
        let middle = before.midpoint(after);
        let Some(trace) = read(&entries[middle])? else {
            continue;
        };
        let sides = [(before, middle), (middle, after)];
        found.insert(middle, trace);
        ahead.extend(sides.into_iter().filter(|side| is_open(&found, *side)));
    }
    Ok(found.into_values().collect())
}

/// Returns at most [`SPREAD`] of `count` indices, including the first and the last.
fn spread(count: usize) -> Vec<usize> {
    if count <= SPREAD {
        return (0..count).collect();
    }
    let last = count - 1;
    (0..SPREAD).map(|it| it * last / (SPREAD - 1)).collect()
}

/// Returns neighbours that differ and have runs between them; the latest last.
fn gaps(found: &BTreeMap<usize, Path>) -> Vec<(usize, usize)> {
    let indices: Vec<usize> = found.keys().copied().collect();
    let neighbours = indices.windows(2).map(|two| (two[0], two[1]));
    neighbours.filter(|two| is_open(found, *two)).collect()
}

fn is_open(found: &BTreeMap<usize, Path>, (before, after): (usize, usize)) -> bool {
    let route = |index| {
        found
            .get(&index)
            .and_then(|it| it.observation.route.as_ref())
    };
    let Some((here, there)) = route(before).zip(route(after)) else {
        return false;
    };
    let differs = compare(there, here).kind > ChangeKind::SilentHop;
    after - before > 1 && differs
}

#[cfg(test)]
mod tests {
    use super::{SPREAD, spread};

    #[test]
    fn few_are_all_read_and_many_are_spread_from_end_to_end() {
        assert_eq!(spread(3), [0, 1, 2]);
        assert!(spread(0).is_empty());
        let many = spread(52_560);
        assert_eq!((many.len(), many[0], many[SPREAD - 1]), (SPREAD, 0, 52_559));
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
