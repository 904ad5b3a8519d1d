//! The JSON of a batch and of its response: the bodies of POST /api/v1/batches.
//!
//! Each item is parsed by itself, so that an unreadable one is rejected alone and the others are
//! accepted.
//! docs/collector.md describes both bodies.

use crate::agent::received_results::WaitingEvent;
use longhaul_model::sanitize::sanitize_line;
use longhaul_store::StoreError;
use longhaul_store::history_store::{
    AgentDelivery, IncomingRun, IngestResult, PlannedOutcome, PlannedRun,
};
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem, RefusedEntry};
use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The value of `schema` in a batch and in its response.
pub const SCHEMA: &str = "longhaul.batch/1";
/// The maximum number of items in a batch.
pub const MAX_ITEMS: usize = 2_000;
/// The maximum size of a reason in bytes.
const MAX_REASON_BYTES: usize = 500;

/// A batch as an agent sends it.
#[derive(Debug, PartialEq)]
pub struct ResultBatch {
    pub agent: String,
    /// Time of sending by the agent's clock.
    pub sent_us: i64,
    pub items: Vec<BatchItem>,
}

/// One item, or the reason why it is unreadable.
#[derive(Debug, PartialEq)]
pub struct BatchItem {
    pub place: i64,
    pub item: Result<OutboxItem, String>,
}

/// The result of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchResponse {
    pub new: u64,
    pub joined: u64,
    pub already: u64,
    pub late_values: u64,
    pub refused: Vec<RefusedEntry>,
}

/// The accepted and rejected items of a batch.
#[derive(Default)]
pub struct CheckedBatch {
    pub delivery: AgentDelivery,
    pub rejected: Vec<RefusedEntry>,
    /// Events that are new or have changed their state.
    pub changed_events: Vec<WaitingEvent>,
    /// Places of runs in the batch, by id.
    places: HashMap<String, i64>,
}

impl CheckedBatch {
    pub fn add_run(&mut self, place: i64, run: IncomingRun) {
        self.places.insert(run.run.id.clone(), place);
        self.delivery.runs.push(run);
    }

    pub fn reject(&mut self, place: i64, why: &str) {
        self.rejected.push(RefusedEntry { place, why: sanitize_reason(why) });
    }

    /// Returns the response after the delivery. Rejects runs whose ids belong to other reports.
    pub fn into_response(mut self, landed: &IngestResult) -> BatchResponse {
        for id in &landed.differing {
            if let Some(place) = self.places.get(id).copied() {
                self.reject(place, &StoreError::IdTaken { id: id.clone() }.to_string());
            }
        }
        BatchResponse {
            new: landed.new,
            joined: landed.newly_watched,
            already: landed.already_stored,
            late_values: landed.late_values,
            refused: self.rejected,
        }
    }
}

/// Serializes a batch.
pub fn encode_batch(agent: &str, sent_us: i64, items: &[OutboxEntry]) -> String {
    let items: Vec<Value> = items.iter().map(encode_item).collect();
    json!({ "schema": SCHEMA, "agent": agent, "sent_us": sent_us, "items": items }).to_string()
}

fn encode_item(sent: &OutboxEntry) -> Value {
    let (kind, body) = match &sent.item {
        OutboxItem::Run(run) => ("run", json!(run)),
        OutboxItem::Planned(row) => ("planned", encode_planned(row)),
        OutboxItem::Event(event) => ("event", json!(event)),
    };
    json!({ "place": sent.place, kind: body })
}

/// Returns a planned run with its outcome as `run` or `missed`.
fn encode_planned(row: &PlannedRun) -> Value {
    let mut body = json!(PlannedRun { outcome: None, ..row.clone() });
    match &row.outcome {
        Some(PlannedOutcome::Done { run_id }) => body["run"] = json!(run_id),
        Some(PlannedOutcome::Missed { reason, detail }) => {
            body["missed"] = json!(reason);
            if let Some(detail) = detail {
                body["detail"] = json!(detail);
            }
        }
        None => {}
    }
    body
}

/// Parses a batch. Returns an error only if the batch as a whole is invalid.
pub fn parse_batch(bytes: &[u8]) -> Result<ResultBatch, String> {
    let mut value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    check_schema(&value)?;
    let missing = |key: &str| format!("`{key}` is missing or invalid");
    let agent = value["agent"].as_str().ok_or_else(|| missing("agent"))?.to_owned();
    let sent_us = value["sent_us"].as_i64().ok_or_else(|| missing("sent_us"))?;
    let Value::Array(items) = value["items"].take() else {
        return Err(missing("items"));
    };
    if items.len() > MAX_ITEMS {
        let count = items.len();
        return Err(format!("it has {count} items; at most {MAX_ITEMS} are allowed"));
    }
    let items = items.into_iter().map(parse_item).collect::<Option<_>>();
    Ok(ResultBatch { agent, sent_us, items: items.ok_or("an item has no valid `place`")? })
}

fn check_schema(value: &Value) -> Result<(), String> {
    match value["schema"].as_str() {
        Some(SCHEMA) => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            Err(format!("its schema is {other:?}; expected {SCHEMA:?}"))
        }
        None => Err(format!("it has no `schema`; expected {SCHEMA:?}")),
    }
}

fn parse_item(mut value: Value) -> Option<BatchItem> {
    let place = value["place"].as_i64()?;
    let mut take = |key: &str| Some(value[key].take()).filter(Value::is_object);
    let item = if let Some(run) = take("run") {
        serde_json::from_value(run).map(OutboxItem::Run)
    } else if let Some(planned) = take("planned") {
        parse_planned(planned)
    } else if let Some(event) = take("event") {
        serde_json::from_value(event).map(OutboxItem::Event)
    } else {
        Err(serde_json::Error::custom("it is neither a run nor a planned run nor an event"))
    };
    Some(BatchItem { place, item: item.map_err(|error| format!("the item is invalid: {error}")) })
}

fn parse_planned(mut value: Value) -> Result<OutboxItem, serde_json::Error> {
    let mut take = |key: &str| serde_json::from_value::<Option<String>>(value[key].take());
    let detail = take("detail")?;
    let outcome = match (take("run")?, take("missed")?) {
        (Some(run_id), None) => Some(PlannedOutcome::Done { run_id }),
        (None, Some(reason)) => Some(PlannedOutcome::Missed { reason, detail }),
        (None, None) => None,
        _ => return Err(serde_json::Error::custom("it is both done and missed")),
    };
    Ok(OutboxItem::Planned(PlannedRun { outcome, ..serde_json::from_value(value)? }))
}

impl BatchResponse {
    pub fn to_json(&self) -> String {
        let mut value = json!(self);
        value["schema"] = json!(SCHEMA);
        value.to_string()
    }

    /// Parses a response. The caller ignores places that it did not send.
    pub fn parse(bytes: &[u8]) -> Result<BatchResponse, String> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not valid JSON: {error}"))?;
        check_schema(&value)?;
        let mut response: BatchResponse =
            serde_json::from_value(value).map_err(|error| format!("it is no response: {error}"))?;
        response.refused.truncate(MAX_ITEMS);
        for refused in &mut response.refused {
            refused.why = sanitize_reason(&refused.why);
        }
        Ok(response)
    }
}

/// Sanitizes and truncates a reason from outside.
pub fn sanitize_reason(why: &str) -> String {
    let mut short = sanitize_line(why, MAX_REASON_BYTES);
    while short.len() > MAX_REASON_BYTES {
        short.pop();
    }
    short
}

#[cfg(test)]
mod tests;
