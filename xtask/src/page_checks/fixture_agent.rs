//! A running agent on its own port, with an archive of the page's fixtures.

use crate::{checkout, program_runner};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, HostPair, SeriesPoint};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, PlannedRun, SeriesReading};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// 2026-09-12T09:00:00Z, also the time of the browser's clock.
const NOW_US: i64 = 1_789_203_600_000_000;
const HOUR_US: i64 = 3_600_000_000;
const DAYS: i64 = 40;
/// The time at which the throughput of the changed path falls.
const CHANGE_US: i64 = NOW_US - 19 * HOUR_US;
const READY: Duration = Duration::from_secs(60);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const HOSTS: [&str; 4] = ["slac", "cesnet", "in2p3", "cern"];

/// The agent, until it is dropped.
pub struct FixtureAgent {
    child: Child,
    socket_address: SocketAddr,
    folder: PathBuf,
}

impl FixtureAgent {
    pub fn new(program: &Path) -> Result<FixtureAgent, String> {
        let name = format!("longhaul-agent-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let cannot = |e: std::io::Error| format!("cannot make {}: {e}", folder.display());
        fs::create_dir_all(&folder).map_err(cannot)?;
        let at = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let at = at.map_err(|e| format!("no free port on 127.0.0.1: {e}"))?;
        let watch_file = include_str!("watch.toml").replace("LISTEN", &at.to_string());
        fs::write(folder.join("watch.toml"), watch_file).map_err(cannot)?;
        fill_archive(&folder.join("archive.sqlite3"))?;
        let log = fs::File::create(folder.join("log")).map_err(cannot)?;
        let mut watch = Command::new(program);
        watch.arg("watch").arg(folder.join("watch.toml"));
        watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = program_runner::spawn(&mut watch)?;
        let mut agent = FixtureAgent { child, socket_address: at, folder };
        let deadline = Instant::now() + READY;
        while !agent.is_well() {
            if Instant::now() > deadline {
                return Err(format!("the agent does not answer: {}", agent.log()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(agent)
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("http://{}", self.socket_address)
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Reports whether it still runs and accepts connections.
    pub fn is_well(&mut self) -> bool {
        let accepts = || TcpStream::connect_timeout(&self.socket_address, CONNECT_LIMIT).is_ok();
        matches!(self.child.try_wait(), Ok(None)) && accepts()
    }
}

impl Drop for FixtureAgent {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.child);
        // Leftovers are in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn fill_archive(path: &Path) -> Result<(), String> {
    let mut archive = Archive::open(path).map_err(|e| e.to_string())?;
    let mut runs = load_report_runs()?;
    let small = runs.iter().min_by_key(|run| run.report.len());
    let carrier = small.cloned().ok_or("there are no fixtures")?;
    let transfer = HostPair { from: "slac/rclone".to_owned(), to: "192.0.2.7".to_owned() };
    for (index, pair) in list_host_pairs().into_iter().chain([transfer]).enumerate() {
        let series = |quantity| generate_series(&carrier, &pair, quantity, index as i64);
        runs.extend(PathQuantity::ALL.map(series));
    }
    archive.append_runs(&runs).map_err(|e| e.to_string())?;
    for event in load_fixture::<Vec<ChangeEvent>>("events.json")? {
        archive.put_event(&event).map_err(|e| e.to_string())?;
    }
    insert_planned_runs(&mut archive)
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
        runs.extend(entries.filter_map(|entry| load_report_run(&entry.ok()?.path())));
    }
    Ok(runs)
}

/// Returns `None` for a file that is not a report.
fn load_report_run(path: &Path) -> Option<IncomingRun> {
    let value: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let started: jiff::Timestamp = value["run"]["started_at"].as_str()?.parse().ok()?;
    let mut run = IncomingRun::from_json(value.to_string(), started.as_microsecond()).ok()?;
    if value["kind"] != "host" {
        run.pairs = vec![list_host_pairs().swap_remove(0)];
    }
    Some(run)
}

/// Returns a run that carries hourly values of `quantity`; one path changes.
fn generate_series(
    carrier: &IncomingRun,
    pair: &HostPair,
    quantity: PathQuantity,
    number: i64,
) -> IncomingRun {
    let changed = pair.from == "slac" && pair.to == "cesnet";
    let mut run = carrier.clone();
    run.run.id = format!("{}-{number:02}-{}", carrier.run.id, quantity.word());
    run.report = run.report.replace(&carrier.run.id, &run.run.id);
    run.pairs = vec![pair.clone()];
    run.readings.extend((0..DAYS * 24).map(|hour| {
        let at_us = NOW_US - (DAYS * 24 - hour) * HOUR_US + number * 1_000_000;
        let after = changed && at_us > CHANGE_US;
        let wave = 1.0 + 0.03 * ((hour * (7 + number)) % 11) as f64 / 11.0;
        let point = SeriesPoint { at_us, value: generate_value(quantity, after, wave) };
        SeriesReading { pair: pair.clone(), quantity, point }
    }));
    run
}

fn generate_value(quantity: PathQuantity, after: bool, wave: f64) -> f64 {
    match (quantity, after) {
        (PathQuantity::Goodput, true) => 51.8e6 * wave,
        (PathQuantity::Goodput, false) => 93e6 * wave,
        (PathQuantity::Available, _) => 240e6 * wave,
        (PathQuantity::Capacity, _) => 311e6 * wave,
        (PathQuantity::RttFloor, _) => 161_800.0 * wave,
        (PathQuantity::RttMedian, _) => 162_400.0 * wave,
        (PathQuantity::RttP95, _) => 166_000.0 * wave,
        (PathQuantity::OneWayDelay, _) => 80_700.0 * wave,
        (PathQuantity::DelayVariation, _) => 900.0 * wave,
        (PathQuantity::Loss | PathQuantity::Retransmits, _) => 1e-4 * wave,
        (PathQuantity::HostShare, _) => 0.9,
        (PathQuantity::Hops, true) => 13.0,
        (PathQuantity::Hops, false) => 17.0,
    }
}

fn load_fixture<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let path = checkout::find_root().join("web/fixtures").join(name);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The contents of `planned.json`.
#[derive(Deserialize)]
struct PlannedRunFile {
    rows: Vec<PlannedRun>,
}

fn insert_planned_runs(archive: &mut Archive) -> Result<(), String> {
    for row in load_fixture::<PlannedRunFile>("planned.json")?.rows {
        archive.add_planned(std::slice::from_ref(&row)).map_err(|e| e.to_string())?;
        if let Some(outcome) = &row.outcome {
            archive.record_outcome(&row.id, outcome).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
