//! The peers of the matrix, and their command lines in each role.

use super::count_check::UncountedBlocks;
use super::option_rows::OptionRow;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::{checkout, program_runner};

const LONGHAUL: &str = "longhaul";
/// The version of Debian 12 and CI.
const DEBIAN_IPERF3: &str = "iperf3 3.12";
const NEWEST_IPERF3: &str = "iperf3 3.22";
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct PeerFile {
    peer: Vec<InteropPeer>,
}

fn read_peers() -> Result<Vec<InteropPeer>, String> {
    let file = toml::from_str(include_str!("../peers.toml"));
    file.map(|file: PeerFile| file.peer).map_err(|e| format!("bench/src/peers.toml: {e}"))
}

/// Returns the program of the newest libiperf.
pub fn find_newest_iperf3(longhaul: &Path) -> Result<PathBuf, String> {
    let peers = InteropPeer::list(longhaul, true)?;
    let newest = peers.into_iter().find(|peer| peer.name == NEWEST_IPERF3);
    newest.map(|peer| peer.program).ok_or_else(|| format!("{NEWEST_IPERF3} is needed"))
}

/// A program that speaks iperf3's protocol, as described in `peers.toml`.
#[derive(Debug, Clone, Deserialize)]
pub struct InteropPeer {
    /// The name in the table.
    pub name: String,
    /// The version that it reports.
    #[serde(skip)]
    pub version: String,
    /// The name of its program; absent for longhaul.
    #[serde(rename = "program")]
    program_name: Option<String>,
    /// The path of its program.
    #[serde(skip)]
    pub program: PathBuf,
    #[serde(default)]
    client_words: String,
    #[serde(default)]
    client_skips: Vec<Vec<String>>,
    /// The time between the end of counting and the message that ends the test.
    #[serde(default)]
    pub early_stop_ms: u64,
    #[serde(default)]
    pub uncounted: UncountedBlocks,
}

impl InteropPeer {
    /// Returns longhaul and every other available peer; with `install` it installs missing ones if
    /// possible.
    pub fn list(longhaul: &Path, install: bool) -> Result<Vec<InteropPeer>, String> {
        let folder = match std::env::var_os("LONGHAUL_PEERS") {
            Some(named) => Ok(PathBuf::from(named)),
            None => program_runner::target_folder().map(|folder| folder.join("peers")),
        };
        if install {
            let script = checkout::find_root().join("bench/install-peers.sh");
            program_runner::show_and_run(Command::new(script).arg(folder.clone()?))?;
        }
        let mut all = Vec::new();
        for mut peer in read_peers()? {
            let Some(program) = peer.find_program(longhaul, folder.as_deref().ok()) else {
                if peer.is_debian_iperf3() {
                    return Err(
                        "there is no iperf3 here; install it: apt-get install iperf3".into()
                    );
                }
                eprintln!("{} is left out: it is not installed", peer.name);
                continue;
            };
            peer.version = read_version(&program)?;
            peer.program = program;
            all.push(peer);
        }
        Ok(all)
    }

    fn find_program(&self, longhaul: &Path, folder: Option<&Path>) -> Option<PathBuf> {
        let Some(name) = &self.program_name else {
            return Some(longhaul.to_owned());
        };
        let installed = folder.map(|folder| folder.join(name)).filter(|file| file.is_file());
        installed.or_else(|| program_runner::find_program(name))
    }

    /// Reports whether this is Debian's iperf3, which every machine of the project has.
    pub fn is_debian_iperf3(&self) -> bool {
        self.name == DEBIAN_IPERF3
    }

    pub fn is_longhaul(&self) -> bool {
        self.name == LONGHAUL
    }

    /// Returns the command that starts a server on port 5201.
    pub fn server(&self) -> Vec<String> {
        self.command("-s")
    }

    fn command(&self, options: &str) -> Vec<String> {
        let subcommand = self.is_longhaul().then_some("iperf3");
        let words = subcommand.into_iter().chain(options.split_whitespace()).map(str::to_owned);
        std::iter::once(self.program.to_string_lossy().into_owned()).chain(words).collect()
    }

    /// Returns the command that starts a client with the options of `row`; `None` if it does not
    /// support one of them.
    pub fn client_command(&self, host: &str, row: OptionRow) -> Option<Vec<String>> {
        let is_skipped = row.has_all_of_any(&self.client_skips);
        (!is_skipped)
            .then(|| self.command(&format!("-c {host} {} -J {}", self.client_words, row.text)))
    }
}

fn read_version(program: &Path) -> Result<String, String> {
    let output = program_runner::capture_output(Command::new(program).arg("--version"), LIMIT)?;
    // The parentheses contain build options.
    let first = output.stdout.lines().next().unwrap_or_default();
    Ok(first.split(" (").next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_support_the_rows_that_their_descriptions_leave() {
        let peers = read_peers().expect("peers");
        let supports = |name: &str, text: &'static str| {
            let peer = peers.iter().find(|peer| peer.name == name).expect("a peer");
            peer.client_command("far", OptionRow { text }).is_some()
        };
        assert!(supports("iperf3 3.9", "-n 2M") && !supports("iperf3 3.9", "-n 2M -R"));
        assert!(supports("longhaul", "-t 2 -b 10M") && !supports("longhaul", "-t 2 -b 10M/10 -R"));
    }
}
