//! The grid: each pair with its latest value and its usual value.

use crate::reach::Reach;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_store::StoreError;
use longhaul_store::watched::GridCell;
use longhaul_store::watched::buckets::HOUR_US;
use std::collections::{BTreeSet, HashMap};

/// The number of hours before the latest one that define the usual value.
const USUAL_HOURS: i64 = 168;

/// Pairs whose latest hours lie in the same span of this length share one query.
const TOGETHER_HOURS: i64 = 336;

pub fn pairs(reach: &Reach) -> Result<Vec<Pair>, StoreError> {
    let rows: Vec<(String, String)> = reach.ask("list the pairs", |at| async move {
        at.query("SELECT DISTINCT sender, receiver FROM pair ORDER BY sender, receiver")
            .fetch_all()
            .await
    })?;
    Ok(rows.into_iter().map(pair).collect())
}

fn pair((from, to): (String, String)) -> Pair {
    Pair { from, to }
}

/// Returns every pair, including those without a value of this quantity.
pub fn grid(reach: &Reach, quantity: Quantity) -> Result<Vec<GridCell>, StoreError> {
    let newest = newest(reach, quantity)?;
    let usual = usual(reach, quantity, &newest)?;
    let open = open_events(reach, quantity)?;
    let cell = |pair: Pair| GridCell {
        newest: newest.get(&pair).copied(),
        usual: usual.get(&pair).copied(),
        open_events: open.get(&pair).copied().unwrap_or(0),
        pair,
    };
    Ok(pairs(reach)?.into_iter().map(cell).collect())
}

fn newest(reach: &Reach, quantity: Quantity) -> Result<HashMap<Pair, Point>, StoreError> {
    let rows: Vec<(String, String, i64, f64)> = reach.ask("read the grid", |at| async move {
        let sql = "SELECT sender, receiver, maxMerge(newest_us), argMaxMerge(newest_value) \
                   FROM newest WHERE quantity = ? GROUP BY sender, receiver";
        at.query(sql).bind(quantity.word()).fetch_all().await
    })?;
    let cell = |(from, to, at_us, value)| (Pair { from, to }, Point { at_us, value });
    Ok(rows.into_iter().map(cell).collect())
}

fn open_events(reach: &Reach, quantity: Quantity) -> Result<HashMap<Pair, u32>, StoreError> {
    let rows: Vec<(String, String, u32)> = reach.ask("read the grid", |at| async move {
        let sql = "SELECT sender, receiver, toUInt32(count()) FROM event FINAL \
                   WHERE is_open = 1 AND quantity = ? GROUP BY sender, receiver";
        at.query(sql).bind(quantity.word()).fetch_all().await
    })?;
    let cell = |(from, to, count)| (Pair { from, to }, count);
    Ok(rows.into_iter().map(cell).collect())
}

/// Returns, for each pair, the median of the hourly medians of the week before its latest hour.
///
/// Pairs whose latest hours lie in the same fortnight share one query, which therefore reads only a
/// few weeks of hours. Usually all pairs share one.
fn usual(
    reach: &Reach,
    quantity: Quantity,
    newest: &HashMap<Pair, Point>,
) -> Result<HashMap<Pair, f64>, StoreError> {
    let fortnight = |point: &Point| point.at_us.div_euclid(HOUR_US * TOGETHER_HOURS);
    let fortnights: BTreeSet<i64> = newest.values().map(fortnight).collect();
    let mut found = HashMap::new();
    for it in fortnights {
        let begin = it * TOGETHER_HOURS;
        let range = (begin - USUAL_HOURS, begin + TOGETHER_HOURS);
        for (from, to, median) in usual_of(reach, quantity, range)? {
            let pair = Pair { from, to };
            // The other pairs have only part of their week here, or an older one.
            if newest.get(&pair).map(fortnight) == Some(it) {
                found.insert(pair, median);
            }
        }
    }
    Ok(found)
}

fn usual_of(
    reach: &Reach,
    quantity: Quantity,
    hours: (i64, i64),
) -> Result<Vec<(String, String, f64)>, StoreError> {
    let sql = format!(
        "SELECT sender, receiver, \
         sorted[intDiv(length(sorted) + 1, 2)] / 2 + sorted[intDiv(length(sorted), 2) + 1] / 2 \
         FROM (SELECT sender, receiver, arraySort(arrayFilter( \
                   (middle, hour, newest) -> hour >= newest - {USUAL_HOURS} AND hour < newest, \
                   middles, hours, arrayResize([last], length(hours), last))) AS sorted \
               FROM (SELECT sender, receiver, max(hour) AS last, \
                            groupArray(hour) AS hours, groupArray(median) AS middles \
                     FROM (SELECT sender, receiver, hour, quantileMerge(0.5)(middle) AS median \
                           FROM hourly WHERE quantity = ? AND hour >= ? AND hour < ? \
                           GROUP BY sender, receiver, hour) \
                     GROUP BY sender, receiver)) \
         WHERE length(sorted) > 0"
    );
    let sql = &sql;
    reach.ask("read what is usual", |at| async move {
        let query = at.query(sql).bind(quantity.word());
        query.bind(hours.0).bind(hours.1).fetch_all().await
    })
}
