//! The fault matrix of fixtures/verdicts.toml, expanded into cells.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Table;
use xtask::checkout;

/// The file of the matrix, relative to the root of the checkout.
const FILE: &str = "fixtures/verdicts.toml";

/// One case at one RTT.
#[derive(Debug, Clone)]
pub struct FaultCell {
    pub case: MatrixCase,
    pub rtt_ms: u64,
    pub seconds: u64,
    /// The options of `longhaul test`.
    pub test: String,
    pub link: Table,
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
#[derive(Debug, Clone, Deserialize)]
pub struct MatrixCase {
    pub name: String,
    /// The verdicts that are right.
    pub limited_by: Vec<String>,
    pub finding: Option<String>,
    /// No fault is created.
    #[serde(default)]
    pub clean: bool,
    /// Must be right, whatever the other cells are.
    #[serde(default)]
    pub strict: bool,
    /// The far end shares its core with a program that uses nearly all of it.
    #[serde(default)]
    pub starve_far: bool,
    #[serde(flatten)]
    change: CaseChange,
    #[serde(default)]
    at: BTreeMap<String, CaseChange>,
    #[serde(default)]
    expect_mbps: BTreeMap<String, f64>,
}

/// The link and the options of a case, or its differences at one RTT.
#[derive(Debug, Clone, Default, Deserialize)]
struct CaseChange {
    #[serde(default)]
    link: Table,
    #[serde(default)]
    test: Vec<String>,
}

/// Returns all cells, case by case.
pub fn read_fault_cells() -> Result<Vec<FaultCell>, String> {
    let file = checkout::find_root().join(FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
    parse_fault_cells(&text).map_err(|why| format!("{FILE}: {why}"))
}

fn parse_fault_cells(text: &str) -> Result<Vec<FaultCell>, toml::de::Error> {
    let file: MatrixFile = toml::from_str(text)?;
    let of_case = |case| file.rtt.iter().map(move |rtt| make_cell(case, rtt));
    Ok(file.case.iter().flat_map(of_case).collect())
}

fn make_cell(case: &MatrixCase, rtt: &MatrixRtt) -> FaultCell {
    let mut link = rtt.link.clone();
    let mut test = Vec::new();
    for change in std::iter::once(&case.change).chain(case.at.get(&rtt.ms.to_string())) {
        link.extend(change.link.clone());
        test.extend(change.test.iter().cloned());
    }
    if !test.iter().any(|word| word == "-n" || word == "-t") {
        test.extend(["-t".to_owned(), rtt.seconds.to_string()]);
    }
    FaultCell {
        case: case.clone(),
        rtt_ms: rtt.ms,
        seconds: rtt.seconds,
        test: test.join(" "),
        link,
    }
}

impl FaultCell {
    pub fn title(&self) -> String {
        format!("{}, {} ms", self.case.name, self.rtt_ms)
    }

    /// Returns the goodput that the fault leaves, if it is known.
    pub fn expect_mbps(&self) -> Option<f64> {
        self.case.expect_mbps.get(&self.rtt_ms.to_string()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_at_every_round_trip_time() {
        let cells = read_fault_cells().expect("the matrix of the checkout");
        assert_eq!(cells.len(), 33);
        assert!(cells.iter().all(|cell| !cell.case.limited_by.is_empty()));
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
        let cells = parse_fault_cells(text).expect("a good matrix");
        let loss = |cell: &FaultCell| cell.link.get("loss").and_then(toml::Value::as_float);
        assert_eq!(cells.iter().map(loss).collect::<Vec<_>>(), [Some(0.5), Some(0.25)]);
        assert_eq!(cells[0].test, "-P 2 -t 5");
        assert_eq!(cells[1].test, "-P 2 -n 1K");
        assert_eq!(cells[0].link["queue"].as_str(), Some("500 kB"));
    }
}
