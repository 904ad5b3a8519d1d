//! A connection that ends while a batch is stored: nothing is lost, nothing is there twice.

use crate::embedded;
use crate::suite::{HOUR_US, MIDNIGHT_US, geneva, goodput, points, runs};
use longhaul_clickhouse::{ClickHouseOptions, open_history_store};
use longhaul_store::history_store::{
    IncomingRun, PlannedOutcome, PlannedRun, PlannedRunFilter, RunFilter, TimeRange,
};
use longhaul_store::{HistoryStore, StoreError};
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

fn batch() -> Vec<IncomingRun> {
    let values: Vec<(i64, f64)> =
        (0..6).map(|i| (MIDNIGHT_US + i * HOUR_US / 3, i as f64)).collect();
    let mut batch = runs(&values);
    batch[2].planned_id = Some(String::from("planned"));
    batch
}

fn due() -> PlannedRun {
    PlannedRun {
        id: String::from("planned"),
        due_us: MIDNIGHT_US,
        measurement: String::from("light"),
        pair: Some(geneva()),
    }
}

fn is_whole(archive: &dyn HistoryStore, what: &str) {
    let expected: Vec<(i64, f64)> =
        batch().iter().map(|run| (run.at_us, run.readings[0].point.value)).collect();
    assert_eq!(points(archive), expected, "{what}");
    let hours = goodput(archive, TimeRange::ALL, 2).buckets;
    let samples: Vec<u32> = hours.iter().map(|it| it.samples).collect();
    assert_eq!(samples, [3, 3], "{what}");
    let filter = RunFilter { range: TimeRange::ALL, pair: Some(geneva()), kind: None, limit: 100 };
    let listed = archive.runs(&filter).expect("a list");
    assert_eq!(listed.len(), batch().len(), "{what}");
    for entry in listed {
        assert!(archive.report(&entry.id).expect("a report").is_some(), "{what}");
    }
    let filter = PlannedRunFilter { range: TimeRange::ALL, pair: None, waiting: false, limit: 100 };
    let planned = archive.planned(&filter).expect("a plan");
    let run_id = batch()[2].run.id.clone();
    assert_eq!(planned.len(), 1, "{what}");
    assert_eq!(planned[0].outcome, Some(PlannedOutcome::Done { run_id }), "{what}");
}

fn cut_at_every_insert(lost: Lost) {
    for inserts in 1.. {
        let direct = embedded::options();
        let line = Line::to(&direct.urls[0], lost);
        let through = ClickHouseOptions { urls: vec![line.url.clone()], ..direct.clone() };
        let mut cut = open_history_store(through).expect("the line is whole");
        cut.add_planned(&[due()]).expect("planned");
        line.left.store(inserts, ORDER);
        let stored = cut.append_runs(&batch());
        let mut archive = open_history_store(direct).expect("the database itself");
        if stored.is_ok() {
            is_whole(archive.as_ref(), "never cut");
            assert!(inserts > 4, "pairs, values, outcomes, lines, reports: {inserts}");
            return;
        }
        assert!(matches!(stored, Err(StoreError::Database { .. })), "{stored:?}");
        // Whoever did not hear that it is there says it again.
        let again = archive.append_runs(&batch()).expect("stored");
        assert_eq!(again.new + again.already_stored, 6, "{lost:?} at {inserts}");
        is_whole(archive.as_ref(), &format!("{lost:?} at {inserts}"));
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
