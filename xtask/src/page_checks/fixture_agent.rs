//! A running agent on its own port, with an archive of the page's fixtures.

use crate::{checkout, program_runner};
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_store::Archive;
use longhaul_store::history_store::{
    HistoryStore, IncomingRun, PlannedOutcome, PlannedRun, SeriesReading,
};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// 2026-09-12T09:00:00Z, also the time of the browser's clock.
pub const NOW_US: i64 = 1_789_203_600_000_000;
const HOUR_US: i64 = 3_600_000_000;
const DAYS: i64 = 40;
/// The time at which the throughput of the changed path falls.
const CHANGE_US: i64 = NOW_US - 19 * HOUR_US;
const READY: Duration = Duration::from_secs(60);
const HOSTS: [&str; 4] = ["slac", "cesnet", "in2p3", "cern"];

/// The agent, until it is dropped.
pub struct FixtureAgent {
    child: Child,
    socket_address: SocketAddr,
    folder: PathBuf,
}

impl FixtureAgent {
    pub fn new(program: &Path) -> Result<FixtureAgent, String> {
        FixtureAgent::start_with(program, fill_archive)
    }

    /// Starts an agent with a million values of one path, one every half minute.
    pub fn with_many(program: &Path) -> Result<FixtureAgent, String> {
        FixtureAgent::start_with(program, |path| {
            fill_archive(path)?;
            fill_large_archive(path)
        })
    }

    fn start_with(
        program: &Path,
        fill: impl Fn(&Path) -> Result<(), String>,
    ) -> Result<FixtureAgent, String> {
        let name = format!("longhaul-standing-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let cannot = |e: std::io::Error| format!("cannot make {}: {e}", folder.display());
        fs::create_dir_all(&folder).map_err(cannot)?;
        let at = find_free_port()?;
        fs::write(folder.join("watch.toml"), format_watch_file(at)).map_err(cannot)?;
        fill(&folder.join("archive.sqlite3"))?;
        let log = fs::File::create(folder.join("log")).map_err(cannot)?;
        let mut watch = Command::new(program);
        watch.arg("watch").arg(folder.join("watch.toml"));
        watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = program_runner::spawn(&mut watch)?;
        let mut standing = FixtureAgent { child, socket_address: at, folder };
        standing.wait_until_healthy()?;
        Ok(standing)
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("http://{}", self.socket_address)
    }

    /// Waits until it answers.
    fn wait_until_healthy(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY;
        while Instant::now() < deadline {
            if is_healthy(self.socket_address) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the agent ended with {status}: {}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the agent does not answer: {}", self.log()))
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Reports whether it still runs and answers.
    pub fn is_well(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && is_healthy(self.socket_address)
    }
}

impl Drop for FixtureAgent {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.child);
        // Leftovers are in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn find_free_port() -> Result<SocketAddr, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    bound.map_err(|e| format!("no free port on 127.0.0.1: {e}"))
}

fn is_healthy(at: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 "))
}

/// Returns a watch file whose targets do not answer and which schedules nothing soon.
fn format_watch_file(at: SocketAddr) -> String {
    let head = format!(
        "[agent]\nname = \"slac\"\narchive = \"archive.sqlite3\"\nlisten = \"{at}\"\n\
         city = \"Menlo Park, CA\"\nlatitude = 37.42\nlongitude = -122.2\ncatch_up = \"none\"\n\
         [[group]]\nname = \"all\"\n"
    );
    let places = [("cesnet", 50.08, 14.42), ("in2p3", 45.78, 4.87), ("cern", 46.23, 6.05)];
    let hosts = places.map(|(name, latitude, longitude)| {
        format!(
            "[[host]]\nname = \"{name}\"\naddress = \"127.0.0.1\"\nport = 9\ngroups = [\"all\"]\n\
             latitude = {latitude}\nlongitude = {longitude}\n"
        )
    });
    let measures = [("bulk", "throughput"), ("avail", "available")].map(|(name, kind)| {
        format!(
            "[[measure]]\nname = \"{name}\"\nkind = \"{kind}\"\nevery = \"300 d\"\njitter = \"1 s\"\n"
        )
    });
    [head, hosts.concat(), measures.concat()].concat()
}

fn fill_archive(path: &Path) -> Result<(), String> {
    let mut archive = Archive::open(path).map_err(|e| e.to_string())?;
    let mut runs = load_report_runs()?;
    let small = runs.iter().min_by_key(|run| run.report.len());
    let carrier = small.cloned().ok_or("there are no fixtures")?;
    for (index, pair) in list_host_pairs().into_iter().enumerate() {
        runs.push(generate_series(&carrier, &pair, index as i64));
    }
    archive.append_runs(&runs).map_err(|e| e.to_string())?;
    for event in load_events()? {
        archive.put_event(&event).map_err(|e| e.to_string())?;
    }
    insert_planned_runs(&mut archive)
}

/// Inserts throughput values from `slac` to `cern`.
fn fill_large_archive(path: &Path) -> Result<(), String> {
    const RUNS: i64 = 100;
    const VALUES: i64 = 10_000;
    const STEP_US: i64 = 30_000_000;
    let mut archive = Archive::open(path).map_err(|e| e.to_string())?;
    let runs = load_report_runs()?;
    let small = runs.iter().min_by_key(|run| run.report.len());
    let carrier = small.ok_or("there are no fixtures")?;
    let pair = HostPair { from: "slac".to_owned(), to: "cern".to_owned() };
    for number in 0..RUNS {
        let mut run = carrier.clone();
        run.run.id = format!("{}-many-{number:03}", carrier.run.id);
        run.report = run.report.replace(&carrier.run.id, &run.run.id);
        run.readings = (0..VALUES)
            .map(|at| number * VALUES + at)
            .map(|at| SeriesReading {
                pair: pair.clone(),
                quantity: PathQuantity::Goodput,
                point: SeriesPoint {
                    at_us: NOW_US - 1_000_000 - (RUNS * VALUES - at) * STEP_US,
                    value: 93e6 * (1.0 + ((at * 7919) % 101) as f64 / 1000.0),
                },
            })
            .collect();
        archive.append_runs(&[run]).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn list_host_pairs() -> Vec<HostPair> {
    let all = HOSTS.iter().flat_map(|from| HOSTS.iter().map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
        .map(|(from, to)| HostPair { from: (*from).to_owned(), to: (*to).to_owned() })
        .collect()
}

/// Returns the fixtures' reports as runs of the changed path.
fn load_report_runs() -> Result<Vec<IncomingRun>, String> {
    let mut runs = Vec::new();
    let folders = ["fixtures/reports", "web/fixtures"];
    for folder in folders.map(|folder| checkout::find_root().join(folder)) {
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let Ok(value) = serde_json::from_str::<Value>(&text) else {
                continue;
            };
            let started = value["run"]["started_at"].as_str();
            let started = started.and_then(|it| it.parse::<jiff::Timestamp>().ok());
            let Some(at_us) = started.map(jiff::Timestamp::as_microsecond) else {
                continue;
            };
            let Ok(mut run) = IncomingRun::from_json(value.to_string(), at_us) else {
                continue;
            };
            if value["kind"] != "host" {
                run.pairs = vec![list_host_pairs().swap_remove(0)];
            }
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Returns hourly values of each quantity, with a change in one path; one run carries them all.
fn generate_series(carrier: &IncomingRun, pair: &HostPair, number: i64) -> IncomingRun {
    let changed = pair.from == "slac" && pair.to == "cesnet";
    let mut run = carrier.clone();
    run.run.id = format!("{}-{number:02}", carrier.run.id);
    run.report = run.report.replace(&carrier.run.id, &run.run.id);
    run.pairs = vec![pair.clone()];
    for hour in 0..DAYS * 24 {
        let at_us = NOW_US - (DAYS * 24 - hour) * HOUR_US + number * 1_000_000;
        let after = changed && at_us > CHANGE_US;
        let wave = 1.0 + 0.03 * ((hour * (7 + number)) % 11) as f64 / 11.0;
        run.readings.extend(PathQuantity::ALL.map(|quantity| SeriesReading {
            pair: pair.clone(),
            quantity,
            point: SeriesPoint { at_us, value: generate_value(quantity, after, wave) },
        }));
    }
    run
}

fn generate_value(quantity: PathQuantity, after: bool, wave: f64) -> f64 {
    match (quantity, after) {
        (PathQuantity::Goodput, true) => 51.8e6 * wave,
        (PathQuantity::Goodput, false) => 93e6 * wave,
        (PathQuantity::Available, _) => 240e6 * wave,
        (PathQuantity::Capacity, _) => 311e6 * wave,
        (PathQuantity::RttFloor, _) => 161_800.0 * wave,
        (PathQuantity::Loss | PathQuantity::Retransmits, _) => 1e-4 * wave,
        (PathQuantity::Hops, true) => 13.0,
        (PathQuantity::Hops, false) => 17.0,
    }
}

fn load_fixture(name: &str) -> Result<Value, String> {
    let path = checkout::find_root().join("web/fixtures").join(name);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn load_events() -> Result<Vec<ChangeEvent>, String> {
    serde_json::from_value(load_fixture("events.json")?).map_err(|e| format!("events.json: {e}"))
}

fn insert_planned_runs(archive: &mut Archive) -> Result<(), String> {
    let rows = load_fixture("planned.json")?;
    for row in rows["rows"].as_array().into_iter().flatten() {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = row["pair"]
            .as_object()
            .map(|pair| HostPair { from: word(&pair["from"]), to: word(&pair["to"]) });
        let due = PlannedRun {
            id: word(&row["id"]),
            due_us: row["due_us"].as_i64().unwrap_or_default(),
            measurement: word(&row["measurement"]),
            pair,
        };
        archive.add_planned(std::slice::from_ref(&due)).map_err(|e| e.to_string())?;
        let outcome = &row["outcome"];
        let outcome = if outcome["done"].is_object() {
            PlannedOutcome::Done { run_id: word(&outcome["done"]["run_id"]) }
        } else if outcome["missed"].is_object() {
            PlannedOutcome::Missed { reason: word(&outcome["missed"]["reason"]) }
        } else {
            continue;
        };
        archive.record_outcome(&due.id, &outcome).map_err(|e| e.to_string())?;
    }
    Ok(())
}
