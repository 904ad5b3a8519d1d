//! How fast is bulk TCP beside the peers, and what does a byte cost?
//!
//! Every contender of a cell runs in turn, A B C A B C, so that a change of the machine meets all
//! of them; the table shows medians. Payload is counted by the kernel at the receiving device, for
//! everybody alike, over a window inside the run.
//!
//! Wrong when: the machine serves others too. A run with more than `FOREIGN_CORES_MAX` of
//! foreign load, or in which the cores changed their speed by more than a fifth, is dropped; where
//! none was clean the cell says so with an asterisk.

mod contenders;

use super::beds::{AllowedControl, Bed};
use super::meter::{Group, core_speed, machine_cpu};
use super::table::{Table, median, number};
use crate::process;
use contenders::{Contender, contenders};
use std::thread::sleep;
use std::time::{Duration, Instant};

const STREAMS: [u32; 4] = [1, 2, 4, 8];
const REPETITIONS: usize = 3;
/// The longest that connecting and warming up may take.
const START_MAX: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_millis(1600);
/// How long the contender is told to run: warm-up and window, and a margin for both ends.
pub(crate) const SECONDS: u32 = 4;
const FOREIGN_CORES_MAX: f64 = 0.15;
const CORE_SPEED_CHANGE_MAX: f64 = 0.2;
/// Payload after which a contender counts as under way.
const STARTED_BYTES: u64 = 50_000_000;

/// One run of one contender.
#[derive(Debug, Clone, Copy)]
struct Reading {
    gigabits: f64,
    cpu_seconds_per_gigabyte: f64,
    clean: bool,
}

/// Measures every cell and gives one table for each bed and class whose title holds `only`.
pub fn tables(only: &str) -> Result<Vec<Table>, String> {
    let longhaul = process::longhaul()?;
    let _allowed = AllowedControl::new()?;
    let beds = [Bed::loopback()?, Bed::veth(1500)?, Bed::veth(9000)?];
    let mut tables = Vec::new();
    let classes = contenders(&longhaul);
    for bed in &beds {
        for class in &classes {
            let title = format!("{} · {}", bed.name, class.name);
            if title.contains(only) {
                tables.push(measure_class(bed, title, &class.contenders));
            }
        }
    }
    Ok(tables)
}

fn measure_class(bed: &Bed, title: String, contenders: &[Contender]) -> Table {
    let mut table = Table::new(
        title,
        &["Gbit/s · CPU s/GB (clean runs)", "1 stream", "2", "4", "8"],
    );
    let columns: Vec<Vec<Cell>> = STREAMS
        .iter()
        .map(|&n| measure_cell(bed, contenders, n))
        .collect();
    for (index, contender) in contenders.iter().enumerate() {
        let cells = columns.iter().map(|column| column[index].text());
        table.row(
            std::iter::once(contender.name.to_owned())
                .chain(cells)
                .collect(),
        );
    }
    if contenders.len() > 1 {
        let ratios = columns.iter().map(|column| ratio(column));
        table.row(
            std::iter::once("**longhaul / best peer**".to_owned())
                .chain(ratios)
                .collect(),
        );
    }
    table
}

/// What one contender did in one cell.
struct Cell {
    gigabits: Option<f64>,
    cost: Option<f64>,
    clean: usize,
    why_empty: Option<String>,
}

impl Cell {
    fn new(readings: &[Result<Reading, String>]) -> Self {
        let all: Vec<Reading> = readings
            .iter()
            .filter_map(|r| r.as_ref().ok())
            .copied()
            .collect();
        let clean: Vec<Reading> = all
            .iter()
            .copied()
            .filter(|reading| reading.clean)
            .collect();
        let used = if clean.is_empty() { &all } else { &clean };
        let of = |pick: fn(&Reading) -> f64| median(&used.iter().map(pick).collect::<Vec<_>>());
        Cell {
            gigabits: of(|r| r.gigabits),
            cost: of(|r| r.cpu_seconds_per_gigabyte),
            clean: clean.len(),
            why_empty: readings.iter().find_map(|r| r.as_ref().err()).cloned(),
        }
    }

    fn text(&self) -> String {
        if self.gigabits.is_none() {
            return self.why_empty.clone().unwrap_or_else(|| "–".to_owned());
        }
        let dirty = if self.clean == 0 { "*" } else { "" };
        let (rate, cost) = (number(self.gigabits, 1), number(self.cost, 3));
        format!("{rate} · {cost} ({}){dirty}", self.clean)
    }
}

/// The first contender against the best of the others, in speed and in cost.
fn ratio(column: &[Cell]) -> String {
    let best = |pick: fn(&Cell) -> Option<f64>, better: fn(f64, f64) -> f64| {
        column[1..].iter().filter_map(pick).reduce(better)
    };
    let over = |own: Option<f64>, peer: Option<f64>| Some(own? / peer?);
    let speed = over(column[0].gigabits, best(|cell| cell.gigabits, f64::max));
    let cost = over(column[0].cost, best(|cell| cell.cost, f64::min));
    format!("**{}x · {}x**", number(speed, 2), number(cost, 2))
}

fn measure_cell(bed: &Bed, contenders: &[Contender], streams: u32) -> Vec<Cell> {
    let mut readings: Vec<Vec<Result<Reading, String>>> = vec![Vec::new(); contenders.len()];
    for _ in 0..REPETITIONS {
        for (contender, readings) in contenders.iter().zip(&mut readings) {
            let reading = run(bed, contender, streams);
            eprintln!(
                "{} · {} · {streams} streams: {reading:?}",
                bed.name, contender.name
            );
            readings.push(reading);
        }
    }
    readings
        .iter()
        .map(|readings| Cell::new(readings))
        .collect()
}

/// One run: far end, near end, warm-up, window.
fn run(bed: &Bed, contender: &Contender, streams: u32) -> Result<Reading, String> {
    let speed_before = core_speed();
    let group = Group::new()?;
    let env = contender.env();
    let mut far = group.spawn(&bed.far().enter(), &contender.far(), &env)?;
    sleep(contender.far_needs);
    let mut near = group.spawn(
        &bed.near().enter(),
        &contender.near(bed.address, streams),
        &env,
    )?;
    let reading = watch(bed, &group);
    group.clear();
    process::end(&mut near);
    process::end(&mut far);
    let speed_change = (core_speed() / speed_before - 1.0).abs();
    let reading = reading?;
    Ok(Reading {
        clean: reading.clean && speed_change <= CORE_SPEED_CHANGE_MAX,
        ..reading
    })
}

fn watch(bed: &Bed, group: &Group) -> Result<Reading, String> {
    let unreadable = || "counters could not be read".to_owned();
    let bytes = || bed.payload_bytes().ok_or_else(unreadable);
    let idle = bytes()?;
    let deadline = Instant::now() + START_MAX;
    while bytes()? < idle + STARTED_BYTES {
        if Instant::now() > deadline {
            return Err("did not start".to_owned());
        }
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    let read = || {
        Some((
            Instant::now(),
            bed.payload_bytes()?,
            group.cpu()?,
            machine_cpu()?,
        ))
    };
    let (at, bytes, cpu, machine) = read().ok_or_else(unreadable)?;
    sleep(WINDOW);
    let (at_end, bytes_end, cpu_end, machine_end) = read().ok_or_else(unreadable)?;
    let seconds = (at_end - at).as_secs_f64();
    let payload = bytes_end.saturating_sub(bytes) as f64;
    let own = cpu_end.saturating_sub(cpu).as_secs_f64();
    let foreign = machine_end.saturating_sub(machine).as_secs_f64() - own;
    Ok(Reading {
        gigabits: payload * 8.0 / seconds / 1e9,
        cpu_seconds_per_gigabyte: own / (payload / 1e9),
        clean: foreign / seconds <= FOREIGN_CORES_MAX,
    })
}
