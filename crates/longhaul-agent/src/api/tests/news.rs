//! News as they come.

use super::scene::{PATIENCE, Scene, event, pair, report};
use crate::agent::shared_state::{LiveUpdate, MAX_QUEUED_UPDATES};
use crate::api::live_updates::MAX_LISTENERS;
use longhaul_store::RunEntry;
use longhaul_store::history_store::IncomingRun;
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

fn request(scene: &Scene) -> String {
    format!("GET /api/v1/live HTTP/1.1\r\nhost: {}\r\n\r\n", scene.at)
}

/// Reads until `wanted` has come.
async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    let reading = async {
        while !text.contains(wanted) {
            let count = stream.read(&mut piece).await.expect("the line holds");
            assert!(count > 0, "ended before {wanted}: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    assert!(read.is_ok(), "{wanted} did not come");
    text
}

/// The JSON of the first piece of news in a text.
fn data(text: &str) -> Value {
    let line = text.lines().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(line.expect("data")).expect("JSON")
}

#[test]
fn news_come_as_rows_of_the_lists() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut line = scene.open(&request(&scene)).await;
        let head = until(&mut line, ": hello").await;
        assert!(head.contains("text/event-stream"), "{head}");
        scene.tell(LiveUpdate::Event(Arc::new(event())));
        let text = until(&mut line, "data: {").await;
        assert!(text.contains("event: event\n"), "{text}");
        assert_eq!(data(&text)["id"], "e-1");
        let mut run = IncomingRun::from_json(report("udp-reverse.json"), 0).expect("a report");
        run.run.id = "run-007".to_owned();
        run.pairs = vec![pair()];
        scene.tell(LiveUpdate::Run(Arc::new(RunEntry::from_run(&run))));
        let text = until(&mut line, "data: {").await;
        let row = data(&text);
        assert_eq!(
            (row["id"].as_str(), row["kind"].as_str()),
            (Some("run-007"), Some("throughput"))
        );
        assert_eq!(row["pair"]["from"], "slac");
    });
}

#[test]
fn whoever_lags_is_told_to_read_again_and_others_go_on() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut lagging = scene.open(&request(&scene)).await;
        until(&mut lagging, ": hello").await;
        for round in 0..400 {
            for _ in 0..MAX_QUEUED_UPDATES {
                scene.tell(LiveUpdate::Event(Arc::new(event())));
            }
            if round % 8 == 0 {
                tokio::task::yield_now().await;
            }
        }
        until(&mut lagging, "event: resync").await;
    });
    assert_eq!(scene.get("/healthz").status, 200);
}

#[test]
fn listeners_are_bounded_and_their_places_come_back() {
    let scene = Scene::new();
    let refused = scene.runtime.block_on(async {
        let mut lines = Vec::new();
        for _ in 0..MAX_LISTENERS {
            let mut line = scene.open(&request(&scene)).await;
            until(&mut line, ": hello").await;
            lines.push(line);
        }
        // One of them gives way to another source.
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.9.9.9:0".parse().expect("an address")).expect("loopback");
        let mut other = socket.connect(scene.at).await.expect("it listens");
        other.write_all(request(&scene).as_bytes()).await.expect("it reads");
        until(&mut other, ": hello").await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, lines[0].read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the oldest line stays open");
        let mut late = scene.open(&request(&scene)).await;
        until(&mut late, "too_many_listeners").await
    });
    assert!(refused.contains("503"), "{refused}");
    scene.runtime.block_on(async {
        // The others have gone; the agent sees it as soon as it has something to say.
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            scene.tell(LiveUpdate::Event(Arc::new(event())));
            let mut line = scene.open(&request(&scene)).await;
            let mut piece = [0; 64];
            let count = line.read(&mut piece).await.expect("an answer");
            if String::from_utf8_lossy(&piece[..count]).contains("200 OK") {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "no place came back");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn the_end_of_the_agent_ends_the_line() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut line = scene.open(&request(&scene)).await;
        until(&mut line, ": hello").await;
        scene.stop();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, line.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the line stays open");
    });
}
