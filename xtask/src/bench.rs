//! The benches: tables that are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput`]: goodput and CPU beside the peers, interleaved in one run
//! - [`lab`]: how true the emulated paths are
//! - [`verdicts`]: the fault matrix, and whether the reason given is the right one
//! - [`accuracy`]: error and interval coverage of each method against ground truth
//! - [`beds`], [`meter`], [`table`]: where they run, what is read there, how it is shown

pub mod table;

use crate::Outcome;
use std::path::Path;

/// The benches by name; docs are checked against this list.
pub const NAMES: &[&str] = &["throughput", "lab", "verdicts", "accuracy"];

/// Runs the bench `name`; `--out FILE` also writes what it prints.
pub fn run(name: &str, options: &[&str]) -> Outcome {
    let out = match options {
        [] => None,
        ["--out", file] => Some(Path::new(file)),
        _ => {
            return Err(format!(
                "`cargo xtask bench {name}` takes `--out FILE` and nothing else"
            ));
        }
    };
    let _ = out;
    Err(format!(
        "there is no bench `{name}`; there are: {}",
        NAMES.join(", ")
    ))
}
