//! The pairs of clients and servers, and their command lines.

use crate::{peers, process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Shared by both ends of longhaul, so that the limits for anonymous clients do not apply.
pub const TOKEN: &str = "bench-of-this-machine";

/// An implementation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Debian's iperf3.
    Debian,
    /// The newest libiperf.
    Newest,
    Longhaul,
}

/// The client and its server.
pub type Pair = (Tool, Tool);

/// Every pair with an iperf3, longhaul last so that it has no turn of its own.
pub const PAIRS: [Pair; 8] = [
    (Tool::Debian, Tool::Debian),
    (Tool::Debian, Tool::Newest),
    (Tool::Debian, Tool::Longhaul),
    (Tool::Newest, Tool::Debian),
    (Tool::Newest, Tool::Newest),
    (Tool::Newest, Tool::Longhaul),
    (Tool::Longhaul, Tool::Debian),
    (Tool::Longhaul, Tool::Newest),
];

/// The load of a pair.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The options of every client.
    pub options: &'static [&'static str],
    /// The server sends.
    pub reverse: bool,
    /// The payload of each datagram of a UDP run.
    pub datagram_bytes: Option<u64>,
}

const DATAGRAM_BYTES: u64 = 1448;

const fn tcp(name: &'static str, options: &'static [&'static str], reverse: bool) -> Scenario {
    Scenario {
        name,
        options,
        reverse,
        datagram_bytes: None,
    }
}

pub const SCENARIOS: &[Scenario] = &[
    tcp("TCP", &[], false),
    tcp("TCP -P 4", &["-P", "4"], false),
    tcp("TCP -R", &["-R"], true),
    tcp("TCP -R -P 4", &["-R", "-P", "4"], true),
    tcp("TCP -Z", &["-Z"], false),
    tcp("TCP -R -Z", &["-R", "-Z"], true),
    Scenario {
        name: "UDP -b 1G",
        options: &["-u", "-b", "1G", "-l", "1448"],
        reverse: false,
        datagram_bytes: Some(DATAGRAM_BYTES),
    },
    Scenario {
        name: "UDP -R -b 1G",
        options: &["-u", "-b", "1G", "-l", "1448", "-R"],
        reverse: true,
        datagram_bytes: Some(DATAGRAM_BYTES),
    },
];

/// The paths of the programs, and the versions of the two iperf3s.
#[derive(Debug)]
pub struct Programs {
    longhaul: String,
    newest: String,
    debian_version: String,
    newest_version: String,
}

impl Programs {
    pub fn find(longhaul: &Path) -> Result<Self, String> {
        let newest = peers::newest_iperf3().ok_or("without the newest libiperf no gate is held")?;
        Ok(Programs {
            longhaul: longhaul.to_string_lossy().into_owned(),
            debian_version: version("iperf3")?,
            newest_version: version(&newest)?,
            newest,
        })
    }

    pub fn name(&self, tool: Tool) -> String {
        match tool {
            Tool::Debian => format!("iperf3 {}", self.debian_version),
            Tool::Newest => format!("libiperf {}", self.newest_version),
            Tool::Longhaul => "longhaul".to_owned(),
        }
    }

    fn program(&self, tool: Tool) -> &str {
        match tool {
            Tool::Debian => "iperf3",
            Tool::Newest => &self.newest,
            Tool::Longhaul => &self.longhaul,
        }
    }

    /// Returns the command that starts a server on `port`.
    pub fn server(&self, tool: Tool, port: &str) -> Vec<String> {
        let role = match tool {
            Tool::Debian | Tool::Newest => "-s",
            Tool::Longhaul => "serve",
        };
        owned(&[self.program(tool), role, "-p", port])
    }

    /// Returns the command that starts a client of `server`.
    pub fn client(&self, (client, server): Pair, address: &str, port: &str) -> Vec<String> {
        let program = self.program(client);
        let mut words = match client {
            Tool::Debian | Tool::Newest => owned(&[program, "-c", address]),
            Tool::Longhaul => owned(&[program, "test", address, "--no-save", "--quiet"]),
        };
        if client == Tool::Longhaul && server != Tool::Longhaul {
            words.push("--iperf3".to_owned());
        }
        words.extend(owned(&["-p", port]));
        words
    }
}

/// Returns the number in `iperf 3.12 (cJSON 1.7.15)`, or in `... [libiperf 3.22] ...`.
fn version(program: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let said = process::stdout_of(&mut command, Duration::from_secs(10))?;
    Ok(library_version(&said).unwrap_or_else(|| "of unknown version".to_owned()))
}

fn library_version(said: &str) -> Option<String> {
    let number = ["libiperf ", "iperf "]
        .iter()
        .find_map(|name| said.split_once(name))?
        .1;
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    Some(number[..end.unwrap_or(number.len())].to_owned())
}

pub fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::library_version;

    #[test]
    fn the_version_is_that_of_the_library() {
        let newest = "iperf3-rs 1.0.4 (git unknown; release) [libiperf 3.22] on x86_64";
        assert_eq!(library_version(newest).as_deref(), Some("3.22"));
        let debian = "iperf 3.12 (cJSON 1.7.15)\nLinux";
        assert_eq!(library_version(debian).as_deref(), Some("3.12"));
        assert_eq!(library_version("something else"), None);
    }
}
