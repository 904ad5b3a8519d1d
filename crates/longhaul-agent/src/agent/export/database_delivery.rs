//! Writes batches into a database that several agents share.

use super::batch_wire::BatchResponse;
use super::{DeliveryError, format_error_chain, run_from_report};
use longhaul_store::StoreError;
use longhaul_store::history_store::{AgentDelivery, IngestResult, ingest_limits};
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem, RefusedEntry};
use std::collections::HashMap;

/// Stores the items with `receive`. Invalid items are rejected one by one.
pub fn deliver_items(
    agent: &str,
    items: &[OutboxEntry],
    receive: impl FnOnce(&AgentDelivery) -> Result<IngestResult, StoreError>,
) -> Result<BatchResponse, DeliveryError> {
    let mut delivery = AgentDelivery::default();
    let mut refused = Vec::new();
    let mut places = HashMap::new();
    for sent in items {
        match add_item(&mut delivery, agent, &sent.item) {
            Ok(Some(run_id)) => {
                places.insert(run_id, sent.place);
            }
            Ok(None) => {}
            Err(why) => refused.push(RefusedEntry { place: sent.place, why }),
        }
    }
    let landed = receive(&delivery).map_err(|error| match error {
        StoreError::Refused { .. } => DeliveryError::Rejected(format_error_chain(&error)),
        _ => DeliveryError::Temporary(format_error_chain(&error)),
    })?;
    refused.extend(landed.differing.iter().filter_map(|id| {
        Some(RefusedEntry {
            place: *places.get(id)?,
            why: StoreError::IdTaken { id: id.clone() }.to_string(),
        })
    }));
    Ok(BatchResponse::from_ingest(&landed, refused))
}

/// Adds an item. Returns the id if it is a run.
fn add_item(
    delivery: &mut AgentDelivery,
    agent: &str,
    item: &OutboxItem,
) -> Result<Option<String>, String> {
    match item {
        OutboxItem::Run(sent) => {
            let near = sent.near.as_deref().unwrap_or(agent);
            let run = run_from_report::build_run(sent.clone(), near)?;
            ingest_limits::check_run(&run).map_err(|error| format_error_chain(&error))?;
            let id = run.run.id.clone();
            delivery.runs.push(run);
            return Ok(Some(id));
        }
        OutboxItem::Planned(row) => delivery.planned.push(row.clone()),
        OutboxItem::Event(event) => delivery.events.push((**event).clone()),
    }
    Ok(None)
}
