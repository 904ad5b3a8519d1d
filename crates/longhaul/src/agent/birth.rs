//! Startup of the agent: checks its requirements, recovers earlier runs and starts all tasks.

use super::book::Book;
use super::desk::{Desk, Open};
use super::folder::{Ballast, Folder};
use super::forward::{self, Spool};
use super::inquiry::Inquiry;
use super::landing::Owner;
use super::left;
use super::notify::Notifier;
use super::now::Clocks;
use super::retention;
use super::runner::{Runner, Spooled};
use super::runs::Makers;
use super::scribe::Scribe;
use super::service::Service;
use super::spent::Keeper;
use super::turns::{Agent, Ears};
use super::voice::Voice;
use super::wishes::Wishes;
use crate::api::tls;
use crate::cli::args::{ArchiveArgs, WatchArgs};
use crate::cli::output;
use crate::fail::{Fail, HOST};
use crate::watch::file::WatchFile;
use crate::watch::schedule::Schedule;
use longhaul_store::watched::{EventFilter, Range};
use longhaul_store::{Archive, Watched};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The maximum number of finished runs that wait for the event loop.
const RAN_MAX: usize = 1024;
/// Older events are not notified after a restart.
const TOLD_LATE_US: i64 = 7 * 86_400_000_000;
const EVENTS_MAX: u32 = 1000;

/// The watch file that the agent was started with, and the arguments to read it again.
pub struct Origin<'a> {
    pub args: &'a WatchArgs,
    pub path: PathBuf,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
}

/// A started agent.
pub struct Born {
    pub agent: Agent,
    pub ears: Ears,
    /// Recovers the runs of an earlier process.
    pub left: JoinHandle<()>,
    pub page: JoinHandle<io::Result<()>>,
    pub stop: watch::Sender<bool>,
    /// True: terminate running runs now.
    pub end: watch::Sender<bool>,
    pub signals: Signals,
    pub archive_thread: std::thread::JoinHandle<()>,
    /// Holds the lock for the lifetime of the agent.
    _folder: Folder,
}

pub struct Signals {
    pub reload: Signal,
    pub stop: Signal,
    pub interrupt: Signal,
}

impl Signals {
    fn take() -> Result<Signals, Fail> {
        let take = |kind| signal(kind).map_err(|e| Fail::from_error(HOST, &e));
        Ok(Signals {
            reload: take(SignalKind::hangup())?,
            stop: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
        })
    }
}

/// Starts the agent: its event loop state, the page, and all background tasks.
pub async fn born(origin: &Origin<'_>, file: WatchFile) -> Result<Born, Fail> {
    let voice = Voice {
        json: origin.args.json,
    };
    let signals = Signals::take()?;
    let path = archive_path(&file, &origin.folder)?;
    let folder = Folder::of(&path)?;
    let listener = listen(file.agent.listen).await?;
    tls::look(&file, &origin.folder).map_err(|e| Fail::from_error(HOST, &e))?;
    if let Some(warning) = tls::in_the_clear(&file) {
        voice.trouble(&warning);
    }
    let (end, ending) = watch::channel(false);
    let place = Place {
        origin,
        archive: &path,
        folder: &folder,
        voice,
    };
    let (mut agent, ears, earlier, archive_thread) = place.agent(file, ending)?;
    begin(&agent, (&path, listener.local_addr()), &earlier);
    let left = tokio::spawn(left::see_to(agent.makers.clone(), earlier.spooled));
    let desk = Arc::clone(&agent.desk);
    tokio::spawn(retention::daily(Arc::clone(&desk), voice));
    let (stop, stopped) = watch::channel(false);
    let spool = agent.makers.waiting.clone();
    forward::spawn(Arc::clone(&desk), path, (voice, spool), stopped.clone());
    let page = tokio::spawn(super::serve_page(desk, listener, stopped));
    agent.turn();
    tell_what_is_left(&agent)?;
    Ok(Born {
        agent,
        ears,
        left,
        page,
        stop,
        end,
        signals,
        archive_thread,
        _folder: folder,
    })
}

/// Runs that an earlier process left behind.
struct Earlier {
    spooled: Vec<(Spooled, Owner)>,
    /// The number of planned runs that were marked as missed.
    missed: u64,
}

/// The inputs from which the agent is built.
struct Place<'a> {
    origin: &'a Origin<'a>,
    archive: &'a Path,
    folder: &'a Folder,
    voice: Voice,
}

impl Place<'_> {
    fn agent(
        &self,
        file: WatchFile,
        end: watch::Receiver<bool>,
    ) -> Result<(Agent, Ears, Earlier, std::thread::JoinHandle<()>), Fail> {
        let (origin, voice) = (self.origin, self.voice);
        let thread = |e: io::Error| Fail::from_error(HOST, &e);
        let sends_on = forward::wanted(&file);
        let mut archive = open(self.archive, sends_on)?;
        let clocks = Clocks::new();
        let now = clocks.now();
        let file = Arc::new(file);
        let named = (Arc::clone(&file), origin.folder.clone());
        let (desk, orders) = Desk::new(opener(self.archive, sends_on), named, now.wall_us);
        let looked_us = left::looked_us(&archive, now.wall_us)?;
        let earlier = self.earlier(&mut archive)?;
        let ballast = Ballast::new(self.folder);
        let (scribe, archive_thread) =
            Scribe::start(Box::new(archive), ballast, voice).map_err(thread)?;
        let (ran, ran_out) = mpsc::channel(RAN_MAX);
        let (inquiry, heard) =
            Inquiry::start((desk.open)()?, Arc::clone(&file), self.folder).map_err(thread)?;
        let seed = crate::watch::draw::word(&file.agent.name);
        let spent = Keeper::read(self.folder.file("spent.json"));
        let agent = Agent {
            schedule: Schedule::new(&file, seed)
                .going_on_from(looked_us)
                .having_spent(spent.spent()),
            spent,
            book: Book::default(),
            wishes: Wishes::default(),
            notifier: Notifier::start(&file, &origin.folder, self.folder, voice),
            service: Service::new(),
            under_way: HashMap::new(),
            clocks,
            desk,
            makers: Makers {
                waiting: Spool::default(),
                runner: Runner {
                    program: std::env::current_exe().map_err(thread)?,
                    spool: self.folder.spool(),
                    end,
                },
                scribe: scribe.clone(),
                archive: self.archive.to_owned(),
                folder: origin.folder.clone(),
                ran,
            },
            scribe,
            inquiry,
            voice,
        };
        let ears = Ears {
            ran: ran_out,
            heard,
            orders,
        };
        Ok((agent, ears, earlier, archive_thread))
    }

    fn earlier(&self, archive: &mut Archive) -> Result<Earlier, Fail> {
        let spooled = left::spooled(&self.folder.spool());
        let ids: HashSet<String> = spooled
            .iter()
            .map(|(_, it)| it.planned_id.clone())
            .collect();
        let missed = left::settle(archive, &ids)?;
        Ok(Earlier { spooled, missed })
    }
}

/// Requests notifications for events that an earlier process detected but did not deliver.
fn tell_what_is_left(agent: &Agent) -> Result<(), Fail> {
    let filter = EventFilter {
        range: Range {
            begin_us: agent.clocks.now().wall_us - TOLD_LATE_US,
            end_us: i64::MAX,
        },
        pair: None,
        state: None,
        limit: EVENTS_MAX,
    };
    for event in (agent.desk.open)()?.events(&filter)? {
        if agent.notifier.is_to_tell(&event) {
            agent.inquiry.tell(event.id);
        }
    }
    Ok(())
}

/// Logs the startup message and reports readiness to the service manager.
fn begin(agent: &Agent, (archive, page): (&Path, io::Result<SocketAddr>), earlier: &Earlier) {
    let file = agent.desk.file();
    let scheme = if file.api.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let page = format!("{scheme}://{}/", page.unwrap_or(file.agent.listen));
    let begun = crate::render::watch::begin::Begun {
        agent: &file.agent.name,
        page: &page,
        archive,
        missed: earlier.missed,
        left: earlier.spooled.len(),
        next: next_runs(agent),
        jobs: agent.schedule.jobs().count(),
    };
    agent.voice.begin(&begun.text(), begun.json());
    Service::ready(&format!("page at {page}"));
}

/// Returns the first runs with their due times.
fn next_runs(agent: &Agent) -> Vec<(i64, String)> {
    const SHOWN: usize = 3;
    let now_us = agent.clocks.now().wall_us;
    let due = |job: &Arc<crate::watch::jobs::Job>| {
        let key = &job.key;
        let who = crate::render::watch::lines::who(&key.measure, &key.from, &key.to);
        (job.due_us(job.first_after(now_us)), who)
    };
    let mut next: Vec<_> = agent.schedule.jobs().map(due).collect();
    next.sort();
    next.truncate(SHOWN);
    next
}

fn archive_path(file: &WatchFile, folder: &Path) -> Result<PathBuf, Fail> {
    let named = file.agent.archive.as_ref().map(|path| folder.join(path));
    let path = output::archive_path(&ArchiveArgs { archive: named })?;
    // Runs start in other working directories, so the path must be absolute.
    std::path::absolute(&path).map_err(|e| Fail::from_error(HOST, &e))
}

fn open(path: &Path, sends_on: bool) -> Result<Archive, Fail> {
    let mut archive = Archive::open(path)?;
    archive.send_on(sends_on);
    Ok(archive)
}

fn opener(path: &Path, sends_on: bool) -> Open {
    let path = path.to_owned();
    Arc::new(move || {
        let mut archive = Archive::open(&path)?;
        archive.send_on(sends_on);
        Ok(Box::new(archive) as Box<dyn Watched>)
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Fail> {
    TcpListener::bind(address).await.map_err(|error| {
        let mut fail = Fail::new(HOST, format!("cannot listen on {address} for the page"));
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program has this port; choose another `listen` in [agent]"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this host has no such address; change `listen` in [agent]"
            }
            _ => "change `listen` in [agent]",
        };
        fail.causes.push(error.to_string());
        fail.hint(Some(hint))
    })
}
