//! Builds runs of kind `flows` for tests.

use super::finished_run::{RunOwner, read_report};
use longhaul_model::report::v1::FlowsReport;
use longhaul_store::Archive;
use longhaul_store::history_store::IncomingRun;
use std::path::PathBuf;

/// Returns a run of the agent `here`, in which rclone sends to 10.77.0.2, after a change.
pub fn build_run(number: u32, at_us: i64, change: impl FnOnce(&mut FlowsReport)) -> IncomingRun {
    let text = include_str!("../../../../fixtures/reports/flows-rclone.json");
    let mut report: FlowsReport = serde_json::from_str(text).expect("a report");
    change(&mut report);
    report.run.id = format!("20261127T000000Z-{number:06x}");
    report.run.started_at = jiff::Timestamp::from_microsecond(at_us).expect("a time").to_string();
    let owner = RunOwner {
        planned_id: format!("here-1-{number}"),
        measure: "transfers".to_owned(),
        agent: "here".to_owned(),
        target: None,
        reverse: false,
    };
    let written = serde_json::to_vec(&report).expect("JSON");
    read_report(&written, &owner).expect("a run").watched
}

/// A folder with an archive, until it is dropped.
pub struct ArchiveFolder(pub PathBuf);

impl ArchiveFolder {
    pub fn new(name: &str) -> ArchiveFolder {
        let folder = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        ArchiveFolder(folder)
    }

    pub fn open(&self) -> Archive {
        Archive::open(&self.0.join("archive")).expect("an archive")
    }
}

impl Drop for ArchiveFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
