//! What the archive of an agent bears: results that come in, and questions at ten million values.
//!
//! - [`append`]: batches of runs with their reports, in the shapes in which agents send them
//! - [`ask`]: the grid, a year of one pair and other questions of the page

mod append;
mod ask;

use super::scratch::Scratch;
use super::table::Table;
use crate::process::{cargo, show_and_run};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_store::watched::Reading;
use longhaul_store::{Archive, StoreError};

/// 32 hosts in a full mesh.
const HOSTS: usize = 32;

/// 2026-01-01T00:00:00Z.
const BEGIN_US: i64 = 1_767_225_600_000_000;

const MINUTE_US: i64 = 60_000_000;

/// The tables, and what of them missed its gate.
pub fn run_all() -> Result<(Vec<Table>, Vec<String>), String> {
    let scratch = Scratch::new("archive")?;
    let mut missed = Vec::new();
    let append = append::table(&scratch, &mut missed)?;
    let ask = ask::tables(&scratch, &mut missed)?;
    Ok(([vec![append], ask].concat(), missed))
}

/// Whether this program was built as users get theirs; figures of another say nothing.
pub const fn is_release() -> bool {
    !cfg!(debug_assertions)
}

/// The same bench by an xtask that is built as users get their program.
pub fn again_in_release(options: &[&str]) -> crate::Outcome {
    let asked = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--",
        "bench",
        "archive",
    ];
    show_and_run(cargo().args(asked).args(options))
}

fn open(scratch: &Scratch, name: &str) -> Result<Archive, String> {
    Archive::open(&scratch.path(name)).map_err(|e| told(&e))
}

/// With its cause: the archive's error names the file and not the reason.
fn told(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

fn pairs() -> Vec<Pair> {
    let host = |number: usize| format!("host{number:02}.example.net");
    let of = |from: usize| {
        let others = (0..HOSTS).filter(move |&to| to != from);
        others.map(move |to| Pair {
            from: host(from),
            to: host(to),
        })
    };
    (0..HOSTS).flat_map(of).collect()
}

fn reading(pair: &Pair, quantity: Quantity, at_us: i64, value: f64) -> Reading {
    Reading {
        pair: pair.clone(),
        quantity,
        point: Point { at_us, value },
    }
}

/// Values that look measured: spread over a fifth of `level`, the same for the same number.
fn noisy(level: f64, number: u64) -> f64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    level * (0.9 + 0.2 * mixed as f64 / f64::from(1 << 24))
}
