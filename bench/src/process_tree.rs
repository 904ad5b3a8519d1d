//! Finds descendant processes in /proc, so that a path's far end can be reached from outside the
//! program that set it up.

use std::time::{Duration, Instant};

/// A process and its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescendantProcess {
    pub pid: u32,
    pub words: Vec<String>,
}

/// Returns every descendant of `ancestor`, itself included.
pub fn list_descendants(ancestor: u32) -> Vec<DescendantProcess> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| descends_from(pid, ancestor))
        .map(|pid| DescendantProcess { pid, words: read_command_line(pid) })
        .collect()
}

/// Waits until a descendant of `ancestor` satisfies `asked`.
pub fn wait_for_descendant(
    ancestor: u32,
    limit: Duration,
    asked: impl Fn(&DescendantProcess) -> bool,
) -> Option<DescendantProcess> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Some(kin) = list_descendants(ancestor).into_iter().find(|kin| asked(kin)) {
            return Some(kin);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Recognises the far end of a path: `longhaul serve`.
pub fn is_far_end(kin: &DescendantProcess) -> bool {
    kin.words.get(1).is_some_and(|word| word == "serve")
}

/// Returns the CPU time of the process itself, in user and kernel mode.
pub fn read_cpu_time(pid: u32) -> Option<Duration> {
    /// The unit that the kernel shows to user space, whatever its own tick is.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses and may contain anything; utime and stime are 14
    // and 15.
    let after_name = &text[text.rfind(')')? + 1..];
    let ticks = after_name.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Some(TICK * ticks.sum::<Result<u32, _>>().ok()?)
}

fn read_command_line(pid: u32) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').map(str::to_owned).collect()
}

fn descends_from(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let Some(parent) = read_parent(pid) else {
            return false;
        };
        pid = parent;
    }
    false
}

fn read_parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}
