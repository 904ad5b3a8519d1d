//! Tests that the verdict follows the slowed part: real ends, one of which has a slow disk,
//! processor or path.

use super::ground::{Ground, LIMIT};
use super::slow::{Drained, Fed, Quota, Spinners, ThrottledDisk};
use super::store::Store;
use crate::bench::table::Table;
use crate::process;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

const MIB: u64 = 1 << 20;
/// The rate of the slow part in bytes per second.
const SLOW: u64 = 30 * MIB;
/// A path that carries 25 MB/s.
const NARROW: &str = "name = \"narrow\"\nmtu = 1500\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"10 ms\"\nrate = \"200 Mbit/s\"\nqueue = \"2 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

/// The slowed part, and the report.
#[derive(Debug)]
pub struct Proof {
    pub slow: &'static str,
    pub expected: &'static str,
    pub report: Value,
}

impl Proof {
    pub fn said(&self) -> &str {
        self.report["analysis"]["limited_by"]
            .as_str()
            .unwrap_or("nothing")
    }

    pub fn holds(&self) -> bool {
        self.said() == self.expected
    }

    fn shares(&self) -> String {
        let split = &self.report["analysis"]["split"];
        let parts = [
            "source_disk",
            "source_cpu",
            "network",
            "target_disk",
            "target_cpu",
        ];
        let share = |part: &str| {
            let share = split[format!("{part}_ratio")].as_f64();
            share.map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"))
        };
        parts.map(share).join(" / ")
    }
}

/// Runs the proofs that also hold in virtual time, where computing takes no time.
pub fn without_processors(longhaul: &Path) -> Result<Vec<Proof>, String> {
    Ok(vec![
        narrow_path(longhaul)?,
        slow_input(longhaul)?,
        slow_output(longhaul)?,
    ])
}

/// Runs the proofs that need the machine's own clock; some also need cgroups v1 and a disk that can
/// be throttled.
pub fn with_processors(longhaul: &Path) -> Result<Vec<Proof>, String> {
    Ok(vec![
        crowded(longhaul, false)?,
        crowded(longhaul, true)?,
        quota(longhaul, false)?,
        quota(longhaul, true)?,
        throttled(longhaul, false)?,
        throttled(longhaul, true)?,
    ])
}

fn narrow_path(longhaul: &Path) -> Result<Proof, String> {
    let store = Store::memory()?;
    let ground = Ground::written(longhaul, &store, NARROW)?;
    let report = plain(&ground, &store, (&[], &[]), 48 * MIB)?;
    Ok(proof("a path of 200 Mbit/s", "network", report))
}

/// Copies a file from memory to memory, with command prefixes for both ends.
fn plain(
    ground: &Ground,
    store: &Store,
    (near, far): (&[&str], &[&str]),
    bytes: u64,
) -> Result<Value, String> {
    let source = store.file("source", bytes)?.display().to_string();
    let _far = ground.serve(&store.empty("there")?, far)?;
    let target = format!("{}:copy", ground.address);
    Ok(ground.copied(near, &[&source, &target])?.report)
}

/// Limits the rate of standard input.
fn slow_input(longhaul: &Path) -> Result<Proof, String> {
    let (ground, store) = (Ground::loopback(longhaul)?, Store::memory()?);
    let _far = ground.serve(&store.empty("there")?, &[])?;
    let mut copy = ground.copy(&[], &["-", "127.0.0.1:copy"]);
    let mut copy = copy
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start a copy: {e}"))?;
    let fed = Fed::start(copy.stdin.take(), SLOW, 48 * MIB);
    let output = process::finish(copy, LIMIT)?;
    fed.end()?;
    Ok(proof(
        "standard input of 31 MB/s",
        "source_disk",
        parsed(&output.stdout)?,
    ))
}

/// Limits the rate of standard output; the report is then in the archive.
fn slow_output(longhaul: &Path) -> Result<Proof, String> {
    let (ground, store) = (Ground::loopback(longhaul)?, Store::memory()?);
    let folder = store.empty("there")?;
    let served = store.file("there/file", 48 * MIB)?;
    let _far = ground.serve(&folder, &[])?;
    let archive = store.path("archive.sqlite3").display().to_string();
    let mut copy = ground.kept_copy(&archive, &["127.0.0.1:file", "-"]);
    let mut copy = copy
        .spawn()
        .map_err(|e| format!("cannot start a copy: {e}"))?;
    let drained = Drained::start(copy.stdout.take(), SLOW);
    let output = process::finish(copy, LIMIT)?;
    let bytes = drained.end()?;
    if !output.status.success() || bytes != 48 * MIB {
        let why = output.stderr.trim();
        return Err(format!("{bytes} bytes of {} came: {why}", served.display()));
    }
    let report = ground.last_of(&archive)?;
    Ok(proof("standard output of 31 MB/s", "target_disk", report))
}

/// Runs one end on a core shared with busy programs; the other end has a core to itself.
fn crowded(longhaul: &Path, target: bool) -> Result<Proof, String> {
    let (ground, store) = (Ground::loopback(longhaul)?, Store::memory()?);
    let _spinners = Spinners::start(0, 6)?;
    let (crowd, alone) = (&["taskset", "-c", "0"][..], &["taskset", "-c", "1"][..]);
    let (ends, expected) = if target {
        ((alone, crowd), "target_cpu")
    } else {
        ((crowd, alone), "source_cpu")
    };
    let report = plain(&ground, &store, ends, 256 * MIB)?;
    let slow = if target {
        "six busy programs on the target's core"
    } else {
        "six busy programs on the source's core"
    };
    Ok(proof(slow, expected, report))
}

/// Limits one end to a tenth of a core.
fn quota(longhaul: &Path, target: bool) -> Result<Proof, String> {
    let (ground, store) = (Ground::loopback(longhaul)?, Store::memory()?);
    let quota = Quota::of_a_core(0.1)?;
    let into = quota.words();
    let into: Vec<&str> = into.iter().map(String::as_str).collect();
    let (ends, expected) = if target {
        ((&[][..], &into[..]), "target_cpu")
    } else {
        ((&into[..], &[][..]), "source_cpu")
    };
    let report = plain(&ground, &store, ends, 64 * MIB)?;
    let slow = if target {
        "a tenth of a core for the target"
    } else {
        "a tenth of a core for the source"
    };
    Ok(proof(slow, expected, report))
}

/// Throttles the disk of one end, past the page cache.
fn throttled(longhaul: &Path, target: bool) -> Result<Proof, String> {
    let ground = Ground::loopback(longhaul)?;
    let (memory, disk) = (Store::memory()?, Store::disk()?);
    let throttle = ThrottledDisk::new(&disk.path("there"), SLOW)?;
    let into = throttle.words();
    let into: Vec<&str> = into.iter().map(String::as_str).collect();
    let bytes = 64 * MIB;
    let (slow, expected, report) = if target {
        let source = memory.file("source", bytes)?.display().to_string();
        let _far = ground.serve(&disk.empty("there")?, &into)?;
        // Memory does not support direct reads, so the far end, which writes, uses direct I/O.
        let words = ["-", "127.0.0.1:copy", "--direct"];
        let mut copy = ground.copy(&[], &words);
        let input = std::fs::File::open(&source).map_err(|e| format!("cannot read: {e}"))?;
        let copy = copy.stdin(input).spawn();
        let copy = copy.map_err(|e| format!("cannot start a copy: {e}"))?;
        let output = process::finish(copy, LIMIT)?;
        let report =
            parsed(&output.stdout).map_err(|why| format!("{why}: {}", output.stderr.trim()))?;
        ("a target disk of 31 MB/s", "target_disk", report)
    } else {
        let source = disk.file("source", bytes)?.display().to_string();
        let _far = ground.serve(&memory.empty("there")?, &[])?;
        let words = [source.as_str(), "127.0.0.1:copy"];
        let report = ground.copied(&into, &words)?.report;
        ("a source disk of 31 MB/s", "source_disk", report)
    };
    Ok(proof(slow, expected, report))
}

fn proof(slow: &'static str, expected: &'static str, report: Value) -> Proof {
    Proof {
        slow,
        expected,
        report,
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("no report: {e}: {}", text.trim()))
}

/// Returns the table, and a sentence for every miss.
pub fn table(longhaul: &Path) -> Result<(Table, Vec<String>), String> {
    let mut table = Table::new(
        "What a copy waited for, with one thing made slow",
        &[
            "slow",
            "should be",
            "said",
            "source disk / source CPU / network / target disk / target CPU",
        ],
    );
    let mut missed = Vec::new();
    let mut proofs = without_processors(longhaul)?;
    proofs.extend(with_processors(longhaul)?);
    for proof in proofs {
        let said = proof.said().to_owned();
        if !proof.holds() {
            let (slow, expected) = (proof.slow, proof.expected);
            missed.push(format!(
                "verdict: {slow}: {said} in the place of {expected}"
            ));
        }
        table.row(vec![
            proof.slow.to_owned(),
            proof.expected.to_owned(),
            said,
            proof.shares(),
        ]);
    }
    Ok((table, missed))
}
