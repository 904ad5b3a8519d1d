//! One copy from the initiator's side: agree on the files, open the connections, let both ends
//! work, and watch them until both are done.

use super::far::{mode, pack_sums, unpack_sums};
use super::list::Source;
use super::place::{Target, TargetWish};
use super::source::{Known, SourceRun};
use super::target::TargetRun;
use super::{connections, plan_of};
use crate::error::ProbeError;
use crate::limits::LONGEST_PROBING_US;
use crate::probing::Line;
use crate::throughput::{self, Target as Peer};
use crate::wire::{
    Answer, Ask, BlockKey, Bounds, Dry, Entry, FilesAnswer, FilesAsk, Listed, MOST_ENTRIES,
    MOST_SUMS, OpenAsk, Opened, SourceAsk, Status, TargetAsk,
};
use longhaul_model::report::v1::copy::{Observation, Point};
use longhaul_model::report::v1::{Caveat, Party};
use longhaul_sys::beneath::Folder;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Looks at both ends come at this distance, the first ones sooner.
const LOOK: Duration = Duration::from_millis(100);
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Both ends stand still for so long: something hangs that will not come back.
const STANDSTILL: Duration = Duration::from_secs(600);
/// Points of the course in a report; the distance doubles when there are more.
const MOST_POINTS: usize = 600;
/// A session that only asks.
const BOUNDS: Bounds = Bounds {
    flows: 0,
    most_bytes: 0,
    most_time_us: LONGEST_PROBING_US,
    dscp: None,
};
/// Entries as JSON in one message of the initiator.
const ENTERED_BYTES: usize = 40 << 10;

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

enum Run {
    Source(SourceRun),
    Target(TargetRun),
}

impl Run {
    fn status(&self) -> Status {
        match self {
            Run::Source(run) => run.status(),
            Run::Target(run) => run.status(),
        }
    }
}

/// The session, and what was agreed so far.
struct Course<'a> {
    line: Line,
    request: &'a CopyRequest,
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
    let seen = course.follow(&run, stop, watch)?;
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

/// What both ends said last, and how it came to that.
struct Seen {
    near: Status,
    far: Status,
    data: Duration,
    course: Vec<Point>,
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

    /// The data connections; none where only the disks are measured.
    fn open(&mut self, peer: &Peer) -> Result<(Vec<TcpStream>, BlockKey), CopyError> {
        let request = self.request;
        let ask = OpenAsk {
            forward: request.forward,
            streams: request.streams,
            window_bytes: request.window_bytes,
            congestion_control: request.congestion_control.clone(),
        };
        let plan = plan_of(&ask);
        let FilesAnswer::Opened(Opened { nonce, key }) = self.ask(FilesAsk::Open(ask))? else {
            return self.unexpected();
        };
        let Ok(key) = BlockKey::try_from(key.0.as_slice()) else {
            return self.unexpected();
        };
        let sockets = throughput::open_streams(peer, &plan, self.line.address(), nonce);
        let address = self.line.address();
        let failed = |error: crate::engine::EngineError| CopyError::Network {
            address,
            what: error.to_string(),
        };
        let sockets = sockets.map_err(failed)?;
        let both = sockets.forward.into_iter().chain(sockets.reverse).collect();
        Ok((connections(both).map_err(failed)?, key))
    }

    /// This end has the source.
    fn agree_forward(
        &mut self,
        source: Source,
        ends: (Vec<TcpStream>, BlockKey),
    ) -> Result<Run, CopyError> {
        self.left_out = source.left_out;
        self.entries = source.entries().to_vec();
        self.done(FilesAsk::Target(TargetAsk {
            path: self.request.far.clone(),
            name: source.name.clone(),
            folder: source.is_folder(),
            overwrite: self.request.overwrite,
            direct: self.request.direct,
            dry: self.dry().is_some(),
        }))?;
        let mut known = Known::default();
        let mut told = 0;
        while told < self.entries.len() {
            let entries = next_entries(&self.entries[told..]);
            told += entries.len();
            let FilesAnswer::Entered(entered) = self.ask(FilesAsk::Enter { entries })? else {
                return self.unexpected();
            };
            known.skipped.extend(entered.there);
            for file in entered.begun {
                let held = known.held.entry(file).or_default();
                let mut from = 0;
                loop {
                    let FilesAnswer::Held(sums) = self.ask(FilesAsk::Held { file, from })? else {
                        return self.unexpected();
                    };
                    let sums = unpack_sums(&sums).map_err(CopyError::Near)?;
                    let Some(last) = sums.iter().map(|(index, _)| *index).max() else {
                        break;
                    };
                    if last < from {
                        return self.unexpected();
                    }
                    from = last.saturating_add(1);
                    held.extend(sums);
                }
            }
        }
        self.skipped = known.skipped.len() as u64;
        let dry = self.dry();
        self.done(FilesAsk::Begin { dry })?;
        let run = SourceRun::start(source, known, ends, mode(dry));
        Ok(Run::Source(run.map_err(|error| cannot_begin(&error))?))
    }

    /// The far end has the source.
    fn agree_reverse(&mut self, ends: (Vec<TcpStream>, BlockKey)) -> Result<Run, CopyError> {
        let ask = SourceAsk {
            path: self.request.far.clone(),
            direct: self.request.direct,
            in_order: self.request.near == Near::Stream,
        };
        let FilesAnswer::Listed(listed) = self.ask(FilesAsk::Source(ask))? else {
            return self.unexpected();
        };
        let mut target = self.near_target(&listed)?;
        self.left_out = listed.left_out;
        while (self.entries.len() as u64) < listed.entries {
            let from = self.entries.len() as u64;
            let FilesAnswer::Entries(entries) = self.ask(FilesAsk::List { from })? else {
                return self.unexpected();
            };
            if entries.is_empty() {
                return self.unexpected();
            }
            self.entries.extend(entries.iter().cloned());
            let entered = target.enter(entries).map_err(CopyError::Near)?;
            // `enter` counts from its own first entry on, as the list does.
            if !entered.there.is_empty() {
                self.skipped += entered.there.len() as u64;
                self.done(FilesAsk::Skip {
                    files: entered.there,
                })?;
            }
            for file in entered.begun {
                self.tell_held(&target, file)?;
            }
        }
        let dry = self.dry();
        let run = TargetRun::start(target, ends, mode(dry));
        let run = Run::Target(run.map_err(|error| cannot_begin(&error))?);
        self.done(FilesAsk::Begin { dry })?;
        Ok(run)
    }

    fn tell_held(&mut self, target: &Target, file: u32) -> Result<(), CopyError> {
        let mut from = 0;
        loop {
            let held = target.held(file, from, MOST_SUMS);
            let Some((last, _)) = held.last() else {
                return Ok(());
            };
            from = last + 1;
            let sums = pack_sums(&held);
            self.done(FilesAsk::Hold { file, sums })?;
        }
    }

    fn near_target(&self, listed: &Listed) -> Result<Target, CopyError> {
        let Near::Path(path) = &self.request.near else {
            return Ok(Target::stream());
        };
        let wish = TargetWish {
            path: PathBuf::new(),
            name: Some(listed.name.clone()),
            folder: listed.folder,
            overwrite: self.request.overwrite,
            direct: self.request.direct,
            dry: self.dry().is_some(),
        };
        near_place(path)
            .and_then(|(folder, path)| Target::settle(folder, TargetWish { path, ..wish }))
            .map_err(CopyError::Near)
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

    /// Looks at both ends until both are done, or one has failed.
    fn follow(
        &mut self,
        run: &Run,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&CopyProgress),
    ) -> Result<Seen, CopyError> {
        let begun = Instant::now();
        let (mut look, mut course) = (FIRST_LOOK, Sampled::default());
        let (mut last, mut moved_at) = ((0, 0), begun);
        loop {
            let near = run.status();
            let FilesAnswer::Status(far) = self.ask(FilesAsk::Status)? else {
                return self.unexpected();
            };
            let data = begun.elapsed();
            let at_target = match run {
                Run::Source(_) => &*far,
                Run::Target(_) => &near,
            };
            let bytes = if self.request.dry_disk {
                at_target.end.disk_bytes
            } else {
                at_target.moved_bytes
            };
            course.note(data, bytes);
            watch(&CopyProgress {
                elapsed: data,
                bytes,
                spared_bytes: at_target.held_bytes + at_target.hole_bytes,
                total_bytes: self.total_bytes(),
            });
            self.failed(&near, &far)?;
            if near.over && far.over {
                return Ok(Seen {
                    near,
                    far: *far,
                    data,
                    course: course.points,
                });
            }
            let now = (
                near.moved_bytes + near.end.disk_bytes,
                far.moved_bytes + far.end.disk_bytes,
            );
            if now != last {
                (last, moved_at) = (now, Instant::now());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(CopyError::Stopped);
            }
            if moved_at.elapsed() > STANDSTILL && self.total_bytes().is_some() {
                return Err(CopyError::Network {
                    address: self.line.address(),
                    what: format!("nothing has moved for {} s", STANDSTILL.as_secs()),
                });
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK);
        }
    }

    /// Which end failed: its own files before the connection that ended with it.
    fn failed(&self, near: &Status, far: &Status) -> Result<(), CopyError> {
        let address = self.line.address();
        let text = |status: &Status| {
            let what = status.failed.as_deref()?;
            Some(crate::told::one_line(what, 400))
        };
        match (text(near), text(far)) {
            (Some(what), _) if !near.lost => Err(CopyError::Near(what)),
            (_, Some(what)) if !far.lost => Err(CopyError::Far { address, what }),
            // The other end may be about to say why.
            (Some(_), None) if !far.over => Ok(()),
            (None, Some(_)) if !near.over => Ok(()),
            (Some(what), _) | (None, Some(what)) => Err(CopyError::Network { address, what }),
            (None, None) => Ok(()),
        }
    }

    fn observation(&self, seen: Seen, (setup, rtt): (Duration, Option<Duration>)) -> Observation {
        let us = |time: Duration| time.as_micros() as u64;
        let (source, target) = if self.request.forward {
            (&seen.near, &seen.far)
        } else {
            (&seen.far, &seen.near)
        };
        let files = self.entries.iter().filter(|entry| !entry.folder).count() as u64;
        Observation {
            files,
            folders: self.entries.len() as u64 - files,
            bytes: self.total_bytes().unwrap_or(target.moved_bytes),
            sent_bytes: source.moved_bytes * u64::from(!self.request.dry_disk),
            held_bytes: target.held_bytes,
            hole_bytes: target.hole_bytes,
            skipped_files: self.skipped,
            idle_rtt_us: rtt.map(us),
            setup_us: us(setup),
            data_us: us(seen.data),
            blake3: target.blake3.clone(),
            source: source.end,
            target: target.end,
            course: seen.course,
        }
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        if self.left_out > 0 {
            let text = format!(
                "{} of the source are symbolic links, devices, pipes or sockets and were left out",
                self.left_out
            );
            caveats.push(Caveat::new("left_out", text));
        }
        caveats
    }
}

fn cannot_begin(error: &io::Error) -> CopyError {
    CopyError::Near(format!("cannot begin: {error}"))
}

/// As many as one message holds.
fn next_entries(entries: &[Entry]) -> Vec<Entry> {
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        // JSON makes six letters of one, at worst.
        let first = bytes == 0;
        bytes += 6 * entry.path.len() + 200;
        first || bytes < ENTERED_BYTES
    };
    let next = entries.iter().take(MOST_ENTRIES).take_while(fits);
    next.cloned().collect()
}

fn near_source(path: &Path, direct: bool) -> Result<Source, CopyError> {
    let failed =
        |error: io::Error| CopyError::Near(format!("cannot read {}: {error}", path.display()));
    // Whoever names a link here means what it leads to.
    let path = path.canonicalize().map_err(failed)?;
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let (folder, inner) = split(&path).map_err(CopyError::Near)?;
    Source::list(folder, &inner, name.to_owned(), direct).map_err(CopyError::Near)
}

/// The folder of a name on this host, opened, and what is left of the name.
fn near_place(path: &Path) -> Result<(Folder, PathBuf), String> {
    let path = std::path::absolute(path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    if path.is_dir() {
        let folder = Folder::open(&path);
        let folder = folder.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        return Ok((folder, PathBuf::new()));
    }
    split(&path)
}

fn split(path: &Path) -> Result<(Folder, PathBuf), String> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, PathBuf::from(name)),
        _ => (path, PathBuf::new()),
    };
    let folder = Folder::open(parent)
        .map_err(|error| format!("cannot open the folder {}: {error}", parent.display()))?;
    Ok((folder, name))
}

/// The course, thinned so that it stays short however long the copy takes.
#[derive(Debug, Default)]
struct Sampled {
    points: Vec<Point>,
    apart: Duration,
    last: Option<Duration>,
}

impl Sampled {
    fn note(&mut self, elapsed: Duration, bytes: u64) {
        let apart = self.apart.max(LOOK / 2);
        if self.last.is_some_and(|last| elapsed < last + apart) {
            return;
        }
        self.last = Some(elapsed);
        self.points.push(Point {
            elapsed_us: elapsed.as_micros() as u64,
            bytes,
        });
        if self.points.len() >= MOST_POINTS {
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                odd
            });
            self.apart = apart * 2;
        }
    }
}
