//! The peers of the matrix, and their command lines in each role.

use super::count_check::UncountedBytes;
use super::option_rows::OptionRow;
use crate::iperf3_peers::PeerSource;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// The version of Debian 12 and CI.
const DEBIAN_IPERF3: &str = "iperf3 3.12";
const NEWEST_IPERF3: &str = "iperf3 3.22";
const LONGHAUL: &str = "longhaul";
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct PeerFile {
    peer: Vec<InteropPeer>,
}

impl PeerFile {
    fn read() -> Result<PeerFile, String> {
        let file = include_str!("../peers.toml");
        toml::from_str(file).map_err(|e| format!("bench/src/peers.toml: {e}"))
    }
}

/// Returns the newest libiperf with iperf3's command line, installed if necessary.
pub fn find_newest_iperf3() -> Option<String> {
    let found = PeerFile::read().and_then(|file| {
        let newest = file.peer.into_iter().find(|peer| peer.name == NEWEST_IPERF3);
        newest.and_then(|peer| peer.source).ok_or("it is not among the peers")?.find(true)
    });
    let found = found.inspect_err(|why| eprintln!("{NEWEST_IPERF3} is left out: {why}"));
    found.ok()?.into_iter().next()
}

/// A program that speaks iperf3's protocol, as described in `peers.toml`.
#[derive(Debug, Clone, Deserialize)]
pub struct InteropPeer {
    /// The name in the table.
    pub name: String,
    /// The version that it reports.
    #[serde(default)]
    pub version: String,
    /// Absent for longhaul.
    source: Option<PeerSource>,
    /// The words that start it.
    #[serde(skip)]
    words: Vec<String>,
    #[serde(default)]
    client_words: Vec<String>,
    #[serde(default)]
    client_skips: Vec<Vec<String>>,
    #[serde(default)]
    server_skips: Vec<Vec<String>>,
    /// Its options for each row that it supports, if these are not iperf3's.
    text_rows: Option<BTreeMap<String, Vec<String>>>,
    /// The time between the end of counting and the message that ends the test.
    #[serde(default)]
    early_stop_ms: u64,
    #[serde(default)]
    uncounted: UncountedUnits,
}

/// The bytes that a stream may transfer without counting them.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct UncountedUnits {
    sent: Option<UncountedUnit>,
    received: Option<UncountedUnit>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UncountedUnit {
    /// One write or read.
    Block,
    /// The capacity of a send buffer.
    Buffer,
}

/// The format in which a peer reports its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountFormat {
    Json,
    UiperfText,
}

impl InteropPeer {
    /// Returns longhaul and every other available peer; with `install` it installs missing ones if
    /// possible.
    pub fn list(longhaul: &Path, install: bool) -> Result<Vec<InteropPeer>, String> {
        let mut all = Vec::new();
        for mut peer in PeerFile::read()?.peer {
            let (words, role) = match &peer.source {
                None => (Ok(vec![longhaul.to_string_lossy().into_owned()]), Some("iperf3")),
                Some(source) => (source.find(install), None),
            };
            match words {
                Ok(words) => peer.words = words,
                Err(why) if peer.is_debian_iperf3() => return Err(why),
                Err(why) => {
                    if install {
                        eprintln!("{} is left out: {why}", peer.name);
                    }
                    continue;
                }
            }
            if peer.version.is_empty() {
                peer.version = read_version(&peer.words)?;
            }
            peer.words.extend(role.map(str::to_owned));
            all.push(peer);
        }
        Ok(all)
    }

    /// Reports whether this is Debian's iperf3, which every machine of the project has.
    pub fn is_debian_iperf3(&self) -> bool {
        self.name == DEBIAN_IPERF3
    }

    pub fn is_longhaul(&self) -> bool {
        self.name == LONGHAUL
    }

    pub fn count_format(&self) -> CountFormat {
        if self.text_rows.is_some() { CountFormat::UiperfText } else { CountFormat::Json }
    }

    /// Returns the command that starts a server on port 5201.
    pub fn server_command(&self) -> Vec<String> {
        append_words(&self.words, &["-s"])
    }

    /// Returns the command that starts a client with the options of `row`; `None` if it does not
    /// support one of them.
    pub fn client_command(&self, host: &str, row: OptionRow) -> Option<Vec<String>> {
        if let Some(rows) = &self.text_rows {
            let options = rows.get(row.text)?;
            return Some([append_words(&self.words, &["-c", host]), options.clone()].concat());
        }
        if row.has_all_of_any(&self.client_skips) {
            return None;
        }
        let mut words = append_words(&self.words, &["-c", host, "-J"]);
        words.extend(self.client_words.iter().cloned().chain(row.words().map(str::to_owned)));
        Some(words)
    }

    pub fn early_stop(&self) -> Duration {
        Duration::from_millis(self.early_stop_ms)
    }

    pub fn uncounted_bytes(&self, row: OptionRow, buffer_bytes: f64) -> UncountedBytes {
        let bytes = |unit: Option<UncountedUnit>| match unit.filter(|_| !row.is_udp()) {
            None => 0.0,
            Some(UncountedUnit::Block) => block_bytes(row),
            Some(UncountedUnit::Buffer) => buffer_bytes,
        };
        UncountedBytes {
            sent: bytes(self.uncounted.sent),
            received: bytes(self.uncounted.received),
        }
    }

    /// Reports whether the server supports the options of `row`.
    pub fn supports_row(&self, row: OptionRow) -> bool {
        !row.has_all_of_any(&self.server_skips)
    }
}

/// Returns the size of one write or read of a TCP row.
fn block_bytes(row: OptionRow) -> f64 {
    const USUAL: f64 = 131_072.0;
    let asked = row.value("-l").and_then(|text| text.strip_suffix('K'));
    let asked = asked.and_then(|text| text.parse::<f64>().ok());
    asked.map_or(USUAL, |kibibytes| 1024.0 * kibibytes)
}

fn append_words(words: &[String], more: &[&str]) -> Vec<String> {
    let more = more.iter().map(|&word| word.to_owned());
    words.iter().cloned().chain(more).collect()
}

fn read_version(words: &[String]) -> Result<String, String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--version");
    let said = program_runner::capture_output(&mut command, LIMIT)?;
    let first = said.stdout.lines().next().unwrap_or_default();
    // The parentheses contain build options.
    let first = first.split(" (").next().unwrap_or_default().trim();
    if first.is_empty() {
        let command = program_runner::format_command(&command);
        return Err(format!("`{command}` tells no version: {}", said.stderr.trim()));
    }
    Ok(first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_support_the_rows_that_their_descriptions_leave() {
        let file = PeerFile::read().expect("peers");
        let supports = |name: &str, text: &'static str| {
            let peer = file.peer.iter().find(|peer| peer.name == name).expect("a peer");
            peer.client_command("far", OptionRow { text }).is_some()
        };
        assert!(supports("iperf3 3.9", "-n 2M") && !supports("iperf3 3.9", "-n 2M -R"));
        assert!(supports("longhaul", "-t 2 -b 10M") && !supports("longhaul", "-t 2 -b 10M/10 -R"));
        assert!(supports("uiperf3", "-t 1 -R") && !supports("uiperf3", "-t 2 -P 3"));
    }
}
