//! The fault matrix of fixtures/verdicts.toml, expanded into cells.

use crate::narrow_path::NarrowPath;
use toml::{Table, Value};
use xtask::checkout;

/// The file of the matrix, relative to the root of the checkout.
const FILE: &str = "fixtures/verdicts.toml";
/// The autotuning limits on every path of the matrix.
const RECEIVE_BUFFER: &str = "4096 131072 67108864";
const SEND_BUFFER: &str = "4096 65536 67108864";

/// The maximum RTT of the quick cells: the ramp of longer RTTs takes too long for a test.
const SHORT_MS: u64 = 40;

/// The cases of the quick cells in parts of about equal duration. Each part is a test.
pub const QUICK_PARTS: [[&str; 2]; 3] = [
    ["clean path", "slow reader"],
    ["small receive buffer", "slow writer"],
    ["small send buffer", "too short a run"],
];

/// All cells, case by case.
#[derive(Debug, Clone)]
pub struct FaultMatrix {
    pub cells: Vec<FaultCell>,
}

/// One case at one RTT.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultCell {
    pub case: String,
    pub rtt_ms: u64,
    pub seconds: u64,
    /// The verdicts that are right.
    pub limited_by: Vec<String>,
    pub finding: Option<String>,
    /// No fault is created.
    pub clean: bool,
    /// Must be right, whatever the other cells are.
    pub strict: bool,
    /// The far end shares its core with a program that uses nearly all of it.
    pub starve_far: bool,
    /// The options of `longhaul test`.
    pub test: Vec<String>,
    pub expect_mbps: Option<f64>,
    link: Table,
}

impl FaultMatrix {
    pub fn read() -> Result<Self, String> {
        let file = checkout::find_root().join(FILE);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
        Self::parse(&text).map_err(|why| format!("{FILE}: {why}"))
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let root: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        let mut cells = Vec::new();
        for case in read_tables(&root, "case")? {
            for rtt in read_tables(&root, "rtt")? {
                cells.push(parse_cell(case, rtt)?);
            }
        }
        Ok(FaultMatrix { cells })
    }

    /// Returns one cell of each strict case and of the clean path, alternating between the short
    /// RTTs.
    pub fn quick_cells(mut self) -> Vec<FaultCell> {
        self.cells
            .retain(|cell| (cell.strict || cell.clean) && cell.rtt_ms <= SHORT_MS);
        let cases = self.cells.chunk_by(|a, b| a.case == b.case);
        let chosen = cases
            .enumerate()
            .map(|(turn, of_case)| &of_case[(turn + 1) % of_case.len()]);
        chosen.cloned().collect()
    }
}

fn read_tables<'a>(root: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    let list = root
        .get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("no [[{key}]]"))?;
    list.iter()
        .map(|item| {
            item.as_table()
                .ok_or_else(|| format!("a {key} is no table"))
        })
        .collect()
}

fn parse_cell(case: &Table, rtt: &Table) -> Result<FaultCell, String> {
    let name = read_text(case, "name").ok_or("a case has no name")?;
    let rtt_ms = read_number(rtt, "ms").ok_or("an [[rtt]] has no ms")?;
    let at = case
        .get("at")
        .and_then(|at| at.get(rtt_ms.to_string()))
        .and_then(Value::as_table);
    let layers = [Some(rtt), Some(case), at];
    let seconds = read_number(rtt, "seconds").ok_or("an [[rtt]] has no seconds")?;
    let mut test: Vec<String> = layers
        .iter()
        .flatten()
        .flat_map(|layer| read_words(layer, "test"))
        .collect();
    if !test.iter().any(|word| word == "-n" || word == "-t") {
        test.extend(["-t".to_owned(), seconds.to_string()]);
    }
    let mut link = Table::new();
    for layer in layers.into_iter().flatten() {
        link.extend(
            layer
                .get("link")
                .and_then(Value::as_table)
                .cloned()
                .unwrap_or_default(),
        );
    }
    let flag = |key: &str| case.get(key).and_then(Value::as_bool).unwrap_or(false);
    let expected = case
        .get("expect_mbps")
        .and_then(|table| table.get(rtt_ms.to_string()));
    Ok(FaultCell {
        case: name,
        rtt_ms,
        seconds,
        limited_by: read_words(case, "limited_by"),
        finding: read_text(case, "finding"),
        clean: flag("clean"),
        strict: flag("strict"),
        starve_far: read_text(case, "starve").as_deref() == Some("far"),
        test,
        expect_mbps: expected.and_then(Value::as_integer).map(|mbps| mbps as f64),
        link,
    })
}

fn read_text(table: &Table, key: &str) -> Option<String> {
    table.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn read_number(table: &Table, key: &str) -> Option<u64> {
    table
        .get(key)
        .and_then(Value::as_integer)
        .and_then(|number| u64::try_from(number).ok())
}

fn read_words(table: &Table, key: &str) -> Vec<String> {
    let list = table
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

impl FaultCell {
    /// Returns the name of the cell's path file.
    pub fn key(&self) -> String {
        format!("{}-{}ms", self.case.replace(' ', "-"), self.rtt_ms)
    }

    /// Formats the path of this cell.
    pub fn path_file(&self) -> Result<String, String> {
        let buffers = [
            ("net.ipv4.tcp_rmem", RECEIVE_BUFFER),
            ("net.ipv4.tcp_wmem", SEND_BUFFER),
        ];
        let narrow = NarrowPath {
            title: &format!("{}, {} ms", self.case, self.rtt_ms),
            rtt_ms: self.rtt_ms,
            link: &self.link,
            near: &buffers,
            far: &buffers,
        };
        narrow.path_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_at_every_round_trip_time() {
        let matrix = FaultMatrix::read().expect("the matrix of the checkout");
        assert_eq!(matrix.cells.len(), 33);
        assert!(matrix.cells.iter().all(|cell| !cell.limited_by.is_empty()));
    }

    #[test]
    fn in_turn_every_strict_case_and_the_clean_path_come_once() {
        let matrix = FaultMatrix::read().expect("the matrix of the checkout");
        let wanted = |cell: &&FaultCell| cell.strict || cell.clean;
        let mut cases: Vec<String> = matrix
            .cells
            .iter()
            .filter(wanted)
            .map(|it| it.case.clone())
            .collect();
        cases.dedup();
        let chosen = matrix.quick_cells();
        assert!(chosen.iter().map(|cell| &cell.case).eq(&cases));
        let mut tested = QUICK_PARTS.as_flattened().to_vec();
        tested.sort_unstable();
        cases.sort();
        assert_eq!(tested, cases);
        for rtt_ms in [2, 40] {
            assert!(chosen.iter().any(|cell| cell.rtt_ms == rtt_ms));
        }
    }

    #[test]
    fn a_case_changes_the_link_and_one_round_trip_time_changes_the_case() {
        let text = r#"
            [[rtt]]
            ms = 2
            seconds = 5
            link = { rate = "1 Gbit/s", queue = "500 kB" }
            [[rtt]]
            ms = 40
            seconds = 8
            link = { rate = "1 Gbit/s" }
            [[case]]
            name = "lossy"
            limited_by = ["loss"]
            test = ["-P", "2"]
            link = { loss = 0.5 }
            at = { 40 = { link = { loss = 0.25 }, test = ["-n", "1K"] } }
        "#;
        let cells = FaultMatrix::parse(text).expect("a good matrix").cells;
        let loss = |cell: &FaultCell| cell.link.get("loss").and_then(Value::as_float);
        assert_eq!(
            cells.iter().map(loss).collect::<Vec<_>>(),
            [Some(0.5), Some(0.25)]
        );
        assert_eq!(cells[0].test, ["-P", "2", "-t", "5"]);
        assert_eq!(cells[1].test, ["-P", "2", "-n", "1K"]);
        let file = cells[0].path_file().expect("a path file");
        assert!(
            file.contains("delay = \"900 us\"") && file.contains("queue = \"500 kB\""),
            "{file}"
        );
    }
}
