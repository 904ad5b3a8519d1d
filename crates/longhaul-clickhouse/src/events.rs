//! Events: the original JSON, and columns to search by.

use crate::clock;
use crate::planned::within;
use crate::reach::Reach;
use crate::rows::EventRow;
use longhaul_model::report::v1::event::Event;
use longhaul_store::StoreError;
use longhaul_store::watched::{self, EventFilter};

pub fn put(reach: &Reach, event: &Event, text: &str) -> Result<(), StoreError> {
    let id = &event.id;
    let before: u64 = reach.ask("read the event", |at| async move {
        at.query("SELECT max(version) FROM event WHERE id = ?")
            .bind(id)
            .fetch_one()
            .await
    })?;
    let row = &EventRow {
        id,
        sender: &event.pair.from,
        receiver: &event.pair.to,
        quantity: event.quantity.word(),
        state: event.state.word(),
        is_open: u8::from(watched::is_open(event)),
        begin_us: event.between_us[0],
        end_us: event.between_us[1],
        event: text,
        // The version increases even if another writer's clock is ahead.
        version: clock::now_us().max(before.saturating_add(1)),
    };
    reach.ask("store the event", |at| async move {
        let mut insert = at.insert::<EventRow>("event").await?;
        insert.write(row).await?;
        insert.end().await
    })
}

pub fn one(reach: &Reach, id: &str) -> Result<Option<Event>, StoreError> {
    let text: Option<String> = reach.ask("read the event", |at| async move {
        let sql = "SELECT event FROM event WHERE id = ? ORDER BY version DESC LIMIT 1";
        at.query(sql).bind(id).fetch_optional().await
    })?;
    text.map(|text| parse(&text)).transpose()
}

pub fn list(reach: &Reach, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
    let (begin_us, end_us) = within(filter.range);
    let mut sql = String::from("SELECT event FROM event FINAL WHERE end_us >= ? AND begin_us < ?");
    if filter.pair.is_some() {
        sql += " AND sender = ? AND receiver = ?";
    }
    if filter.state.is_some() {
        sql += " AND state = ?";
    }
    sql += " ORDER BY end_us DESC, id DESC LIMIT ?";
    let sql = &sql;
    let texts: Vec<String> = reach.ask("list the events", |at| async move {
        let mut query = at.query(sql).bind(begin_us).bind(end_us);
        if let Some(pair) = &filter.pair {
            query = query.bind(&pair.from).bind(&pair.to);
        }
        if let Some(state) = filter.state {
            query = query.bind(state.word());
        }
        query.bind(filter.limit).fetch_all().await
    })?;
    texts.iter().map(|text| parse(text)).collect()
}

fn parse(text: &str) -> Result<Event, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Report {
        id: "of an event".to_owned(),
        source,
    })
}
