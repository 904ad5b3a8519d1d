//! The log of the agent: one line per event, as text for people or as JSON for programs.

use crate::render::watch::lines;
use crate::watch::jobs::Key;
use jiff::Timestamp;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::Event;
use longhaul_store::watched::run_of;
use serde_json::{Value, json};
use std::io::Write;

#[derive(Debug, Clone, Copy)]
pub struct Voice {
    pub json: bool,
}

impl Voice {
    /// Logs a run whose result is in the archive.
    pub fn ran(self, key: &Key, planned_id: &str, report: &AnyReport) {
        let result = lines::result(report);
        let value = json!({
            "event": "run", "measurement": *key.measure, "from": *key.from, "to": *key.to,
            "planned": planned_id, "run": run_of(report).id, "result": result,
        });
        self.say(&format!("{}  {result}", who(key)), value);
    }

    pub fn failed(self, key: &Key, planned_id: &str, why: &str) {
        let value = json!({
            "event": "failed", "measurement": *key.measure, "from": *key.from, "to": *key.to,
            "planned": planned_id, "why": why,
        });
        self.say(&format!("{}  failed: {why}", who(key)), value);
    }

    pub fn refused(self, key: &Key, planned_id: &str, why: &str) {
        let value = json!({
            "event": "refused", "measurement": *key.measure, "from": *key.from, "to": *key.to,
            "planned": planned_id, "why": why,
        });
        let text = format!("{}  the far end is busy, tries again: {why}", who(key));
        self.say(&text, value);
    }

    /// Logs missed runs of one job with the same reason.
    pub fn missed(self, key: &Key, runs: usize, (word, why): (&str, &str)) {
        let value = json!({
            "event": "missed", "measurement": *key.measure, "from": *key.from, "to": *key.to,
            "runs": runs, "reason": word,
        });
        let times = if runs == 1 {
            String::new()
        } else {
            format!(" {runs} times")
        };
        self.say(&format!("{}  missed{times}: {why}", who(key)), value);
    }

    /// Logs an event that is new or has changed.
    pub fn event(self, event: &Event) {
        let value = json!({
            "event": "change", "id": event.id, "from": event.pair.from, "to": event.pair.to,
            "quantity": event.quantity.word(), "state": event.state.word(),
            "before": event.before.median, "after": event.after.median,
            "causes": event.causes.iter().map(|it| &it.cause).collect::<Vec<_>>(),
        });
        self.say(&lines::event(event), value);
    }

    /// Logs something that went well.
    pub fn note(self, text: &str) {
        self.say(text, json!({"event": "note", "text": text}));
    }

    /// Logs something that needs attention.
    pub fn trouble(self, text: &str) {
        self.say(
            &format!("trouble: {text}"),
            json!({"event": "trouble", "text": text}),
        );
    }

    /// Logs the startup message; `text` may have several lines.
    pub fn begin(self, text: &str, value: Value) {
        // A closed stdout must not stop the agent.
        let _ = if self.json {
            write_json(value)
        } else {
            write_text(text)
        };
    }

    fn say(self, text: &str, value: Value) {
        let _ = if self.json {
            write_json(value)
        } else {
            let now = Timestamp::now().strftime("%H:%M:%SZ").to_string();
            write_text(&lines::timed(&now, text))
        };
    }
}

fn who(key: &Key) -> String {
    lines::who(&key.measure, &key.from, &key.to)
}

fn write_json(mut value: Value) -> std::io::Result<()> {
    value["at"] = json!(Timestamp::now().to_string());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

fn write_text(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
