//! Other programs that speak iperf3's protocol, found or installed beside the build output.
//!
//! The machine has Debian's iperf3, see [`xtask::test_requirements`]. The others are packages of other
//! registries, each pinned to one version so that tables of two days can be compared.

mod debian_iperf3;

use std::path::{Path, PathBuf};
use xtask::{program_runner, test_requirements};

/// Names a folder in which the peers are or will be installed.
pub const FOLDER_VARIABLE: &str = "LONGHAUL_PEERS";

/// Written last, so that an interrupted installation is repeated.
const DONE_MARKER: &str = "installed";

/// A package of a registry, and the program in it.
#[derive(Debug)]
struct PeerPackage {
    name: &'static str,
    version: &'static str,
    program: &'static str,
}

const IPERF3_RS: PeerPackage = PeerPackage {
    name: "iperf3-rs",
    version: "1.0.4",
    program: "iperf3-rs",
};

/// The package's program has the name of its peer.
const RIPERF3: PeerPackage = PeerPackage {
    name: "riperf3-cli",
    version: "0.8.0",
    program: "riperf3",
};

/// The program does not report it.
pub const UIPERF3_VERSION: &str = "0.1.2";

/// A single Python file; its package has no program of its own.
const UIPERF3: PeerPackage = PeerPackage {
    name: "uiperf3",
    version: UIPERF3_VERSION,
    program: "python",
};

/// Returns the newest libiperf with iperf3's command line, installed if necessary.
pub fn ensure_newest_iperf3() -> Option<String> {
    report_if_missing(&IPERF3_RS, cargo_install(&IPERF3_RS))
}

/// Returns an implementation of the protocol in Rust that shares no code with iperf3, installed if
/// necessary.
pub fn ensure_riperf3() -> Option<String> {
    report_if_missing(&RIPERF3, cargo_install(&RIPERF3))
}

/// Returns the command of a client and server in Python, installed if necessary.
pub fn ensure_uiperf3() -> Option<Vec<String>> {
    let python = report_if_missing(&UIPERF3, pip_install(&UIPERF3))?;
    Some(vec![python, "-m".to_owned(), UIPERF3.name.to_owned()])
}

/// Finds a program without installing it.
pub fn find_installed(program: &str) -> Option<PathBuf> {
    let file = peers_folder().ok()?.join("bin").join(program);
    file.is_file().then_some(file)
}

/// Reports whether [`ensure_uiperf3`] is installed.
pub fn has_uiperf3() -> bool {
    peers_folder().is_ok_and(|folder| is_done(&folder.join(UIPERF3.name)))
}

/// Returns iperf3 of other Debian releases: a name and its command. With `install` it fetches
/// missing ones.
pub fn list_debian_iperf3s(install: bool) -> Vec<(&'static str, Vec<String>)> {
    let Ok(folder) = peers_folder() else {
        return Vec::new();
    };
    let words = |release: &debian_iperf3::DebianRelease| {
        if !install {
            return release.present(&folder);
        }
        let installed = release.install(&folder);
        installed
            .inspect_err(|why| eprintln!("{} is left out: {why}", release.name))
            .ok()
    };
    let found = debian_iperf3::RELEASES.iter();
    found
        .filter_map(|release| Some((release.name, words(release)?)))
        .collect()
}

fn report_if_missing(package: &PeerPackage, found: Result<PathBuf, String>) -> Option<String> {
    match found {
        Ok(program) => Some(program.to_string_lossy().into_owned()),
        Err(why) => {
            eprintln!("{} is left out: {why}", package.name);
            None
        }
    }
}

fn peers_folder() -> Result<PathBuf, String> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(program_runner::target_folder()?.join("peers")),
    }
}

fn cargo_install(package: &PeerPackage) -> Result<PathBuf, String> {
    let root = peers_folder()?;
    let program = root.join("bin").join(package.program);
    if !program.is_file() {
        let version = format!("={}", package.version);
        let mut install = program_runner::cargo_command();
        install
            .args(["install", "--quiet", "--locked", package.name])
            .args(["--version", &version, "--root"])
            .arg(&root);
        program_runner::show_and_run(&mut install)?;
    }
    Ok(program)
}

fn pip_install(package: &PeerPackage) -> Result<PathBuf, String> {
    let root = peers_folder()?.join(package.name);
    let program = root.join("bin").join(package.program);
    if is_done(&root) {
        return Ok(program);
    }
    let wanted = format!("{}=={}", package.name, package.version);
    test_requirements::install_python_package(&root, &wanted)?;
    let done = root.join(DONE_MARKER);
    std::fs::write(&done, wanted).map_err(|e| format!("cannot write {}: {e}", done.display()))?;
    Ok(program)
}

fn is_done(root: &Path) -> bool {
    root.join(DONE_MARKER).is_file()
}
