//! State shared by the agent and its API: the archive, the current watch file, counters, recent
//! updates, and the queue of requested runs.
//!
//! The agent writes and the API reads; neither waits for the other. Counters and file are replaced
//! as a whole. Updates that a reader does not take in time are dropped, and the reader learns that
//! it missed some. A full request queue rejects.

use super::export::stored_run_cache::StoredRunCache;
use super::firefly_table::FireflyCounts;
use super::job_status::JobStatus;
use super::received_results::ReceivedResults;
use crate::token_store::TokenStore;
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{RequestedRun, RunRequestError, ScheduleCounts};
use crate::watch::watch_file::WatchFile;
use longhaul_model::report::v1::ChangeEvent;
use longhaul_probe::measurement_server::HeavyRunLock;
use longhaul_store::history_store::{PlannedRun, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use parking_lot::RwLock;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

/// The maximum number of updates that a slow reader may lag behind.
pub const MAX_QUEUED_UPDATES: usize = 256;
/// The maximum number of requested runs that wait for the event loop.
pub const MAX_QUEUED_REQUESTS: usize = 32;

/// The upper bounds of the buckets of the duration of a run, s: from a trace to a guided search.
const DURATION_BUCKETS_S: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0];

/// The labels of a metric.
pub type MetricLabels = Vec<(&'static str, String)>;

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
    /// The jobs of the current file.
    pub jobs: BTreeMap<JobKey, JobStatus>,
    pub bytes_today: u64,
    /// The last time at which the event loop looked for due runs.
    pub loop_us: i64,
    /// The archive accepts nothing because the disk is full, so no run starts.
    pub disk_is_full: bool,
    /// Runs, planned runs and events that wait to be sent; absent without collector or database.
    pub to_send: Option<u64>,
    /// True while the server of `[serve]` listens; absent without that section.
    pub server_is_up: Option<bool>,
    /// Sessions of clients of that server.
    pub served_sessions: u64,
    /// Fireflies; absent without `[fireflies]`.
    pub fireflies: Option<FireflyCounts>,
    /// Items that the collector or database rejected; they stay in this archive.
    pub set_aside: Option<u64>,
    pub notified: u64,
    pub notices_failed: u64,
    pub otlp_exports: u64,
    pub otlp_exports_failed: u64,
    pub reloads: u64,
    pub reloads_refused: u64,
}

pub struct SharedState {
    pub open_archive: ArchiveOpener,
    pub started_us: i64,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    pub tokens: TokenStore,
    /// The current watch file; a reload replaces it as a whole.
    pub file: RwLock<Arc<WatchFile>>,
    pub counters: RwLock<AgentCounters>,
    /// Durations of finished runs by measurement.
    pub durations: Family<MetricLabels, Histogram, fn() -> Histogram>,
    pub updates: broadcast::Sender<LiveUpdate>,
    /// Held by heavy runs of the agent, and by runs that its server answers.
    pub heavy_runs: HeavyRunLock,
    /// Notified when a run that the server answers has ended.
    pub served_run_ended: Arc<Notify>,
    pub requests: mpsc::Sender<JobRequest>,
    /// The results that a collector has received and not analysed.
    pub received: ReceivedResults,
    /// Runs that a collector has stored and not sent to its database.
    pub stored_runs: StoredRunCache,
}

impl SharedState {
    /// Also returns the receiving end of the request queue.
    pub fn new(
        open: ArchiveOpener,
        file: Arc<WatchFile>,
        folder: PathBuf,
        tokens: TokenStore,
        started_us: i64,
    ) -> (Arc<SharedState>, mpsc::Receiver<JobRequest>) {
        let (orders, taken) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (news, _) = broadcast::channel(MAX_QUEUED_UPDATES);
        let served_run_ended = Arc::new(Notify::new());
        let ended = Arc::clone(&served_run_ended);
        let state = SharedState {
            open_archive: open,
            started_us,
            folder,
            tokens,
            file: RwLock::new(file),
            counters: RwLock::new(AgentCounters::default()),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_S)),
            updates: news,
            heavy_runs: HeavyRunLock::new(move || ended.notify_one()),
            served_run_ended,
            requests: orders,
            received: ReceivedResults::default(),
            stored_runs: StoredRunCache::default(),
        };
        (Arc::new(state), taken)
    }

    /// Returns the current watch file.
    pub fn file(&self) -> Arc<WatchFile> {
        let held = self.file.read();
        Arc::clone(&held)
    }

    /// Counts the duration of a finished run. The measurements of the file are few.
    pub fn observe_duration(&self, measure: &str, lasted: Duration) {
        let labels = vec![("measure", measure.to_owned())];
        self.durations.get_or_create(&labels).observe(lasted.as_secs_f64());
    }

    pub fn read_counters(&self) -> AgentCounters {
        let held = self.counters.read();
        held.clone()
    }
}
