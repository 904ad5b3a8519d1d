//! A path that stays up while a bench works at both of its ends.

use crate::process_tree;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xtask::program_runner;

/// A path that is taken down when dropped: its near command reads an input that ends then.
pub struct BenchLab {
    lab: Child,
    pub near: u32,
    pub far: u32,
}

impl BenchLab {
    /// Sets up the path of `file` and waits until both of its ends exist.
    pub fn set_up(longhaul: &Path, file: &Path) -> Result<Self, String> {
        let mut lab = Command::new(longhaul);
        lab.args(["lab", "run", "--dispersion"])
            .arg(file)
            .args(["--", "cat"]);
        lab.stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let lab = lab
            .spawn()
            .map_err(|e| format!("cannot start longhaul: {e}"))?;
        let mut standing = BenchLab {
            lab,
            near: 0,
            far: 0,
        };
        let wait = |asked: fn(&process_tree::DescendantProcess) -> bool| {
            process_tree::wait_for_descendant(standing.lab.id(), Duration::from_secs(20), asked)
                .map(|kin| kin.pid)
        };
        let is_near = |kin: &process_tree::DescendantProcess| {
            kin.words.first().is_some_and(|word| word.ends_with("cat"))
        };
        let (near, far) = (wait(is_near), wait(process_tree::is_far_end));
        (standing.near, standing.far) = near.zip(far).ok_or("the path did not come up")?;
        Ok(standing)
    }
}

impl Drop for BenchLab {
    fn drop(&mut self) {
        // The near command reads the end of its input and the lab takes the path down. A kill would
        // leave the path behind.
        drop(self.lab.stdin.take());
        if program_runner::wait_with_limit(&mut self.lab, Duration::from_secs(10)).is_err() {
            eprintln!("the lab did not end by itself");
        }
    }
}

/// Returns a command for this program in the namespaces of the host of `pid`.
pub fn command_inside(pid: u32) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new("nsenter");
    command
        .args(["--net", "--mount", "--target", &pid.to_string(), "--"])
        .arg(own);
    Ok(command)
}
