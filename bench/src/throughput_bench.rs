//! The speed and CPU cost per byte of bulk TCP, compared with other tools.
//!
//! A class is defined by the handling of the payload at both ends; programs are compared only within
//! a class. Wrong when: the machine has other work. A run with foreign load is dropped; an asterisk
//! marks cells without a clean run.
//!
//! # CPU meter
//!
//! The CPU cost of a run, and foreign load on the machine.
//!
//! CPU time is that of an accounting group with every process of both ends, including forked ones;
//! kernel work in their context counts. The machine's total is read as well, so that foreign load
//! is detected.
//!
//! # Pair window
//!
//! A client and its server on a test network, measured in a window inside the run: the payload that
//! arrived, the cost of each end, and foreign load.
//!
//! The pairs of a cell run in turn, A B C A B C, so that changes of the machine affect all of them.
//! Payload is counted by the receiver's device, in the same way for all.

use crate::interop_matrix::interop_peer;
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::testbed::TestNetwork;
use crate::{BenchOutcome, TOKEN, bench_lab};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::program_runner;

const STREAMS: [u32; 4] = [1, 2, 4, 8];
const REPETITIONS: u32 = 3;

#[derive(Deserialize)]
struct ContenderFile {
    contender: Vec<ThroughputContender>,
}

/// A contender of `contenders.toml`.
#[derive(Debug, Clone, Deserialize)]
struct ThroughputContender {
    class: String,
    name: String,
    far: String,
    near: String,
}

impl ThroughputContender {
    fn pair(&self, address: &str, streams: u32) -> ToolPair {
        let fill =
            |word: &str| word.replace("ADDRESS", address).replace("STREAMS", &streams.to_string());
        let command = |text: &str| text.split(' ').map(fill).collect();
        ToolPair { near: command(&self.near), far: command(&self.far) }
    }
}

/// Returns all contenders, with the paths of longhaul and of the newest libiperf.
fn read_contenders(longhaul: &Path, newest: &Path) -> Result<Vec<ThroughputContender>, String> {
    let text = include_str!("contenders.toml");
    let path = |file: &Path| file.display().to_string();
    let text = text.replace("LONGHAUL", &path(longhaul)).replace("NEWEST", &path(newest));
    let file: Result<ContenderFile, _> = toml::from_str(&text);
    file.map(|file| file.contender).map_err(|e| format!("bench/src/contenders.toml: {e}"))
}

/// Measures every cell and returns one table for each bed and class whose title contains `only`.
pub fn run_all(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let newest = interop_peer::find_newest_iperf3(longhaul)?;
    let contenders = read_contenders(longhaul, &newest)?;
    let mut tables = Vec::new();
    for bed in [TestNetwork::loopback()?, TestNetwork::veth(1500)?, TestNetwork::veth(9000)?] {
        for class in contenders.chunk_by(|a, b| a.class == b.class) {
            let title = format!("{} · {}", bed.name, class[0].class);
            if title.contains(only) {
                tables.push(measure_class(&bed, title, class));
            }
        }
    }
    Ok(BenchOutcome::new(&tables, Vec::new()))
}

fn measure_class(
    bed: &TestNetwork,
    title: String,
    contenders: &[ThroughputContender],
) -> MarkdownTable {
    let columns = STREAMS.map(|streams| {
        let pairs: Vec<ToolPair> =
            contenders.iter().map(|it| it.pair(bed.address, streams)).collect();
        let readings = run_in_turn(bed, &pairs, REPETITIONS);
        readings.iter().map(|it| WindowRepeats::new(it)).collect::<Vec<_>>()
    });
    let mut table =
        MarkdownTable::new(title, "Gbit/s · CPU s/GB (clean runs) | 1 stream | 2 | 4 | 8");
    for (index, contender) in contenders.iter().enumerate() {
        let cells = columns.iter().map(|column| format_cell(&column[index]));
        table.row(std::iter::once(contender.name.clone()).chain(cells).collect());
    }
    let ratios = columns.iter().map(|column| format_ratio(column));
    table.row(std::iter::once("**longhaul / best peer**".to_owned()).chain(ratios).collect());
    table
}

fn median_gigabits(cell: &WindowRepeats) -> Option<f64> {
    median(&cell.each(|reading| reading.gigabits))
}

fn median_cost(cell: &WindowRepeats) -> Option<f64> {
    median(&cell.each(|reading| reading.cost))
}

fn format_cell(cell: &WindowRepeats) -> String {
    let Some(gigabits) = median_gigabits(cell) else {
        return cell.why_empty.clone().unwrap_or_else(|| "–".to_owned());
    };
    let dirty = if cell.clean == 0 { "*" } else { "" };
    format!("{gigabits:.1} · {} ({}){dirty}", format_number(median_cost(cell), 3), cell.clean)
}

/// Returns the first contender against the best of the others, in speed and in cost.
fn format_ratio(column: &[WindowRepeats]) -> String {
    let over = |own: Option<f64>, peer: Option<f64>| {
        format_number(own.zip(peer).map(|(own, peer)| own / peer), 2)
    };
    let peers = &column[1..];
    let speed = peers.iter().filter_map(median_gigabits).reduce(f64::max);
    let cost = peers.iter().filter_map(median_cost).reduce(f64::min);
    let (speed, cost) =
        (over(median_gigabits(&column[0]), speed), over(median_cost(&column[0]), cost));
    format!("**{speed}x · {cost}x**")
}

/// The maximum time until payload flows, and the payload after which a run counts as started.
const START_MAX: Duration = Duration::from_secs(5);
const STARTED_BYTES: u64 = 4_000_000;
/// The warm-up and the window; clients run for 4 s.
const WARM_UP: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_millis(1500);
/// The maximum foreign load of a clean run, in cores.
const FOREIGN_CORES_MAX: f64 = 0.15;

/// The command of a client, and that of its server.
#[derive(Debug, Clone)]
pub struct ToolPair {
    pub near: Vec<String>,
    pub far: Vec<String>,
}

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowReading {
    pub gigabits: f64,
    /// CPU seconds of both ends per 10^9 payload bytes.
    pub cost: f64,
    /// There was no foreign load.
    pub clean: bool,
}

/// The readings of one pair, or the reasons why there is none.
pub type PairReadings = Vec<Result<WindowReading, String>>;

/// Runs the pairs in turn, `turns` times each.
pub fn run_in_turn(bed: &TestNetwork, pairs: &[ToolPair], turns: u32) -> Vec<PairReadings> {
    let mut readings = vec![Vec::new(); pairs.len()];
    for _ in 0..turns {
        for (pair, readings) in pairs.iter().zip(&mut readings) {
            let reading = run_pair(bed, pair);
            eprintln!("{} · {}: {reading:?}", bed.name, pair.near.join(" "));
            readings.push(reading);
        }
    }
    readings
}

/// Runs a pair until its window has passed, and ends it.
fn run_pair(bed: &TestNetwork, pair: &ToolPair) -> Result<WindowReading, String> {
    let group = CpuGroup::new()?;
    let mut server = group.spawn(&bed.far().enter(), &pair.far)?;
    let client = bench_lab::wait_until_listening(bed.far().pid())
        .and_then(|()| group.spawn(&bed.near.enter(), &pair.near));
    let reading = client.and_then(|mut client| {
        let reading = watch_window(&|| bed.payload_bytes(), &group);
        group.clear();
        program_runner::kill_child(&mut client);
        reading
    });
    group.clear();
    program_runner::kill_child(&mut server);
    reading
}

/// The readings at the beginning of the window and at its end.
struct WindowCounts {
    at: Instant,
    bytes: u64,
    group: Duration,
    machine: Duration,
}

impl WindowCounts {
    fn read(bytes: &dyn Fn() -> Option<u64>, group: &CpuGroup) -> Option<Self> {
        Some(WindowCounts {
            at: Instant::now(),
            bytes: bytes()?,
            group: group.cpu()?,
            machine: read_machine_cpu()?,
        })
    }
}

/// Waits until payload flows and has warmed up, then measures.
fn watch_window(
    bytes: &dyn Fn() -> Option<u64>,
    group: &CpuGroup,
) -> Result<WindowReading, String> {
    let unreadable = || "counters could not be read".to_owned();
    let idle = bytes().ok_or_else(unreadable)?;
    let deadline = Instant::now() + START_MAX;
    while bytes().ok_or_else(unreadable)? < idle + STARTED_BYTES {
        if Instant::now() > deadline {
            return Err("did not start".to_owned());
        }
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    let before = WindowCounts::read(bytes, group).ok_or_else(unreadable)?;
    sleep(WINDOW);
    let after = WindowCounts::read(bytes, group).ok_or_else(unreadable)?;
    compute_reading(&before, &after)
}

fn compute_reading(before: &WindowCounts, after: &WindowCounts) -> Result<WindowReading, String> {
    let seconds = (after.at - before.at).as_secs_f64();
    let payload = after.bytes.saturating_sub(before.bytes) as f64;
    if payload == 0.0 {
        return Err("payload stopped".to_owned());
    }
    let spent = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64();
    let own = spent(before.group, after.group);
    let foreign = spent(before.machine, after.machine) - own;
    Ok(WindowReading {
        gigabits: payload * 8.0 / seconds / 1e9,
        cost: own / (payload / 1e9),
        clean: foreign / seconds <= FOREIGN_CORES_MAX,
    })
}

/// The repeats of one cell: the clean ones, or all if there are none.
#[derive(Debug, Clone)]
pub struct WindowRepeats {
    used: Vec<WindowReading>,
    pub clean: usize,
    /// The reason why a run gave no result.
    pub why_empty: Option<String>,
}

impl WindowRepeats {
    pub fn new(readings: &[Result<WindowReading, String>]) -> Self {
        let all = readings.iter().flatten().copied();
        let (clean, other): (Vec<_>, Vec<_>) = all.partition(|reading| reading.clean);
        WindowRepeats {
            clean: clean.len(),
            used: if clean.is_empty() { other } else { clean },
            why_empty: readings.iter().find_map(|reading| reading.clone().err()),
        }
    }

    pub fn each(&self, pick: impl Fn(&WindowReading) -> f64) -> Vec<f64> {
        self.used.iter().map(pick).collect()
    }
}

/// An accounting group of the kernel, removed with its processes when dropped.
#[derive(Debug)]
pub struct CpuGroup {
    folder: PathBuf,
}

impl CpuGroup {
    /// Creates the group of this program.
    pub fn new() -> Result<Self, String> {
        let version_1 = Path::new("/sys/fs/cgroup/cpuacct");
        let base = if version_1.is_dir() { version_1 } else { Path::new("/sys/fs/cgroup") };
        let folder = base.join(format!("longhaul-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make the accounting group {}: {e}", folder.display()))?;
        Ok(CpuGroup { folder })
    }

    /// Starts a program in the group; `enter` are the words that run it in its namespace.
    pub fn spawn(&self, enter: &[String], program: &[String]) -> Result<Child, String> {
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", join]).arg(self.folder.join("cgroup.procs")).args(enter).args(program);
        program_runner::spawn_silent(command.env("LONGHAUL_TOKEN", TOKEN))
    }

    /// Returns the CPU time of all processes that were ever in the group: `cpuacct.usage` of cgroup
    /// v1 or `cpu.stat` of v2.
    pub fn cpu(&self) -> Option<Duration> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        if let Some(nanoseconds) = read("cpuacct.usage") {
            return nanoseconds.trim().parse().ok().map(Duration::from_nanos);
        }
        let text = read("cpu.stat")?;
        let microseconds = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        microseconds.trim().parse().ok().map(Duration::from_micros)
    }

    /// Kills all processes in the group.
    pub fn clear(&self) {
        let members = std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        let pids: Vec<&str> = members.split_whitespace().collect();
        if !pids.is_empty() {
            // It fails if the process is already gone, which is fine.
            let _ = program_runner::capture_output(
                Command::new("kill").arg("-9").args(pids),
                Duration::from_secs(5),
            );
        }
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        self.clear();
        // The kernel removes the last members a moment after they end.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("the accounting group {} could not be removed", self.folder.display());
    }
}

/// Returns the CPU time of the whole machine, summed over all cores.
pub fn read_machine_cpu() -> Option<Duration> {
    /// The kernel reports in hundredths of a second to user space, whatever its own tick is.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u32> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse::<u64>().ok())
        .map(|ticks| u32::try_from(ticks).unwrap_or(u32::MAX))
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| fields.get(at));
    Some(busy.map(|&ticks| TICK * ticks).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_begins_with_longhaul() {
        let all = read_contenders(Path::new("longhaul"), Path::new("newest")).expect("contenders");
        let firsts: Vec<&str> =
            all.chunk_by(|a, b| a.class == b.class).map(|it| &*it[0].name).collect();
        assert_eq!(firsts.len(), 5);
        assert!(firsts.iter().all(|name| name.starts_with("longhaul")), "{firsts:?}");
        let pair = all[3].pair("10.77.1.2", 8);
        assert_eq!(pair.near.join(" "), "nuttcp -t -T4 -N8 10.77.1.2");
    }
}

#[cfg(test)]
mod pair_window_tests {
    use super::*;

    fn reading(gigabits: f64, clean: bool) -> WindowReading {
        WindowReading { gigabits, cost: 0.1, clean }
    }

    #[test]
    fn disturbed_runs_count_only_where_there_are_no_others() {
        let failed = || Err("did not start".to_owned());
        let mixed =
            WindowRepeats::new(&[Ok(reading(1.0, false)), Ok(reading(2.0, true)), failed()]);
        assert_eq!((mixed.each(|r| r.gigabits), mixed.clean), (vec![2.0], 1));
        let disturbed = WindowRepeats::new(&[Ok(reading(1.0, false)), Ok(reading(2.0, false))]);
        assert_eq!(disturbed.each(|r| r.gigabits), vec![1.0, 2.0]);
        assert_eq!((disturbed.clean, disturbed.why_empty), (0, None));
        let empty = WindowRepeats::new(&[failed()]);
        assert!(empty.used.is_empty() && empty.why_empty.is_some());
    }

    #[test]
    fn what_was_spent_is_told_by_payload() {
        let at = Instant::now();
        let counts = |s: u64, bytes, own: u64, machine| WindowCounts {
            at: at + Duration::from_secs(s),
            bytes,
            group: Duration::from_millis(own),
            machine: Duration::from_millis(machine),
        };
        let before = counts(0, 0, 0, 0);
        let reading = compute_reading(&before, &counts(2, 4_000_000_000, 1400, 1500));
        let reading = reading.expect("a reading");
        let alike = |cost: f64, known: f64| (cost - known).abs() < 1e-9;
        assert!(alike(reading.cost, 0.35));
        assert!((reading.gigabits - 16.0).abs() < 1e-9 && reading.clean);
        let busy = compute_reading(&before, &counts(2, 4_000_000_000, 1400, 2000));
        assert!(!busy.expect("a reading").clean);
        assert!(compute_reading(&before, &counts(2, 0, 0, 0)).is_err());
    }
}
