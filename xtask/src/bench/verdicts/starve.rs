//! A far end whose core is taken by somebody else.
//!
//! `longhaul serve` is bound to one core, and a spinning program in a session of its own, with the
//! highest weight, shares that core with it. Sessions are weighed against each other where the
//! kernel groups them (autogroup), processes where it does not; both weights are set.

use crate::Outcome;
use crate::process;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CORE: &str = "0";
/// How long the far end takes to appear.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(5);

/// Ends the spinning program when dropped.
#[derive(Debug)]
pub struct Starved {
    spinner: Child,
}

impl Starved {
    /// Waits for the `serve` among the descendants of `ancestor`, and starves it.
    pub fn far_end_of(ancestor: u32) -> Result<Self, String> {
        let far = wait_for_far_end(ancestor)?.to_string();
        run(&["taskset", "--all-tasks", "--cpu-list", "--pid", CORE, &far])?;
        let spin = "while :; do :; done";
        let spinner = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "taskset",
                "--cpu-list",
                CORE,
                "setsid",
                "sh",
                "-c",
                spin,
            ])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start a spinning program: {e}"))?;
        let starved = Starved { spinner };
        starved.weigh()?;
        Ok(starved)
    }

    fn weigh(&self) -> Outcome {
        let pid = self.spinner.id().to_string();
        run(&["renice", "-n", "-20", "-p", &pid])?;
        // Absent where sessions are not grouped; then the nice value alone decides.
        let _ = std::fs::write(format!("/proc/{pid}/autogroup"), "-20");
        Ok(())
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        process::end(&mut self.spinner);
    }
}

fn run(words: &[&str]) -> Outcome {
    process::stdout_of(Command::new(words[0]).args(&words[1..]), LIMIT).map(drop)
}

fn wait_for_far_end(ancestor: u32) -> Result<u32, String> {
    let deadline = Instant::now() + APPEARS_WITHIN;
    while Instant::now() < deadline {
        if let Some(pid) = processes()
            .into_iter()
            .find(|&pid| is_far_end(pid, ancestor))
        {
            return Ok(pid);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("no `longhaul serve` appeared below `longhaul lab run`".to_owned())
}

fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn is_far_end(pid: u32, ancestor: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1) == Some("serve") && descends_from(pid, ancestor)
}

fn descends_from(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let Some(parent) = parent(pid) else {
            return false;
        };
        pid = parent;
    }
    false
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}
