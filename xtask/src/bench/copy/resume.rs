//! Kills a copy repeatedly, at either end alternately, resumes it each time, and compares the bytes
//! that leave the sender's interface with the file's length.

use super::ground::{Copied, Ground, LIMIT};
use super::store::{self, Store};
use crate::bench::table::Table;
use crate::process;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The maximum bytes that leave the sender for each byte of the file, including headers and lost
/// data.
pub const MOST_SENT_RATIO: f64 = 1.1;
/// Options for the 172 ms path of the bench: its sockets request the path's BDP.
pub const STREAMS: &[&str] = &["-P", "8", "-w", "32M"];
/// Smaller buffers: their contents at a kill are retransmitted.
const RESUMED: &[&str] = &["-P", "8", "-w", "16M"];
const LOOK: Duration = Duration::from_millis(20);

/// The result.
#[derive(Debug)]
pub struct Resumed {
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

impl Resumed {
    pub fn sent_ratio(&self) -> f64 {
        self.sent_bytes as f64 / self.bytes as f64
    }
}

/// The file to copy, and the number of kills.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    pub bytes: u64,
    pub kills: usize,
    pub options: &'a [&'a str],
}

/// Copies a file, with kills at random positions.
pub fn run(
    ground: &Ground,
    (from, to): (&Store, &Store),
    course: Course<'_>,
) -> Result<Resumed, String> {
    let Course { bytes, kills, .. } = course;
    let source = from.file("big", bytes)?;
    let folder = to.empty("there")?;
    let mut far = Some(ground.serve(&folder, &[])?);
    let mut seen = Resumed {
        bytes,
        sent_bytes: 0,
        held_bytes: 0,
        kills: Vec::new(),
        elapsed: Duration::ZERO,
        blake3: String::new(),
        same: false,
    };
    let (before, begun) = (ground.sent_bytes()?, Instant::now());
    let mut random = Random::new();
    for kill in 0..kills {
        // Each kill is within its own part of the file, so that all happen during the copy.
        let part = (kill as f64 + 0.2 + 0.6 * random.next()) / kills as f64;
        let at = (part * bytes as f64 * 0.95) as u64;
        let mut near = started(ground, &source, course.options)?;
        let reached = wait_for(&folder, at, &mut near);
        let near_dies = kill % 2 == 0;
        if near_dies {
            process::end(&mut near);
        } else {
            far = None;
            // It notices, and reports the reason.
            process::wait(&mut near, Duration::from_secs(60))?;
        }
        reached?;
        let whose = if near_dies { "near" } else { "far" };
        seen.kills
            .push(format!("{whose} end at {:.0} %", part * 95.0));
        if far.is_none() {
            far = Some(ground.serve(&folder, &[])?);
        }
    }
    let last = finished(ground, &source, course.options)?;
    seen.elapsed = begun.elapsed();
    seen.sent_bytes = ground.sent_bytes()? - before;
    seen.held_bytes = last.count("held_bytes");
    let sum = last.report["observation"]["blake3"].as_str();
    sum.unwrap_or_default().clone_into(&mut seen.blake3);
    seen.same = store::same(&source, &folder.join("big"))?;
    drop(far);
    Ok(seen)
}

fn started(ground: &Ground, source: &Path, options: &[&str]) -> Result<Child, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    let mut command = ground.copy(&[], &[&[source, target][..], options].concat());
    let near = command.stdout(Stdio::null()).spawn();
    near.map_err(|e| format!("cannot start a copy: {e}"))
}

/// Runs the last attempt, which must not fail, however little time the far end had to notice the
/// kill.
fn finished(ground: &Ground, source: &Path, options: &[&str]) -> Result<Copied, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    ground.copied(&[], &[&[source, target][..], options].concat())
}

/// Waits until this many bytes are at the target, according to the unfinished file's journal.
fn wait_for(folder: &Path, bytes: u64, near: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while noted(folder) < bytes {
        if let Ok(Some(status)) = near.try_wait() {
            return Err(format!("the copy ended before it was killed: {status}"));
        }
        if Instant::now() > deadline {
            return Err(format!("the copy did not reach {bytes} bytes"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns the bytes of the blocks in a journal: a header of 32 bytes, 48 for each block of 1 MiB.
fn noted(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let journal = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "journal"));
    let length = journal
        .and_then(|path| path.metadata().ok())
        .map_or(0, |about| about.len());
    (length.saturating_sub(32) / 48) << 20
}

/// Random numbers from 0 to 1 that differ from run to run.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Random(now.map_or(1, |now| now.as_nanos() as u64))
    }

    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24)
    }
}

/// Returns the table, and a sentence for every miss.
pub fn table(longhaul: &Path, bytes: u64) -> Result<(Table, Vec<String>), String> {
    let ground = Ground::path(longhaul, "la-geneva")?;
    let (memory, disk) = (Store::memory()?, Store::disk()?);
    let course = Course {
        bytes,
        kills: 3,
        options: RESUMED,
    };
    let seen = run(&ground, (&memory, &disk), course)?;
    let mut table = Table::new(
        "Resume: la-geneva, tmpfs to disk, killed with SIGKILL",
        &[
            "bytes",
            "killed",
            "time",
            "sent / size",
            "BLAKE3",
            "same bytes",
        ],
    );
    table.row(vec![
        seen.bytes.to_string(),
        seen.kills.join(", "),
        format!("{:.1} s", seen.elapsed.as_secs_f64()),
        format!("{:.4}", seen.sent_ratio()),
        seen.blake3.clone(),
        if seen.same { "yes" } else { "no" }.to_owned(),
    ]);
    Ok((table, missed(&seen)))
}

fn missed(seen: &Resumed) -> Vec<String> {
    let mut missed = Vec::new();
    if !seen.same {
        missed.push("resume: the file differs from its source".to_owned());
    }
    if seen.sent_ratio() >= MOST_SENT_RATIO {
        let ratio = seen.sent_ratio();
        missed.push(format!("resume: {ratio:.3} bytes were sent for each byte"));
    }
    missed
}
