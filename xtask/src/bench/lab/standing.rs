//! A path that stays up while a bench works at both of its ends.

use crate::bench::kin;
use crate::process;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A path that is taken down when dropped: its near command reads an input that ends then.
pub struct Standing {
    lab: Child,
    pub near: u32,
    pub far: u32,
}

impl Standing {
    /// Sets up the path of `file` and waits until both of its ends exist.
    pub fn lay(longhaul: &Path, file: &Path) -> Result<Self, String> {
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
        let mut standing = Standing {
            lab,
            near: 0,
            far: 0,
        };
        let wait = |asked: fn(&kin::Kin) -> bool| {
            kin::wait_for(standing.lab.id(), Duration::from_secs(20), asked).map(|kin| kin.pid)
        };
        let is_near = |kin: &kin::Kin| kin.words.first().is_some_and(|word| word.ends_with("cat"));
        let (near, far) = (wait(is_near), wait(kin::is_far_end));
        (standing.near, standing.far) = near.zip(far).ok_or("the path did not come up")?;
        Ok(standing)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // The near command reads the end of its input and the lab takes the path down. A kill would
        // leave the path behind.
        drop(self.lab.stdin.take());
        if process::wait(&mut self.lab, Duration::from_secs(10)).is_err() {
            eprintln!("the lab did not end by itself");
        }
    }
}

/// Returns a command for this program in the namespaces of the host of `pid`.
pub fn inside(pid: u32) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new("nsenter");
    command
        .args(["--net", "--mount", "--target", &pid.to_string(), "--"])
        .arg(own);
    Ok(command)
}
