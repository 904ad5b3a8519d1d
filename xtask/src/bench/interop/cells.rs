//! Runs the pairs of each cell in turn, and compares the medians of longhaul and each iperf3.

use super::pairs::{PAIRS, Pair, Programs, Scenario, Tool};
use super::run::{Reading, run};
use crate::bench::beds::Bed;
use crate::bench::beside::{Beside, Better};
use crate::bench::table::{Table, median, number};
use crate::bench::window::Repeats;

const IPERF3S: [Tool; 2] = [Tool::Debian, Tool::Newest];

/// The end that changes along a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

impl Role {
    fn pair(self, changing: Tool, staying: Tool) -> Pair {
        match self {
            Role::Server => (staying, changing),
            Role::Client => (changing, staying),
        }
    }

    fn own_cost(self, reading: &Reading) -> f64 {
        match self {
            Role::Client => reading.costs[0],
            Role::Server => reading.costs[1],
        }
    }

    fn title(self, bed: &Bed) -> String {
        match self {
            Role::Server => format!("{} · the server changes", bed.name),
            Role::Client => format!("{} · the client changes", bed.name),
        }
    }
}

/// The quantities of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Goodput,
    OwnCost,
    BothCost,
}

impl Quantity {
    const ALL: [Quantity; 3] = [Quantity::Goodput, Quantity::OwnCost, Quantity::BothCost];

    fn of(self, role: Role, reading: &Reading) -> f64 {
        match self {
            Quantity::Goodput => reading.gigabits,
            Quantity::OwnCost => role.own_cost(reading),
            Quantity::BothCost => reading.cost(),
        }
    }

    fn better(self) -> Better {
        match self {
            Quantity::Goodput => Better::More,
            Quantity::OwnCost | Quantity::BothCost => Better::Less,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Quantity::Goodput => "goodput",
            Quantity::OwnCost => "CPU, own end",
            Quantity::BothCost => "CPU, both ends",
        }
    }
}

/// The results of the turns of one pair.
type Column = (Pair, Vec<Result<Reading, String>>);

/// Returns a table for each role on `bed`, and the missed gates.
pub fn measure(
    bed: &Bed,
    programs: &Programs,
    loads: &[&Scenario],
    turns: usize,
) -> (Vec<Table>, Vec<String>) {
    let roles = [Role::Server, Role::Client];
    let mut tables = roles.map(|role| table(role, bed, programs)).to_vec();
    let mut missed = Vec::new();
    for load in loads {
        let columns = in_turn(bed, programs, load, turns);
        for (role, table) in roles.into_iter().zip(&mut tables) {
            for staying in IPERF3S {
                let row = Row::new(role, staying, &columns);
                table.row(row.cells(load, &programs.name(staying)));
                let place = format!(
                    "{}, {} with {}",
                    role.title(bed),
                    load.name,
                    programs.name(staying)
                );
                let behind = row.missed(programs).into_iter();
                missed.extend(behind.map(|why| format!("{place}: {why}")));
            }
        }
    }
    (tables, missed)
}

fn table(role: Role, bed: &Bed, programs: &Programs) -> Table {
    let unchanged = match role {
        Role::Server => "client",
        Role::Client => "server",
    };
    let mut columns = vec!["load".to_owned(), unchanged.to_owned()];
    let changing = IPERF3S.into_iter().chain([Tool::Longhaul]);
    columns.extend(changing.map(|tool| programs.name(tool)));
    columns.extend(Quantity::ALL.map(|quantity| quantity.name().to_owned()));
    Table {
        title: role.title(bed),
        columns,
        rows: Vec::new(),
    }
}

fn in_turn(bed: &Bed, programs: &Programs, load: &Scenario, turns: usize) -> Vec<Column> {
    let mut columns: Vec<Column> = PAIRS.iter().map(|&pair| (pair, Vec::new())).collect();
    for _ in 0..turns {
        for (pair, readings) in &mut columns {
            let reading = run(bed, programs, *pair, load);
            eprintln!("{} · {} · {pair:?}: {reading:?}", bed.name, load.name);
            readings.push(reading);
        }
    }
    columns
}

/// Formats the medians of one pair's turns.
fn middle(role: Role, readings: &[Result<Reading, String>]) -> String {
    let repeats = Repeats::new(readings);
    let of = |quantity: Quantity| median(&repeats.each(|reading| quantity.of(role, reading)));
    let Some(goodput) = of(Quantity::Goodput) else {
        return repeats.why_empty.unwrap_or_else(|| "–".to_owned());
    };
    let digits = if goodput < 10.0 { 3 } else { 1 };
    let dirty = if repeats.clean == 0 { "*" } else { "" };
    let (own, both) = (of(Quantity::OwnCost), of(Quantity::BothCost));
    format!(
        "{goodput:.digits$} · {} of {}{dirty}",
        number(own, 3),
        number(both, 3)
    )
}

/// The comparison of longhaul with one iperf3 in one quantity.
type Comparison = (Quantity, Tool, Option<Beside>);

/// One row: one end stays, the other is each iperf3 and longhaul.
struct Row {
    middles: Vec<String>,
    comparisons: Vec<Comparison>,
}

impl Row {
    fn new(role: Role, staying: Tool, columns: &[Column]) -> Self {
        let readings = |changing| {
            let pair = role.pair(changing, staying);
            let column = columns.iter().find(|(other, _)| *other == pair);
            column.map_or(&[][..], |(_, readings)| readings.as_slice())
        };
        let tools = IPERF3S.into_iter().chain([Tool::Longhaul]);
        let comparison = |quantity: Quantity, peer: Tool| {
            let both = readings(Tool::Longhaul).iter().zip(readings(peer));
            let pairs: Vec<(f64, f64)> = both
                .filter_map(|(own, peer)| Some((own.as_ref().ok()?, peer.as_ref().ok()?)))
                .map(|(own, peer)| (quantity.of(role, own), quantity.of(role, peer)))
                .collect();
            (quantity, peer, Beside::of(&pairs))
        };
        Row {
            middles: tools.map(|tool| middle(role, readings(tool))).collect(),
            comparisons: Quantity::ALL
                .iter()
                .flat_map(|&quantity| IPERF3S.map(|peer| comparison(quantity, peer)))
                .collect(),
        }
    }

    fn cells(&self, load: &Scenario, staying: &str) -> Vec<String> {
        let mut cells = vec![load.name.to_owned(), staying.to_owned()];
        cells.extend(self.middles.iter().cloned());
        cells.extend(Quantity::ALL.map(|quantity| {
            let of = self
                .comparisons
                .iter()
                .filter(|(other, ..)| *other == quantity);
            let texts: Vec<String> = of
                .map(|(_, _, beside)| Beside::text(*beside, quantity.better()))
                .collect();
            texts.join("; ")
        }));
        cells
    }

    /// Returns comparisons that are lost or impossible.
    fn behind(&self) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter().filter(|(quantity, _, beside)| {
            beside.is_none_or(|beside| beside.is_behind(quantity.better()))
        })
    }

    fn missed(&self, programs: &Programs) -> Vec<String> {
        self.behind()
            .map(|(quantity, peer, beside)| {
                let (what, peer) = (quantity.name(), programs.name(*peer));
                match beside {
                    Some(beside) => format!("{what} is {beside} times that of {peer}"),
                    None => format!("{what} beside {peer}: too few turns of both"),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(gigabits: f64, cost: f64) -> Reading {
        Reading {
            gigabits,
            costs: [cost, 2.0 * cost],
            clean: true,
        }
    }

    /// Returns turns that get faster, whichever program runs.
    fn columns(longhaul: f64) -> Vec<Column> {
        let rates = [
            ((Tool::Debian, Tool::Debian), 10.0),
            ((Tool::Debian, Tool::Newest), 20.0),
            ((Tool::Debian, Tool::Longhaul), longhaul),
        ];
        let turns = |rate: f64| {
            let speeds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
            speeds.map(|speed| Ok(reading(speed * rate, 0.1))).to_vec()
        };
        rates.map(|(pair, rate)| (pair, turns(rate))).to_vec()
    }

    fn behind(row: &Row) -> Vec<(Quantity, Tool)> {
        row.behind()
            .map(|(quantity, peer, _)| (*quantity, *peer))
            .collect()
    }

    #[test]
    fn longhaul_is_held_against_each_iperf3_in_the_same_turn() {
        let of = |rate| behind(&Row::new(Role::Server, Tool::Debian, &columns(rate)));
        assert_eq!(of(30.0), []);
        assert_eq!(of(19.0), [(Quantity::Goodput, Tool::Newest)]);
        let both = IPERF3S.map(|peer| (Quantity::Goodput, peer));
        assert_eq!(of(9.0), both);
    }

    #[test]
    fn an_empty_cell_misses_every_gate() {
        let row = Row::new(Role::Client, Tool::Newest, &columns(30.0));
        assert_eq!(behind(&row).len(), 6);
    }
}
