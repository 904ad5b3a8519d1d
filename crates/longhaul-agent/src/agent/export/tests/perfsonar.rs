//! An archive of perfSONAR that is not there at first, then refuses, and then takes everything.

use super::QUIET;
use super::place::{ExportFolder, measured_for, on_loopback, until, waits, whole};
use crate::agent::export::spawn_export;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Debug)]
struct ArchiveRequest {
    method: Method,
    headers: HeaderMap,
    document: Value,
}

#[derive(Default)]
struct ArchiveState {
    /// The answers to the first requests; the others succeed.
    refusals: Vec<StatusCode>,
    /// Those that were answered with success.
    taken: Vec<ArchiveRequest>,
    refused: usize,
}

/// Starts an archive, and returns its address.
async fn start_archive(at: SocketAddr, state: Arc<Mutex<ArchiveState>>) -> SocketAddr {
    let take = move |method: Method, headers: HeaderMap, body: Bytes| async move {
        let mut state = state.lock();
        if let Some(status) = state.refusals.pop() {
            state.refused += 1;
            return status;
        }
        let document = serde_json::from_slice(&body).expect("JSON");
        state.taken.push(ArchiveRequest { method, headers, document });
        StatusCode::OK
    };
    let listener = TcpListener::bind(at).await.expect("listens");
    let at = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await });
    at
}

/// Returns an address where nobody listens.
async fn unused_address() -> SocketAddr {
    // Nobody listens where somebody has just listened.
    let listener = TcpListener::bind(on_loopback()).await.expect("listens");
    listener.local_addr().expect("its address")
}

fn archive_url(at: SocketAddr) -> String {
    format!("http://{at}/logstash")
}

fn watch_text(at: SocketAddr) -> String {
    format!(
        "[agent]\nname = \"dtn2\"\n[[host]]\nname = \"cern\"\naddress = \"192.0.2.7\"\n\
         [[target]]\nhost = \"cern\"\n[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n\
         [[perfsonar_archive]]\nurl = \"http://{at}/logstash\"\nmethod = \"put\"\n\
         headers = {{ x-ps-observer = \"192.0.2.1\" }}\n"
    )
}

#[test]
fn an_archive_that_was_away_and_busy_gets_each_run_once() {
    whole(async {
        let place = ExportFolder::new();
        let at = unused_address().await;
        let here = measured_for(&place, &[&archive_url(at)]);
        let (stop, stopped) = watch::channel(false);
        let state = place.desk("here", &watch_text(at));
        let sender = spawn_export(&state, QUIET, &stopped);
        until("it is counted", || state.read_counters().to_send.is_some_and(|it| it > 0)).await;
        let archive = Arc::new(Mutex::new(ArchiveState {
            refusals: vec![StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED],
            ..ArchiveState::default()
        }));
        assert_eq!(start_archive(at, Arc::clone(&archive)).await, at);
        until("nothing waits", || waits(&here) == 0).await;
        let _ = stop.send(true);
        sender.await.expect("no panic");
        let archive = archive.lock();
        assert_eq!(archive.refused, 2);
        let runs: Vec<&str> = archive
            .taken
            .iter()
            .filter_map(|it| it.document["reference"]["longhaul"]["run"].as_str())
            .collect();
        assert_eq!(runs, ["a", "bb"], "plans and events have no document");
        let first = &archive.taken[0];
        assert_eq!(first.method, Method::PUT);
        assert_eq!(first.headers["x-ps-observer"], "192.0.2.1");
        assert_eq!(first.headers["content-type"], "application/json");
        assert_eq!(first.document["test"]["type"], "throughput");
        assert_eq!(first.document["test"]["spec"]["dest"], "192.0.2.7");
        assert_eq!(here.backlog().expect("a backlog").set_aside, 0);
    });
}

#[test]
fn a_document_that_the_archive_never_takes_stands_aside() {
    whole(async {
        let place = ExportFolder::new();
        let refusals = vec![StatusCode::PAYLOAD_TOO_LARGE];
        let archive = Arc::new(Mutex::new(ArchiveState { refusals, ..ArchiveState::default() }));
        let at = start_archive(on_loopback(), Arc::clone(&archive)).await;
        let here = measured_for(&place, &[&archive_url(at)]);
        let (stop, stopped) = watch::channel(false);
        let sender = spawn_export(&place.desk("here", &watch_text(at)), QUIET, &stopped);
        until("nothing waits", || waits(&here) == 0).await;
        let _ = stop.send(true);
        sender.await.expect("no panic");
        assert_eq!(here.backlog().expect("a backlog").set_aside, 1);
        assert_eq!(archive.lock().taken.len(), 1);
    });
}

#[test]
fn an_archive_that_is_away_keeps_no_results_from_another() {
    whole(async {
        let place = ExportFolder::new();
        let archive = Arc::new(Mutex::new(ArchiveState::default()));
        let at = start_archive(on_loopback(), Arc::clone(&archive)).await;
        let away = unused_address().await;
        let urls = [archive_url(away), archive_url(at)];
        let here = measured_for(&place, &urls.each_ref().map(String::as_str));
        let items = waits(&here);
        let second = format!("[[perfsonar_archive]]\nurl = \"{}\"\n", urls[1]);
        let state = place.desk("here", &(watch_text(away) + &second));
        let (stop, stopped) = watch::channel(false);
        let sender = spawn_export(&state, QUIET, &stopped);
        until("one has everything", || waits(&here) == items / 2).await;
        assert_eq!(archive.lock().taken.len(), 2);
        let late = Arc::new(Mutex::new(ArchiveState::default()));
        assert_eq!(start_archive(away, Arc::clone(&late)).await, away);
        until("nothing waits", || waits(&here) == 0).await;
        let _ = stop.send(true);
        sender.await.expect("no panic");
        assert_eq!((archive.lock().taken.len(), late.lock().taken.len()), (2, 2));
    });
}
