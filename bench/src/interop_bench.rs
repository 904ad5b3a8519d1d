//! Compares longhaul on iperf3's protocol with iperf3 itself, in speed and CPU cost.
//!
//! In each row one end stays and the other changes. A gate is missed if longhaul is behind one of
//! the two iperf3s in the same turns, by the interval of the median of their ratios. Wrong when: the
//! machine has other work; an asterisk marks cells without an undisturbed run. All of it takes about
//! 20 minutes; six turns are the fewest that give an interval of the ratios, and more
//! (`--turns N`) narrow it.

use crate::BenchOutcome;
use crate::interop_matrix::interop_peer::{self, InteropPeer};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::pair_window::{
    PairReadings, PayloadPlace, ToolPair, WindowReading, WindowRepeats, run_in_turn,
};
use crate::testbed::TestNetwork;
use crate::turn_ratio::{BetterDirection, TurnRatio};
use std::path::Path;

/// The options of every client.
const LOADS: [&str; 8] = [
    "-t 4",
    "-t 4 -P 4",
    "-t 4 -R",
    "-t 4 -R -P 4",
    "-t 4 -Z",
    "-t 4 -R -Z",
    "-t 4 -u -b 1G -l 1448",
    "-t 4 -u -b 1G -l 1448 -R",
];
const DATAGRAM_BYTES: u64 = 1448;
/// Debian's iperf3 and the newest one, before longhaul in the list of tools.
const IPERF3S: [usize; 2] = [0, 1];
const LONGHAUL: usize = 2;
const TOOLS: usize = 3;

/// The end that changes along a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedEnd {
    Server,
    Client,
}

impl ChangedEnd {
    /// Returns the index of a pair among those of [`run_load`].
    fn pair(self, changing: usize, staying: usize) -> usize {
        match self {
            ChangedEnd::Server => TOOLS * staying + changing,
            ChangedEnd::Client => TOOLS * changing + staying,
        }
    }

    fn new_table(self, bed: &TestNetwork, tools: &[InteropPeer]) -> MarkdownTable {
        let (changed, unchanged) = match self {
            ChangedEnd::Server => ("server", "client"),
            ChangedEnd::Client => ("client", "server"),
        };
        let mut columns = vec!["load", unchanged];
        columns.extend(tools.iter().map(|tool| tool.name.as_str()));
        columns.extend(QUANTITIES.map(|quantity| quantity.name));
        MarkdownTable::new(format!("{} · the {changed} changes", bed.name), &columns.join(" | "))
    }
}

/// A quantity of the gates.
#[derive(Debug, Clone, Copy)]
struct GateQuantity {
    name: &'static str,
    better: BetterDirection,
    of: fn(ChangedEnd, &WindowReading) -> f64,
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

/// Runs the loads whose options, or whose network's name, contain `only`.
pub fn run_all(longhaul: &Path, only: &str, turns: u32) -> Result<BenchOutcome, String> {
    let tools = interop_peer::find_compared_tools(longhaul)?;
    let mut outcome = BenchOutcome::default();
    for bed in [TestNetwork::loopback()?, TestNetwork::veth(1500)?] {
        let whole_bed = bed.name.contains(only);
        let loads: Vec<&str> =
            LOADS.into_iter().filter(|load| whole_bed || load.contains(only)).collect();
        if !loads.is_empty() {
            outcome.add(measure_bed(&bed, &tools, &loads, turns));
        }
    }
    Ok(outcome)
}

/// Returns a table for each role on `bed`, and the missed gates.
fn measure_bed(
    bed: &TestNetwork,
    tools: &[InteropPeer; TOOLS],
    loads: &[&str],
    turns: u32,
) -> BenchOutcome {
    let roles = [ChangedEnd::Server, ChangedEnd::Client];
    let mut tables = roles.map(|role| role.new_table(bed, tools));
    let mut missed = Vec::new();
    for load in loads {
        let readings = run_load(bed, tools, load, turns);
        for (role, table) in roles.into_iter().zip(&mut tables) {
            for staying in IPERF3S {
                let row = PairComparisonRow { role, staying, readings: &readings };
                let name = tools[staying].name.clone();
                table.row([vec![(*load).to_owned(), name.clone()], row.cells()].concat());
                let place = format!("{}, {load}, {role:?} beside {name}", bed.name);
                missed.extend(row.missed(tools).iter().map(|why| format!("{place}: {why}")));
            }
        }
    }
    BenchOutcome::new(&tables, missed)
}

/// Runs every client with every server except longhaul with itself, the last of all pairs.
fn run_load(
    bed: &TestNetwork,
    tools: &[InteropPeer; TOOLS],
    load: &str,
    turns: u32,
) -> Vec<PairReadings> {
    let place = PayloadPlace {
        reverse: load.contains("-R"),
        datagram_bytes: load.contains("-u").then_some(DATAGRAM_BYTES),
    };
    let pair = |client: &InteropPeer, server: &InteropPeer| ToolPair {
        near: client.client(bed.address, load),
        far: server.server(),
    };
    let mut pairs: Vec<ToolPair> = Vec::new();
    for client in tools {
        pairs.extend(tools.iter().map(|server| pair(client, server)));
    }
    pairs.pop();
    run_in_turn(bed, &pairs, place, turns)
}

/// One row: one end stays, the other is each iperf3 and longhaul.
struct PairComparisonRow<'a> {
    role: ChangedEnd,
    staying: usize,
    readings: &'a [PairReadings],
}

impl PairComparisonRow<'_> {
    fn readings(&self, changing: usize) -> &PairReadings {
        &self.readings[self.role.pair(changing, self.staying)]
    }

    /// Returns the ratio of longhaul to an iperf3.
    fn ratio(&self, quantity: GateQuantity, peer: usize) -> Option<TurnRatio> {
        let value = |reading: &WindowReading| (quantity.of)(self.role, reading);
        let both = self.readings(LONGHAUL).iter().zip(self.readings(peer));
        let turns = both.filter_map(|(own, peer)| {
            Some((value(own.as_ref().ok()?), value(peer.as_ref().ok()?)))
        });
        TurnRatio::of(&turns.collect::<Vec<_>>())
    }

    fn cells(&self) -> Vec<String> {
        let middles = (0..TOOLS).map(|tool| self.format_medians(tool));
        let ratios = QUANTITIES.map(|quantity| {
            IPERF3S
                .map(|peer| TurnRatio::text(self.ratio(quantity, peer), quantity.better))
                .join("; ")
        });
        middles.chain(ratios).collect()
    }

    /// Formats the medians of one pair's turns.
    fn format_medians(&self, changing: usize) -> String {
        let repeats = WindowRepeats::new(self.readings(changing));
        let [goodput, own, both] = QUANTITIES
            .map(|quantity| median(&repeats.each(|reading| (quantity.of)(self.role, reading))));
        let Some(goodput) = goodput else {
            return repeats.why_empty.unwrap_or_else(|| "–".to_owned());
        };
        let digits = if goodput < 10.0 { 3 } else { 1 };
        let dirty = if repeats.clean == 0 { "*" } else { "" };
        let (own, both) = (format_number(own, 3), format_number(both, 3));
        format!("{goodput:.digits$} · {own} of {both}{dirty}")
    }

    /// Returns a sentence for each comparison that is lost or impossible.
    fn missed(&self, tools: &[InteropPeer; TOOLS]) -> Vec<String> {
        let mut missed = Vec::new();
        for quantity in QUANTITIES {
            for peer in IPERF3S {
                let (what, name) = (quantity.name, &tools[peer].name);
                match self.ratio(quantity, peer) {
                    None => missed.push(format!("{what} beside {name}: too few turns of both")),
                    Some(ratio) if ratio.is_behind(quantity.better) => {
                        missed.push(format!("{what} is {ratio} times that of {name}"));
                    }
                    Some(_) => {}
                }
            }
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns turns that get faster, whichever program runs, of the client Debian's iperf3.
    fn readings(longhaul: f64) -> Vec<PairReadings> {
        let turns = |rate: f64| {
            let speeds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
            let reading =
                |speed| WindowReading { gigabits: speed * rate, costs: [0.1, 0.2], clean: true };
            speeds.map(|speed| Ok(reading(speed))).to_vec()
        };
        let mut all = [10.0, 20.0, longhaul].map(turns).to_vec();
        all.resize(TOOLS * TOOLS - 1, Vec::new());
        all
    }

    fn missed(role: ChangedEnd, longhaul: f64) -> usize {
        let tools = ["a", "b", "c"].map(InteropPeer::named);
        PairComparisonRow { role, staying: 0, readings: &readings(longhaul) }.missed(&tools).len()
    }

    #[test]
    fn longhaul_is_held_against_each_iperf3_in_the_same_turn() {
        assert_eq!([30.0, 19.0, 9.0].map(|rate| missed(ChangedEnd::Server, rate)), [0, 1, 2]);
    }

    #[test]
    fn an_empty_cell_misses_every_gate() {
        assert_eq!(missed(ChangedEnd::Client, 30.0), 6);
    }
}
