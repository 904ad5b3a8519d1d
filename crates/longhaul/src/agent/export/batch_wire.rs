//! The JSON of a batch and of its response: the bodies of POST /api/v1/batches.
//!
//! Parsed by hand, so that one unreadable item is rejected alone and the others are accepted.
//! docs/collector.md describes both bodies.

use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{PlannedEntry, PlannedOutcome, PlannedRun};
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem, OutgoingRun, RefusedEntry};
use serde_json::{Value, json};

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
    pub item: Result<BatchPayload, String>,
}

#[derive(Debug, PartialEq)]
pub enum BatchPayload {
    Run(ReportedRun),
    Planned(PlannedEntry),
    Event(Box<ChangeEvent>),
}

/// A run without series values; these are derived from its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedRun {
    pub pairs: Vec<HostPair>,
    /// Name of the host that started the run; absent: the sending agent.
    pub near: Option<String>,
    /// The report as JSON.
    pub report: String,
}

impl From<&OutgoingRun> for ReportedRun {
    fn from(run: &OutgoingRun) -> Self {
        ReportedRun {
            pairs: run.pairs.clone(),
            near: run.near.clone(),
            report: run.report.clone(),
        }
    }
}

/// The result of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchResponse {
    pub new: u64,
    pub joined: u64,
    pub already: u64,
    pub late_values: u64,
    pub refused: Vec<RefusedEntry>,
}

/// Serializes a batch.
pub fn encode_batch(agent: &str, sent_us: i64, items: &[OutboxEntry]) -> String {
    let items: Vec<Value> = items.iter().map(encode_item).collect();
    json!({ "schema": SCHEMA, "agent": agent, "sent_us": sent_us, "items": items }).to_string()
}

fn encode_item(sent: &OutboxEntry) -> Value {
    let (kind, value) = match &sent.item {
        OutboxItem::Run(run) => ("run", self::encode_run(run)),
        OutboxItem::Planned(row) => ("planned", encode_planned(row)),
        // The serialization of report types does not fail.
        OutboxItem::Event(event) => ("event", serde_json::to_value(event).unwrap_or_default()),
    };
    json!({ "place": sent.place, kind: value })
}

fn encode_run(run: &OutgoingRun) -> Value {
    let pairs: Vec<Value> = run.pairs.iter().map(encode_pair).collect();
    let mut value = json!({ "pairs": pairs, "report": run.report });
    if let Some(near) = &run.near {
        value["near"] = json!(near);
    }
    value
}

fn encode_pair(pair: &HostPair) -> Value {
    json!({ "from": pair.from, "to": pair.to })
}

fn encode_planned(row: &PlannedEntry) -> Value {
    let planned = &row.planned;
    let mut value = json!({
        "id": planned.id, "due_us": planned.due_us, "measurement": planned.measurement,
    });
    if let Some(of) = &planned.pair {
        value["pair"] = encode_pair(of);
    }
    match &row.outcome {
        Some(PlannedOutcome::Done { run_id }) => value["run"] = json!(run_id),
        Some(PlannedOutcome::Missed { reason }) => value["missed"] = json!(reason),
        None => {}
    }
    value
}

/// Parses a batch. Returns an error only if the batch as a whole is invalid.
pub fn parse_batch(bytes: &[u8]) -> Result<ResultBatch, String> {
    let mut value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    check_schema(&value)?;
    let missing = |key: &str| format!("`{key}` is missing or invalid");
    let agent = get_text(&value, "agent").ok_or_else(|| missing("agent"))?;
    let sent_us = value["sent_us"]
        .as_i64()
        .ok_or_else(|| missing("sent_us"))?;
    let Value::Array(items) = value["items"].take() else {
        return Err(missing("items"));
    };
    if items.len() > MAX_ITEMS {
        let count = items.len();
        return Err(format!(
            "it has {count} items; at most {MAX_ITEMS} are allowed"
        ));
    }
    let items = items.into_iter().map(parse_item).collect::<Option<_>>();
    Ok(ResultBatch {
        agent,
        sent_us,
        items: items.ok_or("an item has no valid `place`")?,
    })
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
    let item = if value["run"].is_object() {
        parse_run(value["run"].take())
    } else if value["planned"].is_object() {
        parse_planned(&value["planned"])
    } else if value["event"].is_object() {
        serde_json::from_value(value["event"].take())
            .map(|event| BatchPayload::Event(Box::new(event)))
            .map_err(|error| format!("the event is invalid: {error}"))
    } else {
        Err("the item is neither a run nor a planned run nor an event".to_owned())
    };
    Some(BatchItem { place, item })
}

fn parse_run(mut value: Value) -> Result<BatchPayload, String> {
    let Value::Array(pairs) = value["pairs"].take() else {
        return Err("the run has no list `pairs`".to_owned());
    };
    let pairs = pairs.iter().map(parse_pair).collect::<Option<_>>();
    let Value::String(report) = value["report"].take() else {
        return Err("the run has no text `report`".to_owned());
    };
    Ok(BatchPayload::Run(ReportedRun {
        pairs: pairs.ok_or("a pair of the run lacks `from` or `to`")?,
        near: get_text(&value, "near"),
        report,
    }))
}

fn parse_pair(value: &Value) -> Option<HostPair> {
    Some(HostPair {
        from: get_text(value, "from")?,
        to: get_text(value, "to")?,
    })
}

fn parse_planned(value: &Value) -> Result<BatchPayload, String> {
    let missing = |key: &str| format!("`{key}` of the planned run is missing or invalid");
    let outcome = match (get_text(value, "run"), get_text(value, "missed")) {
        (Some(run_id), None) => Some(PlannedOutcome::Done { run_id }),
        (None, Some(reason)) => Some(PlannedOutcome::Missed { reason }),
        (None, None) => None,
        _ => return Err("the planned run is both done and missed".to_owned()),
    };
    let pair = match &value["pair"] {
        Value::Null => None,
        pair => Some(parse_pair(pair).ok_or_else(|| missing("pair"))?),
    };
    Ok(BatchPayload::Planned(PlannedEntry {
        planned: PlannedRun {
            id: get_text(value, "id").ok_or_else(|| missing("id"))?,
            due_us: value["due_us"].as_i64().ok_or_else(|| missing("due_us"))?,
            measurement: get_text(value, "measurement").ok_or_else(|| missing("measurement"))?,
            pair,
        },
        outcome,
    }))
}

fn get_text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

impl BatchResponse {
    pub fn to_json(&self) -> String {
        let refused: Vec<Value> = self
            .refused
            .iter()
            .map(|it| json!({ "place": it.place, "why": it.why }))
            .collect();
        json!({
            "schema": SCHEMA, "new": self.new, "joined": self.joined, "already": self.already,
            "late_values": self.late_values, "refused": refused,
        })
        .to_string()
    }

    /// Parses a response. The caller ignores places that it did not send.
    pub fn parse(bytes: &[u8]) -> Result<BatchResponse, String> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not valid JSON: {error}"))?;
        check_schema(&value)?;
        let count = |key: &str| value[key].as_u64().unwrap_or(0);
        let refused = value["refused"].as_array().map_or(&[][..], Vec::as_slice);
        let refused = refused.iter().take(MAX_ITEMS).map(|it| {
            Some(RefusedEntry {
                place: it["place"].as_i64()?,
                why: sanitize_reason(it["why"].as_str().unwrap_or("no reason was given")),
            })
        });
        Ok(BatchResponse {
            new: count("new"),
            joined: count("joined"),
            already: count("already"),
            late_values: count("late_values"),
            refused: refused
                .collect::<Option<_>>()
                .ok_or("a rejected item has no valid `place`")?,
        })
    }
}

/// Truncates a reason from outside and replaces its control characters.
pub fn sanitize_reason(why: &str) -> String {
    let plain = why.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.take(MAX_REASON_BYTES).collect();
    while short.len() > MAX_REASON_BYTES {
        short.pop();
    }
    short
}

#[cfg(test)]
mod tests;
