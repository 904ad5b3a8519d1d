//! The peers of the matrix, and their command lines in each role.

use super::count_check::UncountedBytes;
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

/// Returns the folder of installed peers.
fn peers_folder() -> Result<PathBuf, String> {
    match std::env::var_os("LONGHAUL_PEERS") {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(program_runner::target_folder()?.join("peers")),
    }
}

fn install_peers() -> Result<(), String> {
    let script = checkout::find_root().join("bench/install-peers.sh");
    program_runner::show_and_run(Command::new(script).arg(peers_folder()?))
}

/// Returns Debian's iperf3, the newest one, and longhaul.
pub fn find_compared_tools(longhaul: &Path) -> Result<[InteropPeer; 3], String> {
    let peers = InteropPeer::list(longhaul, true)?;
    let find = |name: &str| {
        let peer = peers.iter().find(|peer| peer.name == name).cloned();
        peer.ok_or_else(|| format!("{name} is needed for the comparison"))
    };
    Ok([find(DEBIAN_IPERF3)?, find(NEWEST_IPERF3)?, find(LONGHAUL)?])
}

/// A program that speaks iperf3's protocol, as described in `peers.toml`.
#[derive(Debug, Clone, Deserialize)]
pub struct InteropPeer {
    /// The name in the table.
    pub name: String,
    /// The version that it reports.
    #[serde(default)]
    pub version: String,
    /// The name of its program; absent for longhaul.
    #[serde(rename = "program")]
    program_name: Option<String>,
    /// The words that start it.
    #[serde(skip)]
    words: Vec<String>,
    #[serde(default)]
    client_words: String,
    #[serde(default)]
    client_skips: Vec<Vec<String>>,
    /// The time between the end of counting and the message that ends the test.
    #[serde(default)]
    early_stop_ms: u64,
    #[serde(default)]
    uncounted: UncountedBlocks,
}

/// The roles in which a stream may leave one block uncounted.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct UncountedBlocks {
    sent: bool,
    received: bool,
}

impl InteropPeer {
    /// Returns longhaul and every other available peer; with `install` it installs missing ones if
    /// possible.
    pub fn list(longhaul: &Path, install: bool) -> Result<Vec<InteropPeer>, String> {
        if install {
            install_peers()?;
        }
        let mut all = Vec::new();
        for peer in read_peers()? {
            let name = peer.name.clone();
            match peer.find(longhaul) {
                Some(mut peer) => {
                    if peer.version.is_empty() {
                        peer.version = read_version(&peer.words[0])?;
                    }
                    all.push(peer);
                }
                None if name == DEBIAN_IPERF3 => {
                    return Err(
                        "there is no iperf3 here; install it: apt-get install iperf3".into()
                    );
                }
                None => eprintln!("{name} is left out: it is not installed"),
            }
        }
        Ok(all)
    }

    /// Finds its program.
    fn find(mut self, longhaul: &Path) -> Option<InteropPeer> {
        self.words = match &self.program_name {
            None => vec![longhaul.to_string_lossy().into_owned(), "iperf3".to_owned()],
            Some(name) => {
                let installed = peers_folder().ok().map(|folder| folder.join(name));
                let installed = installed.filter(|file| file.is_file());
                let file = installed.or_else(|| program_runner::find_program(name))?;
                vec![file.to_string_lossy().into_owned()]
            }
        };
        Some(self)
    }

    /// Returns a peer of which nothing but the name is known.
    #[cfg(test)]
    pub fn named(name: &str) -> InteropPeer {
        toml::from_str(&format!("name = \"{name}\"")).expect("a peer")
    }

    /// Reports whether this is Debian's iperf3, which every machine of the project has.
    pub fn is_debian_iperf3(&self) -> bool {
        self.name == DEBIAN_IPERF3
    }

    pub fn is_longhaul(&self) -> bool {
        self.name == LONGHAUL
    }

    /// Returns the path of its program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// Returns the command that starts a server on port 5201.
    pub fn server(&self) -> Vec<String> {
        self.command("-s")
    }

    /// Returns the command that starts a client with these options of iperf3.
    pub fn client(&self, host: &str, options: &str) -> Vec<String> {
        self.command(&format!("-c {host} {} {options}", self.client_words))
    }

    fn command(&self, options: &str) -> Vec<String> {
        self.words.iter().cloned().chain(options.split_whitespace().map(str::to_owned)).collect()
    }

    /// Returns the command that starts a client with the options of `row`; `None` if it does not
    /// support one of them.
    pub fn client_command(&self, host: &str, row: OptionRow) -> Option<Vec<String>> {
        let is_skipped = row.has_all_of_any(&self.client_skips);
        (!is_skipped).then(|| self.client(host, &format!("-J {}", row.text)))
    }

    pub fn early_stop(&self) -> Duration {
        Duration::from_millis(self.early_stop_ms)
    }

    pub fn uncounted_bytes(&self, row: OptionRow) -> UncountedBytes {
        let block = if row.is_udp() { 0.0 } else { row.block_bytes() };
        UncountedBytes {
            sent: if self.uncounted.sent { block } else { 0.0 },
            received: if self.uncounted.received { block } else { 0.0 },
        }
    }
}

fn read_version(program: &str) -> Result<String, String> {
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
