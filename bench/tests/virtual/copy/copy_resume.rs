//! Kills a copy repeatedly, at either end alternately, resumes it each time, and compares the bytes
//! that leave the sender's interface with the file's length.

use longhaul_bench::copy_bench::{self, CopyTestbed, LIMIT};
use longhaul_bench::scratch_folder::ScratchFolder;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use xtask::program_runner;

/// The maximum bytes that leave the sender for each byte of the file, including headers and lost
/// data.
pub const MAX_SENT_RATIO: f64 = 1.1;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result.
#[derive(Debug)]
pub struct ResumeResult {
    pub bytes: u64,
    /// The bytes from the sender's interfaces, all attempts together.
    pub sent_bytes: u64,
    /// The bytes at the target before the last attempt.
    pub held_bytes: u64,
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
    store: &ScratchFolder,
    course: ResumePlan<'_>,
) -> Result<ResumeResult, String> {
    let ResumePlan { bytes, kills, .. } = course;
    let source = store.fill_file("big", bytes)?;
    let folder = store.empty("there")?;
    let mut far = Some(ground.serve(&folder)?);
    let before = read_sent_bytes(ground)?;
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
        if far.is_none() {
            far = Some(ground.serve(&folder)?);
        }
    }
    let last = finish_copy(ground, &source, course.options)?;
    drop(far);
    Ok(ResumeResult {
        bytes,
        sent_bytes: read_sent_bytes(ground)? - before,
        held_bytes: last["observation"]["held_bytes"].as_u64().unwrap_or(0),
        same: have_same_contents(&source, &folder.join("big"))?,
    })
}

/// Returns the bytes that have left the near end's interfaces, headers included.
fn read_sent_bytes(ground: &CopyTestbed) -> Result<u64, String> {
    let file = format!("/proc/{}/net/dev", ground.near);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let outer = lines.filter(|(name, _)| name.trim() != "lo");
    let sent = outer.map(|(_, numbers)| numbers.split_whitespace().nth(8)?.parse::<u64>().ok());
    sent.sum::<Option<u64>>().ok_or_else(|| format!("{file} has another form than expected"))
}

fn have_same_contents(one: &Path, other: &Path) -> Result<bool, String> {
    let output = program_runner::capture_output(Command::new("cmp").args([one, other]), LIMIT)?;
    Ok(output.status.success())
}

fn start_copy(ground: &CopyTestbed, source: &Path, options: &[&str]) -> Result<Child, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    let mut command = ground.copy(&[&[source, target, "--no-save"][..], options].concat());
    let near = command.stdout(Stdio::null()).spawn();
    near.map_err(|e| format!("cannot start a copy: {e}"))
}

/// Runs the last attempt, which must not fail, however little time the far end had to notice the
/// kill.
fn finish_copy(ground: &CopyTestbed, source: &Path, options: &[&str]) -> Result<Value, String> {
    let target = format!("{}:big", ground.address);
    let source = source.display().to_string();
    let (source, target) = (source.as_str(), target.as_str());
    copy_bench::run_for_report(ground.copy(&[&[source, target][..], options].concat()))
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
