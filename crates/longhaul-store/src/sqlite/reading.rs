//! Queries of series, grid and run lists.

use super::hours::{self, CLOSED, COUNTED};
use super::names;
use crate::archive::{self, Entry};
use crate::watched::buckets::{self, Gather, HOUR_US};
use crate::watched::limits::TIME_END_US;
use crate::watched::{GridCell, Range, RunFilter};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Bucket, Pair, Point};
use rusqlite::{Row, Transaction, params};

type Both = (Vec<Point>, Vec<Bucket>);

/// The requested part of a series, which may be empty.
struct Part<'a> {
    from: &'a Transaction<'a>,
    series: i64,
    begin_us: i64,
    end_us: i64,
}

/// Returns points, or buckets, or buckets followed by points where single values are no longer
/// stored.
pub fn series(
    from: &Transaction<'_>,
    series: i64,
    range: Range,
    at_most: u32,
) -> rusqlite::Result<Both> {
    let part = Part {
        from,
        series,
        begin_us: range.begin_us.max(0),
        end_us: range.end_us.min(TIME_END_US),
    };
    let closed = part.closed()?;
    let room = i64::from(at_most) - closed.len() as i64;
    if room >= 0 && part.count_up_to(room + 1)? <= room {
        return Ok((part.points()?, closed));
    }
    let Some((first_us, last_us)) = part.extent(&closed)? else {
        return Ok((Vec::new(), closed));
    };
    let span = buckets::span_us(first_us, last_us, at_most);
    if span >= HOUR_US {
        return Ok((Vec::new(), buckets::widened(&part.hours()?, span)));
    }
    let mut found = closed;
    found.extend(part.gathered(span)?);
    found.sort_by_key(|bucket| bucket.at_us);
    Ok((Vec::new(), found))
}

impl Part<'_> {
    /// Returns the closed hours. A closed hour belongs to the part that contains its start.
    fn closed(&self) -> rusqlite::Result<Vec<Bucket>> {
        self.from
            .prepare_cached(
                "SELECT hour, samples, min, median, max FROM hour \
                 WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND state = ?4 ORDER BY hour",
            )?
            .query_map(
                (
                    self.series,
                    up_to_hour(self.begin_us),
                    up_to_hour(self.end_us),
                    CLOSED,
                ),
                |row| bucket(row, 0),
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
            .query_row((self.series, self.begin_us, self.end_us, most), |row| {
                row.get(0)
            })
    }

    fn points(&self) -> rusqlite::Result<Vec<Point>> {
        let mut points = Vec::new();
        self.each(|point| points.push(point))?;
        Ok(points)
    }

    /// Returns the values in buckets shorter than an hour, without loading all values into memory.
    fn gathered(&self, span_us: i64) -> rusqlite::Result<Vec<Bucket>> {
        let mut gather = Gather::new(span_us);
        self.each(|point| gather.take(point))?;
        Ok(gather.done())
    }

    fn each(&self, mut take: impl FnMut(Point)) -> rusqlite::Result<()> {
        let mut statement = self.from.prepare_cached(
            "SELECT at_us, value FROM value \
             WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY at_us",
        )?;
        let mut rows = statement.query((self.series, self.begin_us, self.end_us))?;
        while let Some(row) = rows.next()? {
            take(Point {
                at_us: row.get(0)?,
                value: row.get(1)?,
            });
        }
        Ok(())
    }

    /// Returns the first and the last time with stored data.
    fn extent(&self, closed: &[Bucket]) -> rusqlite::Result<Option<(i64, i64)>> {
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
        let ends = |end: Option<&Bucket>| end.map(|bucket| bucket.at_us);
        let first = first.into_iter().chain(ends(closed.first())).min();
        let last = last.into_iter().chain(ends(closed.last())).max();
        Ok(first.zip(last))
    }

    /// Returns one bucket per hour: aggregated hours as stored, others from their values. Hours
    /// that the part cuts are computed from the values inside it.
    fn hours(&self) -> rusqlite::Result<Vec<Bucket>> {
        let mut statement = self.from.prepare_cached(
            "SELECT hour, samples, min, median, max, state FROM hour \
             WHERE series = ?1 AND hour >= ?2 AND hour < ?3 ORDER BY hour",
        )?;
        let mut rows = statement.query((
            self.series,
            self.begin_us.div_euclid(HOUR_US),
            up_to_hour(self.end_us),
        ))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let begin_us = row.get::<_, i64>(0)? * HOUR_US;
            let end_us = begin_us + HOUR_US;
            let state: i64 = row.get(5)?;
            let whole = self.begin_us <= begin_us && end_us <= self.end_us;
            if state == COUNTED && whole || state == CLOSED && self.begin_us <= begin_us {
                found.push(bucket(row, 0)?);
            } else if state != CLOSED {
                let (begin_us, end_us) = (begin_us.max(self.begin_us), end_us.min(self.end_us));
                found.extend(hours::bucket(self.from, self.series, begin_us, end_us)?);
            }
        }
        Ok(found)
    }
}

/// Returns the first hour that starts at or after this time.
fn up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}

/// Reads `hour, samples, min, median, max` from column `at` on.
fn bucket(row: &Row<'_>, at: usize) -> rusqlite::Result<Bucket> {
    Ok(Bucket {
        at_us: row.get::<_, i64>(at)? * HOUR_US,
        duration_us: HOUR_US as u64,
        samples: row.get(at + 1)?,
        min: row.get(at + 2)?,
        median: row.get(at + 3)?,
        max: row.get(at + 4)?,
    })
}

/// Returns every pair, including those without a value of this quantity.
pub fn grid(from: &Transaction<'_>, quantity: Quantity) -> rusqlite::Result<Vec<GridCell>> {
    from.prepare_cached(
        "SELECT sender, receiver, newest_at_us, newest, usual, coalesce(open.events, 0) \
         FROM pair \
         LEFT JOIN series ON series.pair = pair.id AND series.quantity = ?1 \
         LEFT JOIN (SELECT pair, count(*) AS events FROM event \
                    WHERE open = 1 AND quantity = ?1 GROUP BY pair) AS open ON open.pair = pair.id \
         ORDER BY sender, receiver",
    )?
    .query_map([quantity.word()], |row| {
        let newest: Option<(i64, f64)> = row
            .get::<_, Option<i64>>(2)?
            .zip(row.get::<_, Option<f64>>(3)?);
        Ok(GridCell {
            pair: Pair {
                from: row.get(0)?,
                to: row.get(1)?,
            },
            newest: newest.map(|(at_us, value)| Point { at_us, value }),
            usual: row.get(4)?,
            open_events: row.get(5)?,
        })
    })?
    .collect()
}

/// The columns of a run list, in the order that [`archive::entry`] reads.
const COLUMNS: &str = "id, started_at, kind, initiator_host, responder_host, responder_address, \
     streams, goodput_bps, limited_by, analysis_version, \
     (SELECT count(*) FROM run part WHERE part.part_of = run.id)";

pub fn runs(from: &Transaction<'_>, filter: &RunFilter) -> rusqlite::Result<Vec<Entry>> {
    let kind = filter.kind.map(longhaul_model::report::v1::Kind::word);
    if let Some(pair) = &filter.pair {
        let Some(pair) = names::pair(from, pair)? else {
            return Ok(Vec::new());
        };
        let query = format!(
            "SELECT {COLUMNS} FROM watched_run JOIN run ON run.id = watched_run.run \
             WHERE pair = ?1 AND at_us >= ?2 AND at_us < ?3 AND (?4 IS NULL OR kind = ?4) \
             ORDER BY at_us DESC, run.id DESC LIMIT ?5"
        );
        let Range { begin_us, end_us } = filter.range;
        return from
            .prepare_cached(&query)?
            .query_map(
                params![pair, begin_us, end_us, kind, filter.limit],
                archive::entry,
            )?
            .collect();
    }
    let query = format!(
        "SELECT {COLUMNS} FROM run \
         WHERE started_at >= strftime('%Y-%m-%dT%H:%M:%S', ?1, 'unixepoch') \
         AND started_at < strftime('%Y-%m-%dT%H:%M:%S', ?2, 'unixepoch') \
         AND (?3 IS NULL OR kind = ?3) ORDER BY started_at DESC, id DESC LIMIT ?4"
    );
    let begin_s = filter.range.begin_us.max(0).div_euclid(1_000_000);
    let end_s = filter.range.end_us.clamp(0, TIME_END_US);
    // Rounded up, so that a run that started within the last second is included.
    let end_s = end_s.saturating_add(999_999).div_euclid(1_000_000);
    from.prepare_cached(&query)?
        .query_map(params![begin_s, end_s, kind, filter.limit], archive::entry)?
        .collect()
}
