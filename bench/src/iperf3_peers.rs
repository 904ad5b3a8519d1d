//! Other programs that speak iperf3's protocol, found or installed beside the build output.
//!
//! The machine has Debian's iperf3, see [`xtask::test_requirements`]. The others are packages of other
//! registries, each pinned to one version so that tables of two days can be compared.

mod debian_iperf3;

use std::path::PathBuf;
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

const IPERF3_RS: PeerPackage =
    PeerPackage { name: "iperf3-rs", version: "1.0.4", program: "iperf3-rs" };

/// The package's program has the name of its peer.
const RIPERF3: PeerPackage =
    PeerPackage { name: "riperf3-cli", version: "0.8.0", program: "riperf3" };

/// The program does not report it.
pub const UIPERF3_VERSION: &str = "0.1.2";

/// A single Python file; its package has no program of its own.
const UIPERF3: PeerPackage =
    PeerPackage { name: "uiperf3", version: UIPERF3_VERSION, program: "python" };

/// Returns the newest libiperf with iperf3's command line; with `install` it is installed if
/// necessary.
pub fn find_newest_iperf3(install: bool) -> Option<String> {
    report_if_missing(&IPERF3_RS, install, find_cargo_package(&IPERF3_RS, install))
}

/// Returns an implementation of the protocol in Rust that shares no code with iperf3; with `install`
/// it is installed if necessary.
pub fn find_riperf3(install: bool) -> Option<String> {
    report_if_missing(&RIPERF3, install, find_cargo_package(&RIPERF3, install))
}

/// Returns the command of a client and server in Python; with `install` it is installed if necessary.
pub fn find_uiperf3(install: bool) -> Option<Vec<String>> {
    let python = report_if_missing(&UIPERF3, install, find_pip_package(&UIPERF3, install))?;
    Some(vec![python, "-m".to_owned(), UIPERF3.name.to_owned()])
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
        installed.inspect_err(|why| eprintln!("{} is left out: {why}", release.name)).ok()
    };
    let found = debian_iperf3::RELEASES.iter();
    found.filter_map(|release| Some((release.name, words(release)?))).collect()
}

fn report_if_missing(
    package: &PeerPackage,
    install: bool,
    found: Result<PathBuf, String>,
) -> Option<String> {
    if let (true, Err(why)) = (install, &found) {
        eprintln!("{} is left out: {why}", package.name);
    }
    Some(found.ok()?.to_string_lossy().into_owned())
}

fn peers_folder() -> Result<PathBuf, String> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(program_runner::target_folder()?.join("peers")),
    }
}

fn find_cargo_package(package: &PeerPackage, install: bool) -> Result<PathBuf, String> {
    let root = peers_folder()?;
    let program = root.join("bin").join(package.program);
    if program.is_file() {
        return Ok(program);
    }
    require_installation(install)?;
    let mut cargo = program_runner::cargo_command();
    cargo.args(["install", "--quiet", "--locked", package.name]);
    cargo.args(["--version", &format!("={}", package.version), "--root"]);
    program_runner::show_and_run(cargo.arg(&root))?;
    Ok(program)
}

fn find_pip_package(package: &PeerPackage, install: bool) -> Result<PathBuf, String> {
    let root = peers_folder()?.join(package.name);
    let program = root.join("bin").join(package.program);
    let done = root.join(DONE_MARKER);
    if done.is_file() {
        return Ok(program);
    }
    require_installation(install)?;
    let wanted = format!("{}=={}", package.name, package.version);
    test_requirements::install_python_package(&root, &wanted)?;
    std::fs::write(&done, wanted).map_err(|e| format!("cannot write {}: {e}", done.display()))?;
    Ok(program)
}

fn require_installation(install: bool) -> Result<(), String> {
    install.then_some(()).ok_or_else(|| "it is not installed".to_owned())
}
