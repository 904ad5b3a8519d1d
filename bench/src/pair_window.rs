//! A client and its server on a test network, measured in a window inside the run: the payload that
//! arrived, the cost of each end, and foreign load.
//!
//! The pairs of a cell run in turn, A B C A B C, so that changes of the machine affect all of them.
//! Payload is counted by the receiver's device, in the same way for all.

use crate::bench_lab;
use crate::cpu_meter::{CpuGroup, read_machine_cpu};
use crate::testbed::TestNetwork;
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::program_runner;

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

#[cfg(test)]
mod tests {
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
