//! An event is reported once, also over a restart and where the first attempt fails.

use crate::stage::*;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, PathReport};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, SeriesReading};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/path-balanced-v6.json");

/// Days of round trips that have just become twice as long, but for the runs that prove it.
fn history(folder: &Folder) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now_us = now.as_micros() as i64;
    let mut archive = Archive::open(&folder.file("archive.sqlite3")).expect("a new archive");
    let mut report: PathReport = serde_json::from_str(FIXTURE).expect("a report");
    let pair = HostPair { from: "near".to_owned(), to: "far".to_owned() };
    let mut runs = Vec::new();
    for n in 0..200_i64 {
        let at_us = now_us - (200 - n) * 600_000_000;
        report.run.id = format!("run-{n}");
        let any = AnyReport::Path(Box::new(report.clone()));
        let mut run = IncomingRun::from_report(&any, at_us).expect("a text");
        // On loopback the new runs are far below either.
        let value = 50_000.0 + (n % 7) as f64;
        run.readings = vec![SeriesReading {
            pair: pair.clone(),
            quantity: PathQuantity::RttFloor,
            point: SeriesPoint { at_us, value },
        }];
        runs.push(run);
    }
    archive.append_runs(&runs).expect("stored");
}

fn settings(far: u16, command: &str) -> String {
    let rest = format!(
        "[detect]\nquantities = [\"rtt_floor\"]\nfollow_ups = false\nseason = false\n\
         [notify]\ncommand = [\"{command}\"]\n{LOOKS}"
    );
    file(far, &rest)
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_event_is_told_once_also_over_a_restart() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("notices");
    history(&folder);
    let output = folder.file("told.txt");
    // The first attempt fails.
    let first = folder.file("first");
    let script = format!(
        "#!/bin/sh\n[ -e {first} ] || {{ touch {first}; exit 1; }}\ncat >> {output}\necho >> {output}\n",
        first = first.display(),
        output = output.display()
    );
    let command = folder.write("tell.sh", &script);
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let text = settings(far.port, &command.display().to_string());
    folder.write("watch.toml", &text);
    let mut agent = Agent::start_accelerated(&folder, 600);
    let found = agent.next(|it| it["event"] == "change" && it["state"] == "confirmed");
    let found = found.expect("the round trip is another one");
    let id = found["id"].as_str().expect("an id").to_owned();
    let commanded = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_until("it tells", || commanded().contains(&id));
    agent.stop();
    // The next agent knows, and goes on with the same event.
    let mut agent = Agent::start_accelerated(&folder, 600);
    for _ in 0..3 {
        agent.wait_for("run");
    }
    agent.stop();
    let told = commanded();
    let told: Vec<&str> = told.lines().filter(|text| text.contains(&id)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let body: Value = serde_json::from_str(told[0]).expect("JSON");
    assert_eq!(body["event"]["id"], *id);
    assert!(body["text"].as_str().is_some_and(|it| it.contains("What changed")));
}
