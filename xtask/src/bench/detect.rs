//! Are changes of level found, where they are, and nowhere else?
//!
//! Two sets: series that people marked (the Turing Change Point Dataset, given by `--data`), and
//! throughput series made with known steps. `steps` of the analysis beside SLAC's plateau rule,
//! PELT, BOCPD and saying nothing.
//!
//! - [`marked`]: the marked series, and how the marks of several people are counted
//! - [`rivals`]: the other detectors
//! - [`made`]: the made series
//! - [`speed`]: how long one look takes
//!
//! Wrong when: the marks are of half of the set only; figures of the whole set differ a little.

mod made;
mod marked;
mod rivals;
mod speed;

use super::table::Table;
use std::path::Path;

/// The tables, and every gate that was missed as a sentence.
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

/// Places of changes, as indices of the first value after each.
type Places = Vec<usize>;

/// A detector by its name, over values as they are.
type Detector = fn(&[f64]) -> Places;

const DETECTORS: [(&str, Detector); 6] = [
    ("none", |_| Vec::new()),
    ("plateau, 2004", rivals::plateau_2004),
    ("plateau, 2008", rivals::plateau_2008),
    ("PELT, l2, BIC", rivals::pelt),
    ("BOCPD, 1/100", rivals::bocpd),
    ("**steps**", rivals::steps),
];
