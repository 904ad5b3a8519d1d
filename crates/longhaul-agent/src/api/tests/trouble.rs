//! An archive that is slow, away or broken, and a handler with a defect.

use crate::agent::shared_state::ArchiveOpener;
use crate::api::api_error::ApiError;
use crate::api::api_router::limit_request;
use crate::api::archive_pool::ArchivePool;
use crate::api::connection_table::ConnectionTable;
use crate::api::http_server;
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::get;
use longhaul_store::{Archive, StoreError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

fn run<F: Future>(future: F) -> F::Output {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a run-time").block_on(future)
}

/// An archive of nothing in a folder of its own, and how often it was opened.
struct Nowhere {
    folder: PathBuf,
    opened: Arc<AtomicU32>,
}

impl Nowhere {
    fn new(name: &str) -> Nowhere {
        let name = format!("longhaul-trouble-{name}-{}", std::process::id());
        Nowhere { folder: std::env::temp_dir().join(name), opened: Arc::default() }
    }

    fn open(&self) -> ArchiveOpener {
        let (path, opened) = (self.folder.join("archive.sqlite3"), Arc::clone(&self.opened));
        Arc::new(move || {
            opened.fetch_add(1, Ordering::Relaxed);
            Archive::open(&path)
        })
    }

    fn opened(&self) -> u32 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Nowhere {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn gone() -> StoreError {
    StoreError::Open {
        path: PathBuf::from("archive.sqlite3"),
        source: Box::new(std::io::Error::other("it is gone")),
    }
}

#[test]
fn an_archive_that_does_not_answer_costs_its_own_question_only() {
    let place = Nowhere::new("slow");
    let readers = ArchivePool::with_limits(place.open(), 1, Duration::from_millis(500));
    let (free, held) = std::sync::mpsc::channel::<()>();
    run(async {
        let slow = readers.query(move |_| Ok(held.recv().ok()));
        let fault = slow.await.expect_err("it is too slow");
        assert_eq!(fault.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(fault.text.contains("within 0.5 s"), "{}", fault.text);
        // Its place is still taken.
        let next = readers.query(Archive::pairs).await;
        assert_eq!(next.expect_err("no place").code, "archive_busy");
        free.send(()).expect("it waits");
        let mut answered = readers.query(Archive::pairs).await;
        while answered.is_err() {
            answered = readers.query(Archive::pairs).await;
        }
    });
}

#[test]
fn a_connection_is_used_again_unless_it_failed_or_a_question_panicked() {
    let place = Nowhere::new("again");
    let readers = ArchivePool::with_limits(place.open(), 1, Duration::from_secs(60));
    run(async {
        for _ in 0..3 {
            readers.query(Archive::pairs).await.expect("it answers");
        }
        assert_eq!(place.opened(), 1);
        let failed: Result<(), ApiError> = readers.query(|_| Err(gone())).await;
        assert_eq!(failed.expect_err("it fails").code, "archive_failed");
        let broken: Result<(), ApiError> = readers.query(|_| panic!("a defect, on purpose")).await;
        assert_eq!(broken.expect_err("it panics").code, "defect");
        readers.query(Archive::pairs).await.expect("it answers again");
        assert_eq!(place.opened(), 3);
    });
}

async fn defect() -> &'static str {
    panic!("a defect, on purpose");
}

#[test]
fn a_defect_in_a_handler_becomes_an_answer() {
    let router = Router::new().route("/", get(defect)).layer(from_fn(limit_request));
    let (_stop, stopped) = watch::channel(false);
    let answer = run(async {
        let (mut here, there) = tokio::io::duplex(4096);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let open = Arc::new(ConnectionTable::default()).add(peer.ip(), 1);
        tokio::spawn(http_server::serve_connection(there, peer, open, router, stopped));
        let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        here.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        here.read_to_string(&mut answer).await.expect("an answer");
        answer
    });
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(answer.contains("\"defect\""), "{answer}");
}
