//! A copy from the client's side: negotiates the files, opens the connections, and monitors both
//! ends until they are done.

mod connection_counters;
mod copy_monitor;
mod copy_resize;
mod copy_setup;

use super::copy_source::CopySource;
use connection_counters::ConnectionCounters;
use longhaul_model::report::v1::copy::{CopyConcurrency, CopyEndCounts, CopyObservation, CopyPlan};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_probe::plan_limits::MAX_PROBING_US;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::probing::ProbeControl;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost as Peer;
use longhaul_probe::wire::{
    FileEntry, FilesReply, FilesRequest, ProbeBounds, SessionNonce, SessionReply, SessionRequest,
};
use longhaul_sys::confined_dir::ConfinedDir;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bounds of a session with requests only.
const BOUNDS: ProbeBounds =
    ProbeBounds { flows: 0, most_bytes: 0, most_time_us: MAX_PROBING_US, dscp: None };
/// Maximum interval between heartbeats during work on local files.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(50);

/// A copy as planned, with the place of its two ends.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    pub plan: CopyPlan,
    pub local: LocalLocation,
    /// Path below a folder that the server serves.
    pub remote_path: String,
}

/// The client's end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalLocation {
    Path(PathBuf),
    /// Standard input or standard output.
    Stream,
}

/// Progress of a copy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CopyProgress {
    /// Time since the first block was requested.
    pub elapsed: Duration,
    /// Bytes at the target, without those of earlier runs.
    pub bytes: u64,
    /// Bytes left by an earlier run.
    pub skipped_bytes: u64,
    /// Total size; unknown for a stream.
    pub total_bytes: Option<u64>,
    /// This end of each data connection, with one sample.
    pub own_ends: Vec<StreamEnd>,
    pub source: CopyEndCounts,
    pub target: CopyEndCounts,
    pub concurrency: CopyConcurrency,
    pub idle_rtt: Option<Duration>,
}

/// Result of a copy.
#[derive(Debug, Clone)]
pub struct CopyOutcome {
    pub observation: CopyObservation,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<ReportCaveat>,
}

/// Reason why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Session(#[from] ProbeError),
    /// A failure of this host's files or memory.
    #[error("{0}")]
    Local(String),
    /// A failure of the server's files, or a refusal.
    #[error("{address}: {what}")]
    Server { address: SocketAddr, what: String },
    /// A failure of the data connections.
    #[error("lost the data connections to {address}: {what}")]
    Network { address: SocketAddr, what: String },
    #[error("the copy was interrupted")]
    Stopped,
}

/// The session, and the state negotiated so far.
struct ClientCopy<'a> {
    peer: &'a Peer,
    control: ProbeControl,
    request: &'a CopyRequest,
    /// Set when the user cancels.
    stop: &'a AtomicBool,
    /// Cancels work on local files that runs in parallel to the session.
    cancelled: Arc<AtomicBool>,
    /// All entries of the source, in order.
    entries: Vec<FileEntry>,
    left_out: u64,
    skipped: u64,
    connections: Vec<ConnectionCounters>,
    /// Shown by data connections.
    nonce: SessionNonce,
    /// All data connections opened so far, including closed ones.
    opened_streams: u32,
    /// Connections and disk threads as last requested.
    resized: Option<CopyConcurrency>,
}

/// Observes the progress of a copy, and may change its connections and disk threads.
pub type CopyWatch<'a> = dyn FnMut(&CopyProgress) -> Option<CopyConcurrency> + 'a;

/// Copies files. Calls `watch` about ten times a second; if it returns a number of connections and
/// disk threads, the copy continues with these, as far as the peer and the limits permit. An interrupted copy leaves data at the
/// target that the next copy resumes.
///
/// # Errors
/// See [`CopyError`].
pub fn copy_files(
    peer: &Peer,
    request: &CopyRequest,
    stop: &AtomicBool,
    watch: &mut CopyWatch<'_>,
) -> Result<CopyOutcome, CopyError> {
    let (started_at, begun) = (SystemTime::now(), Instant::now());
    // Report local errors before connecting.
    let near = match (request.plan.forward, &request.local) {
        (true, LocalLocation::Path(path)) => {
            Some(open_local_source(path, request.plan.direct, stop)?)
        }
        (true, LocalLocation::Stream) => Some(CopySource::stream()),
        (false, _) => None,
    };
    // A cancelled copy still has requests for the server.
    let control = ProbeControl::open(peer, BOUNDS, &StopFlag::default())?;
    let idle_rtt = control.idle_rtt();
    let (initiator, responder) = (control.initiator.clone(), control.responder.clone());
    let mut course = ClientCopy {
        peer,
        control,
        request,
        stop,
        cancelled: Arc::default(),
        entries: Vec::new(),
        left_out: 0,
        skipped: 0,
        connections: Vec::new(),
        nonce: SessionNonce([0; 16]),
        opened_streams: 0,
        resized: None,
    };
    let (streams, key) = course.open_connections()?;
    watch(&CopyProgress { own_ends: course.read_own_ends(), ..CopyProgress::default() });
    let mut run = match near {
        Some(source) => course.set_up_forward(source, streams, key)?,
        None => course.set_up_reverse(streams, key)?,
    };
    let setup = begun.elapsed();
    let seen = course.monitor(&mut run, watch)?;
    let observation = course.observation(seen, setup, idle_rtt);
    let caveats = course.caveats();
    course.control.close();
    Ok(CopyOutcome {
        observation,
        initiator,
        responder,
        started_at,
        duration: begun.elapsed(),
        caveats,
    })
}

impl ClientCopy<'_> {
    fn request(&mut self, ask: FilesRequest) -> Result<FilesReply, CopyError> {
        match self.control.request_raw(SessionRequest::Files(Box::new(ask)))? {
            SessionReply::Files(answer) => Ok(answer),
            SessionReply::Failed(what) => {
                Err(CopyError::Server { address: self.control.address(), what })
            }
            other => Err(self.control.unexpected_answer(&other).into()),
        }
    }

    fn unexpected_answer<T>(&self) -> Result<T, CopyError> {
        Err(CopyError::Server {
            address: self.control.address(),
            what: "unexpected answer".to_owned(),
        })
    }

    fn request_done(&mut self, ask: FilesRequest) -> Result<(), CopyError> {
        match self.request(ask)? {
            FilesReply::Done => Ok(()),
            _ => self.unexpected_answer(),
        }
    }

    /// Runs long work on local files in a thread while the session keeps sending heartbeats.
    fn with_heartbeats<T: Send>(
        &mut self,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, CopyError> {
        let given_up = Arc::clone(&self.cancelled);
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            let mut pause = Duration::from_micros(200);
            while !worker.is_finished() {
                let over = match self.control.service() {
                    Ok(()) if self.stop.load(Ordering::Relaxed) => Some(CopyError::Stopped),
                    Ok(()) => None,
                    Err(error) => Some(error.into()),
                };
                if let Some(over) = over {
                    given_up.store(true, Ordering::Relaxed);
                    return Err(over);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(HEARTBEAT_INTERVAL);
            }
            let done = worker.join();
            done.map_err(|_| CopyError::Local("a thread of this end panicked".to_owned()))
        })
    }

    fn read_own_ends(&self) -> Vec<StreamEnd> {
        self.connections.iter().map(ConnectionCounters::read).collect()
    }

    fn total_bytes(&self) -> Option<u64> {
        let files = self.entries.iter().filter(|entry| !entry.folder);
        files.map(|entry| entry.size_bytes).sum()
    }
}

fn open_local_source(
    path: &Path,
    direct: bool,
    cancelled: &AtomicBool,
) -> Result<CopySource, CopyError> {
    let failed =
        |error: io::Error| CopyError::Local(format!("cannot read {}: {error}", path.display()));
    // A symbolic link named by the user stands for its target.
    let path = path.canonicalize().map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (folder, inner) = split_path(&path).map_err(CopyError::Local)?;
    CopySource::list(folder, &inner, name.to_owned(), direct, cancelled).map_err(CopyError::Local)
}

/// Opens the folder of a local path; returns it with the rest of the path.
fn open_local_folder(path: &Path) -> Result<(ConfinedDir, PathBuf), String> {
    let path = std::path::absolute(path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    if path.is_dir() {
        let folder = ConfinedDir::open(&path);
        let folder = folder.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        return Ok((folder, PathBuf::new()));
    }
    split_path(&path)
}

fn split_path(path: &Path) -> Result<(ConfinedDir, PathBuf), String> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, PathBuf::from(name)),
        _ => (path, PathBuf::new()),
    };
    let folder = ConfinedDir::open(parent)
        .map_err(|error| format!("cannot open the folder {}: {error}", parent.display()))?;
    Ok((folder, name))
}
