//! Finds descendant processes in /proc, so that a path's far end can be reached from outside the
//! program that set it up.

use std::time::{Duration, Instant};

/// A process and its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescendantProcess {
    pub pid: u32,
    pub words: Vec<String>,
}

/// Waits until a descendant of `ancestor` satisfies `matches`.
pub fn wait_for_descendant(
    ancestor: u32,
    limit: Duration,
    matches: impl Fn(&DescendantProcess) -> bool,
) -> Option<DescendantProcess> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut descendants = pids
            .filter(|&pid| descends_from(pid, ancestor))
            .map(|pid| DescendantProcess { pid, words: read_command_line(pid) });
        if let Some(found) = descendants.find(|descendant| matches(descendant)) {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Recognises the far end of a path: `longhaul serve`.
pub fn is_far_end(descendant: &DescendantProcess) -> bool {
    descendant.words.get(1).is_some_and(|word| word == "serve")
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
