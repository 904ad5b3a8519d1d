//! Benches, which are not shipped: their tables are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput_bench`]: goodput and CPU cost of longhaul and other tools, interleaved
//! - [`interop_matrix`]: interoperability with other programs over iperf3's protocol
//! - [`verdict_matrix`]: the fault matrix, and the correctness of the verdicts
//! - [`available_matrix`]: capacity and available bandwidth against the kernel's counters
//! - [`path_matrix`]: narrow links, routes and delays under load
//! - [`explain_matrix`]: what is said of the transfers of other programs
//! - [`tune_bench`]: the guided search against whole grids
//! - [`watch_days`]: an agent's events and causes on paths that change once
//! - [`until_bench`], [`stop_replay`]: runs that end when their goodput is known, against whole runs
//! - [`guest_cells`]: what these seven share
//! - [`foreign_captures`]: counts in captures of other projects, against tcptrace
//! - [`copy_bench`]: file copies against their parts
//! - [`fleet_bench`]: agents, their collector and its database
//! - [`accuracy_bench`]: error and interval coverage of each method against ground truth
//! - [`forecast_bench`]: finish times against simulated transfers
//! - [`bench_lab`], [`narrow_path`]: commands on emulated paths
//! - [`testbed`], [`scratch_folder`]: networks without delay, and files
//! - [`markdown_table`]: tables and statistics

#![forbid(unsafe_code)]

mod accuracy_bench;
pub mod available_matrix;
pub mod bench_lab;
pub mod copy_bench;
pub mod explain_matrix;
mod fleet_bench;
mod forecast_bench;
mod foreign_captures;
mod guest_cells;
pub mod interop_matrix;
mod markdown_table;
mod narrow_path;
pub mod path_matrix;
pub mod scratch_folder;
mod stop_replay;
pub mod testbed;
mod throughput_bench;
mod tune_bench;
mod until_bench;
pub mod verdict_matrix;
mod watch_days;

use clap::Parser;
use markdown_table::MarkdownTable;
use std::path::PathBuf;
use xtask::{BenchName, TaskResult, program_runner};

/// Shared by both ends of longhaul, so that the limits for anonymous clients do not apply.
const TOKEN: &str = "bench-of-this-machine";

/// A bench and its options.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", about = "Runs a bench and prints its tables")]
pub struct BenchArguments {
    pub bench: BenchName,
    /// Also write the tables to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Run only tables or cases whose name contains this text; the cells of seed 2 are `--seeds 2
    /// --only=-2-`
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub only: String,
    /// Draw the cells of verdicts, explain, available, paths, until or days, or the failures of a fleet, from
    /// so many seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seeds: u64,
    /// Keep the reports of verdicts, explain, available, paths, until, days and tune in this folder, and judge
    /// kept ones again; for captures, the captures
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
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

    pub fn add(&mut self, other: BenchOutcome) {
        self.text.push_str(&other.text);
        self.missed.extend(other.missed);
    }
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
    let (only, keep) = (arguments.only.as_str(), arguments.keep.as_deref());
    let longhaul = program_runner::build_longhaul;
    let outcome = match arguments.bench {
        BenchName::Throughput => throughput_bench::run_all(&longhaul()?, only)?,
        BenchName::Matrix => interop_matrix::run_all(&longhaul()?, only)?,
        BenchName::Verdicts => verdict_matrix::run_all(&longhaul()?, arguments)?,
        BenchName::Explain => explain_matrix::run_all(&longhaul()?, arguments)?,
        BenchName::Available => available_matrix::run_all(&longhaul()?, arguments)?,
        BenchName::Paths => path_matrix::run_all(&longhaul()?, arguments)?,
        BenchName::Days => watch_days::run_all(&longhaul()?, arguments)?,
        BenchName::Captures => foreign_captures::run_all(&longhaul()?, only, keep)?,
        BenchName::Tune => tune_bench::run_all(&longhaul()?, only, keep)?,
        BenchName::Until => until_bench::run_all(&longhaul()?, arguments)?,
        BenchName::Copy => copy_bench::run_all(&longhaul()?, only)?,
        BenchName::Fleet => {
            let longhaul = program_runner::build_longhaul_for_fleets()?;
            fleet_bench::run_all(&longhaul, only, arguments.seeds)?
        }
        BenchName::Accuracy => accuracy_bench::run_all(),
        BenchName::Forecast => forecast_bench::run_all(),
    };
    if outcome.text.is_empty() {
        return Err(format!("no table or case of this bench contains `{only}`"));
    }
    Ok(outcome)
}
