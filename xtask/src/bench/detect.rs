//! The accuracy of level change detection.
//!
//! Two data sets: series annotated by people (the Turing Change Point Dataset, given by `--data`),
//! and generated throughput series with known steps. `steps` of the analysis is compared with
//! SLAC's plateau rule, PELT, BOCPD and no detection.
//!
//! - [`marked`]: the annotated series, and the scores over several annotators
//! - [`rivals`]: the other detectors
//! - [`made`]: the generated series
//! - [`speed`]: the time of one analysis
//!
//! Wrong when: the annotations cover half of the set only; figures of the whole set differ
//! slightly.

mod made;
mod marked;
mod rivals;
mod speed;

use super::table::Table;
use std::path::Path;

/// Returns the tables, and a sentence for every missed gate.
pub fn run_all(data: Option<&Path>) -> Result<(Vec<Table>, Vec<String>), String> {
    let (mut tables, mut missed) = (Vec::new(), Vec::new());
    match data {
        Some(folder) => {
            let (table, misses) = marked::verdict(folder)?;
            tables.push(table);
            missed.extend(misses);
        }
        None => eprintln!("The marked series were not judged: give their folder with `--data`."),
    }
    let (table, misses) = made::verdict();
    tables.push(table);
    missed.extend(misses);
    tables.push(made::suspicions());
    tables.push(speed::table());
    Ok((tables, missed))
}

/// Positions of changes, as indices of the first value after each.
type Places = Vec<usize>;

/// A detector over plain values.
type Detector = fn(&[f64]) -> Places;

const DETECTORS: [(&str, Detector); 6] = [
    ("none", |_| Vec::new()),
    ("plateau, 2004", rivals::plateau_2004),
    ("plateau, 2008", rivals::plateau_2008),
    ("PELT, l2, BIC", rivals::pelt),
    ("BOCPD, 1/100", rivals::bocpd),
    ("**steps**", rivals::steps),
];
