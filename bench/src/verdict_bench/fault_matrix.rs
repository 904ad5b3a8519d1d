//! The fault matrix of fixtures/verdicts.toml, expanded into cells.

use crate::narrow_path::NarrowPath;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Table;
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

#[derive(Deserialize)]
struct MatrixFile {
    rtt: Vec<MatrixRtt>,
    case: Vec<MatrixCase>,
}

#[derive(Deserialize)]
struct MatrixRtt {
    ms: u64,
    seconds: u64,
    link: Table,
}

/// A case; maps have one entry for each RTT in ms.
#[derive(Deserialize)]
struct MatrixCase {
    name: String,
    limited_by: Vec<String>,
    finding: Option<String>,
    #[serde(default)]
    clean: bool,
    #[serde(default)]
    strict: bool,
    starve: Option<String>,
    #[serde(flatten)]
    change: CaseChange,
    #[serde(default)]
    at: BTreeMap<String, CaseChange>,
    #[serde(default)]
    expect_mbps: BTreeMap<String, f64>,
}

/// The link and the options of a case, or its differences at one RTT.
#[derive(Deserialize, Default)]
struct CaseChange {
    #[serde(default)]
    link: Table,
    #[serde(default)]
    test: Vec<String>,
}

impl FaultMatrix {
    pub fn read() -> Result<Self, String> {
        let file = checkout::find_root().join(FILE);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
        Self::parse(&text).map_err(|why| format!("{FILE}: {why}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: MatrixFile = toml::from_str(text).map_err(|e| e.to_string())?;
        let of_case = |case| file.rtt.iter().map(move |rtt| make_cell(case, rtt));
        let cells = file.case.iter().flat_map(of_case);
        Ok(FaultMatrix { cells: cells.collect() })
    }

    /// Returns one cell of each strict case and of the clean path, alternating between the short
    /// RTTs.
    pub fn quick_cells(mut self) -> Vec<FaultCell> {
        self.cells.retain(|cell| (cell.strict || cell.clean) && cell.rtt_ms <= SHORT_MS);
        let cases = self.cells.chunk_by(|a, b| a.case == b.case);
        let chosen = cases.enumerate().map(|(turn, of_case)| &of_case[(turn + 1) % of_case.len()]);
        chosen.cloned().collect()
    }
}

fn make_cell(case: &MatrixCase, rtt: &MatrixRtt) -> FaultCell {
    let key = rtt.ms.to_string();
    let mut link = rtt.link.clone();
    let mut test = Vec::new();
    for change in std::iter::once(&case.change).chain(case.at.get(&key)) {
        link.extend(change.link.clone());
        test.extend(change.test.iter().cloned());
    }
    if !test.iter().any(|word| word == "-n" || word == "-t") {
        test.extend(["-t".to_owned(), rtt.seconds.to_string()]);
    }
    FaultCell {
        case: case.name.clone(),
        rtt_ms: rtt.ms,
        seconds: rtt.seconds,
        limited_by: case.limited_by.clone(),
        finding: case.finding.clone(),
        clean: case.clean,
        strict: case.strict,
        starve_far: case.starve.as_deref() == Some("far"),
        test,
        expect_mbps: case.expect_mbps.get(&key).copied(),
        link,
    }
}

impl FaultCell {
    /// Returns the name of the cell's path file.
    pub fn key(&self) -> String {
        format!("{}-{}ms", self.case.replace(' ', "-"), self.rtt_ms)
    }

    /// Formats the path of this cell.
    pub fn path_file(&self) -> Result<String, String> {
        let buffers = [("net.ipv4.tcp_rmem", RECEIVE_BUFFER), ("net.ipv4.tcp_wmem", SEND_BUFFER)];
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
        let mut cases: Vec<String> =
            matrix.cells.iter().filter(wanted).map(|it| it.case.clone()).collect();
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
        let loss = |cell: &FaultCell| cell.link.get("loss").and_then(toml::Value::as_float);
        assert_eq!(cells.iter().map(loss).collect::<Vec<_>>(), [Some(0.5), Some(0.25)]);
        assert_eq!(cells[0].test, ["-P", "2", "-t", "5"]);
        assert_eq!(cells[1].test, ["-P", "2", "-n", "1K"]);
        let file = cells[0].path_file().expect("a path file");
        assert!(
            file.contains("delay = \"900 us\"") && file.contains("queue = \"500 kB\""),
            "{file}"
        );
    }
}
