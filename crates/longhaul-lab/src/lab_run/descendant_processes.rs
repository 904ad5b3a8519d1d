//! Ends processes that commands left behind; the lab adopts orphans.

use longhaul_sys::process_control;
use longhaul_sys::signal::{Signal, send_signal};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Ends all descendants of this process, except `spared` and its descendants. Those of a child that
/// has ended are adopted, so that they are children in the next round.
pub(super) fn kill_descendants(spared: Option<u32>) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut children = find_children();
        children.retain(|pid| Some(*pid) != spared);
        if children.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in children {
            // Fails if it has ended meanwhile.
            let _ = send_signal(pid, Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
        while process_control::reap_one().unwrap_or(false) {}
    }
}

fn find_children() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| parse_parent(&stat) == Some(std::process::id()))
    };
    pids.filter(is_child).collect()
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
