//! Runs the pairs of each cell in turn, and compares the medians of longhaul and each iperf3.

use super::interop_pairs::{InteropPrograms, InteropTool, LoadScenario, PAIRS, ToolPair};
use super::interop_run::{PairReading, run_pair};
use crate::BenchOutcome;
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::run_window::WindowRepeats;
use crate::testbed::TestNetwork;
use crate::turn_ratio::{BetterDirection, TurnRatio};

const IPERF3S: [InteropTool; 2] = [InteropTool::Debian, InteropTool::Newest];

/// The end that changes along a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedEnd {
    Server,
    Client,
}

impl ChangedEnd {
    fn pair(self, changing: InteropTool, staying: InteropTool) -> ToolPair {
        match self {
            ChangedEnd::Server => (staying, changing),
            ChangedEnd::Client => (changing, staying),
        }
    }

    fn title(self, bed: &TestNetwork) -> String {
        match self {
            ChangedEnd::Server => format!("{} · the server changes", bed.name),
            ChangedEnd::Client => format!("{} · the client changes", bed.name),
        }
    }
}

/// A quantity of the gates.
#[derive(Debug, Clone, Copy)]
struct GateQuantity {
    name: &'static str,
    better: BetterDirection,
    of: fn(ChangedEnd, &PairReading) -> f64,
}

const QUANTITIES: [GateQuantity; 3] = [
    GateQuantity {
        name: "goodput",
        better: BetterDirection::More,
        of: |_, reading| reading.gigabits,
    },
    GateQuantity {
        name: "CPU, own end",
        better: BetterDirection::Less,
        of: |role, reading| reading.costs[usize::from(role == ChangedEnd::Server)],
    },
    GateQuantity {
        name: "CPU, both ends",
        better: BetterDirection::Less,
        of: |_, reading| reading.cost(),
    },
];

/// The results of the turns of one pair.
type PairColumn = (ToolPair, Vec<Result<PairReading, String>>);

/// Returns a table for each role on `bed`, and the missed gates.
pub fn measure_cells(
    bed: &TestNetwork,
    programs: &InteropPrograms,
    loads: &[&LoadScenario],
    turns: usize,
) -> BenchOutcome {
    let roles = [ChangedEnd::Server, ChangedEnd::Client];
    let mut tables = roles.map(|role| new_table(role, bed, programs)).to_vec();
    let mut missed = Vec::new();
    for load in loads {
        let columns = run_in_turn(bed, programs, load, turns);
        for (role, table) in roles.into_iter().zip(&mut tables) {
            for staying in IPERF3S {
                let row = PairComparisonRow::new(role, staying, &columns);
                table.row(row.cells(load, &programs.name(staying)));
                let place =
                    format!("{}, {} with {}", role.title(bed), load.name, programs.name(staying));
                let behind = row.missed(programs).into_iter();
                missed.extend(behind.map(|why| format!("{place}: {why}")));
            }
        }
    }
    BenchOutcome::new(&tables, missed)
}

fn new_table(role: ChangedEnd, bed: &TestNetwork, programs: &InteropPrograms) -> MarkdownTable {
    let unchanged = match role {
        ChangedEnd::Server => "client",
        ChangedEnd::Client => "server",
    };
    let mut columns = vec!["load".to_owned(), unchanged.to_owned()];
    let changing = IPERF3S.into_iter().chain([InteropTool::Longhaul]);
    columns.extend(changing.map(|tool| programs.name(tool)));
    columns.extend(QUANTITIES.map(|quantity| quantity.name.to_owned()));
    MarkdownTable::new(role.title(bed), &columns.join(" | "))
}

fn run_in_turn(
    bed: &TestNetwork,
    programs: &InteropPrograms,
    load: &LoadScenario,
    turns: usize,
) -> Vec<PairColumn> {
    let mut columns: Vec<PairColumn> = PAIRS.iter().map(|&pair| (pair, Vec::new())).collect();
    for _ in 0..turns {
        for (pair, readings) in &mut columns {
            let reading = run_pair(bed, programs, *pair, load);
            eprintln!("{} · {} · {pair:?}: {reading:?}", bed.name, load.name);
            readings.push(reading);
        }
    }
    columns
}

/// Formats the medians of one pair's turns.
fn format_medians(role: ChangedEnd, readings: &[Result<PairReading, String>]) -> String {
    let repeats = WindowRepeats::new(readings);
    let [goodput, own, both] =
        QUANTITIES.map(|quantity| median(&repeats.each(|reading| (quantity.of)(role, reading))));
    let Some(goodput) = goodput else {
        return repeats.why_empty.unwrap_or_else(|| "–".to_owned());
    };
    let digits = if goodput < 10.0 { 3 } else { 1 };
    let dirty = if repeats.clean == 0 { "*" } else { "" };
    format!("{goodput:.digits$} · {} of {}{dirty}", format_number(own, 3), format_number(both, 3))
}

/// The comparison of longhaul with one iperf3 in one quantity.
struct PairComparison {
    quantity: GateQuantity,
    peer: InteropTool,
    ratio: Option<TurnRatio>,
}

/// One row: one end stays, the other is each iperf3 and longhaul.
struct PairComparisonRow {
    middles: Vec<String>,
    comparisons: Vec<PairComparison>,
}

impl PairComparisonRow {
    fn new(role: ChangedEnd, staying: InteropTool, columns: &[PairColumn]) -> Self {
        let readings = |changing| {
            let pair = role.pair(changing, staying);
            let column = columns.iter().find(|(other, _)| *other == pair);
            column.map_or(&[][..], |(_, readings)| readings.as_slice())
        };
        let tools = IPERF3S.into_iter().chain([InteropTool::Longhaul]);
        let comparison = |quantity: GateQuantity, peer: InteropTool| {
            let both = readings(InteropTool::Longhaul).iter().zip(readings(peer));
            let pairs: Vec<(f64, f64)> = both
                .filter_map(|(own, peer)| Some((own.as_ref().ok()?, peer.as_ref().ok()?)))
                .map(|(own, peer)| ((quantity.of)(role, own), (quantity.of)(role, peer)))
                .collect();
            PairComparison { quantity, peer, ratio: TurnRatio::of(&pairs) }
        };
        PairComparisonRow {
            middles: tools.map(|tool| format_medians(role, readings(tool))).collect(),
            comparisons: (0..QUANTITIES.len())
                .flat_map(|at| IPERF3S.map(|peer| comparison(QUANTITIES[at], peer)))
                .collect(),
        }
    }

    fn cells(&self, load: &LoadScenario, staying: &str) -> Vec<String> {
        let mut cells = vec![load.name.clone(), staying.to_owned()];
        cells.extend(self.middles.iter().cloned());
        cells.extend(self.comparisons.chunks(IPERF3S.len()).map(|of_quantity| {
            let texts = of_quantity.iter().map(|it| TurnRatio::text(it.ratio, it.quantity.better));
            texts.collect::<Vec<_>>().join("; ")
        }));
        cells
    }

    /// Returns comparisons that are lost or impossible.
    fn behind(&self) -> impl Iterator<Item = &PairComparison> {
        self.comparisons
            .iter()
            .filter(|it| it.ratio.is_none_or(|ratio| ratio.is_behind(it.quantity.better)))
    }

    fn missed(&self, programs: &InteropPrograms) -> Vec<String> {
        self.behind()
            .map(|it| {
                let (what, peer) = (it.quantity.name, programs.name(it.peer));
                match it.ratio {
                    Some(ratio) => format!("{what} is {ratio} times that of {peer}"),
                    None => format!("{what} beside {peer}: too few turns of both"),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(gigabits: f64, cost: f64) -> PairReading {
        PairReading { gigabits, costs: [cost, 2.0 * cost], clean: true }
    }

    /// Returns turns that get faster, whichever program runs.
    fn columns(longhaul: f64) -> Vec<PairColumn> {
        let rates = [
            ((InteropTool::Debian, InteropTool::Debian), 10.0),
            ((InteropTool::Debian, InteropTool::Newest), 20.0),
            ((InteropTool::Debian, InteropTool::Longhaul), longhaul),
        ];
        let turns = |rate: f64| {
            let speeds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
            speeds.map(|speed| Ok(reading(speed * rate, 0.1))).to_vec()
        };
        rates.map(|(pair, rate)| (pair, turns(rate))).to_vec()
    }

    fn behind(row: &PairComparisonRow) -> Vec<(&'static str, InteropTool)> {
        row.behind().map(|it| (it.quantity.name, it.peer)).collect()
    }

    #[test]
    fn longhaul_is_held_against_each_iperf3_in_the_same_turn() {
        let of = |rate| {
            behind(&PairComparisonRow::new(ChangedEnd::Server, InteropTool::Debian, &columns(rate)))
        };
        assert_eq!(of(30.0), []);
        assert_eq!(of(19.0), [("goodput", InteropTool::Newest)]);
        let both = IPERF3S.map(|peer| ("goodput", peer));
        assert_eq!(of(9.0), both);
    }

    #[test]
    fn an_empty_cell_misses_every_gate() {
        let row = PairComparisonRow::new(ChangedEnd::Client, InteropTool::Newest, &columns(30.0));
        assert_eq!(behind(&row).len(), 6);
    }
}
