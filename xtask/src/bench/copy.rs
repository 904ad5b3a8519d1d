//! File copies: their speed against their parts, resumption after kills, and their verdicts.
//!
//! - [`speed`]: a copy against its disks alone, its network alone, and rclone ([`rival`])
//! - `small`: many small files
//! - [`resume`]: a copy that is killed at either end alternately
//! - [`proof`]: the verdict when one thing is slow ([`slow`])
//! - [`ground`], [`store`]: test networks and folders
//!
//! `--only speed`, `small`, `resume`, `verdict`, or a part of a row's name of the first;
//! `--size MB` for the files of speed and resume. All of it takes about 20 minutes.
//!
//! Both ends are on one machine: a part that runs alone has the resources that the parts of a copy
//! share. So the first table also shows what each costs in core seconds, and which share of the
//! achievable rate on these cores a copy reaches. Wrong when: the machine has other work.
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

/// The length of a file for resume, in megabytes.
const RESUMED_MEGABYTES: u64 = 10_000;

/// Returns the tables, and every missed gate.
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
