//! Benches: their tables are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput_bench`]: goodput and CPU cost of longhaul and other tools, interleaved
//! - [`sampling_cost`]: the cost of samples, and the memory of a stream
//! - [`lab_bench`]: the accuracy of emulated paths
//! - [`verdict_bench`]: the fault matrix, and the correctness of the verdicts
//! - [`accuracy_bench`]: error and interval coverage of each method against ground truth
//! - [`tune_bench`]: the guided search against whole grids, and predictions against measurements
//! - [`path_bench`]: available bandwidth, shapers, narrow links, routes and loads on emulated paths
//! - [`policing`]: the policer detector on labelled captures
//! - [`mod@detect_bench`]: level changes in annotated and in generated series
//! - [`archive`]: inserts and queries of an agent's archive
//! - [`agent_bench`]: a mesh of agents and one agent with many targets, in virtual time
//! - [`agent_days`]: an agent's events and diagnoses on paths with a known change
//! - [`incident_replay`]: an agent's diagnoses of the incidents of June 2003
//! - [`interop_bench`]: longhaul on iperf3's protocol against iperf3 itself
//! - [`mod@copy_bench`]: speed, resumption and verdicts of file copies
//! - [`testbed`], [`narrow_path`], [`cpu_meter`], [`process_tree`], [`dispersion`]: test networks and readings
//! - [`scratch_folder`]: temporary files of a bench
//! - [`markdown_table`]: Markdown tables

pub mod accuracy_bench;
pub mod agent_bench;
pub mod agent_days;
pub mod archive;
pub mod copy_bench;
pub mod cpu_meter;
pub mod detect_bench;
pub mod dispersion;
pub mod incident_replay;
pub mod interop_bench;
pub mod lab_bench;
pub mod markdown_table;
pub mod narrow_path;
pub mod path_bench;
pub mod policing;
pub mod process_tree;
pub mod run_window;
pub mod sampling_cost;
pub mod scratch_folder;
pub mod testbed;
pub mod throughput_bench;
pub mod tune_bench;
pub mod turn_ratio;
pub mod verdict_bench;

use crate::{TaskResult, clickhouse, program_runner};
use markdown_table::MarkdownTable;
use std::path::Path;

/// The names of the benches; docs are checked against this list.
pub const NAMES: &[&str] = &[
    "throughput",
    "cost",
    "lab",
    "verdicts",
    "accuracy",
    "tune",
    "path",
    "policing",
    "agent",
    "detect",
    "archive",
    "days",
    "seeds",
    "fleet",
    "interop",
    "copy",
];

/// Options after the name of a bench.
#[derive(Debug, Default, PartialEq)]
struct BenchOptions<'a> {
    /// The file to which the tables are also written.
    out: Option<&'a Path>,
    /// Runs only tables or cases whose name contains this (throughput, interop, verdicts, tune,
    /// days).
    only: &'a str,
    /// The folder for the reports of verdicts and tune, and the archives of days.
    keep: Option<&'a Path>,
    /// The folder of the captures of policing or the annotated series of detect.
    data: Option<&'a Path>,
    /// The length of the files of copy.
    megabytes: Option<u64>,
    /// The number of paths of tune or days that are measured at once.
    jobs: Option<usize>,
    /// The number of runs of every pair in a cell of interop.
    turns: Option<usize>,
}

impl<'a> BenchOptions<'a> {
    fn read(mut words: &[&'a str]) -> Result<Self, String> {
        let mut options = BenchOptions::default();
        while let [key, value, rest @ ..] = words {
            match *key {
                "--out" => options.out = Some(Path::new(*value)),
                "--only" => options.only = value,
                "--data" => options.data = Some(Path::new(*value)),
                "--keep" => options.keep = Some(Path::new(*value)),
                "--size" => {
                    let size = value.parse().ok().filter(|size| *size > 0);
                    options.megabytes = Some(size.ok_or("`--size` takes megabytes, above 0")?);
                }
                "--jobs" => {
                    let jobs = value.parse().ok().filter(|jobs| *jobs > 0);
                    options.jobs = Some(jobs.ok_or("`--jobs` takes a number above 0")?);
                }
                "--turns" => {
                    let turns = value
                        .parse()
                        .ok()
                        .filter(|turns| *turns >= interop_bench::TURNS);
                    options.turns = Some(turns.ok_or("`--turns` takes a number of 6 or more")?);
                }
                _ => break,
            }
            words = rest;
        }
        if let [unknown, ..] = words {
            return Err(format!(
                "`{unknown}`: a bench takes `--out FILE`; throughput, verdicts, tune, path, \
                 policing, interop, copy, days and seeds take `--only TEXT`, copy `--size MB`, \
                 verdicts, tune, days and seeds `--keep FOLDER`, tune and days `--jobs N`, interop \
                 `--turns N`, policing and detect `--data FOLDER`"
            ));
        }
        Ok(options)
    }
}

/// Runs the bench `name` and prints its tables.
pub fn run(name: &str, words: &[&str]) -> TaskResult {
    let options = BenchOptions::read(words)?;
    if name == "archive" && !archive::is_release() {
        return archive::rerun_in_release(words);
    }
    let (tables, misses) = run_named(name, &options)?;
    let text: String = tables.iter().map(MarkdownTable::markdown).collect();
    print!("{text}");
    if let Some(file) = options.out {
        std::fs::write(file, &text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    if misses.is_empty() {
        Ok(())
    } else {
        Err(misses.join("\n"))
    }
}

/// Returns the tables, and a sentence for every missed gate.
fn run_named(
    name: &str,
    options: &BenchOptions,
) -> Result<(Vec<MarkdownTable>, Vec<String>), String> {
    let ungated = |tables: Vec<MarkdownTable>| (tables, Vec::new());
    let one = |(table, missed): (MarkdownTable, Vec<String>)| (vec![table], missed);
    Ok(match name {
        "throughput" => ungated(throughput_bench::measure_throughput(options.only)?),
        "agent" => agent_bench::run_all()?,
        "accuracy" => ungated(vec![
            accuracy_bench::method_table(),
            accuracy_bench::available_table(),
        ]),
        "cost" => ungated(vec![sampling_cost::measure_sampling_cost()?]),
        "lab" => ungated(lab_bench::measure_lab()?),
        "verdicts" => {
            let judged = verdict_bench::run_all(
                &program_runner::build_longhaul()?,
                options.only,
                options.keep,
            )?;
            one(verdict_bench::tabulate_verdicts(&judged))
        }
        "tune" => {
            let verdict = tune_bench::run_all(options.only, options.keep, options.jobs)?;
            (verdict.tables, verdict.missed)
        }
        "path" => path_bench::run_all(options.only)?,
        "policing" => one(policing::judge_captures(options.data, options.only)?),
        "detect" => detect_bench::run_all(options.data)?,
        "days" => one(agent_days::run_all(
            options.only,
            options.keep,
            options.jobs,
        )?),
        "seeds" => one(incident_replay::run_all(options.only, options.keep)?),
        "archive" => archive::run_all()?,
        "copy" => copy_bench::run_all(options.only, options.megabytes)?,
        "interop" => interop_bench::run_all(options.only, options.turns)?,
        "fleet" => ungated(clickhouse::bench_fleet_archive()?),
        _ => {
            return Err(format!(
                "there is no bench `{name}`; there are: {}",
                NAMES.join(", ")
            ));
        }
    })
}
