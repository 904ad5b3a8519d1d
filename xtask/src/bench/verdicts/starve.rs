//! Starves a far end of CPU time.
//!
//! `longhaul serve` is bound to one core, and a spinning program in its own session, with the
//! highest weight, shares that core with it. The kernel weighs sessions against each other if it
//! groups them (autogroup), otherwise processes; both weights are set.

use crate::Outcome;
use crate::bench::kin;
use crate::process;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CORE: &str = "0";
/// The maximum time until the far end appears.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(5);

/// A spinning program that ends when dropped.
#[derive(Debug)]
pub struct Starved {
    spinner: Child,
}

impl Starved {
    /// Waits for the `serve` among the descendants of `ancestor`, and starves it.
    pub fn far_end_of(ancestor: u32) -> Result<Self, String> {
        let far = kin::wait_for(ancestor, APPEARS_WITHIN, kin::is_far_end)
            .ok_or("no `longhaul serve` appeared below `longhaul lab run`")?;
        let far = far.pid.to_string();
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
        // Absent if sessions are not grouped; then the nice value alone decides.
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
