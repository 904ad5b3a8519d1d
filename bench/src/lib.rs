//! Benches, which are not shipped: their tables are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput_bench`]: goodput and CPU cost of longhaul and other tools, interleaved
//! - [`sampling_cost`]: the cost of samples, and the memory of a stream
//! - [`lab_bench`]: the accuracy of emulated paths
//! - [`verdict_bench`]: the fault matrix, and the correctness of the verdicts
//! - [`accuracy_bench`]: error and interval coverage of each method against ground truth
//! - [`tune_bench`]: the guided search against whole grids, and predictions against measurements
//! - [`path_bench`]: available bandwidth, the cost of light mode, and routes on emulated paths
//! - [`policing`]: the policer detector on labelled captures
//! - [`mod@detect_bench`]: level changes in annotated and in generated series
//! - [`archive`]: inserts and queries of an agent's archive, and of a fleet's
//! - [`agent_days`]: an agent's events and diagnoses on paths with a known change
//! - [`incident_replay`]: an agent's diagnoses of the incidents of June 2003
//! - [`interop_bench`]: longhaul on iperf3's protocol against iperf3 itself
//! - [`mod@copy_bench`]: speed, resumption and verdicts of file copies
//! - [`interop_matrix`]: interoperability with other programs over iperf3's protocol
//! - [`iperf3_peers`]: other programs that speak iperf3's protocol
//! - [`testbed`], [`bench_lab`], [`narrow_path`], [`cpu_meter`], [`process_tree`], [`dispersion`]: test networks and readings
//! - [`parallel_jobs`]: work on several paths at once
//! - [`scratch_folder`]: temporary files of a bench
//! - [`markdown_table`]: Markdown tables

#![forbid(unsafe_code)]

mod accuracy_bench;
mod agent_days;
mod archive;
mod bench_cases;
mod bench_lab;
pub mod copy_bench;
mod cpu_meter;
mod detect_bench;
pub mod dispersion;
pub mod incident_replay;
mod interop_bench;
pub mod interop_matrix;
pub mod iperf3_peers;
mod lab_bench;
mod markdown_table;
mod narrow_path;
mod parallel_jobs;
mod path_bench;
mod policing;
mod process_tree;
mod run_window;
mod sampling_cost;
mod scratch_folder;
mod testbed;
mod throughput_bench;
mod tune_bench;
mod turn_ratio;
pub mod verdict_bench;

use clap::{Parser, ValueEnum};
use markdown_table::MarkdownTable;
use std::path::PathBuf;
use xtask::{TaskResult, program_runner};

/// Shared by both ends of longhaul, so that the limits for anonymous clients do not apply.
const TOKEN: &str = "bench-of-this-machine";

/// The benches; `xtask::CHORES` lists them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchName {
    Throughput,
    Cost,
    Lab,
    Verdicts,
    Accuracy,
    Tune,
    Path,
    Policing,
    Detect,
    Archive,
    Fleet,
    Days,
    Seeds,
    Interop,
    Matrix,
    Copy,
}

/// A bench and its options.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", about = "Runs a bench and prints its tables")]
pub struct BenchArguments {
    pub bench: BenchName,
    /// Also write the tables to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Run only tables, parts or cases whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Keep reports (verdicts, tune, seeds) or archives (days) in this folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
    /// The captures of policing, or the annotated series of detect
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// The length of the files of copy, in megabytes
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    pub size: Option<u64>,
    /// The number of paths of tune, days and matrix that are measured at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: Option<u64>,
    /// The number of runs of every pair in a cell of interop, at least 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(6..))]
    pub turns: Option<u64>,
}

/// The tables of a bench as Markdown, and a sentence for every missed gate.
#[derive(Debug, Default)]
pub struct BenchOutcome {
    pub text: String,
    pub missed: Vec<String>,
}

impl BenchOutcome {
    pub fn new(tables: &[MarkdownTable], missed: Vec<String>) -> Self {
        BenchOutcome { text: tables.iter().map(MarkdownTable::markdown).collect(), missed }
    }

    /// Returns the outcome of a bench without gates.
    pub fn ungated(tables: &[MarkdownTable]) -> Self {
        BenchOutcome::new(tables, Vec::new())
    }

    pub fn add(&mut self, other: BenchOutcome) {
        self.text.push_str(&other.text);
        self.missed.extend(other.missed);
    }
}

/// Returns the sentences of the gates that are not held.
fn list_missed<const N: usize>(gates: [(bool, String); N]) -> Vec<String> {
    gates.into_iter().filter(|(held, _)| !held).map(|(_, said)| said).collect()
}

/// Runs a bench and prints its tables.
pub fn run(arguments: &BenchArguments) -> TaskResult {
    let BenchOutcome { text, missed } = run_named(arguments)?;
    print!("{text}");
    if let Some(file) = &arguments.out {
        std::fs::write(file, &text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(missed.join("\n"))
}

fn run_named(arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let only = arguments.only.as_str();
    let (keep, data) = (arguments.keep.as_deref(), arguments.data.as_deref());
    let longhaul = program_runner::build_longhaul;
    match arguments.bench {
        BenchName::Throughput => throughput_bench::measure_throughput(&longhaul()?, only),
        BenchName::Cost => sampling_cost::measure_sampling_cost(&longhaul()?),
        BenchName::Lab => lab_bench::measure_lab(&longhaul()?),
        BenchName::Verdicts => {
            let judged = verdict_bench::run_all(&longhaul()?, only, keep)?;
            Ok(verdict_bench::tabulate_verdicts(&judged))
        }
        BenchName::Accuracy => Ok(accuracy_bench::tabulate_accuracy()),
        BenchName::Tune => tune_bench::run_all(only, keep, arguments.jobs),
        BenchName::Path => path_bench::run_all(&longhaul()?, only),
        BenchName::Policing => policing::judge_captures(data, only),
        BenchName::Detect => detect_bench::run_all(data),
        BenchName::Archive => archive::run_all(),
        BenchName::Fleet => archive::bench_fleet_archive(),
        BenchName::Days => agent_days::run_all(&longhaul()?, only, keep, arguments.jobs),
        BenchName::Seeds => incident_replay::run_all(&longhaul()?, only, keep),
        BenchName::Interop => interop_bench::run_all(&longhaul()?, only, arguments.turns),
        BenchName::Copy => copy_bench::run_all(&longhaul()?, only, arguments.size),
        BenchName::Matrix => interop_matrix::run_all(&longhaul()?, only, arguments.jobs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_tasks_names_every_bench() {
        let names: Vec<String> = BenchName::value_variants()
            .iter()
            .filter_map(|name| Some(name.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert!(xtask::list_benches().eq(names.iter().map(String::as_str)));
    }

    #[test]
    fn a_number_that_makes_no_sense_is_refused() {
        for words in [["copy", "--size", "0"], ["interop", "--turns", "5"]] {
            assert!(BenchArguments::try_parse_from([&["bench"], &words[..]].concat()).is_err());
        }
    }
}
