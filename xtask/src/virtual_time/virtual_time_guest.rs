//! Runs a script in a guest.

use super::guest_kernel::GuestKernel;
use crate::{checkout, program_runner};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The memory of a guest; the host allocates what is touched.
const MEMORY: &str = "mem=1500M";

/// The exit status of a script, and its output.
#[derive(Debug)]
pub struct GuestOutcome {
    pub status: i32,
    pub output: String,
}

/// Runs a shell script as root in a guest whose files are kept below the target folder under this
/// name; `limit` is wall time.
pub fn run_in_guest(name: &str, script: &str, limit: Duration) -> Result<GuestOutcome, String> {
    let kernel = GuestKernel::find()?;
    // The guest can write this folder, at `/run/share`.
    let share = program_runner::target_folder()?.join("virtual-time/runs").join(name);
    let _ = fs::remove_dir_all(&share);
    fs::create_dir_all(&share)
        .and_then(|()| fs::write(share.join("script"), script))
        .map_err(|e| format!("cannot write the script into {}: {e}", share.display()))?;
    let read = |name: &str| {
        String::from_utf8_lossy(&fs::read(share.join(name)).unwrap_or_default()).into_owned()
    };
    let console = program_runner::capture_output(&mut guest_command(&kernel, &share), limit)
        .map_err(|e| format!("{e}; it printed: {}", read("output")))?;
    let output = read("output");
    let status = read("status").trim().parse().map_err(|_| {
        let console = console.stdout + &console.stderr;
        format!("the guest died: {console}\nthe script printed: {output}")
    })?;
    let _ = fs::remove_dir_all(&share);
    Ok(GuestOutcome { status, output })
}

fn guest_command(kernel: &GuestKernel, share: &Path) -> Command {
    // The kernel and its processes end with this program, however it ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(&kernel.executable);
    command.args(["time-travel=inf-cpu", MEMORY, "root=/dev/root"]);
    command.args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
    command.args(["con=null", "con0=null,fd:1"]);
    let init = checkout::find_root().join("xtask/src/virtual_time/init.sh");
    command.arg(format!("init={}", init.display()));
    command.arg(format!("share={}", share.display()));
    command.env("LD_PRELOAD", &kernel.shim).stdin(Stdio::null());
    command
}
