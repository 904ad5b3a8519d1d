//! One copy from the initiator's side: agree on the files, open the connections, let both ends
//! work, and watch them until both are done.

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

/// A session that only asks.
const BOUNDS: Bounds = Bounds {
    flows: 0,
    most_bytes: 0,
    most_time_us: LONGEST_PROBING_US,
    dscp: None,
};
/// Signs of life are given this often at least while this host's files are looked at.
const BESIDE: Duration = Duration::from_millis(50);

/// What is to be copied.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// The initiator has the source.
    pub forward: bool,
    pub near: Near,
    /// Below a folder that the far end serves.
    pub far: String,
    pub overwrite: bool,
    pub direct: bool,
    pub streams: u32,
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// Only the disks, or only the network.
    pub dry_disk: bool,
    pub dry_network: bool,
}

/// The initiator's own side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Near {
    Path(PathBuf),
    /// Standard input, or standard output.
    Stream,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// Since the first block was asked for.
    pub elapsed: Duration,
    /// At the target, those of earlier runs left out.
    pub bytes: u64,
    /// That an earlier run had left, or that are hole.
    pub spared_bytes: u64,
    /// Absent: a stream tells no length.
    pub total_bytes: Option<u64>,
}

/// What a copy gave.
#[derive(Debug, Clone)]
pub struct CopyOutcome {
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<Caveat>,
}

/// Why a copy ended without its files.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Session(#[from] ProbeError),
    /// This host's files or memory.
    #[error("{0}")]
    Near(String),
    /// The far end's files, or what it allows.
    #[error("{address}: {what}")]
    Far { address: SocketAddr, what: String },
    /// The data connections.
    #[error("lost the data connections to {address}: {what}")]
    Network { address: SocketAddr, what: String },
    #[error("the copy was interrupted")]
    Stopped,
}

/// The session, and what was agreed so far.
struct Course<'a> {
    line: Line,
    request: &'a CopyRequest,
    /// The user wants no more of it.
    stop: &'a AtomicBool,
    /// Ends what is done to this host's files beside the session.
    given_up: Arc<AtomicBool>,
    /// All entries of the source, in order.
    entries: Vec<Entry>,
    left_out: u64,
    skipped: u64,
}

/// Copies; `watch` is called about ten times a second. What an interrupted copy has left at the
/// target is taken up by the next one.
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
    // What is wrong here is told before anybody is bothered.
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

    /// Works on this host's files, however long that takes, while the session goes on giving signs
    /// of life.
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
