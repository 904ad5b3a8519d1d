//! Two agents on loopback, one of which sends to the other over TLS.

use crate::support::{Folder, HUNG, free_port};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, SeriesPoint, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::{
    IncomingRun, PlannedOutcome, PlannedRun, PlannedRunFilter, RunFilter, SeriesReading, TimeRange,
};
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");
const KILLS: usize = 20;
/// Runs that come new in each life of the sender: more than one batch, with their plans.
const RUNS: usize = 300;

/// An agent, ended with its test.
struct Agent(Child);

impl Agent {
    fn start(folder: &Folder, name: &str) -> Agent {
        Agent::with(folder, name, Command::new(env!("CARGO_BIN_EXE_longhaul")))
    }

    /// One whose files may grow to some hundred kB: as on a full disk, a write beyond fails.
    fn cramped(folder: &Folder, name: &str) -> Agent {
        let script = "trap '' XFSZ; ulimit -f 650; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_longhaul")]);
        Agent::with(folder, name, command)
    }

    fn with(folder: &Folder, name: &str, mut command: Command) -> Agent {
        let told = File::options()
            .create(true)
            .append(true)
            .open(folder.file(&format!("{name}.log")))
            .expect("a log");
        let child = command
            .arg("watch")
            .arg(folder.file(&format!("{name}.toml")))
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(told.try_clone().expect("a second handle"))
            .stderr(told)
            .spawn();
        Agent(child.expect("the agent starts"))
    }

    fn kill(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The files of both agents: `here` sends, `there` takes.
fn placed(test: &str) -> Folder {
    let folder = Folder::new(test);
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (near, far) = (free_port(), free_port());
    for (name, text) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
        ("dtn2.token", "0123456789abcdef0123456789abcdef\n".to_owned()),
        (
            "here.toml",
            format!(
                "[agent]\nname = \"dtn2\"\narchive = \"here.sqlite3\"\nlisten = \"127.0.0.1:{near}\"\n\
                 [[measure]]\nname = \"audit\"\nkind = \"host\"\nevery = \"300 d\"\njitter = \"0 s\"\n\
                 [collector]\nurl = \"https://localhost:{far}\"\ntoken_file = \"dtn2.token\"\n\
                 ca_file = \"cert.pem\"\n"
            ),
        ),
        (
            "there.toml",
            format!(
                "[agent]\nname = \"hub\"\narchive = \"there.sqlite3\"\nlisten = \"127.0.0.1:{far}\"\n\
                 [api]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n\
                 [[api.agent]]\nname = \"dtn2\"\ntoken_file = \"dtn2.token\"\n"
            ),
        ),
    ] {
        write_secret(&folder, name, &text);
    }
    folder
}

fn write_secret(folder: &Folder, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.file(name);
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
}

fn archive(folder: &Folder, name: &str) -> Archive {
    Archive::open(&folder.file(&format!("{name}.sqlite3"))).expect("an archive")
}

fn pair() -> HostPair {
    HostPair { from: "dtn2".to_owned(), to: "cern".to_owned() }
}

/// What the agent itself does after each run, for some runs at once: of 2026-01-31, a second apart.
fn measure(here: &mut Archive, from: usize, runs: usize) {
    let second = |number: usize| {
        let (minute, second) = (number / 60, number % 60);
        format!("2026-01-31T{:02}:{:02}:{second:02}Z", minute / 60, minute % 60)
    };
    let run = |number: usize| {
        let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
        report.run.id = format!("run-{number}");
        report.run.started_at = second(number);
        let at_us = 1_769_817_600_000_000 + number as i64 * 1_000_000;
        let report = AnyReport::Throughput(Box::new(report));
        let mut run = IncomingRun::from_report(&report, at_us).expect("text");
        run.pairs = vec![pair()];
        run.planned_id = Some(format!("dtn2-1-{number}"));
        let value = 1.0;
        run.readings = vec![SeriesReading {
            pair: pair(),
            quantity: PathQuantity::Goodput,
            point: SeriesPoint { at_us, value },
        }];
        run
    };
    let planned = |number: usize| PlannedRun {
        id: format!("dtn2-1-{number}"),
        due_us: 1_769_817_600_000_000,
        measurement: "bulk".to_owned(),
        pair: Some(pair()),
        outcome: None,
    };
    let numbers = || from..from + runs;
    here.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    here.add_planned(&numbers().map(planned).collect::<Vec<_>>()).expect("plans");
    here.append_runs(&numbers().map(run).collect::<Vec<_>>()).expect("runs");
}

fn ids(archive: &Archive) -> Vec<String> {
    let filter = RunFilter { pair: Some(pair()), ..RunFilter::newest(u32::MAX) };
    let runs = archive.runs(&filter).expect("runs");
    runs.into_iter().map(|entry| entry.id).collect()
}

fn until(what: &str, folder: &Folder, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + HUNG;
    while !holds() {
        let log = |name: &str| fs::read_to_string(folder.file(name)).unwrap_or_default();
        assert!(
            Instant::now() < end,
            "not within {HUNG:?}: {what}\nhere: {}\nthere: {}",
            log("here.log"),
            log("there.log")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each run, its value and its plan are there once, and the reports read the same.
fn holds_all(here: &Archive, there: &Archive, runs: usize) {
    let mut found = ids(there);
    found.sort();
    let mut expected: Vec<String> = (0..runs).map(|number| format!("run-{number}")).collect();
    expected.sort();
    assert_eq!(found, expected);
    let series = there.series(&pair(), PathQuantity::Goodput, TimeRange::ALL, 100_000);
    assert_eq!(series.expect("a series").points.len(), runs);
    let filter = PlannedRunFilter {
        range: TimeRange::ALL,
        pair: Some(pair()),
        state: None,
        limit: u32::MAX,
    };
    let planned = there.planned(&filter).expect("planned runs");
    assert_eq!(planned.len(), runs);
    let done = |row: &longhaul_store::history_store::PlannedRun| matches!(&row.outcome, Some(PlannedOutcome::Done { run_id }) if found.contains(run_id));
    assert!(planned.iter().all(done), "{planned:?}");
    for id in ["run-0", &format!("run-{}", runs - 1)] {
        assert_eq!(here.report(id).unwrap(), there.report(id).unwrap());
    }
}

#[test]
fn senders_and_collectors_that_are_killed_lose_and_double_nothing() {
    let folder = placed("collector_killed");
    let mut here = archive(&folder, "here");
    let there = archive(&folder, "there");
    let mut collector = Agent::start(&folder, "there");
    for life in 0..KILLS {
        let before = life * RUNS;
        measure(&mut here, before, RUNS);
        let sender = Agent::start(&folder, "here");
        // Killed at once, or when some of its runs have arrived.
        if life % 4 > 0 {
            let some = ids(&there).len().max(before) + life * 37 % RUNS / 2;
            until("some runs arrive", &folder, || ids(&there).len() >= some);
        }
        sender.kill();
        if life % 5 == 4 {
            collector.kill();
            collector = Agent::start(&folder, "there");
        }
    }
    let sender = Agent::start(&folder, "here");
    until("all is sent", &folder, || here.backlog().expect("a backlog").items == 0);
    assert_eq!(here.backlog().expect("a backlog").set_aside, 0);
    holds_all(&here, &there, KILLS * RUNS);
    println!("attack: tried {KILLS}");
    sender.kill();
    collector.kill();
}

#[test]
fn a_collector_with_a_full_disk_gets_the_rest_when_it_has_room() {
    let folder = placed("collector_full");
    let mut here = archive(&folder, "here");
    measure(&mut here, 0, 300);
    let collector = Agent::cramped(&folder, "there");
    let sender = Agent::start(&folder, "here");
    until("it is told", &folder, || {
        let told = fs::read_to_string(folder.file("here.log")).unwrap_or_default();
        told.contains("507") && told.contains("disk")
    });
    assert!(here.backlog().expect("a backlog").items > 0);
    collector.kill();
    let collector = Agent::start(&folder, "there");
    until("all is sent", &folder, || here.backlog().expect("a backlog").items == 0);
    holds_all(&here, &archive(&folder, "there"), 300);
    sender.kill();
    collector.kill();
}

#[test]
fn an_agent_that_enrols_sends_with_a_token_of_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = placed("collector_enrolment");
    for (name, from, to) in [
        ("here.toml", "token_file = \"dtn2.token\"", "enrol_token_file = \"dtn2.token\""),
        (
            "there.toml",
            "[[api.agent]]\nname = \"dtn2\"\ntoken_file = \"dtn2.token\"\n",
            "enrol_token_file = \"dtn2.token\"\n",
        ),
    ] {
        let text = fs::read_to_string(folder.file(name)).expect("a watch file");
        assert!(text.contains(from), "{text}");
        fs::write(folder.file(name), text.replace(from, to)).expect("written");
    }
    let mut here = archive(&folder, "here");
    measure(&mut here, 0, 30);
    let collector = Agent::start(&folder, "there");
    let sender = Agent::start(&folder, "here");
    until("all is sent", &folder, || here.backlog().expect("a backlog").items == 0);
    holds_all(&here, &archive(&folder, "there"), 30);
    let own = folder.file("here.sqlite3.agent/collector.token");
    assert_eq!(own.metadata().expect("its token").permissions().mode() & 0o777, 0o600);
    let own = fs::read_to_string(own).expect("its token");
    let kept = fs::read_to_string(folder.file("there.sqlite3.agent/tokens.json"));
    let kept = kept.expect("the tokens of the collector");
    assert!(kept.contains("dtn2") && !kept.contains(own.trim()), "{kept}");
    for log in ["here.log", "there.log"] {
        assert!(!fs::read_to_string(folder.file(log)).expect("a log").contains(own.trim()));
    }
    // After a restart it sends with the same token, without enrolling again.
    sender.kill();
    measure(&mut here, 30, 30);
    let sender = Agent::start(&folder, "here");
    until("all is sent", &folder, || here.backlog().expect("a backlog").items == 0);
    holds_all(&here, &archive(&folder, "there"), 60);
    sender.kill();
    collector.kill();
}
