//! From the outbox of one archive into another: over TLS on loopback, and into a database.

use super::collector::Way;
use super::{Spool, Trouble, database, spawn};
use crate::agent::desk::Desk;
use crate::agent::now::wall_us;
use crate::agent::voice::Voice;
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

const FIXTURE: &str = include_str!("../../../../../fixtures/reports/slac-daresbury-window.json");
/// A busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with certificate, tokens, and both archives.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
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

    fn archive(&self, name: &str) -> Archive {
        Archive::open(&self.0.join(name)).expect("an archive")
    }

    fn desk(&self, archive: &str, text: &str) -> Arc<Desk> {
        let path = self.0.join(archive);
        let open = move || Ok(Box::new(Archive::open(&path)?) as Box<dyn Watched>);
        Desk::new(Arc::new(open), (read(text), self.0.clone()), wall_us()).0
    }

    async fn collector(&self, at: SocketAddr) -> Collector {
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
    fn sender(&self, at: SocketAddr, token: &str) -> Arc<Desk> {
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

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Collector {
    at: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Collector {
    async fn end(self) {
        let _ = self.stop.send(true);
        self.task.await.expect("no panic").expect("no error");
    }
}

fn read(text: &str) -> Arc<WatchFile> {
    let here = Surroundings {
        agent: None,
        look: &|_: &Path| Secrecy::Kept,
    };
    Arc::new(parse("watch.toml", text, &here).expect("a right file"))
}

fn pair() -> Pair {
    Pair {
        from: "dtn2".to_owned(),
        to: "cern".to_owned(),
    }
}

fn run(id: &str, started_at: &str) -> WatchedRun {
    let mut report: Throughput = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = id.to_owned();
    report.run.started_at = started_at.to_owned();
    let report = AnyReport::Throughput(Box::new(report));
    let mut run = WatchedRun::of(&report, 1).expect("text");
    run.pairs = vec![pair()];
    run.planned_id = Some(format!("dtn2-1-{}", id.len()));
    run
}

fn planned(number: usize) -> Planned {
    Planned {
        id: format!("dtn2-1-{number}"),
        due_us: 1,
        measurement: "m".to_owned(),
        pair: Some(pair()),
    }
}

fn event() -> Event {
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
fn measured(place: &Place) -> Archive {
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

fn holds_all(archive: &Archive) -> bool {
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

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn waits(archive: &Archive) -> u64 {
    archive.backlog(0).expect("a backlog").items
}

fn on_loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn whole(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a run-time");
    runtime.block_on(test);
}

const QUIET: Voice = Voice { json: true };

#[test]
fn what_is_measured_arrives_over_tls_with_its_plans_and_events() {
    whole(async {
        let place = Place::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let (stop, stopped) = watch::channel(false);
        let desk = place.sender(collector.at, "dtn2.token");
        let spool = Spool::default();
        let forwarder = spawn(desk, place.0.join("here"), (QUIET, spool.clone()), stopped);
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        assert!(!spool.is_full());
        let _ = stop.send(true);
        forwarder.await.expect("no panic");
        collector.end().await;
    });
}

#[test]
fn a_collector_that_was_away_gets_all_of_it() {
    whole(async {
        let place = Place::new();
        let here = measured(&place);
        // Nobody listens where somebody has just listened.
        let first = place.collector(on_loopback()).await;
        let at = first.at;
        first.end().await;
        let (_stop, stopped) = watch::channel(false);
        let desk = place.sender(at, "dtn2.token");
        let _forwarder = spawn(
            Arc::clone(&desk),
            place.0.join("here"),
            (QUIET, Spool::default()),
            stopped,
        );
        until("it is counted", || {
            desk.figures().to_send.is_some_and(|it| it > 0)
        })
        .await;
        assert!(waits(&here) > 0);
        let second = place.collector(at).await;
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        second.end().await;
    });
}

#[test]
fn what_is_refused_stands_aside_and_stops_nothing() {
    whole(async {
        let place = Place::new();
        let collector = place.collector(on_loopback()).await;
        let mut here = place.archive("here");
        here.send_on(true);
        here.append_runs(&[run("of-tomorrow", "2199-01-01T00:00:00Z")])
            .expect("a run");
        drop(here);
        let here = measured(&place);
        let (_stop, stopped) = watch::channel(false);
        let desk = place.sender(collector.at, "dtn2.token");
        let _forwarder = spawn(
            desk,
            place.0.join("here"),
            (QUIET, Spool::default()),
            stopped,
        );
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        let refused = here.refused(10).expect("a list");
        assert_eq!(refused.len(), 1);
        assert_eq!((refused[0].kind, &*refused[0].id), ("run", "of-tomorrow"));
        assert!(refused[0].why.contains("future"), "{refused:?}");
        assert!(here.report("of-tomorrow").expect("a report").is_some());
        collector.end().await;
    });
}

#[test]
fn whom_the_collector_does_not_know_keeps_everything() {
    whole(async {
        let place = Place::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let outgoing = here.to_send(10, u64::MAX).expect("read").expect("some");
        let desk = place.sender(collector.at, "wrong.token");
        let file = desk.file();
        let section = file.collector.as_ref().expect("a collector");
        let way = Way::to(section, &place.0).expect("a way");
        let answer = way
            .deliver("dtn2", wall_us(), Arc::new(outgoing.items))
            .await;
        let Err(Trouble::Later(why)) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("401") && why.contains("token"), "{why}");
        assert!(!why.contains("of nobody"), "{why}");
        collector.end().await;
    });
}

#[test]
fn an_answer_that_was_lost_costs_nothing() {
    whole(async {
        let place = Place::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let outgoing = here.to_send(10, u64::MAX).expect("read").expect("some");
        let items = Arc::new(outgoing.items);
        let desk = place.sender(collector.at, "dtn2.token");
        let file = desk.file();
        let section = file.collector.as_ref().expect("a collector");
        let way = Way::to(section, &place.0).expect("a way");
        for (new, already) in [(2, 0), (0, 2), (0, 2)] {
            let answer = way.deliver("dtn2", wall_us(), Arc::clone(&items)).await;
            let answer = answer.expect("taken");
            assert_eq!((answer.new, answer.already), (new, already));
            assert_eq!(answer.refused, []);
        }
        assert!(holds_all(&place.archive("there")));
        collector.end().await;
    });
}

#[test]
fn a_database_gets_the_same() {
    let place = Place::new();
    let here = measured(&place);
    let outgoing = here.to_send(10, u64::MAX).expect("read").expect("some");
    let mut there = place.archive("there");
    for new in [2, 0] {
        let answer = database::deliver(&mut there, "dtn2", &outgoing.items).expect("stored");
        assert_eq!((answer.new, answer.refused), (new, vec![]));
    }
    assert!(holds_all(&there));
}
