//! Queries of series, grid and run lists.

use super::SeriesSlice;
use crate::archive::{self, Archive, RUN_COLUMNS, RunEntry};
use crate::archived_report;
use crate::history_store::{self, HOUR_US};
use crate::history_store::{
    GridPair, MAX_SERIES_POINTS, RunFilter, SeriesReading, TIME_END_US, TimeRange,
};
use crate::scan_archive::environment_condition;
use crate::store_error::StoreError;
use longhaul_model::report::v1::flows::LimitedTransfers;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, QuantitySeries, ReportKind, SeriesPoint};
use longhaul_model::serde_name::parse_variant;
use rusqlite::types::Value;
use rusqlite::{Row, Transaction, params_from_iter};

impl Archive {
    /// Returns the values of one quantity of one pair, in time order; nothing for an unknown pair.
    ///
    /// Returns at most `at_most` points and buckets together; `at_most` is clamped to 2 and
    /// [`MAX_SERIES_POINTS`]. Single values are returned if they are few enough and still stored;
    /// hourly buckets where only those are stored; otherwise buckets of equal length with the exact
    /// `min` and `max`. The median of a bucket is exact up to an hour; above that it is the median
    /// of the hourly medians, weighted by their samples.
    pub fn series(
        &self,
        pair: &HostPair,
        quantity: PathQuantity,
        range: TimeRange,
        at_most: u32,
    ) -> Result<QuantitySeries, StoreError> {
        let at_most = at_most.clamp(2, MAX_SERIES_POINTS);
        let mut found =
            QuantitySeries { pair: pair.clone(), quantity, points: vec![], buckets: vec![] };
        self.read("read the series", |from| {
            if let Some(series) = super::find_series(from, pair, quantity)? {
                read_series(from, series, range, at_most, &mut found)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the latest value of every known pair, sorted by name, including pairs without a value
    /// of this quantity.
    pub fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError> {
        self.read("read the grid", |from| {
            from.prepare_cached(
                "SELECT sender, receiver, newest_at_us, newest, usual, coalesce(open.events, 0), \
                 run.id, run.limited_by FROM pair \
                 LEFT JOIN series ON series.pair = pair.id AND series.quantity = ?1 \
                 LEFT JOIN run ON run.id = series.newest_run \
                 LEFT JOIN (SELECT pair, count(*) AS events FROM event \
                     WHERE open = 1 AND quantity = ?1 GROUP BY pair) AS open \
                     ON open.pair = pair.id \
                 ORDER BY sender, receiver",
            )?
            .query_map([quantity.word()], |row| {
                Ok(GridPair {
                    pair: HostPair { from: row.get(0)?, to: row.get(1)? },
                    at_us: row.get(2)?,
                    value: row.get(3)?,
                    weekly_median: row.get(4)?,
                    open_events: row.get(5)?,
                    run_id: row.get(6)?,
                    limited_by: row.get(7)?,
                })
            })?
            .collect()
        })
    }

    /// Returns the newest value of every series, sorted by pair.
    pub fn newest_readings(&self) -> Result<Vec<SeriesReading>, StoreError> {
        self.read("read the newest values", |from| {
            let mut statement = from.prepare_cached(
                "SELECT sender, receiver, quantity, newest_at_us, newest \
                 FROM pair JOIN series ON series.pair = pair.id WHERE newest IS NOT NULL \
                 ORDER BY sender, receiver",
            )?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                // A later version may know more quantities.
                if let Some(quantity) = PathQuantity::from_word(&row.get::<_, String>(2)?) {
                    let pair = HostPair { from: row.get(0)?, to: row.get(1)? };
                    let point = SeriesPoint { at_us: row.get(3)?, value: row.get(4)? };
                    found.push(SeriesReading { pair, quantity, point });
                }
            }
            Ok(found)
        })
    }

    /// Returns every pair that has values or planned runs, sorted by name.
    pub fn pairs(&self) -> Result<Vec<HostPair>, StoreError> {
        self.read("list the pairs", |from| {
            from.prepare_cached("SELECT sender, receiver FROM pair ORDER BY sender, receiver")?
                .query_map([], |row| Ok(HostPair { from: row.get(0)?, to: row.get(1)? }))?
                .collect()
        })
    }

    /// Returns runs, newest first.
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
        self.read("list the runs", |from| list_runs(from, filter))
    }

    /// Passes the reports of runs to `visit`, newest first, with one of them in memory.
    pub fn for_each_report(
        &self,
        filter: &RunFilter,
        mut visit: impl FnMut(AnyReport),
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        self.read("read the reports", |from| {
            for_each_run(from, filter, "", "id, report", |row| {
                let (id, text): (String, String) = (row.get(0)?, row.get(1)?);
                outcome = archived_report::parse_report(&id, &text).map(&mut visit);
                Ok(outcome.is_ok())
            })
        })?;
        outcome
    }

    /// Passes the sums of transfers to `visit`, the latest day first, until it returns false. A day that
    /// the range touches counts as a whole.
    pub fn for_each_transfer_sum(
        &self,
        range: TimeRange,
        mut visit: impl FnMut(LimitedTransfers) -> bool,
    ) -> Result<(), StoreError> {
        self.read("read the sums of transfers", |from| {
            let mut statement = from.prepare_cached(
                "SELECT day, sender, receiver, limiter, transfers, bytes FROM transfer_day \
                 WHERE day >= date(?1, 'unixepoch') AND day <= date(?2 - 1, 'unixepoch') \
                 ORDER BY day DESC",
            )?;
            let [begin_s, end_s, _] = started_range(range);
            let mut rows = statement.query([begin_s, end_s])?;
            while let Some(row) = rows.next()? {
                let transfers = LimitedTransfers {
                    day: row.get(0)?,
                    pair: HostPair { from: row.get(1)?, to: row.get(2)? },
                    limiter: parse_variant(&row.get::<_, String>(3)?).unwrap_or_default(),
                    transfers: row.get(4)?,
                    bytes: row.get(5)?,
                };
                if !visit(transfers) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Adds points, or buckets, or buckets followed by points where single values are no longer stored.
fn read_series(
    from: &Transaction<'_>,
    series: i64,
    range: TimeRange,
    at_most: u32,
    found: &mut QuantitySeries,
) -> rusqlite::Result<()> {
    let range =
        TimeRange { begin_us: range.begin_us.max(0), end_us: range.end_us.min(TIME_END_US) };
    let part = SeriesSlice { from, series, range };
    let closed = part.closed_hours()?;
    let (values, first_us, last_us): (i64, Option<i64>, Option<i64>) = from
        .prepare_cached(
            "SELECT count(*), min(at_us), max(at_us) FROM value \
             WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3",
        )?
        .query_row((series, range.begin_us, range.end_us), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    if values + closed.len() as i64 <= i64::from(at_most) {
        found.buckets = closed;
        return part.for_each_point(|point| found.points.push(point));
    }
    let first_us = first_us.into_iter().chain(closed.first().map(|it| it.at_us)).min();
    let last_us = last_us.into_iter().chain(closed.last().map(|it| it.at_us)).max();
    let Some((first_us, last_us)) = first_us.zip(last_us) else {
        return Ok(());
    };
    let span = history_store::choose_span_us(first_us, last_us, at_most);
    found.buckets = part.add_value_buckets(closed, span.min(HOUR_US))?;
    if span >= HOUR_US {
        found.buckets = history_store::widen_buckets(&found.buckets, span);
    }
    Ok(())
}

/// Returns the conditions on a run. Host and id are compared as text, so that `%` has no special
/// meaning. A watched run was requested by a configuration, whichever environment it is in. Kind and
/// id are conditions only if they are given, so that their indexes serve.
pub(crate) fn run_conditions(filter: &RunFilter) -> String {
    let kind = filter.kind.map_or("", |_| "kind = ?4 AND");
    let id = filter.id.as_ref().map_or("", |_| {
        "run.id >= ?7 AND run.id <= ?7 || char(0x10FFFF) AND substr(run.id, 1, length(?7)) = ?7 AND"
    });
    format!(
        "{kind} {id} (?6 IS NULL OR instr(lower(initiator_host), lower(?6)) > 0 \
             OR instr(lower(responder_host), lower(?6)) > 0) AND (watched OR {}) \
         AND (?10 OR part_of IS NULL OR part_of NOT IN (SELECT id FROM run))",
        environment_condition(9)
    )
}

/// The condition that a run started in the range of [`started_range`].
pub(crate) const STARTED_IN_RANGE: &str = "started_at >= strftime('%Y-%m-%dT%H:%M:%S', ?1, 'unixepoch') \
     AND started_at < strftime('%Y-%m-%dT%H:%M:%S', ?2, 'unixepoch')";

/// Returns the first parameters of a query by start time.
pub(crate) fn started_range(range: TimeRange) -> [Value; 3] {
    let begin_s = range.begin_us.max(0).div_euclid(1_000_000);
    // Rounded up, so that a run that started within the last second is included.
    let end_s = range.end_us.clamp(0, TIME_END_US).saturating_add(999_999).div_euclid(1_000_000);
    [begin_s.into(), end_s.into(), Value::Null]
}

/// Returns the parameters of [`run_conditions`], after the `first` three of the query.
pub(crate) fn filter_values(first: [Value; 3], filter: &RunFilter) -> Vec<Value> {
    let text = |it: Option<&str>| it.map_or(Value::Null, |it| Value::Text(it.to_owned()));
    let others = [
        text(filter.kind.map(ReportKind::word)),
        filter.limit.into(),
        text(filter.host.as_deref()),
        text(filter.id.as_deref()),
        text(filter.after.as_deref()),
        text(filter.environment.as_deref()),
        filter.with_parts.into(),
    ];
    first.into_iter().chain(others).collect()
}

/// Runs of at most this number of hosts are found by host; those of more hosts are so many that the
/// newest runs of all are read until enough match.
const MAX_SEARCHED_HOSTS: usize = 32;

fn list_runs(from: &Transaction<'_>, filter: &RunFilter) -> rusqlite::Result<Vec<RunEntry>> {
    let mut runs = Vec::new();
    let mut add = |filter: &RunFilter, end_condition| {
        for_each_run(from, filter, end_condition, RUN_COLUMNS, |row| {
            runs.push(archive::read_run_entry(row)?);
            Ok(true)
        })
    };
    let text = filter.host.as_ref().filter(|_| filter.pair.is_none());
    let hosts = text.map(|text| find_run_hosts(from, text)).transpose()?;
    let Some(hosts) = hosts.filter(|hosts| hosts.len() <= MAX_SEARCHED_HOSTS) else {
        add(filter, "")?;
        return Ok(runs);
    };
    for host in hosts {
        let filter = RunFilter { host: Some(host), ..filter.clone() };
        add(&filter, "AND initiator_host = ?6")?;
        add(&filter, "AND responder_host = ?6")?;
    }
    runs.sort_by(|a, b| (&b.started_at, &b.id).cmp(&(&a.started_at, &a.id)));
    runs.dedup_by(|a, b| a.id == b.id);
    runs.truncate(filter.limit as usize);
    Ok(runs)
}

/// Returns the hosts of runs whose name contains the text. Reads one index entry for each host.
fn find_run_hosts(from: &Transaction<'_>, text: &str) -> rusqlite::Result<Vec<String>> {
    let all = |end: &str| {
        format!(
            "SELECT * FROM (WITH RECURSIVE host(name) AS (SELECT min({end}) FROM run UNION ALL \
             SELECT (SELECT min({end}) FROM run WHERE {end} > name) FROM host \
             WHERE name IS NOT NULL) SELECT name FROM host) \
             WHERE instr(lower(name), lower(?1)) > 0"
        )
    };
    from.prepare_cached(&format!("{} UNION {}", all("initiator_host"), all("responder_host")))?
        .query_map([text], |row| row.get(0))?
        .collect()
}

/// Passes the columns of each run to `visit`, newest first, until it returns false. Without a pair, a
/// condition on an end of the run can be added.
fn for_each_run(
    from: &Transaction<'_>,
    filter: &RunFilter,
    end_condition: &str,
    columns: &str,
    mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let conditions = run_conditions(filter);
    let (query, first) = if let Some(pair) = &filter.pair {
        let Some(pair) = super::find_pair(from, pair)? else {
            return Ok(());
        };
        let query = format!(
            "SELECT {columns} FROM watched_run JOIN run ON run.id = watched_run.run \
             WHERE pair = ?1 AND at_us >= ?2 AND at_us < ?3 AND {conditions} \
             AND (?8 IS NULL OR (at_us, run) < (SELECT at_us, run \
                 FROM watched_run after WHERE after.pair = ?1 AND after.run = ?8)) \
             ORDER BY at_us DESC, run.id DESC LIMIT ?5"
        );
        (query, [pair.into(), filter.range.begin_us.into(), filter.range.end_us.into()])
    } else {
        let query = format!(
            "SELECT {columns} FROM run WHERE {STARTED_IN_RANGE} {end_condition} \
             AND {conditions} AND (?8 IS NULL OR (started_at, id) < (SELECT started_at, id FROM run after \
                 WHERE after.id = ?8)) \
             ORDER BY started_at DESC, id DESC LIMIT ?5"
        );
        (query, started_range(filter.range))
    };
    let mut statement = from.prepare_cached(&query)?;
    let mut rows = statement.query(params_from_iter(filter_values(first, filter)))?;
    while let Some(row) = rows.next()? {
        if !visit(row)? {
            break;
        }
    }
    Ok(())
}
