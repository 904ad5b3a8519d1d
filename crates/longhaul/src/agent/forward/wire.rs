//! The JSON of a batch and of its response: the bodies of POST /api/v1/batches.
//!
//! Parsed by hand, so that one unreadable item is rejected alone and the others are accepted.
//! docs/collector.md describes both bodies.

use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::sqlite::outbox::{Item, Refusal, SentRun, ToSend};
use longhaul_store::watched::{Outcome, Planned, PlannedRow};
use serde_json::{Value, json};

/// The value of `schema` in a batch and in its response.
pub const SCHEMA: &str = "longhaul.batch/1";
/// The maximum number of items in a batch.
pub const ITEMS_MAX: usize = 2_000;
/// The maximum size of a reason in bytes.
const WHY_BYTES_MAX: usize = 500;

/// A batch as an agent sends it.
#[derive(Debug, PartialEq)]
pub struct Batch {
    pub agent: String,
    /// Time of sending by the agent's clock.
    pub sent_us: i64,
    pub items: Vec<Came>,
}

/// One item, or the reason why it is unreadable.
#[derive(Debug, PartialEq)]
pub struct Came {
    pub place: i64,
    pub item: Result<Word, String>,
}

#[derive(Debug, PartialEq)]
pub enum Word {
    Run(CameRun),
    Planned(PlannedRow),
    Event(Box<Event>),
}

/// A run without series values; these are derived from its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameRun {
    pub pairs: Vec<Pair>,
    /// Name of the host that started the run; absent: the sending agent.
    pub near: Option<String>,
    /// The report as JSON.
    pub report: String,
}

impl From<&SentRun> for CameRun {
    fn from(run: &SentRun) -> Self {
        CameRun {
            pairs: run.pairs.clone(),
            near: run.near.clone(),
            report: run.report.clone(),
        }
    }
}

/// The result of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub new: u64,
    pub joined: u64,
    pub already: u64,
    pub late_values: u64,
    pub refused: Vec<Refusal>,
}

/// Serializes a batch.
pub fn batch(agent: &str, sent_us: i64, items: &[ToSend]) -> String {
    let items: Vec<Value> = items.iter().map(item).collect();
    json!({ "schema": SCHEMA, "agent": agent, "sent_us": sent_us, "items": items }).to_string()
}

fn item(sent: &ToSend) -> Value {
    let (kind, value) = match &sent.item {
        Item::Run(run) => ("run", self::run(run)),
        Item::Planned(row) => ("planned", planned(row)),
        // The serialization of report types does not fail.
        Item::Event(event) => ("event", serde_json::to_value(event).unwrap_or_default()),
    };
    json!({ "place": sent.place, kind: value })
}

fn run(run: &SentRun) -> Value {
    let pairs: Vec<Value> = run.pairs.iter().map(pair).collect();
    let mut value = json!({ "pairs": pairs, "report": run.report });
    if let Some(near) = &run.near {
        value["near"] = json!(near);
    }
    value
}

fn pair(pair: &Pair) -> Value {
    json!({ "from": pair.from, "to": pair.to })
}

fn planned(row: &PlannedRow) -> Value {
    let planned = &row.planned;
    let mut value = json!({
        "id": planned.id, "due_us": planned.due_us, "measurement": planned.measurement,
    });
    if let Some(of) = &planned.pair {
        value["pair"] = pair(of);
    }
    match &row.outcome {
        Some(Outcome::Done { run_id }) => value["run"] = json!(run_id),
        Some(Outcome::Missed { reason }) => value["missed"] = json!(reason),
        None => {}
    }
    value
}

/// Parses a batch. Returns an error only if the batch as a whole is invalid.
pub fn read_batch(bytes: &[u8]) -> Result<Batch, String> {
    let mut value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    of_our_schema(&value)?;
    let missing = |key: &str| format!("it has no `{key}`, or a strange one");
    let agent = text(&value, "agent").ok_or_else(|| missing("agent"))?;
    let sent_us = value["sent_us"]
        .as_i64()
        .ok_or_else(|| missing("sent_us"))?;
    let Value::Array(items) = value["items"].take() else {
        return Err(missing("items"));
    };
    if items.len() > ITEMS_MAX {
        let count = items.len();
        return Err(format!("it has {count} items; at most {ITEMS_MAX}"));
    }
    let items = items.into_iter().map(came).collect::<Option<_>>();
    Ok(Batch {
        agent,
        sent_us,
        items: items.ok_or("an item of it has no place")?,
    })
}

fn of_our_schema(value: &Value) -> Result<(), String> {
    match value["schema"].as_str() {
        Some(SCHEMA) => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            Err(format!("its schema is {other:?}, known is {SCHEMA:?}"))
        }
        None => Err(format!("it has no `schema`; known is {SCHEMA:?}")),
    }
}

fn came(mut value: Value) -> Option<Came> {
    let place = value["place"].as_i64()?;
    let item = if value["run"].is_object() {
        read_run(value["run"].take())
    } else if value["planned"].is_object() {
        read_planned(&value["planned"])
    } else if value["event"].is_object() {
        serde_json::from_value(value["event"].take())
            .map(|event| Word::Event(Box::new(event)))
            .map_err(|error| format!("it is no event: {error}"))
    } else {
        Err("it is neither run nor planned nor event".to_owned())
    };
    Some(Came { place, item })
}

fn read_run(mut value: Value) -> Result<Word, String> {
    let Value::Array(pairs) = value["pairs"].take() else {
        return Err("the run has no list of pairs".to_owned());
    };
    let pairs = pairs.iter().map(read_pair).collect::<Option<_>>();
    let Value::String(report) = value["report"].take() else {
        return Err("the run has no report as text".to_owned());
    };
    Ok(Word::Run(CameRun {
        pairs: pairs.ok_or("a pair of the run has no `from` and `to`")?,
        near: text(&value, "near"),
        report,
    }))
}

fn read_pair(value: &Value) -> Option<Pair> {
    Some(Pair {
        from: text(value, "from")?,
        to: text(value, "to")?,
    })
}

fn read_planned(value: &Value) -> Result<Word, String> {
    let missing = |key: &str| format!("the planned run has no `{key}`, or a strange one");
    let outcome = match (text(value, "run"), text(value, "missed")) {
        (Some(run_id), None) => Some(Outcome::Done { run_id }),
        (None, Some(reason)) => Some(Outcome::Missed { reason }),
        (None, None) => None,
        _ => return Err("the planned run is both done and missed".to_owned()),
    };
    let pair = match &value["pair"] {
        Value::Null => None,
        pair => Some(read_pair(pair).ok_or_else(|| missing("pair"))?),
    };
    Ok(Word::Planned(PlannedRow {
        planned: Planned {
            id: text(value, "id").ok_or_else(|| missing("id"))?,
            due_us: value["due_us"].as_i64().ok_or_else(|| missing("due_us"))?,
            measurement: text(value, "measurement").ok_or_else(|| missing("measurement"))?,
            pair,
        },
        outcome,
    }))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

impl Answer {
    pub fn text(&self) -> String {
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
    pub fn read(bytes: &[u8]) -> Result<Answer, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        of_our_schema(&value)?;
        let count = |key: &str| value[key].as_u64().unwrap_or(0);
        let refused = value["refused"].as_array().map_or(&[][..], Vec::as_slice);
        let refused = refused.iter().take(ITEMS_MAX).map(|it| {
            Some(Refusal {
                place: it["place"].as_i64()?,
                why: bounded(it["why"].as_str().unwrap_or("it gave no reason")),
            })
        });
        Ok(Answer {
            new: count("new"),
            joined: count("joined"),
            already: count("already"),
            late_values: count("late_values"),
            refused: refused
                .collect::<Option<_>>()
                .ok_or("a refusal in it has no place")?,
        })
    }
}

/// Truncates a reason from outside and replaces its control characters.
pub fn bounded(why: &str) -> String {
    let plain = why.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.take(WHY_BYTES_MAX).collect();
    while short.len() > WHY_BYTES_MAX {
        short.pop();
    }
    short
}

#[cfg(test)]
mod tests;
