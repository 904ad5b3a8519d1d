//! The kernel of the guests: given by `LONGHAUL_VT_KERNEL`, or built once from Debian's package of
//! the Linux sources and cached in the target folder.

use crate::program_runner::{self, find_program, show_and_run};
use crate::{TaskResult, checkout};
use lzma_rust2::XzReader;
use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Names a prebuilt kernel: an executable, or one compressed by xz.
pub const KERNEL_VARIABLE: &str = "LONGHAUL_VT_KERNEL";
const SHIM: &str = include_str!("preload.c");

/// A kernel and the library that it is started with.
#[derive(Debug, Clone)]
pub struct GuestKernel {
    pub executable: PathBuf,
    pub shim: PathBuf,
}

impl GuestKernel {
    /// Finds the given kernel or a previously built one.
    pub fn find() -> Result<GuestKernel, String> {
        // Tests of one program may ask at the same time.
        static PREPARING: Mutex<()> = Mutex::new(());
        let _guard = PREPARING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = cache_folder()?;
        let executable = match std::env::var_os(KERNEL_VARIABLE) {
            Some(file) => unpack_kernel(Path::new(&file), &folder)?,
            None => folder.join("linux"),
        };
        if !executable.is_file() {
            return Err(format!(
                "there is no kernel for virtual time: run `cargo xtask kernel` as root on Debian 12 \
                 (it builds one in about five CPU minutes), or name one with {KERNEL_VARIABLE}=FILE"
            ));
        }
        let shim = build_shim(&folder)?;
        Ok(GuestKernel { executable, shim })
    }
}

/// Finds a kernel, or builds one if possible.
pub fn ensure_kernel() -> TaskResult {
    if GuestKernel::find().is_ok() {
        return Ok(());
    }
    if find_program("apt-get").is_some() {
        let script = checkout::find_root().join("xtask/src/virtual_time/build-kernel.sh");
        show_and_run(Command::new(script).arg(cache_folder()?))?;
    }
    GuestKernel::find().map(drop)
}

/// Returns the cache folder for this kernel configuration.
fn cache_folder() -> Result<PathBuf, String> {
    let folder = program_runner::target_folder()?.join("virtual-time");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    Ok(folder)
}

/// Decompresses a given `.xz` file into the cache; any other file is used where it is.
fn unpack_kernel(given: &Path, folder: &Path) -> Result<PathBuf, String> {
    if given.extension().is_none_or(|it| it != "xz") {
        return Ok(given.to_owned());
    }
    let modified = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let unpacked = folder.join("linux-given");
    if modified(&unpacked).is_some_and(|it| Some(it) > modified(given)) {
        return Ok(unpacked);
    }
    let partial = folder.join(format!("linux-given.{}.partial", std::process::id()));
    let unpack = || -> io::Result<()> {
        let packed = BufReader::new(fs::File::open(given)?);
        io::copy(&mut XzReader::new(packed, true), &mut fs::File::create(&partial)?)?;
        fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
        fs::rename(&partial, &unpacked)
    };
    unpack().map_err(|e| format!("cannot unpack {KERNEL_VARIABLE}={}: {e}", given.display()))?;
    Ok(unpacked)
}

/// Compiles the library that is preloaded.
fn build_shim(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("preload.c"), folder.join("preload.so"));
    if fs::read_to_string(&source).is_ok_and(|text| text == SHIM) && library.is_file() {
        return Ok(library);
    }
    let partial = folder.join(format!("preload.{}.so", std::process::id()));
    fs::write(&source, SHIM).map_err(|e| format!("cannot write {}: {e}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    program_runner::capture_stdout(compiler.arg(&partial).arg(&source), Duration::from_secs(60))?;
    fs::rename(&partial, &library).map_err(|e| e.to_string())?;
    Ok(library)
}

/// The memory of a guest; the host allocates what is touched.
const MEMORY: &str = "mem=1500M";
/// The wall clock of a guest at its start, in nanoseconds: 2026-01-01. Linux seeds random numbers with it.
const START: &str = "time-travel-start=1767225600000000000";
const INIT: &str = include_str!("init.sh");

/// The exit status of a script, and its output.
#[derive(Debug)]
pub struct GuestOutcome {
    pub status: i32,
    pub output: String,
}

/// Runs a shell script as root in a guest whose files are kept below the target folder under this
/// name; `limit` is wall time. The name is the seed of the guest's random numbers: the same script
/// prints the same each time, in any checkout and however busy the machine is.
pub fn run_in_guest(name: &str, script: &str, limit: Duration) -> Result<GuestOutcome, String> {
    let kernel = GuestKernel::find()?;
    // The guest can write this folder, at `/run/share`.
    let share = program_runner::target_folder()?.join("virtual-time/runs").join(name);
    let _ = fs::remove_dir_all(&share);
    fs::create_dir_all(&share)
        .and_then(|()| fs::write(share.join("script"), script))
        .and_then(|()| fs::write(share.join("init"), INIT))
        .and_then(|()| fs::set_permissions(share.join("init"), fs::Permissions::from_mode(0o755)))
        .map_err(|e| format!("cannot write the scripts into {}: {e}", share.display()))?;
    let read = |name: &str| {
        String::from_utf8_lossy(&fs::read(share.join(name)).unwrap_or_default()).into_owned()
    };
    let mut command = guest_command(&kernel);
    command.current_dir(&share).env("GUEST_SEED", name);
    let console = program_runner::capture_output(&mut command, limit)
        .map_err(|e| format!("{e}; it printed: {}", read("output")))?;
    let output = read("output");
    let status = read("status").trim().parse().map_err(|_| {
        let console = console.stdout + &console.stderr;
        format!("the guest died: {console}\nthe script printed: {output}")
    })?;
    let _ = fs::remove_dir_all(&share);
    Ok(GuestOutcome { status, output })
}

fn guest_command(kernel: &GuestKernel) -> Command {
    // The kernel and its processes end with this program, however it ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(&kernel.executable);
    command.args(["time-travel=inf-cpu", START, MEMORY, "root=/dev/root"]);
    command.args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
    command.args(["con=null", "con0=null,fd:1"]);
    // Linux seeds random numbers with its command line too, so no path of this machine is in it.
    command.args(["init=/proc/self/cwd/init", "share=/proc/self/cwd"]);
    command.env("LD_PRELOAD", &kernel.shim).stdin(Stdio::null());
    command
}
