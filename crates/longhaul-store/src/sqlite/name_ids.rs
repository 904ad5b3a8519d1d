//! Ids of pairs and series, which the large tables use instead of names.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use rusqlite::{OptionalExtension, Transaction};
use std::collections::HashMap;

/// The id that means "no pair".
pub const NO_PAIR: i64 = 0;

/// The maximum number of cached series ids; enough for some thousand pairs.
const MAX_CACHED_IDS: usize = 50_000;

/// A cache of ids. Ids never change, so a connection keeps them across transactions. A failed
/// transaction drops the cache, because its new ids were not committed.
#[derive(Debug, Default)]
pub struct NameIds {
    pairs: HashMap<HostPair, i64>,
    series: HashMap<(i64, PathQuantity), i64>,
}

impl NameIds {
    /// Empties the cache if it is too large.
    pub fn limit_size(self) -> NameIds {
        if self.pairs.len().max(self.series.len()) > MAX_CACHED_IDS {
            return NameIds::default();
        }
        self
    }

    pub fn pair_id(&mut self, to: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<i64> {
        if let Some(&id) = self.pairs.get(pair) {
            return Ok(id);
        }
        let id = find_or_insert_pair(to, pair)?;
        self.pairs.insert(pair.clone(), id);
        Ok(id)
    }

    pub fn series_id(
        &mut self,
        to: &Transaction<'_>,
        pair: &HostPair,
        quantity: PathQuantity,
    ) -> rusqlite::Result<i64> {
        let pair = self.pair_id(to, pair)?;
        if let Some(&id) = self.series.get(&(pair, quantity)) {
            return Ok(id);
        }
        let id = find_or_insert_series(to, pair, quantity)?;
        self.series.insert((pair, quantity), id);
        Ok(id)
    }
}

/// Returns the id of a pair and inserts the pair if it is new.
pub fn find_or_insert_pair(to: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<i64> {
    to.prepare_cached("INSERT OR IGNORE INTO pair (sender, receiver) VALUES (?1, ?2)")?
        .execute([&pair.from, &pair.to])?;
    to.prepare_cached("SELECT id FROM pair WHERE sender = ?1 AND receiver = ?2")?
        .query_row([&pair.from, &pair.to], |row| row.get(0))
}

/// Returns the id of a known pair.
pub fn find_pair(from: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached("SELECT id FROM pair WHERE sender = ?1 AND receiver = ?2")?
        .query_row([&pair.from, &pair.to], |row| row.get(0))
        .optional()
}

/// Returns the id of a known series.
pub fn find_series(
    from: &Transaction<'_>,
    pair: &HostPair,
    quantity: PathQuantity,
) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached(
        "SELECT series.id FROM series JOIN pair ON pair.id = series.pair \
         WHERE sender = ?1 AND receiver = ?2 AND quantity = ?3",
    )?
    .query_row([&*pair.from, &*pair.to, quantity.word()], |row| row.get(0))
    .optional()
}

/// Returns all pairs, sorted by name.
pub fn list_pairs(from: &Transaction<'_>) -> rusqlite::Result<Vec<HostPair>> {
    from.prepare_cached("SELECT sender, receiver FROM pair ORDER BY sender, receiver")?
        .query_map([], |row| Ok(HostPair { from: row.get(0)?, to: row.get(1)? }))?
        .collect()
}

fn find_or_insert_series(
    to: &Transaction<'_>,
    pair: i64,
    quantity: PathQuantity,
) -> rusqlite::Result<i64> {
    to.prepare_cached("INSERT OR IGNORE INTO series (pair, quantity) VALUES (?1, ?2)")?
        .execute((pair, quantity.word()))?;
    to.prepare_cached("SELECT id FROM series WHERE quantity = ?2 AND pair = ?1")?
        .query_row((pair, quantity.word()), |row| row.get(0))
}
