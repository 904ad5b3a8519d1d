//! The log of the agent: one line per event, as text for people or as JSON for programs.

use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::MissedReason;
use jiff::Timestamp;
use longhaul_model::report::v1::{AnyReport, ChangeEvent};
use longhaul_report::number_format::count_of;
use longhaul_report::summary_lines;
use longhaul_store::history_store::TimeRange;
use serde_json::{Value, json};
use std::io::Write;

#[derive(Debug, Clone, Copy)]
pub struct AgentLog {
    pub json: bool,
}

impl AgentLog {
    /// Logs a run whose result is in the archive.
    pub fn run_finished(self, key: &JobKey, planned_id: &str, report: &AnyReport) {
        let result = summary_lines::summarize_report(report);
        let value = json!({ "planned": planned_id, "run": report.run().id, "result": result });
        self.write_job_line("run", key, &result, value);
    }

    pub fn run_failed(self, key: &JobKey, planned_id: &str, why: &str) {
        let value = json!({ "planned": planned_id, "why": why });
        self.write_job_line("failed", key, &format!("failed: {why}"), value);
    }

    pub fn run_refused(self, key: &JobKey, planned_id: &str, why: &str) {
        let value = json!({ "planned": planned_id, "why": why });
        let text = format!("server busy, run will be retried: {why}");
        self.write_job_line("refused", key, &text, value);
    }

    /// Logs missed runs of one job with the same reason.
    pub fn runs_missed(self, key: &JobKey, runs: usize, word: &str, why: &str) {
        let times = if runs == 1 { String::new() } else { format!(" {runs} times") };
        let value = json!({ "runs": runs, "reason": word });
        self.write_job_line("missed", key, &format!("skipped{times}: {why}"), value);
    }

    /// Logs the runs that came due while no agent was running.
    pub fn agent_was_off(self, range: TimeRange, runs: usize) {
        let TimeRange { begin_us, end_us } = range;
        let [from, to] = [begin_us, end_us].map(format_moment);
        let runs_text = count_of(runs as u64, "run");
        let text = format!("the agent was not running from {from} to {to}: {runs_text} skipped");
        let value = json!({
            "event": "off", "from_us": begin_us, "until_us": end_us, "runs": runs,
            "reason": MissedReason::AgentOff.word(),
        });
        self.write_line(&text, value);
    }

    /// Logs a line about a job; `value` has the further fields of its JSON.
    fn write_job_line(self, event: &str, key: &JobKey, text: &str, mut value: Value) {
        value["event"] = json!(event);
        value["measurement"] = json!(*key.measure);
        value["from"] = json!(*key.from);
        value["to"] = json!(*key.to);
        self.write_line(&format!("{}  {text}", key.title()), value);
    }

    /// Logs an event that is new or has changed.
    pub fn event(self, event: &ChangeEvent) {
        let value = json!({
            "event": "change", "id": event.id, "from": event.pair.from, "to": event.pair.to,
            "quantity": event.quantity.word(), "state": event.state.word(),
            "before": event.before.median, "after": event.after.median,
            "causes": event.causes.iter().map(|it| &it.cause).collect::<Vec<_>>(),
        });
        self.write_line(&summary_lines::describe_event(event), value);
    }

    /// Logs something that went well.
    pub fn info(self, text: &str) {
        self.write_line(text, json!({"event": "note", "text": text}));
    }

    /// Logs something that needs attention.
    pub fn warn(self, text: &str) {
        self.write_line(&format!("warning: {text}"), json!({"event": "trouble", "text": text}));
    }

    /// Logs the startup message; `text` may have several lines.
    pub fn startup(self, text: &str, value: Value) {
        // A closed stdout must not stop the agent.
        let _ = if self.json { write_json(value) } else { write_text(text) };
    }

    fn write_line(self, text: &str, value: Value) {
        let _ = if self.json {
            write_json(value)
        } else {
            let now = Timestamp::now().strftime("%H:%M:%SZ").to_string();
            write_text(&summary_lines::format_timed_line(&now, text))
        };
    }
}

/// Formats a time: `2026-11-22 12:05:00Z`.
pub fn format_moment(at_us: i64) -> String {
    let moment = Timestamp::from_microsecond(at_us).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
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
