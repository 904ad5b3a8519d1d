//! Benches: their tables are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput`]: goodput and CPU cost of longhaul and other tools, interleaved
//! - [`cost`]: the cost of samples, and the memory of a stream
//! - [`lab`]: the accuracy of emulated paths
//! - [`verdicts`]: the fault matrix, and the correctness of the verdicts
//! - [`accuracy`]: error and interval coverage of each method against ground truth
//! - [`tune`]: the guided search against whole grids, and predictions against measurements
//! - [`path`]: available bandwidth, shapers, narrow links, routes and loads on emulated paths
//! - [`policing`]: the policer detector on labelled captures
//! - [`mod@detect`]: level changes in annotated and in generated series
//! - [`archive`]: inserts and queries of an agent's archive
//! - [`agent`]: a mesh of agents and one agent with many targets, in virtual time
//! - [`days`]: an agent's events and diagnoses on paths with a known change
//! - [`seeds`]: an agent's diagnoses of the incidents of June 2003
//! - [`interop`]: longhaul on iperf3's protocol against iperf3 itself
//! - [`mod@copy`]: speed, resumption and verdicts of file copies
//! - [`beds`], [`narrow`], [`meter`], [`kin`], [`dispersion`]: test networks and readings
//! - [`scratch`]: temporary files of a bench
//! - [`table`]: Markdown tables

pub mod accuracy;
pub mod agent;
pub mod archive;
pub mod beds;
pub mod beside;
pub mod copy;
pub mod cost;
pub mod days;
pub mod detect;
pub mod dispersion;
pub mod interop;
pub mod kin;
pub mod lab;
pub mod meter;
pub mod narrow;
pub mod path;
pub mod policing;
pub mod scratch;
pub mod seeds;
pub mod table;
pub mod throughput;
pub mod tune;
pub mod verdicts;
pub mod window;

use crate::{Outcome, clickhouse, process};
use std::path::Path;
use table::Table;

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
struct Options<'a> {
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

impl<'a> Options<'a> {
    fn read(mut words: &[&'a str]) -> Result<Self, String> {
        let mut options = Options::default();
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
                    let turns = value.parse().ok().filter(|turns| *turns >= interop::TURNS);
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
pub fn run(name: &str, words: &[&str]) -> Outcome {
    let options = Options::read(words)?;
    if name == "archive" && !archive::is_release() {
        return archive::again_in_release(words);
    }
    let (tables, misses) = measured(name, &options)?;
    let text: String = tables.iter().map(Table::markdown).collect();
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
fn measured(name: &str, options: &Options) -> Result<(Vec<Table>, Vec<String>), String> {
    let ungated = |tables: Vec<Table>| (tables, Vec::new());
    let one = |(table, missed): (Table, Vec<String>)| (vec![table], missed);
    Ok(match name {
        "throughput" => ungated(throughput::tables(options.only)?),
        "agent" => agent::run_all()?,
        "accuracy" => ungated(vec![accuracy::table(), accuracy::available()]),
        "cost" => ungated(vec![cost::table()?]),
        "lab" => ungated(lab::tables()?),
        "verdicts" => {
            let judged = verdicts::run_all(&process::longhaul()?, options.only, options.keep)?;
            one(verdicts::verdict(&judged))
        }
        "tune" => {
            let verdict = tune::run_all(options.only, options.keep, options.jobs)?;
            (verdict.tables, verdict.missed)
        }
        "path" => path::run_all(options.only)?,
        "policing" => one(policing::verdict(options.data, options.only)?),
        "detect" => detect::run_all(options.data)?,
        "days" => one(days::run_all(options.only, options.keep, options.jobs)?),
        "seeds" => one(seeds::run_all(options.only, options.keep)?),
        "archive" => archive::run_all()?,
        "copy" => copy::run_all(options.only, options.megabytes)?,
        "interop" => interop::run_all(options.only, options.turns)?,
        "fleet" => ungated(clickhouse::bench()?),
        _ => {
            return Err(format!(
                "there is no bench `{name}`; there are: {}",
                NAMES.join(", ")
            ));
        }
    })
}
