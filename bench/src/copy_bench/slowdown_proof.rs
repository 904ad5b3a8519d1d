//! Tests that the verdict follows the slowed part: real ends, one of which has a slow
//! pipe, processor or path.

use super::copy_testbed::{CopyTestbed, LIMIT};
use super::scratch_store::ScratchStore;
use super::slowdown::{PipeDrain, PipeFeeder, SpinningPrograms};
use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use xtask::program_runner;

const MIB: u64 = 1 << 20;
/// The rate of the slow part in bytes per second.
const SLOW_BYTES_PER_SECOND: u64 = 30 * MIB;
/// A path that carries 25 MB/s.
const NARROW_PATH_FILE: &str = "name = \"narrow\"\nmtu = 1500\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"10 ms\"\nrate = \"200 Mbit/s\"\nqueue = \"2 MB\"\n\
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

    fn shares(&self) -> String {
        let split = &self.report["analysis"]["split"];
        let parts = ["source_disk", "source_cpu", "network", "target_disk", "target_cpu"];
        let share = |part: &str| {
            let share = split[format!("{part}_ratio")].as_f64();
            share.map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"))
        };
        parts.map(share).join(" / ")
    }
}

/// Runs the proofs that also hold in virtual time, where computing takes no time.
pub fn run_timed_proofs(longhaul: &Path) -> Result<Vec<SlowdownProof>, String> {
    Ok(vec![
        prove_narrow_path(longhaul)?,
        prove_slow_input(longhaul)?,
        prove_slow_output(longhaul)?,
    ])
}

/// Runs the proofs that need the machine's own clock.
pub fn run_processor_proofs(longhaul: &Path) -> Result<Vec<SlowdownProof>, String> {
    Ok(vec![prove_shared_core(longhaul, false)?, prove_shared_core(longhaul, true)?])
}

fn prove_narrow_path(longhaul: &Path) -> Result<SlowdownProof, String> {
    let store = ScratchStore::memory()?;
    let ground = CopyTestbed::from_text(longhaul, &store, NARROW_PATH_FILE)?;
    let report = copy_in_memory(&ground, &store, (&[], &[]), 48 * MIB)?;
    Ok(make_proof("a path of 200 Mbit/s", "network", report))
}

/// Copies a file from memory to memory, with command prefixes for both ends.
fn copy_in_memory(
    ground: &CopyTestbed,
    store: &ScratchStore,
    (near, far): (&[&str], &[&str]),
    bytes: u64,
) -> Result<Value, String> {
    let source = store.file("source", bytes)?.display().to_string();
    let _far = ground.serve(&store.empty("there")?, far)?;
    let target = format!("{}:copy", ground.address);
    Ok(ground.run_copy(near, &[&source, &target])?.report)
}

/// Limits the rate of standard input.
fn prove_slow_input(longhaul: &Path) -> Result<SlowdownProof, String> {
    let (ground, store) = (CopyTestbed::loopback(longhaul)?, ScratchStore::memory()?);
    let _far = ground.serve(&store.empty("there")?, &[])?;
    let mut copy = ground.copy(&[], &["-", "127.0.0.1:copy"]);
    let mut copy = program_runner::spawn(copy.stdin(Stdio::piped()))?;
    let fed = PipeFeeder::start(copy.stdin.take(), SLOW_BYTES_PER_SECOND, 48 * MIB);
    let output = program_runner::wait_with_output(copy, LIMIT)?;
    fed.end()?;
    Ok(make_proof("standard input of 31 MB/s", "source_disk", parse_report(&output.stdout)?))
}

/// Limits the rate of standard output; the report is then in the archive.
fn prove_slow_output(longhaul: &Path) -> Result<SlowdownProof, String> {
    let (ground, store) = (CopyTestbed::loopback(longhaul)?, ScratchStore::memory()?);
    let folder = store.empty("there")?;
    let served = store.file("there/file", 48 * MIB)?;
    let _far = ground.serve(&folder, &[])?;
    let archive = store.path("archive.sqlite3").display().to_string();
    let mut copy = ground.archived_copy(&archive, &["127.0.0.1:file", "-"]);
    let mut copy = program_runner::spawn_captured(&mut copy)?;
    let drained = PipeDrain::start(copy.stdout.take(), SLOW_BYTES_PER_SECOND);
    let output = program_runner::wait_with_output(copy, LIMIT)?;
    let bytes = drained.end()?;
    if !output.status.success() || bytes != 48 * MIB {
        let why = output.stderr.trim();
        return Err(format!("{bytes} bytes of {} came: {why}", served.display()));
    }
    let report = ground.last_report(&archive)?;
    Ok(make_proof("standard output of 31 MB/s", "target_disk", report))
}

/// Runs one end on a core shared with busy programs; the other end has a core to itself.
fn prove_shared_core(longhaul: &Path, target: bool) -> Result<SlowdownProof, String> {
    let (ground, store) = (CopyTestbed::loopback(longhaul)?, ScratchStore::memory()?);
    let _spinners = SpinningPrograms::start(0, 6)?;
    let (crowd, alone) = (&["taskset", "-c", "0"][..], &["taskset", "-c", "1"][..]);
    let (ends, slow, expected) = if target {
        ((alone, crowd), "six busy programs on the target's core", "target_cpu")
    } else {
        ((crowd, alone), "six busy programs on the source's core", "source_cpu")
    };
    let report = copy_in_memory(&ground, &store, ends, 256 * MIB)?;
    Ok(make_proof(slow, expected, report))
}

fn make_proof(slow: &'static str, expected: &'static str, report: Value) -> SlowdownProof {
    SlowdownProof { slow, expected, report }
}

fn parse_report(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("no report: {e}: {}", text.trim()))
}

/// Returns the table, and a sentence for every miss.
pub fn tabulate_proofs(longhaul: &Path) -> Result<BenchOutcome, String> {
    let mut table = MarkdownTable::new(
        "What a copy waited for, with one thing made slow",
        "slow | should be | said | \
         source disk / source CPU / network / target disk / target CPU",
    );
    let mut missed = Vec::new();
    let mut proofs = run_timed_proofs(longhaul)?;
    proofs.extend(run_processor_proofs(longhaul)?);
    for proof in proofs {
        let said = proof.limited_by().to_owned();
        if !proof.holds() {
            let (slow, expected) = (proof.slow, proof.expected);
            missed.push(format!("verdict: {slow}: {said} in the place of {expected}"));
        }
        table.row(vec![proof.slow.to_owned(), proof.expected.to_owned(), said, proof.shares()]);
    }
    Ok(BenchOutcome::new(&[table], missed))
}
