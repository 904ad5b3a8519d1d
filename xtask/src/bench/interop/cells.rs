//! The pairs of each cell in turn, their medians, and longhaul against the better iperf3.

use super::pairs::{PAIRS, Pair, Programs, Scenario, Tool};
use super::run::{Reading, run};
use crate::bench::beds::Bed;
use crate::bench::table::{Table, median, number};
use crate::bench::window::Repeats;

const ROUNDS: usize = 3;
const IPERF3S: [Tool; 2] = [Tool::Debian, Tool::Newest];

/// Which end changes along a row.
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

/// What the rounds of one pair gave.
type Column = (Pair, Vec<Result<Reading, String>>);

/// A table for each role on `bed`, and the gates that were missed.
pub fn measure(bed: &Bed, programs: &Programs, loads: &[&Scenario]) -> (Vec<Table>, Vec<String>) {
    let roles = [Role::Server, Role::Client];
    let mut tables = roles.map(|role| table(role, bed, programs)).to_vec();
    let mut missed = Vec::new();
    for load in loads {
        let columns = in_turn(bed, programs, load);
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
                missed.extend(
                    row.missed()
                        .into_iter()
                        .map(|why| format!("{place}: {why}")),
                );
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
    let ratios = ["goodput", "CPU, own end", "CPU, both ends"];
    columns.extend(ratios.map(str::to_owned));
    Table {
        title: role.title(bed),
        columns,
        rows: Vec::new(),
    }
}

fn in_turn(bed: &Bed, programs: &Programs, load: &Scenario) -> Vec<Column> {
    let mut columns: Vec<Column> = PAIRS.iter().map(|&pair| (pair, Vec::new())).collect();
    for _ in 0..ROUNDS {
        for (pair, readings) in &mut columns {
            let reading = run(bed, programs, *pair, load);
            eprintln!("{} · {} · {pair:?}: {reading:?}", bed.name, load.name);
            readings.push(reading);
        }
    }
    columns
}

/// A quantity of one pair: its median, and how far its repeats are apart.
#[derive(Debug, Clone, Copy)]
struct Measured {
    middle: f64,
    /// Half of the span of the repeats, as a share of the median.
    spread: f64,
}

impl Measured {
    fn new(values: &[f64]) -> Option<Self> {
        let middle = median(values)?;
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        Some(Measured {
            middle,
            spread: (most - least) / 2.0 / middle.max(f64::MIN_POSITIVE),
        })
    }
}

/// What the repeats of one pair come to.
#[derive(Debug, Clone)]
struct Cell {
    goodput: Option<Measured>,
    own: Option<Measured>,
    both: Option<Measured>,
    clean: usize,
    why_empty: Option<String>,
}

impl Cell {
    fn new(role: Role, readings: &[Result<Reading, String>]) -> Self {
        let repeats = Repeats::new(readings);
        Cell {
            goodput: Measured::new(&repeats.each(|reading| reading.gigabits)),
            own: Measured::new(&repeats.each(|reading| role.own_cost(reading))),
            both: Measured::new(&repeats.each(Reading::cost)),
            clean: repeats.clean,
            why_empty: repeats.why_empty,
        }
    }

    fn text(&self) -> String {
        let middle = |measured: Option<Measured>| measured.map(|measured| measured.middle);
        let Some(goodput) = middle(self.goodput) else {
            return self.why_empty.clone().unwrap_or_else(|| "–".to_owned());
        };
        let digits = if goodput < 10.0 { 3 } else { 1 };
        let dirty = if self.clean == 0 { "*" } else { "" };
        let (own, both) = (middle(self.own), middle(self.both));
        format!(
            "{goodput:.digits$} · {} of {}{dirty}",
            number(own, 3),
            number(both, 3)
        )
    }
}

/// longhaul against the better iperf3, in one quantity.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    ratio: f64,
    /// The larger spread of the two: less of a difference says nothing.
    noise: f64,
}

impl Ratio {
    fn new(own: Option<Measured>, peer: Option<Measured>) -> Option<Self> {
        let (own, peer) = (own?, peer?);
        Some(Ratio {
            ratio: own.middle / peer.middle,
            noise: own.spread.max(peer.spread),
        })
    }

    fn text(this: Option<Self>, behind: bool) -> String {
        let Some(Ratio { ratio, noise }) = this else {
            return "–".to_owned();
        };
        let mark = if behind { " behind" } else { "" };
        format!("**{ratio:.2}x** ± {:.0} %{mark}", 100.0 * noise)
    }
}

/// One row: one end stays, the other is each iperf3 and longhaul.
struct Row {
    iperf3s: Vec<Cell>,
    longhaul: Cell,
    goodput: Option<Ratio>,
    own: Option<Ratio>,
    both: Option<Ratio>,
}

impl Row {
    fn new(role: Role, staying: Tool, columns: &[Column]) -> Self {
        let cell = |changing| {
            let pair = role.pair(changing, staying);
            let column = columns.iter().find(|(other, _)| *other == pair);
            Cell::new(role, column.map_or(&[], |(_, readings)| readings))
        };
        let iperf3s: Vec<Cell> = IPERF3S.into_iter().map(cell).collect();
        let longhaul = cell(Tool::Longhaul);
        let best = |pick: fn(&Cell) -> Option<Measured>, more: bool| {
            let of_all = iperf3s.iter().filter_map(pick);
            of_all.reduce(|a, b| if (a.middle > b.middle) == more { a } else { b })
        };
        Row {
            goodput: Ratio::new(longhaul.goodput, best(|cell| cell.goodput, true)),
            own: Ratio::new(longhaul.own, best(|cell| cell.own, false)),
            both: Ratio::new(longhaul.both, best(|cell| cell.both, false)),
            iperf3s,
            longhaul,
        }
    }

    fn is_slow(&self) -> bool {
        self.goodput.is_none_or(|r| r.ratio < 1.0 - r.noise)
    }

    fn is_dear(ratio: Option<Ratio>) -> bool {
        ratio.is_none_or(|r| r.ratio > 1.0 + r.noise)
    }

    fn cells(&self, load: &Scenario, staying: &str) -> Vec<String> {
        let mut cells = vec![load.name.to_owned(), staying.to_owned()];
        let columns = self.iperf3s.iter().chain([&self.longhaul]);
        cells.extend(columns.map(Cell::text));
        cells.extend([
            Ratio::text(self.goodput, self.is_slow()),
            Ratio::text(self.own, Row::is_dear(self.own)),
            Ratio::text(self.both, Row::is_dear(self.both)),
        ]);
        cells
    }

    fn missed(&self) -> Vec<String> {
        let gates = [
            ("goodput", self.goodput, self.is_slow()),
            ("CPU of its own end", self.own, Row::is_dear(self.own)),
            ("CPU of both ends", self.both, Row::is_dear(self.both)),
        ];
        let missed = gates.into_iter().filter(|(_, _, missed)| *missed);
        missed
            .map(|(what, ratio, _)| {
                let ratio = number(ratio.map(|ratio| ratio.ratio), 2);
                format!("{what} is {ratio}x that of the better iperf3")
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

    fn columns(longhaul: f64) -> Vec<Column> {
        let rates = [
            ((Tool::Debian, Tool::Debian), 10.0),
            ((Tool::Debian, Tool::Newest), 20.0),
            ((Tool::Debian, Tool::Longhaul), longhaul),
        ];
        let around = |rate: f64| {
            vec![
                Ok(reading(rate, 0.1)),
                Ok(reading(0.98 * rate, 0.1)),
                Ok(reading(1.02 * rate, 0.1)),
            ]
        };
        rates.map(|(pair, rate)| (pair, around(rate))).to_vec()
    }

    #[test]
    fn a_row_is_behind_only_by_more_than_its_repeats_spread() {
        for (longhaul, missed) in [(30.0, 0), (19.7, 0), (18.0, 1)] {
            let row = Row::new(Role::Server, Tool::Debian, &columns(longhaul));
            assert_eq!(row.missed().len(), missed, "{longhaul} Gbit/s");
        }
    }

    #[test]
    fn an_empty_cell_misses_every_gate() {
        let row = Row::new(Role::Client, Tool::Newest, &columns(30.0));
        assert_eq!(row.missed().len(), 3);
    }
}
