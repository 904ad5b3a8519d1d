//! A connection that ends while a batch is stored: nothing is lost, nothing is there twice.

use crate::delivery_cases::{open, planned};
use crate::embedded::{self, ask};
use crate::history_cases::{HOUR_US, MIDNIGHT_US, event, runs};
use longhaul_clickhouse::ClickHouseOptions;
use longhaul_store::StoreError;
use longhaul_store::history_store::{AgentDelivery, PlannedOutcome};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is lost of the insert at which the line is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lost {
    /// The database never hears of it.
    Question,
    /// The database has it, and nobody knows.
    Answer,
}

/// A line to the database that is cut at one of its inserts, for good.
struct Line {
    url: String,
    /// Inserts that still pass; more than any batch has until the line is armed.
    left: Arc<AtomicUsize>,
}

const ALL: usize = usize::MAX / 2;

impl Line {
    fn to(url: &str, lost: Lost) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let line = Line {
            url: format!("http://{}", listener.local_addr().expect("an address")),
            left: Arc::new(AtomicUsize::new(ALL)),
        };
        let address = url.trim_start_matches("http://").to_owned();
        let left = Arc::clone(&line.left);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&address).expect("the database");
                let ends = (near.try_clone().expect("a copy"), far.try_clone().expect("a copy"));
                let (counts, answers) = (Arc::clone(&left), Arc::clone(&left));
                std::thread::spawn(move || questions((near, far), lost, &counts));
                std::thread::spawn(move || carry(ends.1, ends.0, |_| answers.load(ORDER) > 0));
            }
        });
        line
    }
}

const ORDER: Ordering = Ordering::SeqCst;

fn questions((near, far): (TcpStream, TcpStream), lost: Lost, left: &AtomicUsize) {
    carry(near, far, |bytes| {
        if bytes.windows(12).any(|it| it == b"query=INSERT") {
            let one_less = |left: usize| Some(left.saturating_sub(1));
            let _ = left.fetch_update(ORDER, ORDER, one_less);
        }
        left.load(ORDER) > 0 || lost == Lost::Answer
    });
}

fn carry(mut from: TcpStream, mut to: TcpStream, mut passes: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !passes(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn delivery() -> AgentDelivery {
    let values: Vec<(i64, f64)> =
        (0..6).map(|i| (MIDNIGHT_US + i * HOUR_US / 3, i as f64)).collect();
    let runs = runs(&values);
    let run_id = runs[2].run.id.clone();
    AgentDelivery {
        planned: vec![planned("planned", Some(PlannedOutcome::Done { run_id }))],
        runs,
        events: vec![event("e", MIDNIGHT_US)],
    }
}

fn assert_whole(options: &ClickHouseOptions, what: &str) {
    let runs = delivery().runs;
    let values = runs.iter().map(|run| format!("{}\t{}", run.at_us, run.readings[0].point.value));
    let values: Vec<String> = values.collect();
    let found = ask(options, "SELECT at_us, value FROM value FINAL ORDER BY at_us");
    assert_eq!(found, values.join("\n"), "{what}");
    let ids: Vec<&str> = runs.iter().map(|run| run.run.id.as_str()).collect();
    for sql in [
        "SELECT id FROM report FINAL ORDER BY at_us",
        "SELECT id FROM run FINAL WHERE sender = '' ORDER BY at_us",
        "SELECT id FROM run FINAL WHERE sender = 'losangeles' ORDER BY at_us",
    ] {
        assert_eq!(ask(options, sql), ids.join("\n"), "{what}: {sql}");
    }
    let planned = ask(options, "SELECT state, told FROM planned FINAL");
    assert_eq!(planned, format!("2\t{}", ids[2]), "{what}");
    assert_eq!(ask(options, "SELECT id FROM event FINAL"), "e", "{what}");
}

fn cut_at_every_insert(lost: Lost) {
    for inserts in 1.. {
        let direct = embedded::options();
        let line = Line::to(&direct.urls[0], lost);
        let through = ClickHouseOptions { urls: vec![line.url.clone()], ..direct.clone() };
        let mut cut = open(&through);
        line.left.store(inserts, ORDER);
        let stored = cut.receive(&delivery());
        if stored.is_ok() {
            assert_whole(&direct, "never cut");
            assert!(inserts > 5, "pairs, plans, values, lines, reports, events: {inserts}");
            return;
        }
        assert!(matches!(stored, Err(StoreError::Database { .. })), "{stored:?}");
        // Whoever did not hear that it is there says it again.
        open(&direct).receive(&delivery()).expect("stored");
        assert_whole(&direct, &format!("{lost:?} at {inserts}"));
    }
}

#[test]
fn a_batch_whose_question_is_lost_anywhere_is_whole_when_said_again() {
    cut_at_every_insert(Lost::Question);
}

#[test]
fn a_batch_whose_answer_is_lost_anywhere_is_whole_when_said_again() {
    cut_at_every_insert(Lost::Answer);
}
