//! Queries of series, grid and run lists.

use super::hourly_series::{self, CLOSED, COUNTED};
use super::name_ids;
use crate::archive::{self, RUN_COLUMNS, RunEntry};
use crate::history_store::ingest_limits::TIME_END_US;
use crate::history_store::time_buckets::{self, BucketBuilder, HOUR_US};
use crate::history_store::{GridPair, RunFilter, TimeRange};
use longhaul_model::report::v1::ReportKind;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesBucket, SeriesPoint};
use rusqlite::{Row, Transaction, params};

type StoredSeries = (Vec<SeriesPoint>, Vec<SeriesBucket>);

/// The requested part of a series, which may be empty.
struct SeriesSlice<'a> {
    from: &'a Transaction<'a>,
    series: i64,
    begin_us: i64,
    end_us: i64,
}

/// Returns points, or buckets, or buckets followed by points where single values are no longer
/// stored.
pub fn read_series(
    from: &Transaction<'_>,
    series: i64,
    range: TimeRange,
    at_most: u32,
) -> rusqlite::Result<StoredSeries> {
    let part = SeriesSlice {
        from,
        series,
        begin_us: range.begin_us.max(0),
        end_us: range.end_us.min(TIME_END_US),
    };
    let closed = part.closed_hours()?;
    let room = i64::from(at_most) - closed.len() as i64;
    if room >= 0 && part.count_up_to(room + 1)? <= room {
        return Ok((part.points()?, closed));
    }
    let Some((first_us, last_us)) = part.extent(&closed)? else {
        return Ok((Vec::new(), closed));
    };
    let span = time_buckets::choose_span_us(first_us, last_us, at_most);
    if span >= HOUR_US {
        return Ok((Vec::new(), time_buckets::widen_buckets(&part.hour_buckets()?, span)));
    }
    let mut found = closed;
    found.extend(part.short_buckets(span)?);
    found.sort_by_key(|bucket| bucket.at_us);
    Ok((Vec::new(), found))
}

impl SeriesSlice<'_> {
    /// Returns the closed hours. A closed hour belongs to the part that contains its start.
    fn closed_hours(&self) -> rusqlite::Result<Vec<SeriesBucket>> {
        self.from
            .prepare_cached(
                "SELECT hour, samples, min, median, max FROM hour \
                 WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND state = ?4 ORDER BY hour",
            )?
            .query_map(
                (
                    self.series,
                    round_up_to_hour(self.begin_us),
                    round_up_to_hour(self.end_us),
                    CLOSED,
                ),
                bucket_from_row,
            )?
            .collect()
    }

    /// Returns the number of values, counting at most `most`.
    fn count_up_to(&self, most: i64) -> rusqlite::Result<i64> {
        self.from
            .prepare_cached(
                "SELECT count(*) FROM (SELECT 1 FROM value \
                 WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3 LIMIT ?4)",
            )?
            .query_row((self.series, self.begin_us, self.end_us, most), |row| row.get(0))
    }

    fn points(&self) -> rusqlite::Result<Vec<SeriesPoint>> {
        let mut points = Vec::new();
        self.for_each_point(|point| points.push(point))?;
        Ok(points)
    }

    /// Returns the values in buckets shorter than an hour, without loading all values into memory.
    fn short_buckets(&self, span_us: i64) -> rusqlite::Result<Vec<SeriesBucket>> {
        let mut gather = BucketBuilder::new(span_us);
        self.for_each_point(|point| gather.push(point))?;
        Ok(gather.finish())
    }

    fn for_each_point(&self, mut take: impl FnMut(SeriesPoint)) -> rusqlite::Result<()> {
        let mut statement = self.from.prepare_cached(
            "SELECT at_us, value FROM value \
             WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY at_us",
        )?;
        let mut rows = statement.query((self.series, self.begin_us, self.end_us))?;
        while let Some(row) = rows.next()? {
            take(SeriesPoint { at_us: row.get(0)?, value: row.get(1)? });
        }
        Ok(())
    }

    /// Returns the first and the last time with stored data.
    fn extent(&self, closed: &[SeriesBucket]) -> rusqlite::Result<Option<(i64, i64)>> {
        let (first, last): (Option<i64>, Option<i64>) = self
            .from
            .prepare_cached(
                "SELECT (SELECT min(at_us) FROM value \
                         WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3), \
                        (SELECT max(at_us) FROM value \
                         WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3)",
            )?
            .query_row((self.series, self.begin_us, self.end_us), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let ends = |end: Option<&SeriesBucket>| end.map(|bucket| bucket.at_us);
        let first = first.into_iter().chain(ends(closed.first())).min();
        let last = last.into_iter().chain(ends(closed.last())).max();
        Ok(first.zip(last))
    }

    /// Returns one bucket per hour: aggregated hours as stored, others from their values. Hours
    /// that the part cuts are computed from the values inside it.
    fn hour_buckets(&self) -> rusqlite::Result<Vec<SeriesBucket>> {
        let mut statement = self.from.prepare_cached(
            "SELECT hour, samples, min, median, max, state FROM hour \
             WHERE series = ?1 AND hour >= ?2 AND hour < ?3 ORDER BY hour",
        )?;
        let mut rows = statement.query((
            self.series,
            self.begin_us.div_euclid(HOUR_US),
            round_up_to_hour(self.end_us),
        ))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let begin_us = row.get::<_, i64>(0)? * HOUR_US;
            let end_us = begin_us + HOUR_US;
            let state: i64 = row.get(5)?;
            let whole = self.begin_us <= begin_us && end_us <= self.end_us;
            if state == COUNTED && whole || state == CLOSED && self.begin_us <= begin_us {
                found.push(bucket_from_row(row)?);
            } else if state != CLOSED {
                let (begin_us, end_us) = (begin_us.max(self.begin_us), end_us.min(self.end_us));
                found.extend(hourly_series::read_bucket(self.from, self.series, begin_us, end_us)?);
            }
        }
        Ok(found)
    }
}

/// Returns the first hour that starts at or after this time.
fn round_up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}

/// Reads a row that begins with `hour, samples, min, median, max`.
fn bucket_from_row(row: &Row<'_>) -> rusqlite::Result<SeriesBucket> {
    Ok(SeriesBucket {
        at_us: row.get::<_, i64>(0)? * HOUR_US,
        duration_us: HOUR_US as u64,
        samples: row.get(1)?,
        min: row.get(2)?,
        median: row.get(3)?,
        max: row.get(4)?,
    })
}

/// Returns every pair, including those without a value of this quantity.
pub fn read_grid(
    from: &Transaction<'_>,
    quantity: PathQuantity,
) -> rusqlite::Result<Vec<GridPair>> {
    from.prepare_cached(
        "SELECT sender, receiver, newest_at_us, newest, usual, coalesce(open.events, 0) \
         FROM pair \
         LEFT JOIN series ON series.pair = pair.id AND series.quantity = ?1 \
         LEFT JOIN (SELECT pair, count(*) AS events FROM event \
                    WHERE open = 1 AND quantity = ?1 GROUP BY pair) AS open ON open.pair = pair.id \
         ORDER BY sender, receiver",
    )?
    .query_map([quantity.word()], |row| {
        Ok(GridPair {
            pair: HostPair { from: row.get(0)?, to: row.get(1)? },
            at_us: row.get(2)?,
            value: row.get(3)?,
            weekly_median: row.get(4)?,
            open_events: row.get(5)?,
        })
    })?
    .collect()
}

pub fn list_runs(from: &Transaction<'_>, filter: &RunFilter) -> rusqlite::Result<Vec<RunEntry>> {
    let kind = filter.kind.map(ReportKind::word);
    if let Some(pair) = &filter.pair {
        let Some(pair) = name_ids::find_pair(from, pair)? else {
            return Ok(Vec::new());
        };
        let query = format!(
            "SELECT {RUN_COLUMNS} FROM watched_run JOIN run ON run.id = watched_run.run \
             WHERE pair = ?1 AND at_us >= ?2 AND at_us < ?3 AND (?4 IS NULL OR kind = ?4) \
             ORDER BY at_us DESC, run.id DESC LIMIT ?5"
        );
        let TimeRange { begin_us, end_us } = filter.range;
        return from
            .prepare_cached(&query)?
            .query_map(
                params![pair, begin_us, end_us, kind, filter.limit],
                archive::read_run_entry,
            )?
            .collect();
    }
    let query = format!(
        "SELECT {RUN_COLUMNS} FROM run \
         WHERE started_at >= strftime('%Y-%m-%dT%H:%M:%S', ?1, 'unixepoch') \
         AND started_at < strftime('%Y-%m-%dT%H:%M:%S', ?2, 'unixepoch') \
         AND (?3 IS NULL OR kind = ?3) ORDER BY started_at DESC, id DESC LIMIT ?4"
    );
    let begin_s = filter.range.begin_us.max(0).div_euclid(1_000_000);
    let end_s = filter.range.end_us.clamp(0, TIME_END_US);
    // Rounded up, so that a run that started within the last second is included.
    let end_s = end_s.saturating_add(999_999).div_euclid(1_000_000);
    from.prepare_cached(&query)?
        .query_map(params![begin_s, end_s, kind, filter.limit], archive::read_run_entry)?
        .collect()
}
