//! Runs a script in a guest.

use super::guest_kernel::{self, GuestKernel};
use crate::program_runner;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The memory of a guest; the host allocates what is touched.
const MEMORY: &str = "mem=1500M";

/// A guest, ready to run one script.
#[derive(Debug)]
pub struct VirtualTimeGuest {
    kernel: GuestKernel,
    /// The folder that the guest can write, at `/run/share`.
    share: PathBuf,
}

/// The exit status of a script, and its output.
#[derive(Debug)]
pub struct GuestOutcome {
    pub status: i32,
    pub output: String,
}

impl VirtualTimeGuest {
    /// Prepares a guest whose files are kept below the target folder under this name.
    pub fn new(name: &str) -> Result<VirtualTimeGuest, String> {
        let kernel = GuestKernel::find()?;
        let share = program_runner::target_folder()?.join("virtual-time/runs").join(name);
        let _ = fs::remove_dir_all(&share);
        fs::create_dir_all(&share).map_err(|e| format!("cannot make {}: {e}", share.display()))?;
        Ok(VirtualTimeGuest { kernel, share })
    }

    /// Runs a shell script as root in the guest; `limit` is wall time.
    pub fn run(self, script: &str, limit: Duration) -> Result<GuestOutcome, String> {
        let file = |name: &str| self.share.join(name);
        fs::write(file("script"), script).map_err(|e| format!("cannot write the script: {e}"))?;
        let console = program_runner::capture_output(&mut self.command(), limit)
            .map_err(|e| format!("{e}; it printed: {}", read_text(&file("output"))))?;
        let output = read_text(&file("output"));
        let status = read_text(&file("status"));
        let status = status.trim().parse().map_err(|_| {
            let console = console.stdout + &console.stderr;
            format!("the guest died: {console}\nthe script printed: {output}")
        })?;
        let _ = fs::remove_dir_all(&self.share);
        Ok(GuestOutcome { status, output })
    }

    fn command(&self) -> Command {
        // The kernel and its processes end with this program, however it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        command.arg(&self.kernel.executable);
        command.args(["time-travel=inf-cpu", MEMORY, "root=/dev/root"]);
        command.args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
        command.args(["con=null", "con0=null,fd:1"]);
        command.arg(format!("init={}", guest_kernel::find_init_script().display()));
        command.arg(format!("share={}", self.share.display()));
        command.env("LD_PRELOAD", &self.kernel.shim);
        command.stdin(Stdio::null());
        command
    }
}

fn read_text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
