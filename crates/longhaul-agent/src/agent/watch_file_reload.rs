//! Reads the watch file again while the agent runs: on SIGHUP, when an included file has changed, and
//! regularly if it includes URLs. What is invalid or cannot be fetched changes nothing.

use super::clocks::read_clock_times;
use super::event_loop::EventLoop;
use super::export::format_error_chain;
use super::job_status;
use super::service_manager::ServiceManager;
use super::startup::{AgentOptions, RunningAgent};
use crate::http_client::is_url;
use crate::included_files;
use crate::watch::watch_file::{IncludedVersions, WatchFile};
use crate::watch_file_reading::read_watch_file;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The interval between looks at the included files. The event loop wakes at least every 30 s.
const INCLUDED_INTERVAL: Duration = Duration::from_secs(5);
/// The interval between fetches of included URLs.
const FETCH_INTERVAL: Duration = Duration::from_secs(300);

/// The watch file, or the lines that say why there is none.
type ReadResult = Result<WatchFile, String>;

/// The reason to read the watch file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadReason {
    /// An included URL may have changed. Nothing is said if it has not.
    FetchDue,
    /// The operator or a changed file asks for it.
    Requested,
}

/// Reads the watch file in the background, because URLs may answer slowly.
pub struct WatchFileReloader {
    /// The reading in progress.
    reading: Option<JoinHandle<ReadResult>>,
    reason: ReloadReason,
    /// Read again when the reading in progress has ended.
    wanted: Option<ReloadReason>,
    included: IncludedVersions,
    looked_at: Instant,
    read_at: Instant,
    /// The last reasons against a file, which are said once.
    rejected: Option<String>,
}

impl WatchFileReloader {
    pub fn new(file: &WatchFile) -> WatchFileReloader {
        WatchFileReloader {
            reading: None,
            reason: ReloadReason::Requested,
            wanted: None,
            included: file.included.clone(),
            looked_at: Instant::now(),
            read_at: Instant::now(),
            rejected: None,
        }
    }

    pub fn request(&mut self) {
        self.wanted = Some(ReloadReason::Requested);
    }

    /// Starts a reading if one is requested, an included file has changed, or a fetch is due.
    pub fn start_if_due(&mut self, origin: &AgentOptions, file: &WatchFile) {
        if self.looked_at.elapsed() >= INCLUDED_INTERVAL {
            self.looked_at = Instant::now();
            let versions = included_files::list_versions(&origin.folder, &file.include);
            // An invalid file is not tried again until it changes.
            if versions != self.included {
                self.included = versions;
                self.request();
            }
            let has_urls = file.include.iter().any(|it| is_url(Path::new(it)));
            if has_urls && self.read_at.elapsed() >= FETCH_INTERVAL {
                self.wanted = self.wanted.or(Some(ReloadReason::FetchDue));
            }
        }
        if self.reading.is_some() {
            return;
        }
        let Some(reason) = self.wanted.take() else { return };
        if reason == ReloadReason::Requested {
            ServiceManager::reloading();
        }
        self.reason = reason;
        let (path, agent) = (origin.path.clone(), origin.agent.clone());
        let read = move || match read_watch_file(&path, agent.as_deref()) {
            Ok(read) => read.map_err(|problems| problems.to_string()),
            Err(error) => Err(format_error_chain(&error)),
        };
        self.reading = Some(tokio::task::spawn_blocking(read));
    }

    /// Returns the result of the reading in progress; waits forever if there is none.
    pub async fn wait_for_result(&mut self) -> ReadResult {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await;
        self.reading = None;
        self.read_at = Instant::now();
        read.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Applies the result of a reading.
    pub fn apply_result(&mut self, read: ReadResult, running: &mut RunningAgent) {
        let agent = &mut running.event_loop;
        let is_requested = self.reason == ReloadReason::Requested;
        match read {
            Ok(file) => {
                self.rejected = None;
                if is_requested || *agent.state.file() != file {
                    apply_watch_file(agent, file);
                    running.server.apply_watch_file();
                    running.fireflies.apply_watch_file();
                }
            }
            Err(why) => {
                if is_requested || self.rejected.as_ref() != Some(&why) {
                    reject_watch_file(agent, &why);
                }
                agent.state.counters.write().reloads_refused += 1;
                self.rejected = Some(why);
            }
        }
        if is_requested {
            ServiceManager::ready("watching");
        }
    }
}

fn reject_watch_file(agent: &EventLoop, why: &str) {
    for line in why.lines() {
        agent.log.warn(line);
    }
    agent.log.warn("watch file invalid, keeping the previous one");
}

fn apply_watch_file(agent: &mut EventLoop, file: WatchFile) {
    for note in &file.notes {
        agent.log.warn(note);
    }
    let before = agent.state.file();
    for (what, differs) in [
        ("archive", before.agent.archive != file.agent.archive),
        ("listen", before.agent.listen != file.agent.listen),
        ("name", before.agent.name != file.agent.name),
        ("collector", before.collector != file.collector),
        ("database", before.database != file.database),
        ("perfsonar_archive", before.perfsonar_archives != file.perfsonar_archives),
    ] {
        if differs {
            agent.log.warn(&format!(
                "`{what}` has changed in the watch file; restart the agent to apply it"
            ));
        }
    }
    let file = Arc::new(file);
    agent.schedule.reload(&file, read_clock_times());
    {
        let mut held = agent.state.file.write();
        *held = Arc::clone(&file);
    }
    let mut figures = agent.state.counters.write();
    figures.reloads += 1;
    drop(figures);
    job_status::replace_jobs(&mut agent.state.counters.write().jobs, agent.schedule.jobs());
    let jobs = agent.schedule.jobs().count();
    agent.log.info(&format!("watch file reloaded: {jobs} jobs"));
}
