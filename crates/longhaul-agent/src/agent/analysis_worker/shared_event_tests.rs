//! Batches of several agents over HTTP become events of several paths at a collector.

use super::*;
use crate::agent::flows_test_builder::ArchiveFolder;
use crate::event_log::LogFormat;
use crate::token_store::TokenStore;
use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};
use longhaul_model::report::v1::ScopeElementKind;
use serde_json::{Value, json};
use std::path::Path;
use tokio::net::TcpListener;
use tokio::sync::watch;

const TRACE: &str = include_str!("../../../../../fixtures/reports/path-balanced-v6.json");
const HOUR_US: i64 = 3_600_000_000;
const AGENTS: usize = 6;
const HOURS: i64 = 60;
const CHANGE_HOUR: i64 = 45;
/// The hop that becomes slow, and the paths through it.
const SLOW_HOP: &str = "10.9.0.9";
const SLOW_PATHS: [(usize, usize); 5] = [(0, 3), (0, 4), (1, 3), (1, 4), (2, 5)];

/// A collector on loopback, its analysis, and the hosts of a mesh that send to it.
struct MeshCollector {
    thread: AnalysisThread,
    heard: mpsc::Receiver<AnalysisResult>,
    runtime: tokio::runtime::Runtime,
    url: String,
    end_us: i64,
    _stop: watch::Sender<bool>,
    // Dropped last.
    _folder: ArchiveFolder,
}

impl MeshCollector {
    fn start(name: &str) -> MeshCollector {
        let folder = ArchiveFolder::new(name);
        let name_agent =
            |n: usize| format!("[[api.agent]]\nname = \"n{n}\"\ntoken_file = \"n{n}\"\n");
        let agents: String = (0..AGENTS).map(name_agent).collect();
        let text = format!("[agent]\nname = \"collector\"\n{agents}");
        for agent in 0..AGENTS {
            std::fs::write(folder.0.join(format!("n{agent}")), format!("of n{agent}\n"))
                .expect("a token");
        }
        let check_secret = |_: &Path| SecretFileState::Private;
        let context = WatchFileContext { agent: None, check_secret: &check_secret };
        let file = parse_watch_file("w", &text, &context).expect("a right file");
        let path = folder.0.join("archive");
        let open = Arc::new(move || Archive::open(&path));
        let tokens = TokenStore::of_archive(&folder.0.join("archive"));
        let (state, _) = SharedState::new(open, Arc::new(file), folder.0.clone(), tokens, 0);
        let runtime = tokio::runtime::Runtime::new().expect("a run-time");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("listens");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(crate::api::serve_api(Arc::clone(&state), listener, stopped));
        let (results, heard) = mpsc::channel(MAX_QUEUED_RESULTS);
        let log = AgentLog { format: LogFormat::Text };
        let archive = folder.open();
        let explanations = HashMap::new();
        let thread = AnalysisThread { archive, state, log, results, explanations };
        let end_us = clocks::read_wall_us();
        MeshCollector { thread, heard, runtime, url, end_us, _stop: stop, _folder: folder }
    }

    fn request(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> Value {
        // Fails if another test has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let method = method.parse().expect("a method");
        let request = reqwest::Client::new().request(method, format!("{}{path}", self.url));
        let request = request.header("content-type", "application/json").bearer_auth(token);
        let request = match body {
            Some(body) => request.body(body.to_string()),
            None => request,
        };
        self.runtime.block_on(async {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
        })
    }

    fn send(&self, agent: usize, items: &[Value]) {
        let batch = json!({
            "schema": "longhaul.batch/1", "agent": format!("n{agent}"),
            "sent_us": clocks::read_wall_us(), "items": items,
        });
        let token = format!("of n{agent}");
        let answer = self.request("POST", "/api/v1/batches", &token, Some(&batch));
        assert_eq!(answer["refused"], json!([]), "{answer}");
    }

    /// Sends all hours of the paths from an agent.
    fn send_runs(&self, agent: usize) {
        let hours = (agent + 1..AGENTS).flat_map(|to| (0..HOURS).map(move |hour| (to, hour)));
        let items: Vec<Value> = hours
            .map(|(to, hour)| {
                let report = build_trace(agent, to, hour, self.end_us).to_string();
                let pairs = json!([{ "from": format!("n{agent}"), "to": format!("n{to}") }]);
                json!({ "place": to as i64 * HOURS + hour, "run": { "pairs": pairs, "report": report } })
            })
            .collect();
        self.send(agent, &items);
    }

    /// Analyses all that was received. Returns the events that are notified.
    fn analyse(&mut self) -> Vec<Arc<ChangeEvent>> {
        let received = || self.thread.state.received.take_series(Duration::ZERO);
        let series: Vec<_> = std::iter::from_fn(received).collect();
        for (pair, quantity) in series {
            self.thread.detect_received_changes(&pair, quantity).expect("analysed");
        }
        let events = self.thread.state.received.take_events(Duration::ZERO);
        self.thread.check_events(&events).expect("checked");
        let mut notified = Vec::new();
        while let Ok(result) = self.heard.try_recv() {
            let is_final = result.event.state == EventState::Confirmed;
            if result.is_news && !result.is_silenced && is_final {
                notified.push(result.event);
            }
        }
        notified
    }

    fn events(&self) -> Vec<ChangeEvent> {
        let filter = EventFilter::newest(MAX_EARLIER_EVENTS);
        self.thread.archive.events(&filter).expect("events")
    }
}

/// Builds a trace of some hour: its RTT has some noise, and rises if the path has the slow hop.
fn build_trace(from: usize, to: usize, hour: i64, end_us: i64) -> Value {
    let mut report: Value = serde_json::from_str(TRACE).expect("a report");
    let at_us = end_us - (HOURS - hour) * HOUR_US;
    let at = jiff::Timestamp::from_microsecond(at_us).expect("a time");
    let number = (from * AGENTS + to) as i64 * HOURS + hour;
    report["run"]["id"] = json!(format!("20261127T000000Z-{number:06x}"));
    report["run"]["started_at"] = json!(at.to_string());
    let is_slow = SLOW_PATHS.contains(&(from, to));
    let rtt_ns = if is_slow && hour >= CHANGE_HOUR { 30_000_000 } else { 20_000_000 };
    report["analysis"]["rtt"]["min_ns"] = json!(rtt_ns + (number * 7 % 11) * 10_000);
    let middle = if is_slow { SLOW_HOP.to_owned() } else { format!("10.1.{from}.{to}") };
    let addresses = [format!("10.0.0.{from}"), middle, "192.0.2.1".to_owned()];
    let hop = report["observation"]["route"]["hops"][0].clone();
    let hops = addresses.iter().zip(1..).map(|(address, ttl)| {
        let mut hop = hop.clone();
        hop["ttl"] = json!(ttl);
        hop["answers"][0]["address"] = json!(address);
        hop
    });
    report["observation"]["route"]["hops"] = hops.collect();
    report["observation"]["route"]["links"] = json!([]);
    report
}

#[test]
fn changes_behind_one_hop_are_one_event_with_one_notification_although_one_agent_is_late() {
    let mut mesh = MeshCollector::start("shared-hop");
    for agent in [0, 1, 3, 4] {
        mesh.send_runs(agent);
    }
    let notified = mesh.analyse();
    let [shared] = &notified[..] else { panic!("{notified:?}") };
    let scope = shared.shared.as_ref().expect("a scope");
    let names: Vec<_> = scope.elements.iter().map(|it| (it.kind, it.name.as_str())).collect();
    assert_eq!(names, [(ScopeElementKind::Hop, SLOW_HOP)]);
    let change_us = mesh.end_us - (HOURS - CHANGE_HOUR) * HOUR_US;
    assert_eq!(shared.between_us[1] / 1000, change_us / 1000);
    assert_eq!((scope.paths, scope.affected_paths, scope.affected_other_paths), (4, 4, 0));

    // The last agent was cut off for two days and sends all at once.
    mesh.send_runs(2);
    assert_eq!(mesh.analyse(), []);
    let events = mesh.events();
    let shared = events.iter().find(|it| it.shared.is_some()).expect("the event");
    let affected = &shared.shared.as_ref().expect("a scope").affected;
    assert_eq!((events.len(), affected.len()), (6, 5));
    let members = events.iter().filter(|it| it.part_of.as_ref() == Some(&shared.id));
    assert_eq!(members.count(), 5);

    // Everything arrives once more.
    for agent in 0..AGENTS - 1 {
        mesh.send_runs(agent);
    }
    assert_eq!(mesh.analyse(), []);
    assert_eq!(mesh.events(), events);
    let listed = mesh.request("GET", &format!("/api/v1/events/{}", shared.id), "none", None);
    assert_eq!(listed["shared"]["elements"][0]["name"], SLOW_HOP);
}

#[test]
fn old_events_of_an_agent_that_was_cut_off_are_grouped_and_not_notified() {
    let mut mesh = MeshCollector::start("shared-old");
    for agent in [0, 1, 3, 4] {
        mesh.send_runs(agent);
    }
    let [shared] = &mesh.analyse()[..] else { panic!("one event") };
    let mut sent = json!(mesh.events().into_iter().find(|it| it.id != shared.id));
    sent["id"] = json!("rtt_floor-old");
    sent["pair"] = json!({ "from": "n2", "to": "n5" });
    sent["announced_at_us"] = json!(mesh.end_us - 8 * 24 * HOUR_US);
    mesh.send(2, &[json!({ "place": 1, "event": sent })]);
    sent["id"] = json!("loss-old");
    sent["quantity"] = json!("loss");
    sent["between_us"] = json!([1, 2]);
    mesh.send(2, &[json!({ "place": 1, "event": sent })]);
    assert_eq!(mesh.analyse(), []);
    // It has no trace yet, so it is not known to pass the hop.
    assert_eq!(
        mesh.thread.archive.event("rtt_floor-old").expect("read").expect("it").part_of,
        None
    );
    mesh.send_runs(2);
    assert_eq!(mesh.analyse(), []);
}

#[test]
fn the_event_of_an_agent_and_that_of_the_collector_are_the_same() {
    let mut mesh = MeshCollector::start("shared-same");
    mesh.send_runs(2);
    let [event] = &mesh.analyse()[..] else { panic!("one event") };
    let mut sent = json!(**event);
    sent["id"] = json!("rtt_floor-of-the-agent");
    sent["part_of"] = json!("shared-nothing");
    for _ in 0..2 {
        mesh.send(2, &[json!({ "place": 1, "event": sent })]);
    }
    assert_eq!(mesh.analyse(), []);
    let [stored] = &mesh.events()[..] else { panic!("one event") };
    assert_eq!((&stored.id, &stored.part_of), (&event.id, &None));
}
