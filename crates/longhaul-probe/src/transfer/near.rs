//! A copy from the client's side: negotiates the files, opens the connections, and monitors both
//! ends until they are done.

mod agree;
mod follow;
mod place;

use super::list::Source;
use crate::error::ProbeError;
use crate::limits::LONGEST_PROBING_US;
use crate::probing::Line;
use crate::throughput::Target as Peer;
use crate::wire::{Answer, Ask, Bounds, Dry, Entry, FilesAnswer, FilesAsk};
use longhaul_model::report::v1::copy::Observation;
use longhaul_model::report::v1::{Caveat, Party};
use place::near_source;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bounds of a session with requests only.
const BOUNDS: Bounds = Bounds {
    flows: 0,
    most_bytes: 0,
    most_time_us: LONGEST_PROBING_US,
    dscp: None,
};
/// Maximum interval between heartbeats during work on local files.
const BESIDE: Duration = Duration::from_millis(50);

/// Parameters of a copy.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// The client has the source.
    pub forward: bool,
    pub near: Near,
    /// Path below a folder that the server serves.
    pub far: String,
    pub overwrite: bool,
    pub direct: bool,
    pub streams: u32,
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// Dry runs: only the disks, or only the network.
    pub dry_disk: bool,
    pub dry_network: bool,
}

/// The client's end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Near {
    Path(PathBuf),
    /// Standard input or standard output.
    Stream,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// Time since the first block was requested.
    pub elapsed: Duration,
    /// Bytes at the target, without those of earlier runs.
    pub bytes: u64,
    /// Bytes left by an earlier run, and holes.
    pub spared_bytes: u64,
    /// Total size; unknown for a stream.
    pub total_bytes: Option<u64>,
}

/// Result of a copy.
#[derive(Debug, Clone)]
pub struct CopyOutcome {
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<Caveat>,
}

/// Reason why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Session(#[from] ProbeError),
    /// A failure of this host's files or memory.
    #[error("{0}")]
    Near(String),
    /// A failure of the server's files, or a refusal.
    #[error("{address}: {what}")]
    Far { address: SocketAddr, what: String },
    /// A failure of the data connections.
    #[error("lost the data connections to {address}: {what}")]
    Network { address: SocketAddr, what: String },
    #[error("the copy was interrupted")]
    Stopped,
}

/// The session, and the state negotiated so far.
struct Course<'a> {
    line: Line,
    request: &'a CopyRequest,
    /// Set when the user cancels.
    stop: &'a AtomicBool,
    /// Cancels work on local files that runs in parallel to the session.
    given_up: Arc<AtomicBool>,
    /// All entries of the source, in order.
    entries: Vec<Entry>,
    left_out: u64,
    skipped: u64,
}

/// Copies files. Calls `watch` about ten times a second. An interrupted copy leaves data at the
/// target that the next copy resumes.
///
/// # Errors
/// See [`CopyError`].
pub fn copy(
    peer: &Peer,
    request: &CopyRequest,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&CopyProgress),
) -> Result<CopyOutcome, CopyError> {
    let (started_at, begun) = (SystemTime::now(), Instant::now());
    // Report local errors before connecting.
    let near = match (request.forward, &request.near) {
        (true, Near::Path(path)) => Some(near_source(path, request.direct)?),
        (true, Near::Stream) => Some(Source::stream()),
        (false, _) => None,
    };
    let opened = Line::open(peer, BOUNDS)?;
    opened.line.speaks_of_files()?;
    let idle_rtt = opened.line.idle_rtt();
    let mut course = Course {
        line: opened.line,
        request,
        stop,
        given_up: Arc::default(),
        entries: Vec::new(),
        left_out: 0,
        skipped: 0,
    };
    let (connections, opened_ends) = course.open(peer)?;
    let run = match near {
        Some(source) => course.agree_forward(source, (connections, opened_ends))?,
        None => course.agree_reverse((connections, opened_ends))?,
    };
    let setup = begun.elapsed();
    let seen = course.follow(&run, watch)?;
    let observation = course.observation(seen, (setup, idle_rtt));
    let caveats = course.caveats();
    course.line.close();
    Ok(CopyOutcome {
        observation,
        initiator: opened.initiator,
        responder: opened.responder,
        started_at,
        duration: begun.elapsed(),
        caveats,
    })
}

impl Course<'_> {
    fn ask(&mut self, ask: FilesAsk) -> Result<FilesAnswer, CopyError> {
        match self.line.answer(Ask::Files(Box::new(ask)))? {
            Answer::Files(answer) => Ok(answer),
            Answer::Failed(what) => Err(CopyError::Far {
                address: self.line.address(),
                what: crate::told::one_line(&what, 400),
            }),
            other => Err(self.line.unexpected(&other).into()),
        }
    }

    fn unexpected<T>(&self) -> Result<T, CopyError> {
        Err(CopyError::Far {
            address: self.line.address(),
            what: "it answered something else than was asked".to_owned(),
        })
    }

    fn done(&mut self, ask: FilesAsk) -> Result<(), CopyError> {
        match self.ask(ask)? {
            FilesAnswer::Done => Ok(()),
            _ => self.unexpected(),
        }
    }

    /// Runs long work on local files in a thread while the session keeps sending heartbeats.
    fn beside<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, CopyError> {
        let given_up = Arc::clone(&self.given_up);
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            let mut pause = Duration::from_micros(200);
            while !worker.is_finished() {
                let over = match self.line.look_after() {
                    Ok(()) if self.stop.load(Ordering::Relaxed) => Some(CopyError::Stopped),
                    Ok(()) => None,
                    Err(error) => Some(error.into()),
                };
                if let Some(over) = over {
                    given_up.store(true, Ordering::Relaxed);
                    return Err(over);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(BESIDE);
            }
            let done = worker.join();
            done.map_err(|_| CopyError::Near("a thread of this end failed".to_owned()))
        })
    }

    fn total_bytes(&self) -> Option<u64> {
        let files = self.entries.iter().filter(|entry| !entry.folder);
        files.map(|entry| entry.size_bytes).sum()
    }

    fn dry(&self) -> Option<Dry> {
        let bytes = self.total_bytes().unwrap_or(0);
        match (self.request.dry_disk, self.request.dry_network) {
            (true, _) => Some(Dry::Disk { bytes }),
            (_, true) => Some(Dry::Network { bytes }),
            _ => None,
        }
    }
}
