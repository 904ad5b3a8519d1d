//! Two archives, a certificate and tokens in a folder, and a collector on loopback.

use crate::agent::desk::Desk;
use crate::agent::now::wall_us;
use crate::watch::file::{Secrecy, Surroundings, WatchFile, parse};
use longhaul_model::report::v1::event::{Event, Level, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::{AnyReport, Throughput};
use longhaul_store::watched::{Outcome, Planned, Range, RunFilter, WatchedRun};
use longhaul_store::{Archive, Watched};
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
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    pub(super) fn new() -> Place {
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
        Place(folder)
    }

    pub(super) fn archive(&self, name: &str) -> Archive {
        Archive::open(&self.0.join(name)).expect("an archive")
    }

    pub(super) fn desk(&self, archive: &str, text: &str) -> Arc<Desk> {
        let path = self.0.join(archive);
        let open = move || Ok(Box::new(Archive::open(&path)?) as Box<dyn Watched>);
        Desk::new(Arc::new(open), (read(text), self.0.clone()), wall_us()).0
    }

    pub(super) async fn collector(&self, at: SocketAddr) -> Collector {
        let text = "[agent]\nname = \"collector\"\n[api]\ncertificate = \"cert.pem\"\n\
                    key = \"key.pem\"\n[[api.agent]]\nname = \"dtn2\"\ntoken_file = \"dtn2.token\"";
        let listener = TcpListener::bind(at).await.expect("listens");
        let at = listener.local_addr().expect("its address");
        let (stop, stopped) = watch::channel(false);
        let desk = self.desk("there", text);
        let task = tokio::spawn(crate::api::serve(desk, listener, stopped));
        Collector { at, stop, task }
    }

    /// The file of the agent that sends.
    pub(super) fn sender(&self, at: SocketAddr, token: &str) -> Arc<Desk> {
        let port = at.port();
        let text = format!(
            "[agent]\nname = \"dtn2\"\n[[host]]\nname = \"cern\"\n[[target]]\nhost = \"cern\"\n\
             [[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n\
             [collector]\nurl = \"https://localhost:{port}\"\ntoken_file = \"{token}\"\n\
             ca_file = \"cert.pem\"\nspool_bytes = \"1 MiB\"\n[retain]\nruns = \"1 d\""
        );
        self.desk("here", &text)
    }
}

impl Drop for Place {
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
    let here = Surroundings {
        agent: None,
        look: &|_: &Path| Secrecy::Kept,
    };
    Arc::new(parse("watch.toml", text, &here).expect("a right file"))
}

pub(super) fn pair() -> Pair {
    Pair {
        from: "dtn2".to_owned(),
        to: "cern".to_owned(),
    }
}

pub(super) fn run(id: &str, started_at: &str) -> WatchedRun {
    let mut report: Throughput = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = id.to_owned();
    report.run.started_at = started_at.to_owned();
    let report = AnyReport::Throughput(Box::new(report));
    let mut run = WatchedRun::of(&report, 1).expect("text");
    run.pairs = vec![pair()];
    run.planned_id = Some(format!("dtn2-1-{}", id.len()));
    run
}

pub(super) fn planned(number: usize) -> Planned {
    Planned {
        id: format!("dtn2-1-{number}"),
        due_us: 1,
        measurement: "m".to_owned(),
        pair: Some(pair()),
    }
}

pub(super) fn event() -> Event {
    let level = Level {
        median: 2.0,
        deviation: 0.1,
        samples: 9,
    };
    Event {
        id: "e".to_owned(),
        pair: pair(),
        quantity: Quantity::Goodput,
        state: State::Confirmed,
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
    }
}

/// Two runs, three plans, an event.
pub(super) fn measured(place: &Place) -> Archive {
    let mut archive = place.archive("here");
    archive.send_on(true);
    archive
        .plan(&[planned(1), planned(2), planned(3)])
        .expect("plans");
    let runs = [
        run("a", "2026-01-31T12:00:00Z"),
        run("bb", "2026-01-31T13:00:00Z"),
    ];
    archive.append_runs(&runs).expect("runs");
    let missed = Outcome::Missed {
        reason: "budget".to_owned(),
    };
    archive.settle("dtn2-1-3", &missed).expect("settled");
    archive.put_event(&event()).expect("an event");
    archive
}

pub(super) fn holds_all(archive: &Archive) -> bool {
    let filter = RunFilter {
        range: Range::ALL,
        pair: Some(pair()),
        kind: None,
        limit: 10,
    };
    let counts = archive.planned_counts(Range::ALL).expect("counts");
    let series = archive.series(&pair(), Quantity::Goodput, Range::ALL, 10);
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
    archive.backlog(0).expect("a backlog").items
}

pub(super) fn on_loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(super) fn whole(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a run-time");
    runtime.block_on(test);
}
