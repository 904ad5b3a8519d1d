//! Starves a far end of CPU time.
//!
//! `longhaul serve` is bound to one core, and a spinning program in its own session, with the
//! highest weight, shares that core with it. The kernel weighs sessions against each other if it
//! groups them (autogroup), otherwise processes; both weights are set.

use crate::process_tree;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xtask::TaskResult;
use xtask::program_runner;

const CORE: &str = "0";
/// The maximum time until the far end appears.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(5);

/// A spinning program that ends when dropped.
#[derive(Debug)]
pub struct StarvedServer {
    spinner: Child,
}

impl StarvedServer {
    /// Waits for the `serve` among the descendants of `ancestor`, and starves it.
    pub fn far_end_of(ancestor: u32) -> Result<Self, String> {
        let far =
            process_tree::wait_for_descendant(ancestor, APPEARS_WITHIN, process_tree::is_far_end)
                .ok_or("no `longhaul serve` appeared below `longhaul lab run`")?;
        let far = far.pid.to_string();
        run_command(&["taskset", "--all-tasks", "--cpu-list", "--pid", CORE, &far])?;
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
        let starved = StarvedServer { spinner };
        starved.set_weights()?;
        Ok(starved)
    }

    fn set_weights(&self) -> TaskResult {
        let pid = self.spinner.id().to_string();
        run_command(&["renice", "-n", "-20", "-p", &pid])?;
        // Absent if sessions are not grouped; then the nice value alone decides.
        let _ = std::fs::write(format!("/proc/{pid}/autogroup"), "-20");
        Ok(())
    }
}

impl Drop for StarvedServer {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.spinner);
    }
}

fn run_command(words: &[&str]) -> TaskResult {
    program_runner::capture_stdout(Command::new(words[0]).args(&words[1..]), LIMIT).map(drop)
}
