//! Who is compared with whom, and with which words each is started.
//!
//! A class is what happens to the payload at both ends; only like is compared with like. Peers run
//! with their defaults, which is what their users get.

use super::SECONDS;
use crate::process;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Both ends of longhaul know it, so that the anonymous limits do not apply.
const TOKEN: &str = "bench-of-this-machine";

/// What happens to the payload, and who does that.
pub struct Class {
    pub name: &'static str,
    pub contenders: Vec<Contender>,
}

#[derive(Debug, Clone)]
pub struct Contender {
    pub name: &'static str,
    tool: Tool,
    /// Options of the near end that make the class.
    options: &'static [&'static str],
    /// How long the far end takes until it listens.
    pub far_needs: Duration,
}

#[derive(Debug, Clone)]
enum Tool {
    Longhaul(String),
    Iperf3,
    Nuttcp,
}

/// The three classes; a peer that cannot do what a class asks is left out of it.
pub fn contenders(longhaul: &Path) -> Vec<Class> {
    let longhaul = Tool::Longhaul(longhaul.to_string_lossy().into_owned());
    let of = |name, tool: &Tool, options| Contender {
        name,
        tool: tool.clone(),
        options,
        far_needs: Duration::from_millis(300),
    };
    let mut wire = vec![of("longhaul --wire -Z", &longhaul, &["--wire", "-Z"])];
    if iperf3_can_skip() {
        let options = &["-Z", "--skip-rx-copy", "-l", "1M"];
        wire.push(of("iperf3 -Z --skip-rx-copy -l 1M", &Tool::Iperf3, options));
    }
    vec![
        Class {
            name: "C: both ends copy",
            contenders: vec![
                of("longhaul", &longhaul, &[]),
                of("iperf3", &Tool::Iperf3, &[]),
                of(
                    "iperf3 -A 0,0 -w 256K",
                    &Tool::Iperf3,
                    &["-A", "0,0", "-w", "256K"],
                ),
                of("nuttcp", &Tool::Nuttcp, &[]),
            ],
        },
        Class {
            name: "Z: the sender does not copy",
            contenders: vec![
                of("longhaul -Z", &longhaul, &["-Z"]),
                of("iperf3 -Z", &Tool::Iperf3, &["-Z"]),
            ],
        },
        Class {
            name: "D: the receiver discards in the kernel",
            contenders: wire,
        },
    ]
}

fn iperf3_can_skip() -> bool {
    let help = process::capture(Command::new("iperf3").arg("--help"), Duration::from_secs(5));
    help.is_ok_and(|help| help.stdout.contains("--skip-rx-copy"))
}

impl Contender {
    pub fn env(&self) -> Vec<(&'static str, &'static str)> {
        match self.tool {
            Tool::Longhaul(_) => vec![("LONGHAUL_TOKEN", TOKEN)],
            Tool::Iperf3 | Tool::Nuttcp => vec![],
        }
    }

    /// The words that start the far end.
    pub fn far(&self) -> Vec<String> {
        match &self.tool {
            Tool::Longhaul(program) => owned(&[program, "serve"]),
            Tool::Iperf3 => owned(&["iperf3", "-s", "-1"]),
            Tool::Nuttcp => owned(&["nuttcp", "-S", "--nofork"]),
        }
    }

    /// The words that start the near end.
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
            Tool::Iperf3 => owned(&[
                "iperf3", "-c", address, "-t", &seconds, "-P", &streams, "-i", "0",
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
