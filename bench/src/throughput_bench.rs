//! The speed and CPU cost per byte of bulk TCP, compared with other tools.
//!
//! A class is defined by the handling of the payload at both ends; programs are compared only within
//! a class. Wrong when: the machine has other work. A run with foreign load is dropped; an asterisk
//! marks cells without a clean run.

use crate::BenchOutcome;
use crate::interop_matrix::interop_peer;
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::pair_window::{ToolPair, WindowRepeats, run_in_turn};
use crate::testbed::TestNetwork;
use serde::Deserialize;
use std::path::Path;

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
