//! The startup message of an agent.

use jiff::Timestamp;
use longhaul_report::document::ReportDocument;
use longhaul_report::number_format::count_of;
use serde_json::{Value, json};
use std::path::Path;

pub struct StartupMessage<'a> {
    pub agent: &'a str,
    /// Address of the web page.
    pub page: &'a str,
    pub archive: &'a Path,
    /// Planned runs of an earlier agent that can no longer finish.
    pub missed: u64,
    /// Runs recovered from the spool.
    pub spooled: usize,
    /// Due times and names, earliest first.
    pub next: Vec<(i64, String)>,
    pub jobs: usize,
}

impl StartupMessage<'_> {
    pub fn text(&self) -> String {
        let mut page = ReportDocument::default();
        let version = env!("CARGO_PKG_VERSION");
        page.heading(3, format!("longhaul {version} watching as {}", self.agent));
        page.fact("page", self.page);
        page.fact("archive", self.archive.display().to_string());
        page.fact("jobs", self.jobs.to_string());
        let next = self.next.iter();
        page.facts("next", next.map(|(due_us, who)| format!("{}  {who}", format_moment(*due_us))));
        if self.missed > 0 {
            let runs = count_of(self.missed, "run");
            page.fact(
                "earlier",
                format!("{runs} planned by an earlier agent that stopped before them: skipped"),
            );
        }
        if self.spooled > 0 {
            let runs = count_of(self.spooled as u64, "run");
            page.fact("spool", format!("{runs} recovered from an earlier agent"));
        }
        page.text()
    }

    pub fn json(&self) -> Value {
        let next = self.next.iter();
        let next: Vec<Value> =
            next.map(|(due_us, who)| json!({ "due_us": due_us, "run": who })).collect();
        json!({
            "event": "watching", "longhaul": env!("CARGO_PKG_VERSION"), "agent": self.agent,
            "page": self.page, "archive": self.archive,
            "jobs": self.jobs, "next": next, "missed": self.missed, "spool": self.spooled,
        })
    }
}

/// Formats a time: `2026-11-22 12:05:00Z`.
fn format_moment(at_us: i64) -> String {
    let moment = Timestamp::from_microsecond(at_us).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}
