//! Ids of pairs and series, which the large tables use instead of names.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use rusqlite::{OptionalExtension, Transaction};

/// The id that means "no pair".
pub const NO_PAIR: i64 = 0;

/// Returns the id of a pair and inserts the pair if it is new.
pub fn find_or_insert_pair(to: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<i64> {
    if let Some(id) = find_pair(to, pair)? {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO pair (sender, receiver) VALUES (?1, ?2) RETURNING id")?
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

/// Returns the id of a series and inserts the series if it is new.
pub fn find_or_insert_series(
    to: &Transaction<'_>,
    pair: &HostPair,
    quantity: PathQuantity,
) -> rusqlite::Result<i64> {
    if let Some(id) = find_series(to, pair, quantity)? {
        return Ok(id);
    }
    let pair = find_or_insert_pair(to, pair)?;
    to.prepare_cached("INSERT INTO series (pair, quantity) VALUES (?1, ?2) RETURNING id")?
        .query_row((pair, quantity.word()), |row| row.get(0))
}
