//! State shared by the agent and its API: the archive, the current watch file, counters, recent
//! updates, and the queue of requested runs.
//!
//! The agent writes and the API reads; neither waits for the other. Counters and file are replaced
//! as a whole. Updates that a reader does not take in time are dropped, and the reader learns that
//! it missed some. A full request queue rejects.

use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{RequestedRun, RunRequestError, ScheduleCounts};
use crate::watch::watch_file::WatchFile;
use longhaul_model::report::v1::ChangeEvent;
use longhaul_store::history_store::{PlannedRun, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, oneshot};

/// The maximum number of updates that a slow reader may lag behind.
pub const MAX_QUEUED_UPDATES: usize = 256;
/// The maximum number of requested runs that wait for the event loop.
pub const MAX_QUEUED_REQUESTS: usize = 32;

/// Opens another connection to the archive. Each thread has its own.
pub type ArchiveOpener = Arc<dyn Fn() -> Result<Archive, StoreError> + Send + Sync>;

/// An update for the page. It is already in the archive.
#[derive(Debug, Clone)]
pub enum LiveUpdate {
    Run(Arc<RunEntry>),
    Event(Arc<ChangeEvent>),
    Planned(Arc<PlannedRun>),
}

/// A request to run a job now.
#[derive(Debug)]
pub struct JobRequest {
    pub key: JobKey,
    pub answer: oneshot::Sender<Result<RequestedRun, RunRequestError>>,
}

/// Counters of the agent, since its start unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentCounters {
    pub runs: ScheduleCounts,
    /// The number of missed runs by reason.
    pub missed: BTreeMap<&'static str, u64>,
    /// The time before the start in which no agent was running, if runs came due in it.
    pub off_time: Option<TimeRange>,
    pub bytes_today: u64,
    /// Runs, planned runs and events that wait to be sent; absent without collector or database.
    pub to_send: Option<u64>,
    /// Items that the collector or database rejected; they stay in this archive.
    pub set_aside: Option<u64>,
    pub notified: u64,
    pub notices_failed: u64,
    pub reloads: u64,
    pub reloads_refused: u64,
}

pub struct SharedState {
    pub open_archive: ArchiveOpener,
    pub started_us: i64,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    /// The current watch file; a reload replaces it as a whole.
    pub file: RwLock<Arc<WatchFile>>,
    pub counters: RwLock<AgentCounters>,
    pub updates: broadcast::Sender<LiveUpdate>,
    pub requests: mpsc::Sender<JobRequest>,
}

impl SharedState {
    /// Also returns the receiving end of the request queue.
    pub fn new(
        open: ArchiveOpener,
        file: Arc<WatchFile>,
        folder: PathBuf,
        started_us: i64,
    ) -> (Arc<SharedState>, mpsc::Receiver<JobRequest>) {
        let (orders, taken) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (news, _) = broadcast::channel(MAX_QUEUED_UPDATES);
        let state = SharedState {
            open_archive: open,
            started_us,
            folder,
            file: RwLock::new(file),
            counters: RwLock::new(AgentCounters::default()),
            updates: news,
            requests: orders,
        };
        (Arc::new(state), taken)
    }

    /// Returns the current watch file.
    pub fn file(&self) -> Arc<WatchFile> {
        let held = self.file.read();
        Arc::clone(&held)
    }

    pub fn read_counters(&self) -> AgentCounters {
        let held = self.counters.read();
        held.clone()
    }
}
