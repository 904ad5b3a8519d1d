//! An agent's desk, an archive with some days in it, and the API on a port of its own.

use crate::agent::export::read_wall_us;
use crate::agent::job_status::{FailureReason, JobStatus};
use crate::agent::shared_state::{AgentCounters, JobRequest, LiveUpdate, SharedState};
use crate::token_store::TokenStore;
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{RequestedRun, RunRequestError, ScheduleCounts};
use crate::watch::watch_file::{self, SecretFileState, WatchFileContext};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair, QuantityLevel, SeriesPoint};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, PlannedOutcome, PlannedRun, SeriesReading};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// No machine is so slow that it is not done by then.
pub const PATIENCE: Duration = Duration::from_secs(300);
pub const HOUR_US: i64 = 3_600_000_000;
/// 2026-09-11T12:00:00Z.
pub const BEGIN_US: i64 = 1_789_128_000_000_000;
pub const TOKEN: &str = "a-token-of-the-test";
pub const HOSTILE: &str = "<img src=x onerror=alert(1)>";

const FILE: &str = r#"
[agent]
name = "slac"
[[host]]
name = "cesnet"
address = "192.0.2.7"
city = "Prague"
latitude = 50.08
longitude = 14.42
rate = "10 Gbit/s"
[[group]]
name = "europe"
hosts = ["cesnet"]
[[measure]]
name = "bulk"
kind = "throughput"
every = "1 h"
[[measure]]
name = "route"
kind = "path"
every = "10 min"
"#;

pub struct Scene {
    pub at: SocketAddr,
    pub desk: Arc<SharedState>,
    pub folder: PathBuf,
    pub runtime: Runtime,
    stop: watch::Sender<bool>,
}

pub fn pair() -> HostPair {
    HostPair { from: "slac".to_owned(), to: "cesnet".to_owned() }
}

/// The other direction, with one value of each quantity.
fn back() -> HostPair {
    HostPair { from: "cesnet".to_owned(), to: "slac".to_owned() }
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with("")
    }

    /// With a token.
    pub fn closed() -> Scene {
        Scene::with("[api]\ntoken_file = \"token\"\n")
    }

    pub fn with(more: &str) -> Scene {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("longhaul-api-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        fs::write(folder.join("token"), format!("{TOKEN}\n")).expect("a token file");
        fill(&folder.join("archive.sqlite3"));
        let look = |_: &Path| SecretFileState::Private;
        let here = WatchFileContext { agent: None, check_secret: &look };
        let file = watch_file::parse_watch_file("watch.toml", &format!("{FILE}{more}"), &here);
        let file = Arc::new(file.expect("the file is right"));
        let archive = folder.join("archive.sqlite3");
        let open = Arc::new(move || -> Result<Archive, _> { Archive::open(&archive) });
        let tokens = TokenStore::of_archive(&folder.join("archive.sqlite3"));
        let (state, orders) = SharedState::new(open, file, folder.clone(), tokens, BEGIN_US);
        *state.counters.write() = figures();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a run-time");
        let (stop, stopped) = watch::channel(false);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let at = listener.local_addr().expect("an address");
        runtime.spawn(crate::api::serve_api(Arc::clone(&state), listener, stopped));
        runtime.spawn(take(orders));
        Scene { at, desk: state, folder, runtime, stop }
    }

    /// Adds runs that were due now and have no result for these reasons.
    pub fn miss_runs_today(&self, reasons: &[&str]) {
        let mut archive = Archive::open(&self.folder.join("archive.sqlite3")).expect("an archive");
        for (number, reason) in reasons.iter().enumerate() {
            let id = format!("t-{number}");
            let planned = PlannedRun {
                id: id.clone(),
                due_us: read_wall_us(),
                measurement: "bulk".to_owned(),
                pair: None,
                outcome: None,
            };
            archive.add_planned(&[planned]).expect("planned");
            let outcome = PlannedOutcome::Missed { reason: (*reason).to_owned(), detail: None };
            archive.record_outcome(&id, &outcome).expect("settled");
        }
    }

    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn tell(&self, news: LiveUpdate) {
        // Nobody may listen yet.
        let _ = self.desk.updates.send(news);
    }

    /// The answer to a GET.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// The JSON of a GET that succeeds.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), "connection: close".to_owned()];
        if !headers.iter().any(|it| it.starts_with("host:")) {
            lines.push(format!("host: {}", self.at));
        }
        if !body.is_empty() {
            lines.push(format!("content-length: {}", body.len()));
        }
        lines.extend(headers.iter().map(|header| (*header).to_owned()));
        self.raw(&format!("{}\r\n\r\n{body}", lines.join("\r\n")))
    }

    /// The answer to bytes, up to the end of the connection.
    pub fn raw(&self, bytes: &str) -> Answer {
        self.runtime.block_on(async {
            let exchange = async {
                let mut stream = TcpStream::connect(self.at).await.expect("it listens");
                // It may answer, and close, before all is sent.
                let _ = stream.write_all(bytes.as_bytes()).await;
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer).await;
                answer
            };
            let answer = tokio::time::timeout(PATIENCE, exchange).await;
            Answer::of(&answer.expect("an answer in time"))
        })
    }

    /// A connection that stays open, with these bytes sent.
    pub async fn open(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).await.expect("it listens");
        stream.write_all(bytes.as_bytes()).await.expect("it reads");
        stream
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let head = head.to_ascii_lowercase();
        let chunked = head.contains("transfer-encoding: chunked");
        Answer {
            status: status.unwrap_or(0),
            body: if chunked { joined(body) } else { body.to_owned() },
            head,
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the answer is JSON")
    }

    /// The stable word of a refusal.
    pub fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        assert!(error["text"].as_str().is_some_and(|it| !it.is_empty()), "{body}");
        error["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// The pieces of a chunked body.
fn joined(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        // What is compressed is no text, and its pieces end anywhere.
        let Some((piece, more)) = after.split_at_checked(size).filter(|_| size > 0) else {
            break;
        };
        whole.push_str(piece);
        rest = more.trim_start_matches("\r\n");
    }
    whole
}

/// As the agent takes orders.
async fn take(mut orders: mpsc::Receiver<JobRequest>) {
    while let Some(order) = orders.recv().await {
        let answer = match &*order.key.measure {
            "bulk" => Ok(RequestedRun::Queued("slac-1-1".into())),
            "route" => Ok(RequestedRun::AlreadyQueued("slac-1-0".into())),
            "full" => Err(RunRequestError::Full),
            _ => Err(RunRequestError::Unknown),
        };
        // Whoever asked may have gone.
        let _ = order.answer.send(answer);
    }
}

fn figures() -> AgentCounters {
    AgentCounters {
        server_is_up: Some(true),
        served_sessions: 3,
        fireflies: None,
        runs: ScheduleCounts { planned: 10, done: 6, failed: 1, missed: 2, waiting: 0, running: 1 },
        missed: [("locked", 2)].into(),
        off_time: None,
        jobs: jobs(),
        loop_us: BEGIN_US,
        disk_is_full: false,
        bytes_today: 12_345,
        to_send: Some(3),
        set_aside: Some(1),
        notified: 4,
        notices_failed: 1,
        otlp_exports: 0,
        otlp_exports_failed: 0,
        reloads: 2,
        reloads_refused: 1,
    }
}

/// One job that succeeded, and one whose target went.
fn jobs() -> BTreeMap<JobKey, JobStatus> {
    let key = |measure: &str| JobKey {
        measure: measure.into(),
        from: "slac".into(),
        to: "cesnet".into(),
    };
    let mut up = JobStatus { every_us: HOUR_US, ..JobStatus::default() };
    up.record_success(BEGIN_US);
    let mut down = up.clone();
    down.record_failure(FailureReason::Target);
    [(key("bulk"), up), (key("route"), down)].into()
}

pub fn report(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports");
    let text = fs::read_to_string(path.join(name)).expect("a fixture");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value.to_string()
}

fn text_id(report: &str) -> String {
    let value: Value = serde_json::from_str(report).expect("JSON");
    value["run"]["id"].as_str().expect("an id").to_owned()
}

/// Some hours of throughput, the reports of fixtures, planned runs, an event.
fn fill(path: &Path) {
    let mut archive = Archive::open(path).expect("an archive");
    let mut runs = Vec::new();
    for hour in 0..100 {
        let at_us = BEGIN_US + hour * HOUR_US;
        let text = report("udp-reverse.json");
        let carried = text_id(&text);
        let id = format!("run-{hour:03}");
        let text = text.replace(&carried, &id);
        let mut run = IncomingRun::from_json(text, at_us).expect("a report");
        run.pairs = vec![pair()];
        run.readings = vec![SeriesReading {
            pair: pair(),
            quantity: PathQuantity::Goodput,
            point: SeriesPoint { at_us, value: if hour == 50 { 9e9 } else { 1e8 + hour as f64 } },
        }];
        if hour == 0 {
            run.readings.extend(PathQuantity::ALL.map(|quantity| SeriesReading {
                pair: back(),
                quantity,
                point: SeriesPoint { at_us, value: 0.5 },
            }));
        }
        runs.push(run);
    }
    for name in ["path-slac-cesnet-change.json", "host-judged.json"] {
        let mut run = IncomingRun::from_json(report(name), BEGIN_US).expect("a report");
        run.pairs = if name.starts_with("path") { vec![pair()] } else { vec![] };
        runs.push(run);
    }
    archive.append_runs(&runs).expect("stored");
    archive.add_planned(&planned()).expect("planned");
    let missed = PlannedOutcome::Missed { reason: "locked".to_owned(), detail: None };
    archive.record_outcome("p-1", &missed).expect("settled");
    let done = PlannedOutcome::Done { run_id: "run-000".to_owned() };
    archive.record_outcome("p-0", &done).expect("settled");
    archive.put_event(&event()).expect("stored");
}

fn planned() -> Vec<PlannedRun> {
    let one = |number: i64| PlannedRun {
        id: format!("p-{number}"),
        due_us: BEGIN_US + number * HOUR_US,
        measurement: "bulk".to_owned(),
        pair: Some(pair()),
        outcome: None,
    };
    (0..3).map(one).collect()
}

pub fn event() -> ChangeEvent {
    let level = |median| QuantityLevel { median, deviation: 1e6, samples: 40 };
    ChangeEvent {
        id: "e-1".to_owned(),
        pair: pair(),
        quantity: PathQuantity::Goodput,
        state: EventState::Confirmed,
        between_us: [BEGIN_US + 40 * HOUR_US, BEGIN_US + 41 * HOUR_US],
        before: level(1e8),
        after: level(5e7),
        change_ratio: Some(0.5),
        score: 3.0,
        autocorrelation: 0.1,
        announced_at_us: BEGIN_US + 44 * HOUR_US,
        recovered_by: None,
        causes: Vec::new(),
        unchanged: vec![format!("the host {HOSTILE} is as it was")],
        scope: None,
        follow_ups: Vec::new(),
        shared: None,
        part_of: None,
    }
}
