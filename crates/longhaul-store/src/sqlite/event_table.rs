//! Events: the original JSON, and columns to search by.

use super::name_ids;
use super::outbox::OutboxWriter;
use crate::archive::Archive;
use crate::history_store::{self, EventFilter};
use crate::store_error::StoreError;
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use rusqlite::{OptionalExtension, Transaction, params};

pub fn put_event(
    to: &Transaction<'_>,
    event: &ChangeEvent,
    text: &str,
    outbox: OutboxWriter,
) -> rusqlite::Result<()> {
    if self::read_event_json(to, &event.id)?.as_deref() == Some(text) {
        return Ok(());
    }
    outbox.event(to, event, text.len())?;
    let pair = name_ids::find_or_insert_pair(to, &event.pair)?;
    to.prepare_cached("INSERT OR REPLACE INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            event.id,
            pair,
            event.quantity.word(),
            event.state.word(),
            history_store::is_event_open(event),
            event.between_us[0],
            event.between_us[1],
            text
        ])
        .map(drop)
}

pub fn read_event_json(from: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<String>> {
    from.prepare_cached("SELECT event FROM event WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

impl Archive {
    /// Returns events, the latest change first.
    pub fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        let values = params![
            filter.range.begin_us,
            filter.range.end_us,
            filter.pair.as_ref().map(|pair| &pair.from),
            filter.pair.as_ref().map(|pair| &pair.to),
            filter.state.map(EventState::word),
            filter.limit
        ];
        let texts: Vec<String> = self.read("list the events", |from| {
            from.prepare_cached(
                "SELECT event FROM event \
                 WHERE end_us >= ?1 AND begin_us < ?2 AND (?3 IS NULL OR pair = \
                     (SELECT id FROM pair WHERE sender = ?3 AND receiver = ?4)) \
                 AND (?5 IS NULL OR state = ?5) ORDER BY end_us DESC, id DESC LIMIT ?6",
            )?
            .query_map(values, |row| row.get(0))?
            .collect()
        })?;
        texts.iter().map(|text| parse_event(text)).collect()
    }
}

pub fn parse_event(text: &str) -> Result<ChangeEvent, StoreError> {
    serde_json::from_str(text)
        .map_err(|source| StoreError::Report { id: "of an event".to_owned(), source })
}
