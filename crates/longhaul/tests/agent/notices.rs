//! An event is reported once by the webhook and once by the command, also over a restart and where
//! the first attempt fails.

use crate::stage::*;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, PathReport, SeriesPoint};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, SeriesReading};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/path-balanced-v6.json");

type Heard = Arc<Mutex<Vec<String>>>;

fn listen(answer: impl Fn(TcpStream, &Heard) + Send + 'static) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let heard = Heard::default();
    let into = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.set_read_timeout(Some(DEADLINE));
            answer(stream, &into);
        }
    });
    (port, heard)
}

/// A web server that refuses the first request, and takes the others.
fn webhook() -> (u16, Heard) {
    let first = std::sync::atomic::AtomicBool::new(true);
    listen(move |mut stream, heard| {
        let mut reader = BufReader::new(stream.try_clone().expect("its other half"));
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let refuse = first.swap(false, std::sync::atomic::Ordering::Relaxed);
        let status = if refuse { "503 Busy" } else { "204 Fine" };
        let _ =
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        if !refuse {
            let text = String::from_utf8_lossy(&body).into_owned();
            heard.lock().expect("nobody panicked").push(text);
        }
    })
}

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

fn settings(far: u16, webhook: u16, command: &str) -> String {
    let rest = format!(
        "[detect]\nquantities = [\"rtt_floor\"]\nfollow_ups = false\nseason = false\n\
         [notify]\ncommand = [\"{command}\"]\n\
         [notify.webhook]\nurl = \"http://127.0.0.1:{webhook}/hook\"\n{LOOKS}"
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
fn an_event_is_told_once_by_every_way_also_over_a_restart() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("notices");
    history(&folder);
    let (web, posted) = webhook();
    let output = folder.file("told.txt");
    let script = format!("#!/bin/sh\ncat >> {}\necho >> {0}\n", output.display());
    let command = folder.write("tell.sh", &script);
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let text = settings(far.port, web, &command.display().to_string());
    folder.write("watch.toml", &text);
    let mut agent = Agent::start_accelerated(&folder, 600);
    let found = agent.next(|it| it["event"] == "change" && it["state"] == "confirmed");
    let found = found.expect("the round trip is another one");
    let id = found["id"].as_str().expect("an id").to_owned();
    let count = |heard: &Heard| heard.lock().expect("nobody panicked").len();
    let commanded = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_until("every way tells", || count(&posted) > 0 && commanded().contains(&id));
    agent.stop();
    // The next agent knows, and goes on with the same event.
    let mut agent = Agent::start_accelerated(&folder, 600);
    for _ in 0..3 {
        agent.wait_for("run");
    }
    agent.stop();
    let posted = posted.lock().expect("nobody panicked").clone();
    let of_event = |text: &&String| text.contains(&id);
    assert_eq!(posted.iter().filter(of_event).count(), 1, "{posted:?}");
    let body: Value = serde_json::from_str(&posted[0]).expect("JSON");
    assert_eq!(body["event"]["id"], *id);
    assert!(body["text"].as_str().is_some_and(|it| it.contains("What changed")));
    assert_eq!(commanded().matches(&format!("\"id\":\"{id}\"")).count(), 1);
}
