//! The peers of the matrix, and their command lines in each role.

use super::count_check::UncountedBytes;
use super::option_rows::OptionRow;
use crate::iperf3_peers;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// The version of Debian 12 and CI.
const DEBIAN_IPERF3: &str = "iperf3 3.12";
const LONGHAUL: &str = "longhaul";
const LIMIT: Duration = Duration::from_secs(10);

/// A program that speaks iperf3's protocol.
#[derive(Debug, Clone)]
pub struct InteropPeer {
    /// The name in the table.
    pub name: String,
    /// The version that it reports.
    pub version: String,
    kind: PeerKind,
}

#[derive(Debug, Clone)]
enum PeerKind {
    /// iperf3's own options and JSON; the words that start it.
    Iperf3(Vec<String>),
    /// Four options, ten seconds, text.
    Uiperf3(Vec<String>),
}

/// The format in which a peer reports its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountFormat {
    Json,
    UiperfText,
}

impl InteropPeer {
    /// Debian's iperf3, which every machine of the project has.
    pub fn debian() -> Result<InteropPeer, String> {
        let program = program_runner::find_program("iperf3")
            .ok_or("there is no iperf3 here; install it: apt-get install iperf3")?;
        InteropPeer::iperf3(DEBIAN_IPERF3, vec![program.to_string_lossy().into_owned()])
    }

    /// Any program with iperf3's options.
    pub fn iperf3(name: &str, words: Vec<String>) -> Result<InteropPeer, String> {
        let version = read_version(&words)?;
        Ok(InteropPeer { name: name.to_owned(), version, kind: PeerKind::Iperf3(words) })
    }

    /// `longhaul iperf3`.
    pub fn longhaul(program: &Path) -> Result<InteropPeer, String> {
        let program = program.to_string_lossy().into_owned();
        Ok(InteropPeer {
            name: LONGHAUL.to_owned(),
            version: read_version(std::slice::from_ref(&program))?,
            kind: PeerKind::Iperf3(vec![program, "iperf3".to_owned()]),
        })
    }

    fn uiperf3(words: Vec<String>) -> InteropPeer {
        InteropPeer {
            name: "uiperf3".to_owned(),
            version: iperf3_peers::UIPERF3_VERSION.to_owned(),
            kind: PeerKind::Uiperf3(words),
        }
    }

    /// Returns every available foreign peer; with `install` it installs missing ones if possible.
    pub fn foreign(install: bool) -> Result<Vec<InteropPeer>, String> {
        let mut all = vec![InteropPeer::debian()?];
        for (name, words) in iperf3_peers::list_debian_iperf3s(install) {
            all.push(InteropPeer::iperf3(name, words)?);
        }
        let programs = [
            ("iperf3 3.22", iperf3_peers::find_newest_iperf3(install)),
            ("riperf3", iperf3_peers::find_riperf3(install)),
        ];
        for (name, program) in programs {
            if let Some(program) = program {
                all.push(InteropPeer::iperf3(name, vec![program])?);
            }
        }
        all.extend(iperf3_peers::find_uiperf3(install).map(InteropPeer::uiperf3));
        Ok(all)
    }

    /// Reports whether this is Debian's iperf3.
    pub fn is_debian_iperf3(&self) -> bool {
        self.name == DEBIAN_IPERF3
    }

    pub fn is_longhaul(&self) -> bool {
        self.name == LONGHAUL
    }

    pub fn count_format(&self) -> CountFormat {
        match self.kind {
            PeerKind::Uiperf3(_) => CountFormat::UiperfText,
            PeerKind::Iperf3(_) => CountFormat::Json,
        }
    }

    /// Returns the command that starts a server on port 5201.
    pub fn server_command(&self) -> Vec<String> {
        match &self.kind {
            PeerKind::Iperf3(words) | PeerKind::Uiperf3(words) => append_words(words, &["-s"]),
        }
    }

    /// Returns the command that starts a client with the options of `row`; `None` if it does not
    /// support one of them.
    pub fn client_command(&self, host: &str, row: OptionRow) -> Option<Vec<String>> {
        match &self.kind {
            // It never ends these, not even with its own server.
            PeerKind::Iperf3(_)
                if self.name == "iperf3 3.9" && is_limited_by_amount(row) && row.has("-R") =>
            {
                None
            }
            PeerKind::Iperf3(_) if self.is_longhaul() && !longhaul_supports(row) => None,
            PeerKind::Iperf3(words) => {
                let mut words = append_words(words, &["-c", host, "-J"]);
                if self.is_longhaul() {
                    words.extend(["--no-save", "--quiet"].map(str::to_owned));
                }
                words.extend(row.words().map(str::to_owned));
                Some(words)
            }
            PeerKind::Uiperf3(words) => {
                let options = list_uiperf3_options(row)?;
                let mut words = append_words(words, &["-c", host]);
                words.extend(options);
                Some(words)
            }
        }
    }

    /// Returns the time between the end of counting and the message that ends the test. The client
    /// of riperf3 0.8.0 ends its streams, sleeps 100 ms and then sends the message, according to
    /// its source.
    pub fn early_stop(&self) -> Duration {
        if self.name == "riperf3" { Duration::from_millis(100) } else { Duration::ZERO }
    }

    /// Returns the bytes that a stream may transfer without counting them. iperf3 counts whole
    /// blocks that it reads and writes, and drops the last, partial one; riperf3 does so for
    /// writes. uiperf3 keeps writing after the end, uncounted, until its socket is full.
    pub fn uncounted_bytes(&self, row: OptionRow, buffer_bytes: f64) -> UncountedBytes {
        let nothing = UncountedBytes::default();
        if row.is_udp() {
            return nothing;
        }
        let block = block_bytes(row);
        match self.kind {
            PeerKind::Uiperf3(_) => UncountedBytes { sent: buffer_bytes, ..nothing },
            _ if self.name == "riperf3" => UncountedBytes { sent: block, ..nothing },
            _ if self.name.starts_with("iperf3") => UncountedBytes { sent: block, received: block },
            PeerKind::Iperf3(_) => nothing,
        }
    }

    /// Reports whether the server supports the options of `row`.
    pub fn supports_row(&self, row: OptionRow) -> bool {
        // It supports one stream, one direction and IPv4, but not omitting. As a sender of
        // datagrams it writes no headers into them.
        let beyond = ["-P", "--bidir", "-6", "-O", "--udp-counters-64bit"];
        let is_small = !beyond.iter().any(|option| row.has(option));
        let sends_datagrams = row.is_udp() && row.is_reverse();
        !matches!(self.kind, PeerKind::Uiperf3(_)) || (is_small && !sends_datagrams)
    }
}

/// Returns the size of one write or read of a TCP row.
fn block_bytes(row: OptionRow) -> f64 {
    const USUAL: f64 = 131_072.0;
    let asked = row.value("-l").and_then(|text| text.strip_suffix('K'));
    let asked = asked.and_then(|text| text.parse::<f64>().ok());
    asked.map_or(USUAL, |kibibytes| 1024.0 * kibibytes)
}

fn is_limited_by_amount(row: OptionRow) -> bool {
    row.has("-n") || row.has("-k")
}

/// Reports whether `longhaul iperf3` supports the options of `row`.
fn longhaul_supports(row: OptionRow) -> bool {
    let beyond = [
        "-T",
        "--extra-data",
        "--get-server-output",
        "--repeating-payload",
        "--udp-counters-64bit",
    ];
    // It sends evenly, without bursts.
    !beyond.iter().any(|option| row.has(option)) && !row.text.contains("M/")
}

/// Returns the options of its four kinds of test; one row uses each of them.
fn list_uiperf3_options(row: OptionRow) -> Option<Vec<String>> {
    let words = match row.text {
        "-t 2" => "",
        "-t 2 -w 128K -R" | "-t 1 -R" => "-R",
        "-u -t 2 -b 10M" | "-u -t 1 -b 10M" => "-u",
        "-u -n 2M -b 20M -R" => "-u -R",
        _ => return None,
    };
    Some(words.split_whitespace().map(str::to_owned).collect())
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
        let why = said.stderr.trim();
        return Err(format!(
            "`{}` tells no version: {why}",
            program_runner::format_command(&command)
        ));
    }
    Ok(first.to_owned())
}
