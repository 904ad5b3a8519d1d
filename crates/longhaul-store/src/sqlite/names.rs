//! Ids of pairs and series, which the large tables use instead of names.

use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use rusqlite::{OptionalExtension, Transaction};
use std::collections::HashMap;

/// The id that means "no pair".
pub const NO_PAIR: i64 = 0;

/// The maximum number of cached series ids; enough for some thousand pairs.
const SERIES_MAX: usize = 50_000;

/// A cache of ids. Ids never change, so a connection keeps them across transactions. A failed
/// transaction drops the cache, because its new ids were not committed.
#[derive(Debug, Default)]
pub struct Names {
    pairs: HashMap<Pair, i64>,
    series: HashMap<(i64, Quantity), i64>,
}

impl Names {
    /// Empties the cache if it is too large.
    pub fn bounded(self) -> Names {
        if self.pairs.len().max(self.series.len()) > SERIES_MAX {
            return Names::default();
        }
        self
    }

    pub fn pair(&mut self, to: &Transaction<'_>, pair: &Pair) -> rusqlite::Result<i64> {
        if let Some(&id) = self.pairs.get(pair) {
            return Ok(id);
        }
        let id = pair_or_new(to, pair)?;
        self.pairs.insert(pair.clone(), id);
        Ok(id)
    }

    pub fn series(
        &mut self,
        to: &Transaction<'_>,
        pair: &Pair,
        quantity: Quantity,
    ) -> rusqlite::Result<i64> {
        let pair = self.pair(to, pair)?;
        if let Some(&id) = self.series.get(&(pair, quantity)) {
            return Ok(id);
        }
        let id = series_or_new(to, pair, quantity)?;
        self.series.insert((pair, quantity), id);
        Ok(id)
    }
}

/// Returns the id of a pair and inserts the pair if it is new.
pub fn pair_or_new(to: &Transaction<'_>, pair: &Pair) -> rusqlite::Result<i64> {
    if let Some(id) = self::pair(to, pair)? {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO pair (sender, receiver) VALUES (?1, ?2) RETURNING id")?
        .query_row([&pair.from, &pair.to], |row| row.get(0))
}

/// Returns the id of a known pair.
pub fn pair(from: &Transaction<'_>, pair: &Pair) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached("SELECT id FROM pair WHERE sender = ?1 AND receiver = ?2")?
        .query_row([&pair.from, &pair.to], |row| row.get(0))
        .optional()
}

/// Returns the id of a known series.
pub fn series(
    from: &Transaction<'_>,
    pair: &Pair,
    quantity: Quantity,
) -> rusqlite::Result<Option<i64>> {
    match self::pair(from, pair)? {
        Some(pair) => series_of(from, pair, quantity),
        None => Ok(None),
    }
}

/// Returns all pairs, sorted by name.
pub fn pairs(from: &Transaction<'_>) -> rusqlite::Result<Vec<Pair>> {
    from.prepare_cached("SELECT sender, receiver FROM pair ORDER BY sender, receiver")?
        .query_map([], |row| {
            Ok(Pair {
                from: row.get(0)?,
                to: row.get(1)?,
            })
        })?
        .collect()
}

fn series_or_new(to: &Transaction<'_>, pair: i64, quantity: Quantity) -> rusqlite::Result<i64> {
    if let Some(id) = series_of(to, pair, quantity)? {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO series (pair, quantity) VALUES (?1, ?2) RETURNING id")?
        .query_row((pair, quantity.word()), |row| row.get(0))
}

fn series_of(
    from: &Transaction<'_>,
    pair: i64,
    quantity: Quantity,
) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached("SELECT id FROM series WHERE quantity = ?2 AND pair = ?1")?
        .query_row((pair, quantity.word()), |row| row.get(0))
        .optional()
}
