//! Starves a far end of CPU time.
//!
//! `longhaul serve` is bound to one core, and a spinning program in its own session, with the
//! highest weight, shares that core with it. The kernel weighs sessions against each other if it
//! groups them (autogroup), otherwise processes; both weights are set.

use crate::process_tree;
use std::process::{Child, Command};
use std::time::Duration;
use xtask::program_runner;

const CORE: &str = "0";
/// The maximum time until the far end appears.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(5);
/// Without autogroup the nice value alone decides.
const SPIN: &str = "echo -20 2>/dev/null >/proc/$$/autogroup; while :; do :; done";

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
        let mut bind = Command::new("taskset");
        bind.args(["--all-tasks", "--cpu-list", "--pid", CORE, &far.pid.to_string()]);
        program_runner::capture_stdout(&mut bind, LIMIT)?;
        let mut spin = Command::new("setpriv");
        spin.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", CORE]);
        spin.args(["setsid", "nice", "-n", "-20", "sh", "-c", SPIN]);
        Ok(StarvedServer { spinner: program_runner::spawn_silent(&mut spin)? })
    }
}

impl Drop for StarvedServer {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.spinner);
    }
}
