//! Copies between real ends, with a slow pipe or path. Computing takes no virtual time, so no
//! processor is slow.

use super::paced_pipe::{PipeDrain, PipeFeeder};
use longhaul_bench::copy_bench::{self, CopyTestbed, LIMIT};
use longhaul_bench::scratch_folder::ScratchFolder;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use xtask::program_runner;

pub const MIB: u64 = 1 << 20;
/// The rate of the slow part in bytes per second: a copy takes so long that it would be adapted.
const SLOW_BYTES_PER_SECOND: u64 = 5 * MIB;
/// A path that carries 25 MB/s.
pub const NARROW_PATH_FILE: &str = "name = \"narrow\"\nmtu = 1500\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"10 ms\"\nrate = \"200 Mbit/s\"\nqueue = \"2 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

/// A path that four connections fill.
pub const FULL_PATH_FILE: &str = "name = \"full\"\nmtu = 1500\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"10 ms\"\nrate = \"40 Mbit/s\"\nqueue = \"500 kB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

/// A path of 100 Mbit/s, of which a connection reaches a fraction because of losses.
pub const MANY_STREAMS_PATH_FILE: &str = "name = \"losses\"\nmtu = 9000\n\
    [[hops]]\nname = \"lossy\"\ndelay = \"60 ms\"\nloss = \"1 %\"\nrate = \"100 Mbit/s\"\nqueue = \"2 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

/// A path on which connections that lose segments at the end straggle behind the others.
const LOSSY_PATH_FILE: &str = "name = \"lossy\"\nmtu = 1500\n\
    [[hops]]\nname = \"lossy\"\ndelay = \"30 ms\"\nloss = \"0.5 %\"\nrate = \"200 Mbit/s\"\nqueue = \"2 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

/// The slowed part, and the report.
#[derive(Debug)]
pub struct SlowdownProof {
    pub slow: &'static str,
    pub expected: &'static str,
    pub report: Value,
}

impl SlowdownProof {
    pub fn limited_by(&self) -> &str {
        self.report["analysis"]["limited_by"].as_str().unwrap_or("nothing")
    }

    pub fn holds(&self) -> bool {
        self.limited_by() == self.expected
    }

    /// Returns the number of streams at the end, and how often it was raised for a trial.
    pub fn read_streams(&self) -> (u64, usize) {
        let trials = self.report["observation"]["adjustments"].as_array();
        let trials: Vec<&Value> = trials.into_iter().flatten().collect();
        let raised = trials.iter().filter(|trial| trial["workers"] == "streams");
        let kept = raised.clone().rfind(|trial| trial["kept"] == true);
        let last = kept.map_or(&self.report["plan"]["streams"], |trial| &trial["workers_after"]);
        (last.as_u64().unwrap_or(0), raised.count())
    }

    pub fn goodput_bps(&self) -> f64 {
        self.report["analysis"]["goodput_bps"].as_f64().unwrap_or(0.0)
    }
}

/// Runs a copy for each slow part.
pub fn run_slowdown_proofs(longhaul: &Path) -> Result<Vec<SlowdownProof>, String> {
    Ok(vec![
        copy_over_path(longhaul, NARROW_PATH_FILE, ClientEnd::Source, &["-P", "8"], 48 * MIB)?,
        copy_over_path(longhaul, LOSSY_PATH_FILE, ClientEnd::Source, &["-P", "8"], 9 * MIB)?,
        prove_slow_input(longhaul)?,
        prove_slow_output(longhaul)?,
    ])
}

/// The end of a copy that runs `longhaul copy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    Source,
    Target,
}

/// Copies a file of so many bytes over a path that limits the copy.
pub fn copy_over_path(
    longhaul: &Path,
    path_file: &str,
    client: ClientEnd,
    options: &[&str],
    bytes: u64,
) -> Result<SlowdownProof, String> {
    let store = ScratchFolder::in_memory()?;
    let path = store.write("path.toml", path_file)?;
    let ground = CopyTestbed::path(longhaul, &path.to_string_lossy())?;
    let _far = ground.serve(&store.empty("there")?)?;
    let (near, far) = (store.path("near").display().to_string(), format!("{}:far", ground.address));
    let words = match client {
        ClientEnd::Source => [&*near, &*far],
        ClientEnd::Target => [&*far, &*near],
    };
    store.fill_file(if client == ClientEnd::Source { "near" } else { "there/far" }, bytes)?;
    let copy = ground.copy(&[options, &words].concat());
    Ok(make_proof("a path", "network", copy_bench::run_for_report(copy)?))
}

/// Limits the rate of standard input.
fn prove_slow_input(longhaul: &Path) -> Result<SlowdownProof, String> {
    let (ground, store) = (CopyTestbed::loopback(longhaul)?, ScratchFolder::in_memory()?);
    let _far = ground.serve(&store.empty("there")?)?;
    let mut copy = ground.copy(&["-", "127.0.0.1:copy", "--no-save", "--json"]);
    let mut copy = program_runner::spawn(copy.stdin(Stdio::piped()))?;
    let fed = PipeFeeder::start(copy.stdin.take(), SLOW_BYTES_PER_SECOND, 48 * MIB);
    let output = program_runner::wait_with_output(copy, LIMIT)?;
    fed.end()?;
    Ok(make_proof("standard input of 5 MB/s", "source_disk", parse_report(&output.stdout)?))
}

/// Limits the rate of standard output; the report is then in the archive.
fn prove_slow_output(longhaul: &Path) -> Result<SlowdownProof, String> {
    let (ground, store) = (CopyTestbed::loopback(longhaul)?, ScratchFolder::in_memory()?);
    let folder = store.empty("there")?;
    let served = store.fill_file("there/file", 48 * MIB)?;
    let _far = ground.serve(&folder)?;
    let archive = store.path("archive.sqlite3").display().to_string();
    let mut copy = ground.copy(&["127.0.0.1:file", "-", "--archive", &archive]);
    let mut copy = program_runner::spawn(&mut copy)?;
    let drained = PipeDrain::start(copy.stdout.take(), SLOW_BYTES_PER_SECOND);
    let output = program_runner::wait_with_output(copy, LIMIT)?;
    let bytes = drained.end()?;
    if !output.status.success() || bytes != 48 * MIB {
        let why = output.stderr.trim();
        return Err(format!("{bytes} bytes of {} came: {why}", served.display()));
    }
    let mut show = Command::new(longhaul);
    show.args(["report", "show", "last", "--json", "--archive", &archive]);
    let report = parse_report(&program_runner::capture_stdout(&mut show, LIMIT)?)?;
    Ok(make_proof("standard output of 5 MB/s", "target_disk", report))
}

fn make_proof(slow: &'static str, expected: &'static str, report: Value) -> SlowdownProof {
    SlowdownProof { slow, expected, report }
}

fn parse_report(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("no report: {e}: {}", text.trim()))
}
