//! A window inside a run: the payload that arrived in it, the cost of each group of processes, and
//! foreign load.

use super::cpu_meter::{CpuGroup, measure_core_speed, read_machine_cpu};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The maximum foreign load of a clean run, in cores.
const FOREIGN_CORES_MAX: f64 = 0.15;
/// The maximum change of the cores' speed in a clean run, as a share.
const CORE_SPEED_CHANGE_MAX: f64 = 0.2;

/// The times of a window.
#[derive(Debug, Clone, Copy)]
pub struct RunWindow {
    /// The maximum time until payload flows.
    pub start_max: Duration,
    /// The payload after which a run counts as started.
    pub started_bytes: u64,
    pub warm_up: Duration,
    pub lasts: Duration,
}

/// The result of one run, with a cost for each of `N` groups.
#[derive(Debug, Clone, Copy)]
pub struct WindowReading<const N: usize> {
    pub gigabits: f64,
    /// CPU seconds per 10^9 payload bytes.
    pub costs: [f64; N],
    /// There was no foreign load, and the cores kept their speed.
    pub clean: bool,
}

impl<const N: usize> WindowReading<N> {
    /// Returns the cost of all groups together.
    pub fn cost(&self) -> f64 {
        self.costs.iter().sum()
    }
}

/// The readings at the beginning of the window and at its end.
struct WindowCounts<const N: usize> {
    at: Instant,
    bytes: u64,
    groups: [Duration; N],
    machine: Duration,
}

impl<const N: usize> WindowCounts<N> {
    fn read(bytes: &dyn Fn() -> Option<u64>, groups: [&CpuGroup; N]) -> Option<Self> {
        let mut spent = [Duration::ZERO; N];
        for (spent, group) in spent.iter_mut().zip(groups) {
            *spent = group.cpu()?;
        }
        Some(WindowCounts {
            at: Instant::now(),
            bytes: bytes()?,
            groups: spent,
            machine: read_machine_cpu()?,
        })
    }
}

impl RunWindow {
    /// Waits until payload flows and has warmed up, then measures. `bytes` returns the payload that
    /// has arrived.
    pub fn watch<const N: usize>(
        &self,
        bytes: &dyn Fn() -> Option<u64>,
        groups: [&CpuGroup; N],
    ) -> Result<WindowReading<N>, String> {
        let unreadable = || "counters could not be read".to_owned();
        let idle = bytes().ok_or_else(unreadable)?;
        let deadline = Instant::now() + self.start_max;
        while bytes().ok_or_else(unreadable)? < idle + self.started_bytes {
            if Instant::now() > deadline {
                return Err("did not start".to_owned());
            }
            sleep(Duration::from_millis(10));
        }
        sleep(self.warm_up);
        let before = WindowCounts::read(bytes, groups).ok_or_else(unreadable)?;
        sleep(self.lasts);
        let after = WindowCounts::read(bytes, groups).ok_or_else(unreadable)?;
        compute_reading(&before, &after)
    }
}

fn compute_reading<const N: usize>(
    before: &WindowCounts<N>,
    after: &WindowCounts<N>,
) -> Result<WindowReading<N>, String> {
    let seconds = (after.at - before.at).as_secs_f64();
    let payload = after.bytes.saturating_sub(before.bytes) as f64;
    if payload == 0.0 {
        return Err("payload stopped".to_owned());
    }
    let spent = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64();
    let mut own = [0.0; N];
    for (at, own) in own.iter_mut().enumerate() {
        *own = spent(before.groups[at], after.groups[at]);
    }
    let foreign = spent(before.machine, after.machine) - own.iter().sum::<f64>();
    Ok(WindowReading {
        gigabits: payload * 8.0 / seconds / 1e9,
        costs: own.map(|own| own / (payload / 1e9)),
        clean: foreign / seconds <= FOREIGN_CORES_MAX,
    })
}

/// Performs a run, which is clean only if the cores were as fast after it as before.
pub fn run_at_steady_speed<const N: usize>(
    run: impl FnOnce() -> Result<WindowReading<N>, String>,
) -> Result<WindowReading<N>, String> {
    let before = measure_core_speed();
    let reading = run()?;
    let change = (measure_core_speed() / before - 1.0).abs();
    Ok(WindowReading { clean: reading.clean && change <= CORE_SPEED_CHANGE_MAX, ..reading })
}

/// The repeats of one cell: the clean ones, or all if there are none.
#[derive(Debug, Clone)]
pub struct WindowRepeats<const N: usize> {
    pub used: Vec<WindowReading<N>>,
    pub clean: usize,
    /// The reason why a run gave no result.
    pub why_empty: Option<String>,
}

impl<const N: usize> WindowRepeats<N> {
    pub fn new(readings: &[Result<WindowReading<N>, String>]) -> Self {
        let all = readings.iter().flatten().copied();
        let (clean, other): (Vec<_>, Vec<_>) = all.partition(|reading| reading.clean);
        WindowRepeats {
            clean: clean.len(),
            used: if clean.is_empty() { other } else { clean },
            why_empty: readings.iter().find_map(|reading| reading.clone().err()),
        }
    }

    pub fn each(&self, pick: impl Fn(&WindowReading<N>) -> f64) -> Vec<f64> {
        self.used.iter().map(pick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(gigabits: f64, clean: bool) -> WindowReading<1> {
        WindowReading { gigabits, costs: [0.1], clean }
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
        let empty = WindowRepeats::<1>::new(&[failed()]);
        assert!(empty.used.is_empty() && empty.why_empty.is_some());
    }

    #[test]
    fn what_was_spent_is_told_of_each_group_and_by_payload() {
        let at = Instant::now();
        let counts = |s: u64, bytes, own: [u64; 2], machine| WindowCounts {
            at: at + Duration::from_secs(s),
            bytes,
            groups: own.map(Duration::from_millis),
            machine: Duration::from_millis(machine),
        };
        let before = counts(0, 0, [0, 0], 0);
        let reading = compute_reading(&before, &counts(2, 4_000_000_000, [400, 1000], 1500));
        let reading = reading.expect("a reading");
        let alike = |cost: f64, known: f64| (cost - known).abs() < 1e-9;
        assert!(alike(reading.costs[0], 0.1) && alike(reading.costs[1], 0.25));
        assert!((reading.gigabits - 16.0).abs() < 1e-9 && reading.clean);
        let busy = compute_reading(&before, &counts(2, 4_000_000_000, [400, 1000], 2000));
        assert!(!busy.expect("a reading").clean);
        assert!(compute_reading(&before, &counts(2, 0, [0, 0], 0)).is_err());
    }
}
