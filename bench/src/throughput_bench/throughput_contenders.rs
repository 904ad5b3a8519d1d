//! The compared programs, and their command lines.
//!
//! A class is defined by the handling of the payload at both ends; programs are compared only
//! within a class. Peers run with their defaults, which is what their users get.

use super::SECONDS;
use crate::interop_bench::to_owned_words;
use crate::interop_matrix::interop_peer;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// Shared by both ends of longhaul, so that the limits for anonymous clients do not apply.
const TOKEN: &str = "bench-of-this-machine";

/// A way of handling the payload, and the programs that support it.
pub struct PayloadClass {
    pub name: &'static str,
    pub contenders: Vec<ThroughputContender>,
}

#[derive(Debug, Clone)]
pub struct ThroughputContender {
    pub name: &'static str,
    tool: ContenderTool,
    /// The near end's options that select the class.
    options: &'static [&'static str],
    /// The time that the far end takes until it listens.
    pub far_needs: Duration,
}

#[derive(Debug, Clone)]
enum ContenderTool {
    Longhaul(String),
    /// The program: Debian's, or that of the newest libiperf.
    Iperf3(String),
    Nuttcp,
}

/// Returns the three classes; a peer that does not support a class is left out of it.
pub fn list_classes(longhaul: &Path) -> Vec<PayloadClass> {
    let longhaul = ContenderTool::Longhaul(longhaul.to_string_lossy().into_owned());
    let iperf3 = ContenderTool::Iperf3("iperf3".to_owned());
    let newest = interop_peer::find_newest_iperf3().map(ContenderTool::Iperf3);
    let mut copy = vec![
        make_contender("longhaul", &longhaul, &[]),
        make_contender("iperf3", &iperf3, &[]),
        make_contender("iperf3 -A 0,0 -w 256K", &iperf3, &["-A", "0,0", "-w", "256K"]),
        make_contender("nuttcp", &ContenderTool::Nuttcp, &[]),
    ];
    let mut zero_copy = vec![
        make_contender("longhaul -Z", &longhaul, &["-Z"]),
        make_contender("iperf3 -Z", &iperf3, &["-Z"]),
    ];
    let mut wire = vec![make_contender("longhaul --wire -Z", &longhaul, &["--wire", "-Z"])];
    if let Some(newest) = &newest {
        copy.push(make_contender("newest libiperf", newest, &[]));
        zero_copy.push(make_contender("newest libiperf -Z", newest, &["-Z"]));
    }
    for iperf3 in newest.iter().chain([&iperf3]).filter(|tool| can_skip(tool)).take(1) {
        let options = &["-Z", "--skip-rx-copy", "-l", "1M"];
        wire.push(make_contender("libiperf -Z --skip-rx-copy -l 1M", iperf3, options));
    }
    vec![
        PayloadClass { name: "C: both ends copy", contenders: copy },
        PayloadClass { name: "Z: the sender does not copy", contenders: zero_copy },
        PayloadClass { name: "D: the receiver discards in the kernel", contenders: wire },
    ]
}

fn make_contender(
    name: &'static str,
    tool: &ContenderTool,
    options: &'static [&'static str],
) -> ThroughputContender {
    ThroughputContender { name, tool: tool.clone(), options, far_needs: Duration::from_millis(300) }
}

fn can_skip(tool: &ContenderTool) -> bool {
    let ContenderTool::Iperf3(program) = tool else {
        return false;
    };
    let help =
        program_runner::capture_output(Command::new(program).arg("--help"), Duration::from_secs(5));
    help.is_ok_and(|help| help.stdout.contains("--skip-rx-copy"))
}

impl ThroughputContender {
    pub fn env(&self) -> Vec<(&'static str, &'static str)> {
        match self.tool {
            ContenderTool::Longhaul(_) => vec![("LONGHAUL_TOKEN", TOKEN)],
            ContenderTool::Iperf3(_) | ContenderTool::Nuttcp => vec![],
        }
    }

    /// Returns the command that starts the far end.
    pub fn far(&self) -> Vec<String> {
        match &self.tool {
            ContenderTool::Longhaul(program) => to_owned_words(&[program, "serve"]),
            ContenderTool::Iperf3(program) => to_owned_words(&[program, "-s", "-1"]),
            ContenderTool::Nuttcp => to_owned_words(&["nuttcp", "-S", "--nofork"]),
        }
    }

    /// Returns the command that starts the near end.
    pub fn near(&self, address: &str, streams: u32) -> Vec<String> {
        let options = self.options.join(" ");
        let (program, words) = match &self.tool {
            ContenderTool::Longhaul(program) => (
                program.as_str(),
                format!("test {address} -t {SECONDS} -P {streams} --no-save {options}"),
            ),
            ContenderTool::Iperf3(program) => {
                (program.as_str(), format!("-c {address} -t {SECONDS} -P {streams} -i 0 {options}"))
            }
            ContenderTool::Nuttcp => {
                ("nuttcp", format!("-t -T{SECONDS} -N{streams} {options} {address}"))
            }
        };
        let words = std::iter::once(program).chain(words.split_whitespace());
        words.map(str::to_owned).collect()
    }
}
