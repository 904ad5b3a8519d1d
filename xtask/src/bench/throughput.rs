//! The speed and CPU cost per byte of bulk TCP, compared with other tools.
//!
//! The contenders of a cell run in turn, A B C A B C, so that changes of the machine affect all of
//! them; the table shows medians. Payload is counted by the kernel at the receiving device, in the
//! same way for all, over a window inside the run.
//!
//! Wrong when: the machine has other work. A run with foreign load, or in which the cores changed
//! their speed ([`window`]), is dropped; an asterisk marks cells without a clean run.

mod contenders;

use super::beds::{AllowedControl, Bed};
use super::meter::Group;
use super::table::{Table, median, number};
use super::window::{self, Repeats, Window, at_steady_speed};
use crate::process;
use contenders::{Contender, contenders};
use std::thread::sleep;
use std::time::Duration;

const STREAMS: [u32; 4] = [1, 2, 4, 8];
const REPETITIONS: usize = 3;
/// The maximum time for connecting and warming up.
const START_MAX: Duration = Duration::from_secs(4);
const WINDOW: Window = Window {
    start_max: START_MAX,
    started_bytes: 50_000_000,
    warm_up: Duration::from_millis(500),
    lasts: Duration::from_millis(1600),
};
/// The time for which the contender is told to run: warm-up and window, and a margin for both ends.
pub(crate) const SECONDS: u32 = 4;

/// The cost is that of both ends together.
type Reading = window::Reading<1>;

/// Measures every cell and returns one table for each bed and class whose title contains `only`.
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

/// The results of one contender in one cell.
struct Cell {
    gigabits: Option<f64>,
    cost: Option<f64>,
    clean: usize,
    why_empty: Option<String>,
}

impl Cell {
    fn new(readings: &[Result<Reading, String>]) -> Self {
        let repeats = Repeats::new(readings);
        Cell {
            gigabits: median(&repeats.each(|reading| reading.gigabits)),
            cost: median(&repeats.each(Reading::cost)),
            clean: repeats.clean,
            why_empty: repeats.why_empty,
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

/// Returns the first contender against the best of the others, in speed and in cost.
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
            let reading = at_steady_speed(|| run(bed, contender, streams));
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

/// Performs one run: far end, near end, warm-up, window.
fn run(bed: &Bed, contender: &Contender, streams: u32) -> Result<Reading, String> {
    let group = Group::new()?;
    let env = contender.env();
    let mut far = group.spawn(&bed.far().enter(), &contender.far(), &env)?;
    sleep(contender.far_needs);
    let mut near = group.spawn(
        &bed.near().enter(),
        &contender.near(bed.address, streams),
        &env,
    )?;
    let reading = WINDOW.watch(&|| bed.payload_bytes(), [&group]);
    group.clear();
    process::end(&mut near);
    process::end(&mut far);
    reading
}
