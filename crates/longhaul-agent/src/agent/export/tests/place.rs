//! Two archives, a certificate and tokens in a folder, and a collector on loopback.

use crate::agent::clocks::read_wall_us;
use crate::agent::shared_state::SharedState;
use crate::token_store::TokenStore;
use crate::watch::watch_file::{SecretFileState, WatchFile, WatchFileContext, parse_watch_file};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, EventState, HostPair, QuantityLevel, ThroughputReport,
};
use longhaul_store::Archive;
use longhaul_store::history_store::{
    IncomingRun, PlannedOutcome, PlannedRun, RunFilter, TimeRange,
};
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const FIXTURE: &str = include_str!("../../../../../../fixtures/reports/slac-daresbury-window.json");
/// A busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// A folder with certificate, tokens, and both archives.
pub(super) struct ExportFolder(pub(super) PathBuf);

impl ExportFolder {
    pub(super) fn new() -> ExportFolder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("longhaul-forward-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
        for (file, text) in [
            ("cert.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
            ("dtn2.token", "of dtn2\n".to_owned()),
            ("wrong.token", "of nobody\n".to_owned()),
        ] {
            std::fs::write(folder.join(file), text).expect("written");
        }
        ExportFolder(folder)
    }

    pub(super) fn archive(&self, name: &str) -> Archive {
        Archive::open(&self.0.join(name)).expect("an archive")
    }

    pub(super) fn desk(&self, archive: &str, text: &str) -> Arc<SharedState> {
        let path = self.0.join(archive);
        let open = move || Archive::open(&path);
        let tokens = TokenStore::of_archive(&self.0.join("archive"));
        SharedState::new(Arc::new(open), read(text), self.0.clone(), tokens, read_wall_us()).0
    }

    pub(super) async fn collector(&self, at: SocketAddr) -> Collector {
        let text = "[agent]\nname = \"collector\"\n[api]\ncertificate = \"cert.pem\"\n\
                    key = \"key.pem\"\n[[api.agent]]\nname = \"dtn2\"\ntoken_file = \"dtn2.token\"";
        let listener = TcpListener::bind(at).await.expect("listens");
        let at = listener.local_addr().expect("its address");
        let (stop, stopped) = watch::channel(false);
        let state = self.desk("there", text);
        let task = tokio::spawn(crate::api::serve_api(state, listener, stopped));
        Collector { at, stop, task }
    }

    /// The file of the agent that sends.
    pub(super) fn sender(&self, at: SocketAddr, token: &str) -> Arc<SharedState> {
        let port = at.port();
        let text = format!(
            "[agent]\nname = \"dtn2\"\n[[host]]\nname = \"cern\"\n[[target]]\nhost = \"cern\"\n\
             [[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n\
             [collector]\nurl = \"https://localhost:{port}\"\ntoken_file = \"{token}\"\n\
             ca_file = \"cert.pem\""
        );
        self.desk("here", &text)
    }
}

impl Drop for ExportFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) struct Collector {
    pub(super) at: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Collector {
    pub(super) async fn end(self) {
        let _ = self.stop.send(true);
        self.task.await.expect("no panic").expect("no error");
    }
}

pub(super) fn read(text: &str) -> Arc<WatchFile> {
    let here = WatchFileContext { agent: None, check_secret: &|_: &Path| SecretFileState::Private };
    Arc::new(parse_watch_file("watch.toml", text, &here).expect("a right file"))
}

pub(super) fn pair() -> HostPair {
    HostPair { from: "dtn2".to_owned(), to: "cern".to_owned() }
}

pub(in crate::agent) fn run(id: &str, started_at: &str) -> IncomingRun {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = id.to_owned();
    report.run.started_at = started_at.to_owned();
    let report = AnyReport::Throughput(Box::new(report));
    let mut run = IncomingRun::from_report(&report, 1).expect("text");
    run.pairs = vec![pair()];
    run.planned_id = Some(format!("dtn2-1-{}", id.len()));
    run
}

pub(super) fn planned(number: usize) -> PlannedRun {
    PlannedRun {
        id: format!("dtn2-1-{number}"),
        due_us: 1,
        measurement: "m".to_owned(),
        pair: Some(pair()),
        outcome: None,
    }
}

pub(in crate::agent) fn event() -> ChangeEvent {
    let level = QuantityLevel { median: 2.0, deviation: 0.1, samples: 9 };
    ChangeEvent {
        id: "e".to_owned(),
        pair: pair(),
        quantity: PathQuantity::Goodput,
        state: EventState::Confirmed,
        between_us: [1, 2],
        before: level,
        after: level,
        change_ratio: None,
        score: 1.5,
        autocorrelation: 0.25,
        announced_at_us: 2,
        recovered_by: None,
        causes: vec![],
        unchanged: vec![],
        scope: None,
        follow_ups: vec![],
        shared: None,
        part_of: None,
    }
}

/// Two runs, three plans, an event.
pub(super) fn measured(place: &ExportFolder) -> Archive {
    measured_for(place, &[MAIN_DESTINATION])
}

pub(super) fn measured_for(place: &ExportFolder, destinations: &[&str]) -> Archive {
    let mut archive = place.archive("here");
    archive.set_destinations(destinations).expect("destinations");
    archive.add_planned(&[planned(1), planned(2), planned(3)]).expect("plans");
    let runs = [run("a", "2026-01-31T12:00:00Z"), run("bb", "2026-01-31T13:00:00Z")];
    archive.append_runs(&runs).expect("runs");
    let missed = PlannedOutcome::Missed { reason: "budget".to_owned(), detail: None };
    archive.record_outcome("dtn2-1-3", &missed).expect("settled");
    archive.put_event(&event()).expect("an event");
    archive
}

pub(super) fn holds_all(archive: &Archive) -> bool {
    let filter = RunFilter { pair: Some(pair()), ..RunFilter::newest(10) };
    let counts = archive.planned_counts(TimeRange::ALL).expect("counts");
    let series = archive.series(&pair(), PathQuantity::Goodput, TimeRange::ALL, 10);
    archive.runs(&filter).expect("runs").len() == 2
        && (counts.done, counts.missed, counts.waiting) == (2, 1, 0)
        && archive.event("e").expect("an event").is_some()
        && series.expect("a series").points.len() == 2
}

pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn waits(archive: &Archive) -> u64 {
    archive.backlog().expect("a backlog").items
}

pub(super) fn on_loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(super) fn whole(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a run-time");
    runtime.block_on(test);
}
