//! Events: the original JSON, and columns to search by.

use crate::database_client::DatabaseClient;
use crate::planned_run_rows::clamp_range;
use crate::row_version;
use crate::table_rows::EventInsertRow;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_store::StoreError;
use longhaul_store::history_store::{self, EventFilter};

pub fn insert_event(
    client: &DatabaseClient,
    event: &ChangeEvent,
    text: &str,
) -> Result<(), StoreError> {
    let id = &event.id;
    let before: u64 = client.request("read the event", |at| async move {
        at.query("SELECT max(version) FROM event WHERE id = ?").bind(id).fetch_one().await
    })?;
    let row = &EventInsertRow {
        id,
        sender: &event.pair.from,
        receiver: &event.pair.to,
        quantity: event.quantity.word(),
        state: event.state.word(),
        is_open: u8::from(history_store::is_event_open(event)),
        begin_us: event.between_us[0],
        end_us: event.between_us[1],
        event: text,
        // The version increases even if another writer's clock is ahead.
        version: row_version::now_us().max(before.saturating_add(1)),
    };
    client.request("store the event", |at| async move {
        let mut insert = at.insert::<EventInsertRow>("event").await?;
        insert.write(row).await?;
        insert.end().await
    })
}

pub fn read_event(client: &DatabaseClient, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
    let text: Option<String> = client.request("read the event", |at| async move {
        let sql = "SELECT event FROM event WHERE id = ? ORDER BY version DESC LIMIT 1";
        at.query(sql).bind(id).fetch_optional().await
    })?;
    text.map(|text| parse_event(&text)).transpose()
}

pub fn list_events(
    client: &DatabaseClient,
    filter: &EventFilter,
) -> Result<Vec<ChangeEvent>, StoreError> {
    let (begin_us, end_us) = clamp_range(filter.range);
    let mut sql = String::from("SELECT event FROM event FINAL WHERE end_us >= ? AND begin_us < ?");
    if filter.pair.is_some() {
        sql += " AND sender = ? AND receiver = ?";
    }
    if filter.state.is_some() {
        sql += " AND state = ?";
    }
    sql += " ORDER BY end_us DESC, id DESC LIMIT ?";
    let sql = &sql;
    let texts: Vec<String> = client.request("list the events", |at| async move {
        let mut query = at.query(sql).bind(begin_us).bind(end_us);
        if let Some(pair) = &filter.pair {
            query = query.bind(&pair.from).bind(&pair.to);
        }
        if let Some(state) = filter.state {
            query = query.bind(state.word());
        }
        query.bind(filter.limit).fetch_all().await
    })?;
    texts.iter().map(|text| parse_event(text)).collect()
}

fn parse_event(text: &str) -> Result<ChangeEvent, StoreError> {
    serde_json::from_str(text)
        .map_err(|source| StoreError::Report { id: "of an event".to_owned(), source })
}
