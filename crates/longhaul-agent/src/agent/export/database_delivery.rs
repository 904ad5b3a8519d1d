//! Writes batches into a database that several agents share.

use super::batch_wire::{BatchResponse, CheckedBatch};
use super::{DeliveryError, format_error_chain, run_from_report};
use longhaul_store::StoreError;
use longhaul_store::history_store::{AgentDelivery, IngestResult};
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem};

/// Stores the items with `receive`. Invalid items are rejected one by one.
pub fn deliver_items(
    agent: &str,
    items: &[OutboxEntry],
    receive: impl FnOnce(&AgentDelivery) -> Result<IngestResult, StoreError>,
) -> Result<BatchResponse, DeliveryError> {
    let mut batch = CheckedBatch::default();
    for sent in items {
        match &sent.item {
            OutboxItem::Run(run) => {
                let near = run.near.as_deref().unwrap_or(agent);
                match run_from_report::build_run(run.clone(), near) {
                    Ok(run) => batch.add_run(sent.place, run),
                    Err(why) => batch.reject(sent.place, &why),
                }
            }
            OutboxItem::Planned(row) => batch.delivery.planned.push(row.clone()),
            OutboxItem::Event(event) => batch.delivery.events.push((**event).clone()),
        }
    }
    let landed = receive(&batch.delivery).map_err(|error| match error {
        StoreError::Refused { .. } => DeliveryError::Rejected(format_error_chain(&error)),
        _ => DeliveryError::Temporary(format_error_chain(&error)),
    })?;
    Ok(batch.into_response(&landed))
}
