//! The benches: tables that are printed, kept in docs/benchmarks.md, and never asserted in tests.
//!
//! - [`throughput`]: goodput and CPU beside the peers, interleaved in one run
//! - [`cost`]: what samples cost, and the memory of a stream
//! - [`lab`]: how true the emulated paths are
//! - [`verdicts`]: the fault matrix, and whether the reason given is the right one
//! - [`accuracy`]: error and interval coverage of each method against ground truth
//! - [`tune`]: the guided search beside whole grids, and predictions beside measured ones
//! - [`path`]: available bandwidth, shapers, narrow links, routes and loads on emulated paths
//! - [`policing`]: the policer detector on labelled captures
//! - [`mod@detect`]: changes of level in marked and in made series
//! - [`archive`]: results that come into an agent's archive, and questions to it
//! - [`agent`]: a mesh of agents and one with many targets, on virtual time
//! - [`days`]: what an agent finds on paths where something is made to happen
//! - [`seeds`]: the incidents of June 2003 under the eyes of an agent
//! - [`interop`]: longhaul on iperf3's wire beside iperf3 itself
//! - [`mod@copy`]: copies of files beside their parts, killed ones, and what they waited for
//! - [`beds`], [`narrow`], [`meter`], [`kin`], [`dispersion`]: where they run, and what is read there
//! - [`scratch`]: the files of one bench
//! - [`table`]: how it is shown

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

/// The benches by name; docs are checked against this list.
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

/// What may follow the name of a bench.
#[derive(Debug, Default, PartialEq)]
struct Options<'a> {
    /// Also written there.
    out: Option<&'a Path>,
    /// Of throughput, interop, verdicts, tune and days, only the tables or cases whose name holds this.
    only: &'a str,
    /// The reports of verdicts and tune, and the archives of days, are kept in this folder.
    keep: Option<&'a Path>,
    /// Where policing finds its captures, and detect its marked series.
    data: Option<&'a Path>,
    /// Of copy, the length of its files.
    megabytes: Option<u64>,
    /// So many paths of tune or days are measured at one time.
    jobs: Option<usize>,
    /// Of interop, how often every pair of a cell runs.
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

/// Tables, and every gate that was missed as a sentence.
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
