//! The grid: each pair with its latest value and its usual value.

use crate::database_client::DatabaseClient;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_store::StoreError;
use longhaul_store::history_store::GridPair;
use longhaul_store::history_store::time_buckets::HOUR_US;
use std::collections::{BTreeSet, HashMap};

/// The number of hours before the latest one that define the usual value.
const USUAL_HOURS: i64 = 168;

/// Pairs whose latest hours lie in the same span of this length share one query.
const GROUP_HOURS: i64 = 336;

pub fn list_pairs(client: &DatabaseClient) -> Result<Vec<HostPair>, StoreError> {
    let rows: Vec<(String, String)> = client.request("list the pairs", |at| async move {
        at.query("SELECT DISTINCT sender, receiver FROM pair ORDER BY sender, receiver")
            .fetch_all()
            .await
    })?;
    Ok(rows.into_iter().map(pair_from_names).collect())
}

fn pair_from_names((from, to): (String, String)) -> HostPair {
    HostPair { from, to }
}

/// Returns every pair, including those without a value of this quantity.
pub fn read_grid(
    client: &DatabaseClient,
    quantity: PathQuantity,
) -> Result<Vec<GridPair>, StoreError> {
    let newest = read_newest(client, quantity)?;
    let usual = read_weekly_medians(client, quantity, &newest)?;
    let open = count_open_events(client, quantity)?;
    let cell = |pair: HostPair| GridPair {
        newest: newest.get(&pair).copied(),
        weekly_median: usual.get(&pair).copied(),
        open_events: open.get(&pair).copied().unwrap_or(0),
        pair,
    };
    Ok(list_pairs(client)?.into_iter().map(cell).collect())
}

fn read_newest(
    client: &DatabaseClient,
    quantity: PathQuantity,
) -> Result<HashMap<HostPair, SeriesPoint>, StoreError> {
    let rows: Vec<(String, String, i64, f64)> =
        client.request("read the grid", |at| async move {
            let sql = "SELECT sender, receiver, maxMerge(newest_us), argMaxMerge(newest_value) \
                   FROM newest WHERE quantity = ? GROUP BY sender, receiver";
            at.query(sql).bind(quantity.word()).fetch_all().await
        })?;
    let cell = |(from, to, at_us, value)| (HostPair { from, to }, SeriesPoint { at_us, value });
    Ok(rows.into_iter().map(cell).collect())
}

fn count_open_events(
    client: &DatabaseClient,
    quantity: PathQuantity,
) -> Result<HashMap<HostPair, u32>, StoreError> {
    let rows: Vec<(String, String, u32)> = client.request("read the grid", |at| async move {
        let sql = "SELECT sender, receiver, toUInt32(count()) FROM event FINAL \
                   WHERE is_open = 1 AND quantity = ? GROUP BY sender, receiver";
        at.query(sql).bind(quantity.word()).fetch_all().await
    })?;
    let cell = |(from, to, count)| (HostPair { from, to }, count);
    Ok(rows.into_iter().map(cell).collect())
}

/// Returns, for each pair, the median of the hourly medians of the week before its latest hour.
///
/// Pairs whose latest hours lie in the same fortnight share one query, which therefore reads only a
/// few weeks of hours. Usually all pairs share one.
fn read_weekly_medians(
    client: &DatabaseClient,
    quantity: PathQuantity,
    newest: &HashMap<HostPair, SeriesPoint>,
) -> Result<HashMap<HostPair, f64>, StoreError> {
    let fortnight = |point: &SeriesPoint| point.at_us.div_euclid(HOUR_US * GROUP_HOURS);
    let fortnights: BTreeSet<i64> = newest.values().map(fortnight).collect();
    let mut found = HashMap::new();
    for it in fortnights {
        let begin = it * GROUP_HOURS;
        let range = (begin - USUAL_HOURS, begin + GROUP_HOURS);
        for (from, to, median) in query_weekly_medians(client, quantity, range)? {
            let pair = HostPair { from, to };
            // The other pairs have only part of their week here, or an older one.
            if newest.get(&pair).map(fortnight) == Some(it) {
                found.insert(pair, median);
            }
        }
    }
    Ok(found)
}

fn query_weekly_medians(
    client: &DatabaseClient,
    quantity: PathQuantity,
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
    client.request("read the usual values", |at| async move {
        let query = at.query(sql).bind(quantity.word());
        query.bind(hours.0).bind(hours.1).fetch_all().await
    })
}
