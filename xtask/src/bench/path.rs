//! The accuracy of path measurements: on emulated paths, with real sockets, against their truth.
//!
//! - [`available`]: available bandwidth and capacity by rate, load and pattern of cross traffic,
//!   and by receive batching; the cost of light mode
//! - [`bucket`]: the three parameters of a shaper
//! - [`narrow`]: the narrow link by its position
//! - [`trace`]: routes, compared with mtr and scamper if installed
//! - [`load`]: the queue under load, and the share that a scavenger leaves to others
//! - [`site`]: a path file, and longhaul on it
//!
//! All of it takes about 25 minutes. Wrong when: the machine is too busy to keep the lab's timing.

mod available;
mod bucket;
mod load;
mod narrow;
mod site;
mod trace;

use super::table::Table;
use crate::process;
use site::Ground;

/// The result of one part: its tables, and a sentence for every missed gate.
type Part = (Vec<Table>, Vec<String>);

type Run = fn(&Ground) -> Part;

/// The parts by name, cheapest first.
const PARTS: &[(&str, Run)] = &[
    ("light", available::light),
    ("batching", available::batching),
    ("trace", trace::verdict),
    ("load", load::verdict),
    ("shaper", bucket::verdict),
    ("narrow", narrow::verdict),
    ("available", available::verdict),
];

/// Runs the parts whose name contains `only`.
pub fn run_all(only: &str) -> Result<Part, String> {
    let longhaul = process::longhaul()?;
    let ground = Ground::new(&longhaul)?;
    let (mut tables, mut missed) = (vec![], vec![]);
    for (name, part) in PARTS.iter().filter(|(name, _)| name.contains(only)) {
        let (more_tables, more_missed) = part(&ground);
        eprintln!("{name}: {} missed", more_missed.len());
        tables.extend(more_tables);
        missed.extend(more_missed.into_iter().map(|why| format!("{name}: {why}")));
    }
    if tables.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "no part is called that; there are: {}",
            names.join(", ")
        ));
    }
    Ok((tables, missed))
}
