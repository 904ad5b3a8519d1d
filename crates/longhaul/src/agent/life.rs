//! The life of an agent: what must be there before it begins, what it says then, and how it ends.

use super::book::Book;
use super::desk::{Desk, Open};
use super::folder::{Ballast, Folder};
use super::forward::{self, Spool};
use super::inquiry::Inquiry;
use super::left;
use super::notify::Notifier;
use super::now::Clocks;
use super::retention;
use super::runner::{Runner, Spooled};
use super::runs::Makers;
use super::scribe::Scribe;
use super::service::Service;
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
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Threads of the runtime: the loop and the page need no more, runs are processes.
const WORKERS: usize = 2;
/// Runs that have ended and wait for the loop.
const RAN_MAX: usize = 1024;
/// Runs under way at the end may go on for so long.
const LAST_RUNS: Duration = Duration::from_secs(60);
/// For runs that were told to end, and for the last notes.
const LAST_NOTES: Duration = Duration::from_secs(10);

/// An event of longer ago is no news.
const TOLD_LATE_US: i64 = 7 * 86_400_000_000;
const EVENTS_MAX: u32 = 1000;

/// The file that the agent was started with, and how it is read again.
pub struct Origin<'a> {
    pub args: &'a WatchArgs,
    pub path: PathBuf,
    /// From which relative names in the file count.
    pub folder: PathBuf,
}

/// Runs the agent until it is told to stop.
pub fn run(args: &WatchArgs, path: PathBuf, file: WatchFile) -> Result<ExitCode, Fail> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let origin = Origin { args, path, folder };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("agent")
        .enable_all()
        .build()
        .map_err(|e| Fail::from_error(HOST, &e))?;
    let ended = runtime.block_on(async {
        let born = born(&origin, file).await?;
        Ok(live(&origin, born).await)
    });
    // What still waits for a peer is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// All that was made for the agent.
struct Born {
    agent: Agent,
    ears: Ears,
    page: JoinHandle<io::Result<()>>,
    stop: watch::Sender<bool>,
    /// True: runs under way end now.
    end: watch::Sender<bool>,
    signals: Signals,
    archive_thread: std::thread::JoinHandle<()>,
    /// Held as long as the agent lives.
    _folder: Folder,
}

struct Signals {
    reload: Signal,
    stop: Signal,
    interrupt: Signal,
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

async fn born(origin: &Origin<'_>, file: WatchFile) -> Result<Born, Fail> {
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
    let sends_on = forward::wanted(&file);
    let mut archive = open(&path, sends_on)?;
    let clocks = Clocks::new();
    let now = clocks.now();
    let file = Arc::new(file);
    let (desk, orders) = Desk::new(
        opener(&path, sends_on),
        (Arc::clone(&file), origin.folder.clone()),
        now.wall_us,
    );
    let (end, ending) = watch::channel(false);
    let (ran, ran_out) = mpsc::channel(RAN_MAX);
    let runner = Runner {
        program: std::env::current_exe().map_err(|e| Fail::from_error(HOST, &e))?,
        spool: folder.spool(),
        end: ending,
    };
    let looked_us = left::looked_us(&archive, now.wall_us)?;
    let in_spool = left::spooled(&runner.spool);
    let ids: HashSet<String> = in_spool.iter().map(|(_, it)| it.planned_id.clone()).collect();
    let missed = left::settle(&mut archive, &ids)?;
    let thread = |e: io::Error| Fail::from_error(HOST, &e);
    let (scribe, archive_thread) =
        Scribe::start(Box::new(archive), Ballast::new(&folder), voice).map_err(thread)?;
    let spool = Spool::default();
    let makers = Makers {
        waiting: spool.clone(),
        runner,
        scribe: scribe.clone(),
        archive: path.clone(),
        folder: origin.folder.clone(),
        ran,
    };
    let (inquiry, heard) =
        Inquiry::start((desk.open)()?, Arc::clone(&file), &folder).map_err(thread)?;
    let seed = crate::watch::draw::word(&file.agent.name);
    let mut agent = Agent {
        schedule: Schedule::new(&file, seed).going_on_from(looked_us),
        book: Book::default(),
        wishes: Wishes::default(),
        notifier: Notifier::start(&file, &origin.folder, &folder, voice),
        service: Service::new(),
        under_way: std::collections::HashMap::new(),
        clocks,
        desk: Arc::clone(&desk),
        scribe,
        makers: makers.clone(),
        inquiry,
        voice,
    };
    begin(&agent, (&path, listener.local_addr()), (missed, &in_spool));
    tokio::spawn(left::see_to(makers, in_spool));
    tokio::spawn(retention::daily(Arc::clone(&desk), voice));
    let (stop, stopped) = watch::channel(false);
    forward::spawn(Arc::clone(&desk), path, (voice, spool), stopped.clone());
    let page = tokio::spawn(super::serve_page(desk, listener, stopped));
    agent.turn();
    tell_what_is_left(&agent)?;
    Ok(Born {
        agent,
        ears: Ears {
            ran: ran_out,
            heard,
            orders,
        },
        page,
        stop,
        end,
        signals,
        archive_thread,
        _folder: folder,
    })
}

/// Events that an earlier agent found, and ended before somebody was told.
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

/// What is said at the start.
fn begin(
    agent: &Agent,
    (archive, page): (&Path, io::Result<SocketAddr>),
    (missed, left): (u64, &[(Spooled, super::landing::Owner)]),
) {
    let file = agent.desk.file();
    let page = page.map_or_else(|_| file.agent.listen.to_string(), |it| it.to_string());
    let begun = crate::render::watch::begin::Begun {
        agent: &file.agent.name,
        page: &page,
        archive,
        missed,
        left: left.len(),
        next: next_runs(agent),
        jobs: agent.schedule.jobs().count(),
    };
    agent.voice.begin(&begun.text(), begun.json());
    agent.service.ready(&format!("page at http://{page}/"));
}

/// The first runs, with their times.
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
    // Runs are made with it from wherever they start.
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

async fn live(origin: &Origin<'_>, mut born: Born) -> ExitCode {
    loop {
        let Signals {
            reload,
            stop,
            interrupt,
        } = &mut born.signals;
        tokio::select! {
            biased;
            _ = stop.recv() => break,
            _ = interrupt.recv() => break,
            _ = reload.recv() => super::reload::reload(origin, &mut born.agent),
            () = born.agent.hear(&mut born.ears) => {}
        }
        born.agent.turn();
    }
    finish(born).await;
    ExitCode::SUCCESS
}

/// Nothing starts any more; what runs may end, up to a limit, or until it is told again.
async fn finish(mut born: Born) {
    let agent = &mut born.agent;
    agent.service.stopping("waiting for runs under way");
    agent.schedule.stop(agent.clocks.now());
    agent.write_down();
    if !agent.under_way.is_empty() {
        let names: Vec<&str> = agent.under_way.values().map(String::as_str).collect();
        agent.voice.note(&format!(
            "stopping; waiting for {} up to {} s (stop again to end now): {}",
            crate::render::figures::count_of(names.len() as u64, "run"),
            LAST_RUNS.as_secs(),
            names.join(", ")
        ));
    }
    let limit = Instant::now() + LAST_RUNS;
    while !agent.under_way.is_empty() {
        tokio::select! {
            _ = born.signals.stop.recv() => break,
            _ = born.signals.interrupt.recv() => break,
            () = sleep_until(limit) => break,
            ran = born.ears.ran.recv() => ran.into_iter().for_each(|ran| agent.ran(ran)),
        }
        agent.write_down();
    }
    let _ = born.end.send(true);
    let limit = Instant::now() + LAST_NOTES;
    while !agent.under_way.is_empty() {
        tokio::select! {
            () = sleep_until(limit) => break,
            ran = born.ears.ran.recv() => ran.into_iter().for_each(|ran| agent.ran(ran)),
        }
    }
    agent.abandon();
    let _ = born.stop.send(true);
    let _ = timeout(LAST_NOTES, agent.scribe.reached()).await;
    agent.scribe.end();
    agent.notifier.finish().await;
    let _ = timeout(LAST_NOTES, born.page).await;
    let joined = tokio::task::spawn_blocking(move || born.archive_thread.join());
    let _ = timeout(LAST_NOTES, joined).await;
    born.agent.voice.note("stopped");
}
