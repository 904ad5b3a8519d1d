//! Other people's programs that speak iperf3's wire, found or installed beside the build output.
//!
//! Debian's iperf3 comes with the machine, see [`crate::needs`]. The others are packages of other
//! registries, held to one version each so that tables of two days can be compared.

mod debian;

use crate::{needs, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a folder where the peers are installed already, or shall be.
pub const FOLDER_VARIABLE: &str = "LONGHAUL_PEERS";

/// Written last, so that an installation that broke off is made again.
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

/// The program of the package is called like its peer.
const RIPERF3: Package = Package {
    name: "riperf3-cli",
    version: "0.8.0",
    program: "riperf3",
};

/// Its program does not tell.
pub const UIPERF3_VERSION: &str = "0.1.2";

/// One Python file, started by Python; its package has no program of its own.
const UIPERF3: Package = Package {
    name: "uiperf3",
    version: UIPERF3_VERSION,
    program: "python",
};

/// The newest libiperf, with the command line of iperf3; installed when it is not there yet.
pub fn newest_iperf3() -> Option<String> {
    shown(&IPERF3_RS, cargo_installed(&IPERF3_RS))
}

/// An implementation of the wire in Rust that shares no code with iperf3; installed when it is not
/// there yet.
pub fn riperf3() -> Option<String> {
    shown(&RIPERF3, cargo_installed(&RIPERF3))
}

/// A client and server of the wire in Python, the words that start it; installed when it is not
/// there yet.
pub fn uiperf3() -> Option<Vec<String>> {
    let python = shown(&UIPERF3, pip_installed(&UIPERF3))?;
    Some(vec![python, "-m".to_owned(), UIPERF3.name.to_owned()])
}

/// A program that is there already; nothing is installed.
pub fn present(program: &str) -> Option<PathBuf> {
    let file = folder().ok()?.join("bin").join(program);
    file.is_file().then_some(file)
}

/// Whether [`uiperf3`] would install nothing.
pub fn has_uiperf3() -> bool {
    folder().is_ok_and(|folder| is_done(&folder.join(UIPERF3.name)))
}

/// iperf3 of other releases of Debian: a name, and the words that start it. With `install` what is
/// not there is fetched.
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
