//! Are copies of files as fast as their parts, do they survive kills, and do they name what held
//! them?
//!
//! - [`speed`]: a copy beside its disks alone, its network alone, and rclone ([`rival`])
//! - `small`: many small files
//! - [`resume`]: a copy that is killed at either end in turn
//! - [`proof`]: the verdict, with one thing made slow ([`slow`])
//! - [`ground`], [`store`]: where ends run, and where files stand
//!
//! `--only speed`, `small`, `resume`, `verdict`, or a part of a row's name of the first;
//! `--size MB` for the files of speed and resume. All of it takes about 20 minutes.
//!
//! Both ends are on one machine: what each part has for itself while it runs alone, the parts of a
//! copy share. So the first table also says what each costs in core seconds, and how much of what
//! is possible on these cores a copy reaches. Wrong when: the machine serves others too.

pub mod ground;
pub mod proof;
pub mod resume;
pub mod rival;
pub mod slow;
mod small;
pub mod speed;
pub mod store;

use super::table::Table;
use crate::process;

/// A record of this length is what the resume is told of.
const RESUMED_MEGABYTES: u64 = 10_000;

/// Tables, and every gate that was missed.
pub fn run_all(only: &str, megabytes: Option<u64>) -> Result<(Vec<Table>, Vec<String>), String> {
    let longhaul = process::longhaul()?;
    let (mut tables, mut missed) = (Vec::new(), Vec::new());
    let part = |name: &str| only.is_empty() || name == only;
    let is_part = ["small", "resume", "verdict"].contains(&only);
    if !is_part {
        let (table, miss) = speed::table(&longhaul, only, megabytes)?;
        tables.push(table);
        missed.extend(miss);
    }
    if part("small") {
        tables.push(small::table(&longhaul)?);
    }
    if part("resume") {
        let bytes = megabytes.unwrap_or(RESUMED_MEGABYTES) * 1_000_000;
        let (table, miss) = resume::table(&longhaul, bytes)?;
        tables.push(table);
        missed.extend(miss);
    }
    if part("verdict") {
        let (table, miss) = proof::table(&longhaul)?;
        tables.push(table);
        missed.extend(miss);
    }
    Ok((tables, missed))
}
