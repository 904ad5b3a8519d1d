//! Startup of the agent: checks its requirements, recovers earlier runs and starts all tasks.

use super::agent_folder::{self, AgentFolder};
use super::agent_log::{AgentLog, format_moment};
use super::analysis_worker::AnalysisWorker;
use super::archive_writer::{self, ArchiveWriter};
use super::clocks::{read_clock_times, read_wall_us};
use super::embedded_server::{EmbeddedServer, ServerExtensions};
use super::event_loop::{EventLoop, LoopChannels};
use super::export::{self, ResultReceiver};
use super::finished_run;
use super::firefly_receiver::FireflyReceiver;
use super::follow_ups::FollowUpRequests;
use super::job_status;
use super::notifier::EventNotifier;
use super::process_runner::ProcessRunner;
use super::run_tasks::RunLauncher;
use super::service_manager::ServiceManager;
use super::shared_state::{ArchiveOpener, JobRequest, SharedState};
use crate::agent_error::AgentError;
use crate::api::api_tls;
use crate::event_log::LogFormat;
use crate::token_store::TokenStore;
use crate::watch::daily_budget::BudgetUsage;
use crate::watch::run_schedule::RunSchedule;
use crate::watch::watch_file::WatchFile;
use longhaul_report::document::ReportDocument;
use longhaul_report::number_format::count_of;
use longhaul_store::Archive;
use longhaul_store::history_store::{EventFilter, TimeRange};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The maximum number of finished runs that wait for the event loop.
const MAX_QUEUED_RUNS: usize = 1024;
/// Older events are not notified after a restart, nor when they arrive from other agents.
pub const MAX_NOTIFY_AGE_US: i64 = 7 * 86_400_000_000;
/// The maximum time for a run of an agent that was killed to execute its program.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const MAX_EVENTS: u32 = 1000;
const MAX_BUDGET_BYTES: u64 = 4 << 20;

/// The watch file that the agent was started with, and what else the user chose.
#[derive(Debug)]
pub struct AgentOptions {
    pub path: PathBuf,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    /// The name of this host in a file that several hosts share.
    pub agent: Option<String>,
    pub archive: PathBuf,
    pub log_format: LogFormat,
    pub server: ServerExtensions,
}

/// A started agent.
pub struct RunningAgent {
    pub event_loop: EventLoop,
    pub channels: LoopChannels,
    /// Recovers the runs of an earlier process.
    pub recovery: JoinHandle<()>,
    pub server: EmbeddedServer,
    pub fireflies: FireflyReceiver,
    pub page: JoinHandle<io::Result<()>>,
    pub stop_page: watch::Sender<bool>,
    /// True: terminate running runs now.
    pub end_runs: watch::Sender<bool>,
    pub signals: AgentSignals,
    pub archive_thread: std::thread::JoinHandle<()>,
    /// Holds the lock for the lifetime of the agent.
    _folder: AgentFolder,
}

pub struct AgentSignals {
    pub reload: Signal,
    pub stop: Signal,
    pub interrupt: Signal,
}

impl AgentSignals {
    fn install() -> Result<AgentSignals, AgentError> {
        let take = |kind| signal(kind).map_err(AgentError::Host);
        Ok(AgentSignals {
            reload: take(SignalKind::hangup())?,
            stop: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
        })
    }
}

/// Starts the agent: its event loop state, the page, and all background tasks.
pub async fn start_agent(
    origin: &AgentOptions,
    file: WatchFile,
) -> Result<RunningAgent, AgentError> {
    let log = AgentLog { format: origin.log_format };
    let signals = AgentSignals::install()?;
    // Runs start in other working directories, so the path must be absolute.
    let path = std::path::absolute(&origin.archive).map_err(AgentError::Host)?;
    let folder = AgentFolder::acquire(&path, LOCK_WAIT)?;
    let listener = bind_page_listener(file.agent.listen).await?;
    api_tls::build_acceptor(&file, &origin.folder).map_err(AgentError::Host)?;
    if let Some(warning) = api_tls::warn_without_tls(&file) {
        log.warn(&warning);
    }
    let (end, ending) = watch::channel(false);
    let open_archive = make_archive_opener(&path);
    let mut archive = open_archive()?;
    let receivers = ResultReceiver::list(&file);
    let names: Vec<&str> = receivers.iter().map(ResultReceiver::outbox_name).collect();
    let dropped = archive.set_destinations(&names)?;
    if dropped > 0 {
        log.warn(&format!(
            "{dropped} items waited for receivers that the watch file no longer names; they are not sent"
        ));
    }
    let spooled = finished_run::list_spooled_runs(&folder.spool_path());
    let ids: HashSet<String> = spooled.iter().map(|(_, it)| it.planned_id.clone()).collect();
    let missed = finished_run::settle_abandoned_runs(&mut archive, &file.agent.name, &ids)?;
    let tokens = TokenStore::of_archive(&path);
    let (state, requests) =
        SharedState::new(open_archive, file.into(), origin.folder.clone(), tokens, read_wall_us());
    let runner = ProcessRunner {
        program: std::env::current_exe().map_err(AgentError::Host)?,
        spool: folder.spool_path(),
        end: ending,
    };
    let (mut agent, channels, archive_thread) =
        build_event_loop(state, requests, archive, &folder, runner, &path, log)?;
    job_status::replace_jobs(&mut agent.state.counters.write().jobs, agent.schedule.jobs());
    announce_startup(&agent, &path, listener.local_addr(), spooled.len(), missed);
    let left = tokio::spawn(finished_run::recover_spool(agent.launcher.clone(), spooled));
    let state = Arc::clone(&agent.state);
    tokio::spawn(archive_writer::run_retention(Arc::clone(&state), log));
    let (stop, stopped) = watch::channel(false);
    export::spawn_export(&state, log, &stopped);
    let mut server = EmbeddedServer::new(origin.server, Arc::clone(&state), log);
    server.apply_watch_file();
    let mut fireflies = FireflyReceiver::new(Arc::clone(&state), agent.launcher.clone(), log);
    fireflies.apply_watch_file();
    let page = tokio::spawn(crate::api::serve_api(state, listener, stopped));
    agent.start_due_runs();
    notify_pending_events(&agent)?;
    Ok(RunningAgent {
        event_loop: agent,
        channels,
        recovery: left,
        server,
        fireflies,
        page,
        stop_page: stop,
        end_runs: end,
        signals,
        archive_thread,
        _folder: folder,
    })
}

fn build_event_loop(
    state: Arc<SharedState>,
    requests: mpsc::Receiver<JobRequest>,
    archive: Archive,
    folder: &AgentFolder,
    runner: ProcessRunner,
    path: &Path,
    log: AgentLog,
) -> Result<(EventLoop, LoopChannels, std::thread::JoinHandle<()>), AgentError> {
    let file = state.file();
    let last_planned_us = archive.last_planned_us()?;
    let (writer, archive_thread) = ArchiveWriter::start(archive, log).map_err(AgentError::Host)?;
    let (finished_sender, finished_runs) = mpsc::channel(MAX_QUEUED_RUNS);
    let (analysis, analysis_results) =
        AnalysisWorker::start((state.open_archive)()?, Arc::clone(&state), log)
            .map_err(AgentError::Host)?;
    let seed = crate::watch::hash_random::hash_text(&file.agent.name);
    let budget_path = folder.file_path("spent.json");
    // An unreadable file counts as empty.
    let saved_budget: BudgetUsage =
        agent_folder::load_json(&budget_path, MAX_BUDGET_BYTES).unwrap_or_default();
    let agent = EventLoop {
        schedule: RunSchedule::new(&file, seed)
            .resume_from(last_planned_us)
            .with_usage(&saved_budget),
        budget_path,
        saved_budget,
        follow_ups: FollowUpRequests::default(),
        notifier: EventNotifier::start(&state, folder, log),
        service: ServiceManager::new(),
        running: HashMap::new(),
        failure_texts: HashMap::new(),
        launcher: RunLauncher {
            runner,
            writer,
            archive: path.to_owned(),
            folder: state.folder.clone(),
            finished_runs: finished_sender,
        },
        state,
        analysis,
        log,
    };
    Ok((agent, LoopChannels { finished_runs, analysis_results, requests }, archive_thread))
}

/// Requests notifications for events that an earlier process detected but did not deliver.
fn notify_pending_events(agent: &EventLoop) -> Result<(), AgentError> {
    let filter = EventFilter {
        range: TimeRange {
            begin_us: read_clock_times().wall_us - MAX_NOTIFY_AGE_US,
            end_us: i64::MAX,
        },
        ..EventFilter::newest(MAX_EVENTS)
    };
    for event in (agent.state.open_archive)()?.events(&filter)? {
        if agent.notifier.is_pending(&event) {
            agent.analysis.renotify(event.id);
        }
    }
    Ok(())
}

/// Logs the startup message and reports readiness to the service manager.
fn announce_startup(
    agent: &EventLoop,
    archive: &Path,
    page: io::Result<SocketAddr>,
    spooled: usize,
    missed: u64,
) {
    let file = agent.state.file();
    let page = format_page_url(&file, page.unwrap_or(file.agent.listen));
    let begun = StartupMessage {
        agent: &file.agent.name,
        page: &page,
        archive,
        missed,
        spooled,
        next: list_next_runs(agent),
        jobs: agent.schedule.jobs().count(),
    };
    agent.log.startup(&begun.text(), begun.json());
    ServiceManager::ready(&format!("page at {page}"));
}

/// Returns the address of the page for a browser. An agent that listens on all addresses is called
/// by the address of its host in the file, or by its host name.
fn format_page_url(file: &WatchFile, at: SocketAddr) -> String {
    let scheme = if file.api.tls_files().is_some() { "https" } else { "http" };
    if !at.ip().is_unspecified() {
        return format!("{scheme}://{at}/");
    }
    let own = file.own_host();
    let host = Some(own.address.clone()).filter(|it| *it != own.name);
    let host = host.or_else(read_hostname).unwrap_or_else(|| own.name.clone());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("{scheme}://{host}:{}/", at.port())
}

/// Returns the hostname of this host, which its audits contain.
pub fn read_hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the first runs with their due times.
fn list_next_runs(agent: &EventLoop) -> Vec<(i64, String)> {
    const SHOWN: usize = 3;
    let now_us = read_clock_times().wall_us;
    let due = |job: &Arc<crate::watch::measure_jobs::MeasureJob>| {
        (job.due_us(job.first_after(now_us)), job.key.title())
    };
    let mut next: Vec<_> = agent.schedule.jobs().map(due).collect();
    next.sort();
    next.truncate(SHOWN);
    next
}

fn make_archive_opener(path: &Path) -> ArchiveOpener {
    let path = path.to_owned();
    let queue = Arc::default();
    Arc::new(move || {
        let mut archive = Archive::open(&path)?;
        archive.share_write_queue(Arc::clone(&queue));
        Ok(archive)
    })
}

async fn bind_page_listener(address: SocketAddr) -> Result<TcpListener, AgentError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| AgentError::Listen { address, source })
}

pub struct StartupMessage<'a> {
    pub agent: &'a str,
    /// Address of the web page.
    pub page: &'a str,
    pub archive: &'a Path,
    /// Planned runs of an earlier agent that can no longer finish.
    pub missed: u64,
    /// Runs recovered from the spool.
    pub spooled: usize,
    /// Due times and names, earliest first.
    pub next: Vec<(i64, String)>,
    pub jobs: usize,
}

impl StartupMessage<'_> {
    pub fn text(&self) -> String {
        let mut page = ReportDocument::default();
        let version = env!("CARGO_PKG_VERSION");
        page.heading(3, format!("longhaul {version} watching as {}", self.agent));
        page.fact("page", self.page);
        page.fact("archive", self.archive.display().to_string());
        page.fact("jobs", self.jobs.to_string());
        let next = self.next.iter();
        page.facts("next", next.map(|(due_us, who)| format!("{}  {who}", format_moment(*due_us))));
        if self.missed > 0 {
            let runs = count_of(self.missed, "run");
            page.fact(
                "earlier",
                format!("{runs} planned by an earlier agent that stopped before them: skipped"),
            );
        }
        if self.spooled > 0 {
            let runs = count_of(self.spooled as u64, "run");
            page.fact("spool", format!("{runs} recovered from an earlier agent"));
        }
        page.text()
    }

    pub fn json(&self) -> Value {
        let next = self.next.iter();
        let next: Vec<Value> =
            next.map(|(due_us, who)| json!({ "due_us": due_us, "run": who })).collect();
        json!({
            "event": "watching", "longhaul": env!("CARGO_PKG_VERSION"), "agent": self.agent,
            "page": self.page, "archive": self.archive,
            "jobs": self.jobs, "next": next, "missed": self.missed, "spool": self.spooled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};

    #[test]
    fn the_address_of_the_page_can_be_opened_when_the_agent_listens_on_all_addresses() {
        let url = |host: &str, at: &str| {
            let text = format!(
                "[agent]\nname = \"a\"\n[[api.agent]]\nname = \"b\"\ntoken_file = \"t\"\n{host}"
            );
            let look = |_: &Path| SecretFileState::Private;
            let here = WatchFileContext { agent: None, check_secret: &look };
            let file = parse_watch_file("w", &text, &here).expect("right");
            format_page_url(&file, at.parse().expect("an address"))
        };
        let named = "[[host]]\nname = \"a\"\naddress = \"dtn.example.net\"\n";
        assert_eq!(url(named, "0.0.0.0:80"), "http://dtn.example.net:80/");
        let numbered = "[[host]]\nname = \"a\"\naddress = \"2001:db8::7\"\n";
        assert_eq!(url(numbered, "[::]:80"), "http://[2001:db8::7]:80/");
        let hostname = read_hostname().expect("a hostname");
        assert_eq!(url("", "0.0.0.0:80"), format!("http://{hostname}:80/"));
        assert_eq!(url(named, "127.0.0.1:80"), "http://127.0.0.1:80/");
    }
}
