//! Writes batches into a database that several agents share.

use super::batch_wire::{BatchResponse, CheckedBatch};
use super::{DeliveryError, format_error_chain, run_from_report};
use longhaul_store::StoreError;
use longhaul_store::history_store::{AgentDelivery, IngestResult};
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem};

/// Builds the rows of the items. Invalid items are rejected one by one.
pub fn build_batch(agent: &str, items: Vec<OutboxEntry>) -> CheckedBatch {
    let mut batch = CheckedBatch::default();
    for OutboxEntry { place, item } in items {
        match item {
            OutboxItem::Run(mut run) => {
                let near = run.near.take().unwrap_or_else(|| agent.to_owned());
                match run_from_report::build_run(run, &near) {
                    Ok(run) => batch.add_run(place, run),
                    Err(why) => batch.reject(place, &why),
                }
            }
            OutboxItem::Planned(row) => batch.delivery.planned.push(row),
            OutboxItem::Event(event) => batch.delivery.events.push(*event),
        }
    }
    batch
}

/// Stores the batch with `receive`.
pub fn deliver_batch(
    batch: CheckedBatch,
    receive: impl FnOnce(&AgentDelivery) -> Result<IngestResult, StoreError>,
) -> Result<BatchResponse, DeliveryError> {
    let landed = receive(&batch.delivery).map_err(|error| match error {
        StoreError::Refused { .. } => DeliveryError::Rejected(format_error_chain(&error)),
        _ => DeliveryError::Temporary(format_error_chain(&error)),
    })?;
    Ok(batch.into_response(&landed))
}
