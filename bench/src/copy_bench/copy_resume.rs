//! Kills a copy repeatedly, at either end alternately, resumes it each time, and compares the bytes
//! that leave the sender's interface with the file's length.

use super::copy_testbed::{CopyRunResult, CopyTestbed, LIMIT};
use super::scratch_store::{self, ScratchStore};
use crate::markdown_table::MarkdownTable;
use crate::{BenchOutcome, list_missed};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};
use xtask::program_runner;

/// The maximum bytes that leave the sender for each byte of the file, including headers and lost
/// data.
pub const MAX_SENT_RATIO: f64 = 1.1;
/// Options for the 172 ms path of the bench: its sockets request the path's BDP.
pub const STREAMS: &[&str] = &["-P", "8", "-w", "32M"];
/// Smaller buffers: their contents at a kill are retransmitted.
const RESUME_OPTIONS: &[&str] = &["-P", "8", "-w", "16M"];
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result.
#[derive(Debug)]
pub struct ResumeResult {
    pub bytes: u64,
    /// The bytes from the sender's interfaces, all attempts together.
    pub sent_bytes: u64,
    /// The bytes at the target before the last attempt.
    pub held_bytes: u64,
    pub kills: Vec<String>,
    pub elapsed: Duration,
    /// As in the report.
    pub blake3: String,
    pub same: bool,
}

impl ResumeResult {
    pub fn sent_ratio(&self) -> f64 {
        self.sent_bytes as f64 / self.bytes as f64
    }
}

/// The file to copy, and the number of kills.
#[derive(Debug, Clone, Copy)]
pub struct ResumePlan<'a> {
    pub bytes: u64,
    pub kills: usize,
    pub options: &'a [&'a str],
}

/// Copies a file, with kills at random positions.
pub fn run_resumes(
    ground: &CopyTestbed,
    (from, to): (&ScratchStore, &ScratchStore),
    course: ResumePlan<'_>,
) -> Result<ResumeResult, String> {
    let ResumePlan { bytes, kills, .. } = course;
    let source = from.file("big", bytes)?;
    let folder = to.empty("there")?;
    let mut far = Some(ground.serve(&folder, &[])?);
    let mut seen = ResumeResult {
        bytes,
        sent_bytes: 0,
        held_bytes: 0,
        kills: Vec::new(),
        elapsed: Duration::ZERO,
        blake3: String::new(),
        same: false,
    };
    let (before, begun) = (ground.sent_bytes()?, Instant::now());
    let mut random = UnseededRandom::new();
    for kill in 0..kills {
        // Each kill is within its own part of the file, so that all happen during the copy.
        let part = (kill as f64 + 0.2 + 0.6 * random.next()) / kills as f64;
        let at = (part * bytes as f64 * 0.95) as u64;
        let mut near = start_copy(ground, &source, course.options)?;
        let reached = wait_for_bytes(&folder, at, &mut near);
        let near_dies = kill % 2 == 0;
        if near_dies {
            program_runner::kill_child(&mut near);
        } else {
            far = None;
            // It notices, and reports the reason.
            program_runner::wait_with_limit(&mut near, Duration::from_secs(60))?;
        }
        reached?;
        let whose = if near_dies { "near" } else { "far" };
        seen.kills.push(format!("{whose} end at {:.0} %", part * 95.0));
        if far.is_none() {
            far = Some(ground.serve(&folder, &[])?);
        }
    }
    let last = finish_copy(ground, &source, course.options)?;
    seen.elapsed = begun.elapsed();
    seen.sent_bytes = ground.sent_bytes()? - before;
    seen.held_bytes = last.count("held_bytes");
    let sum = last.report["observation"]["blake3"].as_str();
    sum.unwrap_or_default().clone_into(&mut seen.blake3);
    seen.same = scratch_store::have_same_contents(&source, &folder.join("big"))?;
    drop(far);
    Ok(seen)
}

fn start_copy(ground: &CopyTestbed, source: &Path, options: &[&str]) -> Result<Child, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    let mut command = ground.copy(&[], &[&[source, target][..], options].concat());
    let near = command.stdout(Stdio::null()).spawn();
    near.map_err(|e| format!("cannot start a copy: {e}"))
}

/// Runs the last attempt, which must not fail, however little time the far end had to notice the
/// kill.
fn finish_copy(
    ground: &CopyTestbed,
    source: &Path,
    options: &[&str],
) -> Result<CopyRunResult, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    ground.run_copy(&[], &[&[source, target][..], options].concat())
}

/// Waits until this many bytes are at the target, according to the unfinished file's journal.
fn wait_for_bytes(folder: &Path, bytes: u64, near: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while read_journal_bytes(folder) < bytes {
        if let Ok(Some(status)) = near.try_wait() {
            return Err(format!("the copy ended before it was killed: {status}"));
        }
        if Instant::now() > deadline {
            return Err(format!("the copy did not reach {bytes} bytes"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Returns the bytes of the blocks in a journal: a header of 32 bytes, 48 for each block of 1 MiB.
fn read_journal_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let journal = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "journal"));
    let length = journal.and_then(|path| path.metadata().ok()).map_or(0, |about| about.len());
    (length.saturating_sub(32) / 48) << 20
}

/// Random numbers from 0 to 1 that differ from run to run.
struct UnseededRandom(u64);

impl UnseededRandom {
    fn new() -> UnseededRandom {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        UnseededRandom(now.map_or(1, |now| now.as_nanos() as u64))
    }

    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24)
    }
}

/// Returns the table, and a sentence for every miss.
pub fn tabulate_resume(longhaul: &Path, bytes: u64) -> Result<BenchOutcome, String> {
    let ground = CopyTestbed::path(longhaul, "la-geneva")?;
    let (memory, disk) = (ScratchStore::memory()?, ScratchStore::disk()?);
    let course = ResumePlan { bytes, kills: 3, options: RESUME_OPTIONS };
    let seen = run_resumes(&ground, (&memory, &disk), course)?;
    let mut table = MarkdownTable::new(
        "Resume: la-geneva, tmpfs to disk, killed with SIGKILL",
        "bytes | killed | time | sent / size | BLAKE3 | same bytes",
    );
    table.row(vec![
        seen.bytes.to_string(),
        seen.kills.join(", "),
        format!("{:.1} s", seen.elapsed.as_secs_f64()),
        format!("{:.4}", seen.sent_ratio()),
        seen.blake3.clone(),
        if seen.same { "yes" } else { "no" }.to_owned(),
    ]);
    Ok(BenchOutcome::new(&[table], check_gates(&seen)))
}

fn check_gates(seen: &ResumeResult) -> Vec<String> {
    let ratio = seen.sent_ratio();
    list_missed([
        (seen.same, "resume: the file differs from its source".to_owned()),
        (ratio < MAX_SENT_RATIO, format!("resume: {ratio:.3} bytes were sent for each byte")),
    ])
}
