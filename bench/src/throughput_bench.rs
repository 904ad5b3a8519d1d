//! The speed and CPU cost per byte of bulk TCP, compared with other tools.
//!
//! The contenders of a cell run in turn, A B C A B C, so that changes of the machine affect all of
//! them; the table shows medians. Payload is counted by the kernel at the receiving device, in the
//! same way for all, over a window inside the run.
//!
//! Wrong when: the machine has other work. A run with foreign load, or in which the cores changed
//! their speed ([`run_window`]), is dropped; an asterisk marks cells without a clean run.

mod throughput_contenders;

use super::cpu_meter::CpuGroup;
use super::markdown_table::{MarkdownTable, format_number, median};
use super::run_window::{self, RunWindow, WindowRepeats, run_at_steady_speed};
use super::testbed::{AllowedControl, TestNetwork};
use crate::{BenchOutcome, TOKEN};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use throughput_contenders::{ThroughputContender, list_contenders};
use xtask::program_runner;

const STREAMS: [u32; 4] = [1, 2, 4, 8];
const REPETITIONS: usize = 3;
/// The maximum time for connecting and warming up.
const START_MAX: Duration = Duration::from_secs(4);
const WINDOW: RunWindow = RunWindow {
    start_max: START_MAX,
    started_bytes: 50_000_000,
    warm_up: Duration::from_millis(500),
    lasts: Duration::from_millis(1600),
};
/// The time that a far end takes until it listens.
const FAR_NEEDS: Duration = Duration::from_millis(300);
/// The cost is that of both ends together.
type ThroughputReading = run_window::WindowReading<1>;

/// Measures every cell and returns one table for each bed and class whose title contains `only`.
pub fn measure_throughput(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let _allowed = AllowedControl::new()?;
    let beds = [TestNetwork::loopback()?, TestNetwork::veth(1500)?, TestNetwork::veth(9000)?];
    let mut tables = Vec::new();
    let contenders = list_contenders(longhaul)?;
    for bed in &beds {
        for class in contenders.chunk_by(|a, b| a.class == b.class) {
            let title = format!("{} · {}", bed.name, class[0].class);
            if title.contains(only) {
                tables.push(measure_class(bed, title, class));
            }
        }
    }
    Ok(BenchOutcome::ungated(&tables))
}

fn measure_class(
    bed: &TestNetwork,
    title: String,
    contenders: &[ThroughputContender],
) -> MarkdownTable {
    let mut table =
        MarkdownTable::new(title, "Gbit/s · CPU s/GB (clean runs) | 1 stream | 2 | 4 | 8");
    let columns: Vec<Vec<ThroughputCell>> =
        STREAMS.iter().map(|&n| measure_cell(bed, contenders, n)).collect();
    for (index, contender) in contenders.iter().enumerate() {
        let cells = columns.iter().map(|column| column[index].text());
        table.row(std::iter::once(contender.name.clone()).chain(cells).collect());
    }
    if contenders.len() > 1 {
        let ratios = columns.iter().map(|column| format_ratio(column));
        table.row(std::iter::once("**longhaul / best peer**".to_owned()).chain(ratios).collect());
    }
    table
}

/// The results of one contender in one cell.
struct ThroughputCell {
    gigabits: Option<f64>,
    cost: Option<f64>,
    clean: usize,
    why_empty: Option<String>,
}

impl ThroughputCell {
    fn new(readings: &[Result<ThroughputReading, String>]) -> Self {
        let repeats = WindowRepeats::new(readings);
        ThroughputCell {
            gigabits: median(&repeats.each(|reading| reading.gigabits)),
            cost: median(&repeats.each(ThroughputReading::cost)),
            clean: repeats.clean,
            why_empty: repeats.why_empty,
        }
    }

    fn text(&self) -> String {
        if self.gigabits.is_none() {
            return self.why_empty.clone().unwrap_or_else(|| "–".to_owned());
        }
        let dirty = if self.clean == 0 { "*" } else { "" };
        let (rate, cost) = (format_number(self.gigabits, 1), format_number(self.cost, 3));
        format!("{rate} · {cost} ({}){dirty}", self.clean)
    }
}

/// Returns the first contender against the best of the others, in speed and in cost.
fn format_ratio(column: &[ThroughputCell]) -> String {
    let best = |pick: fn(&ThroughputCell) -> Option<f64>, better: fn(f64, f64) -> f64| {
        column[1..].iter().filter_map(pick).reduce(better)
    };
    let over = |own: Option<f64>, peer: Option<f64>| Some(own? / peer?);
    let speed = over(column[0].gigabits, best(|cell| cell.gigabits, f64::max));
    let cost = over(column[0].cost, best(|cell| cell.cost, f64::min));
    format!("**{}x · {}x**", format_number(speed, 2), format_number(cost, 2))
}

fn measure_cell(
    bed: &TestNetwork,
    contenders: &[ThroughputContender],
    streams: u32,
) -> Vec<ThroughputCell> {
    let mut readings: Vec<Vec<Result<ThroughputReading, String>>> =
        vec![Vec::new(); contenders.len()];
    for _ in 0..REPETITIONS {
        for (contender, readings) in contenders.iter().zip(&mut readings) {
            let reading = run_at_steady_speed(|| run_contender(bed, contender, streams));
            eprintln!("{} · {} · {streams} streams: {reading:?}", bed.name, contender.name);
            readings.push(reading);
        }
    }
    readings.iter().map(|readings| ThroughputCell::new(readings)).collect()
}

/// Performs one run: far end, near end, warm-up, window.
fn run_contender(
    bed: &TestNetwork,
    contender: &ThroughputContender,
    streams: u32,
) -> Result<ThroughputReading, String> {
    let group = CpuGroup::new()?;
    let mut far =
        group.spawn(&bed.far().enter(), &contender.far(), &[("LONGHAUL_TOKEN", TOKEN)])?;
    sleep(FAR_NEEDS);
    let near = contender.near(bed.address, streams);
    let mut near = group.spawn(&bed.near().enter(), &near, &[("LONGHAUL_TOKEN", TOKEN)])?;
    let reading = WINDOW.watch(&|| bed.payload_bytes(), [&group]);
    group.clear();
    program_runner::kill_child(&mut near);
    program_runner::kill_child(&mut far);
    reading
}
