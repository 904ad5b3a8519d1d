//! Ends processes that commands left behind; the lab adopts orphans.

use longhaul_sys::process_control;
use longhaul_sys::signal::{ProcessSignal, send_signal};
use std::collections::HashMap;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Ends all descendants of this process, except `spared` and its descendants.
pub(super) fn kill_descendants(spared: Option<u32>) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = find_descendants(std::process::id(), spared);
        if found.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in found {
            // Fails if it has ended meanwhile.
            let _ = send_signal(pid, ProcessSignal::Kill);
        }
        std::thread::sleep(PAUSE);
        while process_control::reap_one().unwrap_or(false) {}
    }
}

fn find_descendants(of: u32, spared: Option<u32>) -> Vec<u32> {
    let parents = read_parents();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, its)| **its == parent);
        let children = children.map(|(pid, _)| *pid).filter(|pid| Some(*pid) != spared);
        let children: Vec<u32> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(children);
        next += 1;
    }
    found.split_off(1)
}

/// Returns the parent of every visible process.
fn read_parents() -> HashMap<u32, u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return HashMap::new();
    };
    let parent = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parse_parent(&stat)?))
    };
    entries.flatten().filter_map(parent).collect()
}

/// Returns the second field after the name, which is in parentheses and may contain anything.
fn parse_parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything_and_still_has_its_parent() {
        assert_eq!(parse_parent("12 (a) b (c) S 7 12 12 0"), Some(7));
        assert_eq!(parse_parent("12"), None);
    }
}
