//! File copies: their speed against their parts, resumption after kills, and their verdicts.
//!
//! - [`copy_speed`]: a copy against its disks alone, its network alone, and rclone ([`rclone_copy`])
//! - `small_files`: many small files
//! - [`copy_resume`]: a copy that is killed at either end alternately
//! - [`slowdown_proof`]: the verdict when one thing is slow ([`slowdown`])
//! - [`copy_testbed`], [`scratch_store`]: test networks and folders
//!
//! `--only speed`, `small_files`, `copy_resume`, `verdict`, or a part of a row's name of the first;
//! `--size MB` for the files of speed and resume. All of it takes about 20 minutes.
//!
//! Both ends are on one machine: a part that runs alone has the resources that the parts of a copy
//! share. So the first table also shows what each costs in core seconds, and which share of the
//! achievable rate on these cores a copy reaches. Wrong when: the machine has other work.

pub mod copy_resume;
pub mod copy_speed;
pub mod copy_testbed;
pub mod rclone_copy;
pub mod scratch_store;
pub mod slowdown;
pub mod slowdown_proof;
mod small_files;

use crate::BenchOutcome;
use std::path::Path;

/// The length of a file for resume, in megabytes.
const RESUME_FILE_MEGABYTES: u64 = 10_000;

/// Runs the parts that `only` names.
pub fn run_all(
    longhaul: &Path,
    only: &str,
    megabytes: Option<u64>,
) -> Result<BenchOutcome, String> {
    let mut outcome = BenchOutcome::default();
    let part = |name: &str| only.is_empty() || name == only;
    if !["small", "resume", "verdict"].contains(&only) {
        outcome.add(copy_speed::measure_speed(longhaul, only, megabytes)?);
    }
    if part("small") {
        outcome.add(small_files::measure_small_files(longhaul)?);
    }
    if part("resume") {
        let bytes = megabytes.unwrap_or(RESUME_FILE_MEGABYTES) * 1_000_000;
        outcome.add(copy_resume::tabulate_resume(longhaul, bytes)?);
    }
    if part("verdict") {
        outcome.add(slowdown_proof::tabulate_proofs(longhaul)?);
    }
    Ok(outcome)
}
