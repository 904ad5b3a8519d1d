//! What strangers, and agents that lie, may send.

use crate::agent::export::read_wall_us;
use crate::agent::shared_state::SharedState;
use crate::api;
use crate::token_store::{TokenRight, TokenStore, encode_digest};
use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_model::report::v1::{EventState, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::TimeRange;
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const FIXTURE: &str = include_str!("../../../../../fixtures/reports/slac-daresbury-window.json");
const TWO: &str = "[[api.agent]]\nname = \"dtn2\"\ntoken_file = \"dtn2.token\"\n\
                   [[api.agent]]\nname = \"hub\"\ntoken_file = \"hub.token\"\nrelay = true\n";

/// A collector on loopback, and its folder.
struct CollectorFixture {
    folder: PathBuf,
    at: SocketAddr,
    #[cfg(feature = "clickhouse")]
    state: Arc<SharedState>,
    _stop: watch::Sender<bool>,
}

impl CollectorFixture {
    async fn with(agents: &str) -> CollectorFixture {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("longhaul-batches-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in ["dtn2", "hub", "enrol"] {
            let file = folder.join(format!("{name}.token"));
            std::fs::write(file, format!("of {name}\nnot this")).expect("a token");
        }
        let here =
            WatchFileContext { agent: None, check_secret: &|_: &Path| SecretFileState::Private };
        let text = format!(
            "[agent]\nname = \"collector\"\n[[host]]\nname = \"x\"\n[[target]]\nhost = \"x\"\n\
             [[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n[api]\n{agents}"
        );
        let file = Arc::new(parse_watch_file("watch.toml", &text, &here).expect("a right file"));
        let path = folder.join("archive");
        let open = move || Archive::open(&path);
        let tokens = TokenStore::of_archive(&folder.join("archive"));
        let (state, _) =
            SharedState::new(Arc::new(open), file, folder.clone(), tokens, read_wall_us());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let at = listener.local_addr().expect("an address");
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(api::serve_api(Arc::clone(&state), listener, stopped));
        CollectorFixture {
            folder,
            at,
            #[cfg(feature = "clickhouse")]
            state,
            _stop: stop,
        }
    }

    fn archive(&self) -> Archive {
        Archive::open(&self.folder.join("archive")).expect("an archive")
    }

    /// Status and body of the answer.
    async fn send(&self, path: &str, head: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.at).await.expect("connects");
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{head}\r\n", self.at);
        stream.write_all(head.as_bytes()).await.expect("written");
        // The answer may come before all of it is sent.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("a status"), serde_json::from_str(body).unwrap_or_default())
    }

    /// Enrols an agent with a token; the status and the code of a refusal.
    async fn enrol(&self, secret: &str, agent: &str, token: &str) -> (u16, Value) {
        let digest = encode_digest(token.as_bytes());
        let body = json!({ "agent": agent, "token_sha256": digest }).to_string();
        let head = format!(
            "Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        let (status, answer) = self.send("/api/v1/enrol", &head, body.as_bytes()).await;
        (status, answer["error"]["code"].clone())
    }

    async fn raw(&self, head: &str, body: &[u8]) -> (u16, Value) {
        self.send("/api/v1/batches", head, body).await
    }

    async fn post(&self, token: &str, batch: &Value) -> (u16, Value) {
        let body = batch.to_string();
        let head = format!("Authorization: Bearer {token}\r\nContent-Length: {}\r\n", body.len());
        self.raw(&head, body.as_bytes()).await
    }

    /// Sends one item as an agent; why it was refused, if it was.
    async fn one(&self, agent: &str, item: Value) -> Option<String> {
        let mut item = item;
        item["place"] = json!(7);
        let (status, answer) =
            self.post(&format!("of {agent}"), &batch(agent, &json!([item]))).await;
        assert_eq!(status, 200, "{answer}");
        let refused = answer["refused"].as_array().expect("a list");
        assert!(refused.iter().all(|it| it["place"] == 7), "{answer}");
        refused.first().map(|it| it["why"].as_str().expect("a reason").to_owned())
    }
}

impl Drop for CollectorFixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn batch(agent: &str, items: &Value) -> Value {
    json!({ "schema": "longhaul.batch/1", "agent": agent, "sent_us": read_wall_us(), "items": items })
}

fn report(id: &str, started_at: &str) -> String {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = id.to_owned();
    report.run.started_at = started_at.to_owned();
    serde_json::to_string(&report).expect("text")
}

fn run(id: &str, pairs: &Value) -> Value {
    json!({ "run": { "pairs": pairs, "report": report(id, "2026-01-31T12:00:00Z") } })
}

fn planned(id: &str, pair: &Value) -> Value {
    let planned = json!({ "id": id, "due_us": 1, "measurement": "m", "pair": pair });
    json!({ "planned": planned })
}

fn event(id: &str, state: EventState, from: &str) -> Value {
    let level = json!({ "median": 2.0, "deviation": 0.1, "samples": 9 });
    json!({ "event": {
        "id": id, "pair": { "from": from, "to": "cern" }, "quantity": "goodput",
        "state": state.word(), "between_us": [1, 2], "before": level, "after": level,
        "score": 1.5, "autocorrelation": 0.25, "announced_at_us": 2,
    } })
}

fn whole(test: impl std::future::Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a run-time");
    runtime.block_on(test);
}

#[test]
fn nobody_is_let_in_without_a_token_of_an_agent() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let none = batch("dtn2", &json!([]));
        for token in ["", "of nobody", "not this", "of dtn2x"] {
            let (status, answer) = place.post(token, &none).await;
            assert_eq!((status, &answer["error"]["code"]), (401, &json!("no_token")), "{token}");
        }
        assert_eq!(place.post("of dtn2", &none).await.0, 200);
        let (status, answer) = place.post("of dtn2", &batch("hub", &json!([]))).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("other_agent")));
        let closed = CollectorFixture::with("").await;
        let (status, answer) = closed.post("of dtn2", &none).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("no_collector")));
    });
}

#[test]
fn an_agent_speaks_for_itself_alone_and_a_relay_for_others() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let own = json!([{ "from": "dtn2", "to": "cern" }, { "from": "cern", "to": "dtn2" }]);
        let others = json!([{ "from": "slac", "to": "cern" }]);
        assert_eq!(place.one("dtn2", run("own", &own)).await, None);
        for (item, why) in [
            (run("a", &others), "neither end"),
            (run("b", &json!([{ "from": "dtn2", "to": "dtn2" }])), "the same host"),
            (run("c", &json!([own[0], { "from": "dtn2", "to": "slac" }])), "different peers"),
            (run("d", &json!([own[0], own[0], own[0]])), "3 pairs"),
            (planned("slac-1-1", &Value::Null), "its id"),
            (planned("dtn2-1-1", &others[0]), "neither end"),
            (planned("dtn2-other-1-1", &own[0]), "its id"),
            (event("e", EventState::Suspected, "slac"), "neither end"),
        ] {
            let refused = place.one("dtn2", item).await.expect("refused");
            assert!(refused.contains(why), "{refused}");
        }
        let mut near = run("near", &others);
        near["run"]["near"] = json!("slac");
        let refused = place.one("dtn2", near.clone()).await.expect("refused");
        assert!(refused.contains("may not send"), "{refused}");
        assert_eq!(place.one("hub", near).await, None);
        assert_eq!(place.one("hub", planned("slac-1-1", &others[0])).await, None);
        let pairs = place.archive().pairs().expect("pairs");
        assert_eq!(pairs.len(), 3, "{pairs:?}");
    });
}

#[test]
fn values_follow_from_the_report_and_times_lie_in_the_past() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let own = json!([{ "from": "dtn2", "to": "cern" }]);
        let run_at = |id: &str, at: &str| json!({ "run": { "pairs": own, "report": report(id, at), "readings": [9.9], "at_us": 5 } });
        assert_eq!(place.one("dtn2", run_at("a", "2026-01-31T12:00:00Z")).await, None);
        let pair =
            longhaul_model::report::v1::HostPair { from: "dtn2".to_owned(), to: "cern".to_owned() };
        let quantity = longhaul_model::report::v1::quantity::PathQuantity::Goodput;
        let series = place.archive().series(&pair, quantity, TimeRange::ALL, 10).expect("a series");
        let told: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
        assert_eq!(series.points.len(), 1);
        assert_eq!(series.points[0].value as u64, told.analysis.goodput_bps.expect("goodput"));
        assert_eq!(series.points[0].at_us, 1_769_860_800_000_000);
        for (at, why) in [("2199-01-01T00:00:00Z", "future"), ("yesterday", "invalid start time")] {
            let refused = place.one("dtn2", run_at("b", at)).await.expect("refused");
            assert!(refused.contains(why), "{refused}");
        }
        let mut batch = batch("dtn2", &json!([]));
        batch["sent_us"] = json!(read_wall_us() + 3_600_000_000);
        let (status, answer) = place.post("of dtn2", &batch).await;
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("clock")));
    });
}

#[test]
fn transfers_of_an_agent_are_series_under_the_pairs_that_it_names() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let text = include_str!("../../../../../fixtures/reports/flows-rclone.json");
        let send = |id: &str, pairs: Value| {
            let text = text
                .replace("20261127T123914Z-b9ab14", id)
                .replace("2026-11-27T12:39:14Z", "2026-01-31T12:00:00Z");
            json!({ "run": { "pairs": pairs, "report": text } })
        };
        let own = json!([{ "from": "dtn2/rclone", "to": "10.77.0.2" }]);
        let other = json!([{ "from": "slac/rclone", "to": "10.77.0.2" }]);
        let many: Vec<Value> =
            (0..17).map(|it| json!({ "from": format!("dtn2/{it}"), "to": "10.77.0.2" })).collect();
        assert_eq!(place.one("dtn2", send("a", own)).await, None);
        let refused = place.one("dtn2", send("b", other)).await.expect("refused");
        assert!(refused.contains("neither end"), "{refused}");
        let refused = place.one("dtn2", send("c", json!(many))).await.expect("refused");
        assert!(refused.contains("17 pairs"), "{refused}");
        assert_eq!(place.one("dtn2", send("d", json!([]))).await, None, "it had no place");
        let mut told = event("e", EventState::Suspected, "dtn2/rclone");
        assert_eq!(place.one("dtn2", told.clone()).await, None);
        told["event"]["pair"]["from"] = json!("slac/rclone");
        assert!(place.one("dtn2", told).await.is_some());
        let quantity = longhaul_model::report::v1::quantity::PathQuantity::Goodput;
        let cells = place.archive().grid(quantity).expect("a grid");
        let cells = cells.iter().filter(|it| it.value.is_some()).map(|it| it.pair.from.as_str());
        assert_eq!(cells.collect::<Vec<_>>(), ["dtn2/rclone"]);
    });
}

#[test]
fn a_late_batch_makes_no_event_less_sure_and_takes_nobody_elses() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let state = || place.archive().event("e").expect("read").expect("an event").state;
        assert_eq!(place.one("dtn2", event("e", EventState::Confirmed, "dtn2")).await, None);
        assert_eq!(place.one("dtn2", event("e", EventState::Suspected, "dtn2")).await, None);
        assert_eq!(state(), EventState::Confirmed);
        assert_eq!(place.one("dtn2", event("e", EventState::Recovered, "dtn2")).await, None);
        assert_eq!(state(), EventState::Recovered);
        let refused = place.one("hub", event("e", EventState::Recovered, "slac")).await;
        assert!(refused.expect("refused").contains("another pair"));
    });
}

#[test]
fn a_run_under_a_taken_id_is_named() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let own = json!([{ "from": "dtn2", "to": "cern" }]);
        assert_eq!(place.one("dtn2", run("a", &own)).await, None);
        let mut other = run("a", &own);
        let text = report("a", "2026-01-31T13:00:00Z");
        other["run"]["report"] = json!(text);
        let refused = place.one("dtn2", other).await.expect("refused");
        assert!(refused.contains("different content"), "{refused}");
    });
}

#[test]
fn what_is_too_large_or_no_batch_is_refused_whole() {
    whole(async {
        let place = CollectorFixture::with(TWO).await;
        let token = "Authorization: Bearer of dtn2\r\n";
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..100 {
            bomb.write_all(&vec![b' '; 1 << 20]).expect("packed");
        }
        let bomb = bomb.finish().expect("packed");
        let packed = format!("{token}Content-Encoding: gzip\r\nContent-Length: {}\r\n", bomb.len());
        for (head, body, status) in [
            (packed, bomb.as_slice(), 413),
            (format!("{token}Content-Length: 999999999999\r\n"), b"{".as_slice(), 413),
            (format!("{token}Content-Length: 2\r\n"), b"{}", 400),
            (format!("{token}Content-Length: 2\r\nContent-Encoding: gzip\r\n"), b"{}", 400),
            (format!("{token}Content-Length: 2\r\nContent-Encoding: br\r\n"), b"{}", 400),
        ] {
            let (found, answer) = place.raw(&head, body).await;
            assert_eq!(found, status, "{head} {answer}");
            assert!(answer["error"]["code"].is_string(), "{answer}");
        }
        assert_eq!(place.archive().pairs().expect("pairs"), []);
    });
}

#[tokio::test]
async fn an_agent_enrols_with_the_shared_token_and_sends_with_its_own() {
    let collector = CollectorFixture::with("enrol_token_file = \"enrol.token\"\n").await;
    let empty = |agent: &str| batch(agent, &json!([]));
    assert_eq!(collector.post("own", &empty("dtn3")).await.0, 401);
    assert_eq!(collector.enrol("wrong", "dtn3", "own").await, (401, json!("no_token")));
    let bad = collector.enrol("of enrol", "not a name", "own").await;
    assert_eq!(bad, (400, json!("bad_request")));
    for _ in 0..2 {
        assert_eq!(collector.enrol("of enrol", "dtn3", "own").await.0, 200, "twice is once");
    }
    assert_eq!(collector.post("own", &empty("dtn3")).await.0, 200);
    assert_eq!(collector.post("own", &empty("dtn4")).await.0, 403, "only under its own name");
    assert_eq!(collector.post("of enrol", &empty("dtn3")).await.0, 401, "the shared one sends not");
    let other = collector.enrol("of enrol", "dtn3", "another").await;
    assert_eq!(other, (409, json!("name_taken")), "nobody takes the name of another");
    let own = collector.enrol("of enrol", "collector", "x").await;
    assert_eq!(own, (409, json!("name_taken")), "nor that of the collector");
    let tokens = TokenStore::of_archive(&collector.folder.join("archive"));
    let kept = std::fs::read_to_string(collector.folder.join("archive.agent/tokens.json"));
    assert!(!kept.expect("the store").contains("\"own\""), "only digests are kept");
    tokens.revoke("dtn3", false).expect("revoked");
    assert_eq!(collector.post("own", &empty("dtn3")).await.0, 401);
    assert_eq!(collector.enrol("of enrol", "dtn3", "own").await, (403, json!("revoked")));
    tokens.revoke("dtn3", true).expect("forgotten");
    assert_eq!(collector.enrol("of enrol", "dtn3", "new").await.0, 200);
}

#[tokio::test]
async fn a_created_token_of_an_agent_sends_and_one_of_a_reader_does_not() {
    let collector = CollectorFixture::with(TWO).await;
    let tokens = TokenStore::of_archive(&collector.folder.join("archive"));
    let agent = tokens.create("dtn5", TokenRight::Agent).expect("created");
    let reader = tokens.create("reader", TokenRight::Read).expect("created");
    let sent = batch("dtn5", &json!([]));
    assert_eq!(collector.post(agent.as_str(), &sent).await.0, 200);
    assert_eq!(collector.post(reader.as_str(), &sent).await.0, 401);
    let closed = collector.enrol("of dtn2", "dtn9", "x").await;
    assert_eq!(closed, (403, json!("no_enrolment")));
}

#[tokio::test]
async fn batches_that_come_at_once_wait_for_each_other_and_are_stored() {
    let collector = Arc::new(CollectorFixture::with(TWO).await);
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..20 {
        let collector = Arc::clone(&collector);
        let item = run(&format!("run-{number}"), &json!([{ "from": "dtn2", "to": "cern" }]));
        sending.spawn(async move { collector.one("dtn2", item).await });
    }
    assert_eq!(sending.join_all().await, vec![None; 20]);
    assert_eq!(collector.archive().list(100).expect("runs").len(), 20);
}

#[cfg(feature = "clickhouse")]
#[tokio::test]
async fn the_database_gets_the_same_run_from_memory_as_from_the_archive() {
    use crate::agent::export::database_delivery::build_batch;
    use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
    let database = "[database]\nurl = \"http://127.0.0.1:1\"\n";
    let collector = CollectorFixture::with(&(TWO.to_owned() + database)).await;
    let mut archive = collector.archive();
    archive.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    let pairs = json!([{ "from": "dtn2", "to": "cern" }, { "from": "cern", "to": "dtn2" }]);
    assert_eq!(collector.one("dtn2", run("a", &pairs)).await, None);
    let take_run = |id: &str| collector.state.stored_runs.take(id);
    let held = archive.next_outgoing_with(MAIN_DESTINATION, 0, 10, u64::MAX, take_run);
    let held = held.expect("read").expect("a run");
    assert_eq!(held.held_runs.len(), 1);
    let read = archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read");
    let [held, read] = [held, read.expect("a run")].map(|it| {
        let mut batch = build_batch("collector", it);
        batch.delivery.runs[0].pairs.sort();
        batch.delivery
    });
    assert_eq!(held, read);
}
