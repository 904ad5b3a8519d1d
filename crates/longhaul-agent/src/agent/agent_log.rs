//! The log of the agent: one line per event, as text for people on a terminal, otherwise as logfmt or
//! JSON.

use super::job_status::RunFailure;
use crate::event_log::{self, LogFormat, LogLevel};
use crate::log_writer::{LogStream, LogWriter};
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::MissedReason;
use jiff::Timestamp;
use longhaul_model::report::v1::{AnyReport, ChangeEvent};
use longhaul_probe::measurement_server::ServeEvent;
use longhaul_report::number_format::count_of;
use longhaul_report::summary_lines;
use longhaul_store::history_store::TimeRange;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The writer of stdout, which all parts of the agent share.
static LOG_WRITER: OnceLock<LogWriter> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
pub struct AgentLog {
    pub format: LogFormat,
}

impl AgentLog {
    /// Logs a run whose result is in the archive.
    pub fn run_finished(self, key: &JobKey, planned_id: &str, report: &AnyReport) {
        let result = summary_lines::summarize_report(report);
        let value = json!({ "planned": planned_id, "run": report.run().id, "result": result });
        self.write_job_line("run", key, &result, value);
    }

    pub fn run_failed(self, key: &JobKey, planned_id: &str, failure: &RunFailure) {
        let RunFailure { reason, text } = failure;
        let value = json!({ "planned": planned_id, "reason": reason, "why": text });
        self.write_job_line("failed", key, &format!("failed: {text}"), value);
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
        self.write_line(LogLevel::Info, &text, value);
    }

    /// Logs a line about a job; `value` has the further fields of its JSON.
    fn write_job_line(self, event: &str, key: &JobKey, text: &str, mut value: Value) {
        value["event"] = json!(event);
        value["measurement"] = json!(*key.measure);
        value["from"] = json!(*key.from);
        value["to"] = json!(*key.to);
        let level = if event == "failed" { LogLevel::Warn } else { LogLevel::Info };
        self.write_line(level, &format!("{}  {text}", key.title()), value);
    }

    /// Logs an event that is new or has changed.
    pub fn event(self, event: &ChangeEvent) {
        let value = json!({
            "event": "change", "id": event.id, "from": event.pair.from, "to": event.pair.to,
            "quantity": event.quantity.word(), "state": event.state.word(),
            "before": event.before.median, "after": event.after.median,
            "causes": event.causes.iter().map(|it| &it.cause).collect::<Vec<_>>(),
        });
        self.write_line(LogLevel::Warn, &summary_lines::describe_event(event), value);
    }

    /// Logs something that went well.
    pub fn info(self, text: &str) {
        self.write_line(LogLevel::Info, text, json!({"event": "note", "text": text}));
    }

    /// Logs something that needs attention.
    pub fn warn(self, text: &str) {
        self.write_line(LogLevel::Warn, text, json!({"event": "trouble", "text": text}));
    }

    /// Logs an event of the server of `[serve]`.
    pub fn server_event(self, event: &ServeEvent) {
        let level = if event.is_warning() { LogLevel::Warn } else { LogLevel::Info };
        let value = match event {
            ServeEvent::Listening(address) => json!({ "event": "serving", "address": address }),
            event => json!(event),
        };
        self.write_line(level, &event.to_string(), value);
    }

    /// Logs the startup message; on a terminal `text` has several lines.
    pub fn startup(self, text: &str, value: Value) {
        let agent = value["agent"].as_str().unwrap_or_default();
        let told = format!("watching as {agent}");
        self.write(LogLevel::Info, &told, value, || text.to_owned());
    }

    fn write_line(self, level: LogLevel, text: &str, value: Value) {
        let warning = if value["event"] == "trouble" { "warning: " } else { "" };
        self.write(level, text, value, || {
            let now = Timestamp::now().strftime("%H:%M:%SZ").to_string();
            summary_lines::format_timed_line(&now, &format!("{warning}{text}"))
        });
    }

    /// Writes an event; `people` returns its text for a terminal, with the line end.
    fn write(self, level: LogLevel, text: &str, value: Value, people: impl FnOnce() -> String) {
        let line = match self.format {
            LogFormat::Text => people(),
            format => event_log::format_event_line(format, level, text, value) + "\n",
        };
        LOG_WRITER
            .get_or_init(|| LogWriter::start(LogStream::Stdout, self.format))
            .write_line(line);
    }

    /// Waits for the last lines to be written.
    pub fn flush() {
        LOG_WRITER.get().into_iter().for_each(LogWriter::flush);
    }
}

/// Formats a time: `2026-11-22 12:05:00Z`.
pub fn format_moment(at_us: i64) -> String {
    let moment = Timestamp::from_microsecond(at_us).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}
