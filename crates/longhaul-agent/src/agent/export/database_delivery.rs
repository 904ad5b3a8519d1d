//! Writes batches into a database that several agents share.

use super::batch_wire::{BatchResponse, CheckedBatch};
use super::{DeliveryError, format_error_chain, run_from_report};
use longhaul_store::StoreError;
use longhaul_store::history_store::AgentDelivery;
use longhaul_store::sqlite::outbox::{HeldRun, OutboxEntry, OutboxItem, OutgoingBatch};

/// Builds the rows of a batch. Invalid items are rejected one by one.
pub fn build_batch(agent: &str, outgoing: OutgoingBatch) -> CheckedBatch {
    let mut batch = CheckedBatch::default();
    for HeldRun { place, run } in outgoing.held_runs {
        batch.add_run(place, run);
    }
    for OutboxEntry { place, item } in outgoing.items {
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
    receive: impl FnOnce(&AgentDelivery) -> Result<(), StoreError>,
) -> Result<BatchResponse, DeliveryError> {
    receive(&batch.delivery).map_err(|error| match error {
        StoreError::Refused { .. } => DeliveryError::Rejected(format_error_chain(&error)),
        _ => DeliveryError::Temporary(format_error_chain(&error)),
    })?;
    Ok(BatchResponse { refused: batch.rejected, ..BatchResponse::default() })
}
