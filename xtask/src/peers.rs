//! Other programs that speak iperf3's protocol, found or installed beside the build output.
//!
//! The machine has Debian's iperf3, see [`crate::needs`]. The others are packages of other
//! registries, each pinned to one version so that tables of two days can be compared.

mod debian;

use crate::{needs, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a folder in which the peers are or will be installed.
pub const FOLDER_VARIABLE: &str = "LONGHAUL_PEERS";

/// Written last, so that an interrupted installation is repeated.
const DONE: &str = "installed";

/// A package of a registry, and the program in it.
#[derive(Debug)]
struct Package {
    name: &'static str,
    version: &'static str,
    program: &'static str,
}

const IPERF3_RS: Package = Package {
    name: "iperf3-rs",
    version: "1.0.4",
    program: "iperf3-rs",
};

/// The package's program has the name of its peer.
const RIPERF3: Package = Package {
    name: "riperf3-cli",
    version: "0.8.0",
    program: "riperf3",
};

/// The program does not report it.
pub const UIPERF3_VERSION: &str = "0.1.2";

/// A single Python file; its package has no program of its own.
const UIPERF3: Package = Package {
    name: "uiperf3",
    version: UIPERF3_VERSION,
    program: "python",
};

/// Returns the newest libiperf with iperf3's command line, installed if necessary.
pub fn newest_iperf3() -> Option<String> {
    shown(&IPERF3_RS, cargo_installed(&IPERF3_RS))
}

/// Returns an implementation of the protocol in Rust that shares no code with iperf3, installed if
/// necessary.
pub fn riperf3() -> Option<String> {
    shown(&RIPERF3, cargo_installed(&RIPERF3))
}

/// Returns the command of a client and server in Python, installed if necessary.
pub fn uiperf3() -> Option<Vec<String>> {
    let python = shown(&UIPERF3, pip_installed(&UIPERF3))?;
    Some(vec![python, "-m".to_owned(), UIPERF3.name.to_owned()])
}

/// Finds a program without installing it.
pub fn present(program: &str) -> Option<PathBuf> {
    let file = folder().ok()?.join("bin").join(program);
    file.is_file().then_some(file)
}

/// Reports whether [`uiperf3`] is installed.
pub fn has_uiperf3() -> bool {
    folder().is_ok_and(|folder| is_done(&folder.join(UIPERF3.name)))
}

/// Returns iperf3 of other Debian releases: a name and its command. With `install` it fetches
/// missing ones.
pub fn other_iperf3s(install: bool) -> Vec<(&'static str, Vec<String>)> {
    let Ok(folder) = folder() else {
        return Vec::new();
    };
    let words = |release: &debian::Release| {
        if !install {
            return release.present(&folder);
        }
        let installed = release.install(&folder);
        installed
            .inspect_err(|why| eprintln!("{} is left out: {why}", release.name))
            .ok()
    };
    let found = debian::RELEASES.iter();
    found
        .filter_map(|release| Some((release.name, words(release)?)))
        .collect()
}

fn shown(package: &Package, found: Result<PathBuf, String>) -> Option<String> {
    match found {
        Ok(program) => Some(program.to_string_lossy().into_owned()),
        Err(why) => {
            eprintln!("{} is left out: {why}", package.name);
            None
        }
    }
}

fn folder() -> Result<PathBuf, String> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(process::target_folder()?.join("peers")),
    }
}

fn cargo_installed(package: &Package) -> Result<PathBuf, String> {
    let root = folder()?;
    let program = root.join("bin").join(package.program);
    if !program.is_file() {
        let version = format!("={}", package.version);
        let mut install = process::cargo();
        install
            .args(["install", "--quiet", "--locked", package.name])
            .args(["--version", &version, "--root"])
            .arg(&root);
        process::show_and_run(&mut install)?;
    }
    Ok(program)
}

fn pip_installed(package: &Package) -> Result<PathBuf, String> {
    let root = folder()?.join(package.name);
    let program = root.join("bin").join(package.program);
    if is_done(&root) {
        return Ok(program);
    }
    let wanted = format!("{}=={}", package.name, package.version);
    needs::venv()?;
    let mut venv = Command::new("python3");
    process::show_and_run(venv.args(["-m", "venv"]).arg(&root))?;
    let mut pip = Command::new(root.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", &wanted]);
    process::show_and_run(&mut pip)?;
    let done = root.join(DONE);
    std::fs::write(&done, wanted).map_err(|e| format!("cannot write {}: {e}", done.display()))?;
    Ok(program)
}

fn is_done(root: &Path) -> bool {
    root.join(DONE).is_file()
}
