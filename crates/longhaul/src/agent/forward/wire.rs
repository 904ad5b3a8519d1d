//! A batch as JSON, and the answer to it: what goes over POST /api/v1/batches.
//!
//! Written and read by hand: an item that cannot be read is refused by itself, with its place, and
//! the others are taken. docs/collector.md describes both shapes.

use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::sqlite::outbox::{Item, Refusal, SentRun, ToSend};
use longhaul_store::watched::{Outcome, Planned, PlannedRow};
use serde_json::{Value, json};

/// What a batch and its answer say that they are.
pub const SCHEMA: &str = "longhaul.batch/1";
/// Items of one batch.
pub const ITEMS_MAX: usize = 2_000;
/// Bytes of a reason.
const WHY_BYTES_MAX: usize = 500;

/// What an agent sends at once.
#[derive(Debug, PartialEq)]
pub struct Batch {
    pub agent: String,
    /// By the clock of the agent.
    pub sent_us: i64,
    pub items: Vec<Came>,
}

/// One item, or why it cannot be read.
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

/// A run without its values: these follow from its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameRun {
    pub pairs: Vec<Pair>,
    /// Name of the host that began it; absent: the agent.
    pub near: Option<String>,
    /// As JSON.
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

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub new: u64,
    pub joined: u64,
    pub already: u64,
    pub late_values: u64,
    pub refused: Vec<Refusal>,
}

/// The batch as it goes out.
pub fn batch(agent: &str, sent_us: i64, items: &[ToSend]) -> String {
    let items: Vec<Value> = items.iter().map(item).collect();
    json!({ "schema": SCHEMA, "agent": agent, "sent_us": sent_us, "items": items }).to_string()
}

fn item(sent: &ToSend) -> Value {
    let (kind, value) = match &sent.item {
        Item::Run(run) => ("run", self::run(run)),
        Item::Planned(row) => ("planned", planned(row)),
        // A shape of the report model: it turns into JSON always.
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

/// Reads a batch; an error where it is none at all.
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

    /// Reads an answer; places that were not sent are the caller's to ignore.
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

/// The begin of a reason that came from outside, without what would act on a screen.
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
