//! The compared programs, and their command lines.
//!
//! A class is defined by the handling of the payload at both ends; programs are compared only
//! within a class. Peers run with their defaults, which is what their users get.

use super::SECONDS;
use crate::{peers, process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Shared by both ends of longhaul, so that the limits for anonymous clients do not apply.
const TOKEN: &str = "bench-of-this-machine";

/// A way of handling the payload, and the programs that support it.
pub struct Class {
    pub name: &'static str,
    pub contenders: Vec<Contender>,
}

#[derive(Debug, Clone)]
pub struct Contender {
    pub name: &'static str,
    tool: Tool,
    /// The near end's options that select the class.
    options: &'static [&'static str],
    /// The time that the far end takes until it listens.
    pub far_needs: Duration,
}

#[derive(Debug, Clone)]
enum Tool {
    Longhaul(String),
    /// The program: Debian's, or that of the newest libiperf.
    Iperf3(String),
    Nuttcp,
}

/// Returns the three classes; a peer that does not support a class is left out of it.
pub fn contenders(longhaul: &Path) -> Vec<Class> {
    let longhaul = Tool::Longhaul(longhaul.to_string_lossy().into_owned());
    let iperf3 = Tool::Iperf3("iperf3".to_owned());
    let newest = peers::newest_iperf3().map(Tool::Iperf3);
    let mut copy = vec![
        of("longhaul", &longhaul, &[]),
        of("iperf3", &iperf3, &[]),
        of(
            "iperf3 -A 0,0 -w 256K",
            &iperf3,
            &["-A", "0,0", "-w", "256K"],
        ),
        of("nuttcp", &Tool::Nuttcp, &[]),
    ];
    let mut zero_copy = vec![
        of("longhaul -Z", &longhaul, &["-Z"]),
        of("iperf3 -Z", &iperf3, &["-Z"]),
    ];
    let mut wire = vec![of("longhaul --wire -Z", &longhaul, &["--wire", "-Z"])];
    if let Some(newest) = &newest {
        copy.push(of("newest libiperf", newest, &[]));
        zero_copy.push(of("newest libiperf -Z", newest, &["-Z"]));
    }
    for iperf3 in newest
        .iter()
        .chain([&iperf3])
        .filter(|tool| can_skip(tool))
        .take(1)
    {
        let options = &["-Z", "--skip-rx-copy", "-l", "1M"];
        wire.push(of("libiperf -Z --skip-rx-copy -l 1M", iperf3, options));
    }
    vec![
        Class {
            name: "C: both ends copy",
            contenders: copy,
        },
        Class {
            name: "Z: the sender does not copy",
            contenders: zero_copy,
        },
        Class {
            name: "D: the receiver discards in the kernel",
            contenders: wire,
        },
    ]
}

fn of(name: &'static str, tool: &Tool, options: &'static [&'static str]) -> Contender {
    Contender {
        name,
        tool: tool.clone(),
        options,
        far_needs: Duration::from_millis(300),
    }
}

fn can_skip(tool: &Tool) -> bool {
    let Tool::Iperf3(program) = tool else {
        return false;
    };
    let help = process::capture(Command::new(program).arg("--help"), Duration::from_secs(5));
    help.is_ok_and(|help| help.stdout.contains("--skip-rx-copy"))
}

impl Contender {
    pub fn env(&self) -> Vec<(&'static str, &'static str)> {
        match self.tool {
            Tool::Longhaul(_) => vec![("LONGHAUL_TOKEN", TOKEN)],
            Tool::Iperf3(_) | Tool::Nuttcp => vec![],
        }
    }

    /// Returns the command that starts the far end.
    pub fn far(&self) -> Vec<String> {
        match &self.tool {
            Tool::Longhaul(program) => owned(&[program, "serve"]),
            Tool::Iperf3(program) => owned(&[program, "-s", "-1"]),
            Tool::Nuttcp => owned(&["nuttcp", "-S", "--nofork"]),
        }
    }

    /// Returns the command that starts the near end.
    pub fn near(&self, address: &str, streams: u32) -> Vec<String> {
        let (seconds, streams) = (SECONDS.to_string(), streams.to_string());
        let mut words = match &self.tool {
            Tool::Longhaul(program) => owned(&[
                program,
                "test",
                address,
                "-t",
                &seconds,
                "-P",
                &streams,
                "--no-save",
            ]),
            Tool::Iperf3(program) => owned(&[
                program, "-c", address, "-t", &seconds, "-P", &streams, "-i", "0",
            ]),
            Tool::Nuttcp => owned(&[
                "nuttcp",
                "-t",
                &format!("-T{seconds}"),
                &format!("-N{streams}"),
            ]),
        };
        words.extend(owned(self.options));
        if matches!(self.tool, Tool::Nuttcp) {
            words.push(address.to_owned());
        }
        words
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
