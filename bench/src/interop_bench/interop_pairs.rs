//! The pairs of clients and servers, and their command lines.

use crate::interop_matrix::interop_peer;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// An implementation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteropTool {
    /// Debian's iperf3.
    Debian,
    /// The newest libiperf.
    Newest,
    Longhaul,
}

/// The client and its server.
pub type ToolPair = (InteropTool, InteropTool);

/// Every pair with an iperf3, longhaul last so that it has no turn of its own.
pub const PAIRS: [ToolPair; 8] = [
    (InteropTool::Debian, InteropTool::Debian),
    (InteropTool::Debian, InteropTool::Newest),
    (InteropTool::Debian, InteropTool::Longhaul),
    (InteropTool::Newest, InteropTool::Debian),
    (InteropTool::Newest, InteropTool::Newest),
    (InteropTool::Newest, InteropTool::Longhaul),
    (InteropTool::Longhaul, InteropTool::Debian),
    (InteropTool::Longhaul, InteropTool::Newest),
];

/// The load of a pair.
#[derive(Debug, Deserialize)]
pub struct LoadScenario {
    pub name: String,
    /// The options of every client.
    pub options: Vec<String>,
    /// The server sends.
    #[serde(default)]
    pub reverse: bool,
    /// The payload of each datagram of a UDP run.
    pub datagram_bytes: Option<u64>,
}

/// The paths of the programs, and the versions of the two iperf3s.
#[derive(Debug)]
pub struct InteropPrograms {
    longhaul: String,
    newest: String,
    debian_version: String,
    newest_version: String,
}

impl InteropPrograms {
    pub fn find(longhaul: &Path) -> Result<Self, String> {
        let newest = interop_peer::find_newest_iperf3()
            .ok_or("without the newest libiperf no gate is held")?;
        Ok(InteropPrograms {
            longhaul: longhaul.to_string_lossy().into_owned(),
            debian_version: read_version("iperf3")?,
            newest_version: read_version(&newest)?,
            newest,
        })
    }

    pub fn name(&self, tool: InteropTool) -> String {
        match tool {
            InteropTool::Debian => format!("iperf3 {}", self.debian_version),
            InteropTool::Newest => format!("libiperf {}", self.newest_version),
            InteropTool::Longhaul => "longhaul".to_owned(),
        }
    }

    fn program(&self, tool: InteropTool) -> &str {
        match tool {
            InteropTool::Debian => "iperf3",
            InteropTool::Newest => &self.newest,
            InteropTool::Longhaul => &self.longhaul,
        }
    }

    /// Returns the command that starts a server on `port`.
    pub fn server(&self, tool: InteropTool, port: u16) -> Vec<String> {
        let role = match tool {
            InteropTool::Debian | InteropTool::Newest => "-s",
            InteropTool::Longhaul => "serve",
        };
        to_owned_words(&[self.program(tool), role, "-p", &port.to_string()])
    }

    /// Returns the command that starts a client of `server`.
    pub fn client(&self, (client, server): ToolPair, address: &str, port: u16) -> Vec<String> {
        let program = self.program(client);
        let mut words = match client {
            InteropTool::Debian | InteropTool::Newest => to_owned_words(&[program, "-c", address]),
            InteropTool::Longhaul => {
                to_owned_words(&[program, "test", address, "--no-save", "--quiet"])
            }
        };
        if client == InteropTool::Longhaul && server != InteropTool::Longhaul {
            words.push("--iperf3".to_owned());
        }
        words.extend(to_owned_words(&["-p", &port.to_string()]));
        words
    }
}

/// Returns the number in `iperf 3.12 (cJSON 1.7.15)`, or in `... [libiperf 3.22] ...`.
fn read_version(program: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let said = program_runner::capture_stdout(&mut command, Duration::from_secs(10))?;
    Ok(parse_library_version(&said).unwrap_or_else(|| "of unknown version".to_owned()))
}

fn parse_library_version(said: &str) -> Option<String> {
    let number = ["libiperf ", "iperf "].iter().find_map(|name| said.split_once(name))?.1;
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    Some(number[..end.unwrap_or(number.len())].to_owned())
}

pub fn to_owned_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_library_version;

    #[test]
    fn the_version_is_that_of_the_library() {
        let newest = "iperf3-rs 1.0.4 (git unknown; release) [libiperf 3.22] on x86_64";
        assert_eq!(parse_library_version(newest).as_deref(), Some("3.22"));
        let debian = "iperf 3.12 (cJSON 1.7.15)\nLinux";
        assert_eq!(parse_library_version(debian).as_deref(), Some("3.12"));
        assert_eq!(parse_library_version("something else"), None);
    }
}
