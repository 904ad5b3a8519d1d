//! An agent whose results go into a database that is away at first.

#[path = "../../../longhaul-clickhouse/tests/embedded/mod.rs"]
mod embedded;

use crate::support::{Folder, HUNG, free_port};
use longhaul_model::report::v1::{AnyReport, HostPair, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, PlannedRun};
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");
const RUNS: usize = 120;
/// 2026-01-31T00:00:00Z.
const BEGIN_US: i64 = 1_769_817_600_000_000;

/// An agent, ended with its test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Folder) -> Agent {
    let log = File::options().create(true).append(true).open(folder.file("log")).expect("a log");
    let child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("watch")
        .arg(folder.file("watch.toml"))
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn();
    Agent(child.expect("the agent starts"))
}

/// From now on the database can be reached at this port.
fn relay(port: u16, to: &str) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let to = to.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&to).expect("the database");
            let copies = (near.try_clone().expect("a copy"), far.try_clone().expect("a copy"));
            carry(near, far);
            carry(copies.1, copies.0);
        }
    });
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}

fn pair() -> HostPair {
    HostPair { from: String::from("dtn2"), to: String::from("cern") }
}

/// What the agent itself does after each run.
fn measure(here: &mut Archive) {
    here.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    let pair = pair();
    for number in 0..RUNS {
        let at_us = BEGIN_US + number as i64 * 60_000_000;
        let planned = PlannedRun {
            id: format!("dtn2-1-{number}"),
            due_us: at_us,
            measurement: String::from("bulk"),
            pair: Some(pair.clone()),
            outcome: None,
        };
        let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
        report.run.id = format!("run-{number}");
        report.run.started_at = format!("2026-01-31T{:02}:{:02}:00Z", number / 60, number % 60);
        let report = AnyReport::Throughput(Box::new(report));
        let mut run = IncomingRun::from_report(&report, at_us).expect("text");
        run.pairs = vec![pair.clone()];
        run.planned_id = Some(planned.id.clone());
        here.add_planned(&[planned]).expect("planned");
        here.append_runs(&[run]).expect("stored");
    }
}

fn page(port: u16) -> String {
    let ask = || -> std::io::Result<String> {
        let mut to = TcpStream::connect(("127.0.0.1", port))?;
        to.set_read_timeout(Some(Duration::from_secs(20)))?;
        let host = format!("Host: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        to.write_all(format!("GET /api/v1/about HTTP/1.1\r\n{host}").as_bytes())?;
        let mut answer = String::new();
        to.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().unwrap_or_default()
}

fn until(what: &str, folder: &Folder, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + HUNG;
    while !holds() {
        let log = fs::read_to_string(folder.file("log")).unwrap_or_default();
        assert!(Instant::now() < end, "not within {HUNG:?}: {what}\n{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_measured_while_the_database_is_away_is_in_it_later() {
    let shared = embedded::options();
    let (database, listen) = (free_port(), free_port());
    let folder = Folder::new("database");
    let text = format!(
        "[agent]\nname = \"dtn2\"\narchive = \"here.sqlite3\"\nlisten = \"127.0.0.1:{listen}\"\n\
         [[measure]]\nname = \"audit\"\nkind = \"host\"\nevery = \"300 d\"\njitter = \"0 s\"\n\
         [database]\nurl = \"http://127.0.0.1:{database}\"\nname = \"{}\"\n",
        shared.database
    );
    fs::write(folder.file("watch.toml"), text).expect("a watch file");
    let mut here = Archive::open(&folder.file("here.sqlite3")).expect("an archive");
    measure(&mut here);
    let agent = start(&folder);
    until("it is told that nobody answers", &folder, || {
        let log = fs::read_to_string(folder.file("log")).unwrap_or_default();
        log.contains("cannot send to the database")
    });
    until("the page shows what the agent has", &folder, || page(listen).contains("SQLite"));
    relay(database, &shared.urls[0]);
    until("all is sent", &folder, || here.backlog().expect("a backlog").items == 0);
    let count = RUNS.to_string();
    // The agent makes an audit of its own beside the runs of the pair.
    let runs = "SELECT uniqExact(id) FROM run WHERE sender = 'dtn2' AND receiver = 'cern'";
    assert_eq!(embedded::ask(&shared, runs), count);
    let plans = "SELECT state, count() FROM planned FINAL WHERE receiver = 'cern' GROUP BY state";
    assert_eq!(embedded::ask(&shared, plans), format!("2\t{count}"));
    assert_eq!(here.backlog().expect("a backlog").set_aside, 0);
    drop(agent);
}
