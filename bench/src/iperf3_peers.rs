//! Other programs that speak iperf3's protocol, found or installed beside the build output.
//!
//! The machine has Debian's iperf3, see [`xtask::test_requirements`]. The others are packages of other
//! registries, each pinned to one version so that tables of two days can be compared.

mod debian_iperf3;

use debian_iperf3::DebianRelease;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use xtask::{program_runner, test_requirements};

/// Names a folder in which the peers are or will be installed.
pub const FOLDER_VARIABLE: &str = "LONGHAUL_PEERS";

/// Written last, so that an interrupted installation is repeated.
const DONE_MARKER: &str = "installed";

/// A package of a registry, and the program in it.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerPackage {
    package: String,
    version: String,
    program: String,
}

/// The origin of a peer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerSource {
    /// A program of this machine.
    System(String),
    Cargo(PeerPackage),
    /// A module of Python.
    Pip(PeerPackage),
    /// iperf3 of another release of Debian.
    Debian(DebianRelease),
}

impl PeerSource {
    /// Returns the command of the peer; with `install` it is installed if necessary.
    pub fn find(&self, install: bool) -> Result<Vec<String>, String> {
        let peers = peers_folder()?;
        match self {
            PeerSource::System(name) => {
                let program = program_runner::find_program(name).ok_or_else(|| {
                    format!("there is no {name} here; install it: apt-get install {name}")
                })?;
                Ok(vec![path_text(&program)])
            }
            PeerSource::Cargo(it) => Ok(vec![path_text(&find_cargo_package(it, &peers, install)?)]),
            PeerSource::Pip(it) => {
                let python = path_text(&find_pip_package(it, &peers, install)?);
                Ok(vec![python, "-m".to_owned(), it.package.clone()])
            }
            PeerSource::Debian(release) => match release.present(&peers) {
                Some(words) => Ok(words),
                None => require_installation(install).and_then(|()| release.install(&peers)),
            },
        }
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the folder of the installed peers.
pub fn peers_folder() -> Result<PathBuf, String> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(program_runner::target_folder()?.join("peers")),
    }
}

fn find_cargo_package(wanted: &PeerPackage, root: &Path, install: bool) -> Result<PathBuf, String> {
    let program = root.join("bin").join(&wanted.program);
    if program.is_file() {
        return Ok(program);
    }
    require_installation(install)?;
    let mut cargo = program_runner::cargo_command();
    cargo.args(["install", "--quiet", "--locked", &wanted.package]);
    cargo.args(["--version", &format!("={}", wanted.version), "--root"]);
    program_runner::show_and_run(cargo.arg(root))?;
    Ok(program)
}

fn find_pip_package(wanted: &PeerPackage, peers: &Path, install: bool) -> Result<PathBuf, String> {
    let root = peers.join(&wanted.package);
    let program = root.join("bin").join(&wanted.program);
    let done = root.join(DONE_MARKER);
    if done.is_file() {
        return Ok(program);
    }
    require_installation(install)?;
    let wanted = format!("{}=={}", wanted.package, wanted.version);
    test_requirements::install_python_package(&root, &wanted)?;
    std::fs::write(&done, wanted).map_err(|e| format!("cannot write {}: {e}", done.display()))?;
    Ok(program)
}

fn require_installation(install: bool) -> Result<(), String> {
    install.then_some(()).ok_or_else(|| "it is not installed".to_owned())
}
