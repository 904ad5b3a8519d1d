//! Options of `longhaul watch`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul watch                    run the agent with the default watch file
  longhaul watch --check            check the file and show its cost
  longhaul watch --check watch.toml --agent dtn2
                                    check it as the agent of host dtn2";

const DETAILS: &str = "\
The agent measures until it is stopped, detects lasting changes and their
causes, sends notifications, and serves a web page at the address `listen`. It
logs one line per result and per event. Every run is a process of its own; a
run that fails does not affect the others.

SIGHUP reloads the file; an invalid file changes nothing. After SIGTERM or
Ctrl-C the agent starts no more runs and waits up to a minute for those in
progress; a second signal stops it immediately. Every planned run that did not
start is reported with the reason.

--check reports all errors at once, with line, key and correction. For a valid
file it prints a summary: the targets, runs and bytes per day, the busiest host,
interface or link, and the longest round. Bytes are the maximum that runs may
send at the declared rates (1 Gbit/s if none is declared). It checks only the
permissions of secret files.

docs/watch-file.md documents the file; contrib/watch.toml is an example.

Exit codes are those of `longhaul --help`; 2 if the file is invalid.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct WatchArgs {
    /// Check the file and show its cost, without measuring
    #[arg(long)]
    pub check: bool,
    /// Watch file [default: longhaul/watch.toml in the XDG configuration folder, else
    /// /etc/longhaul/watch.toml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name of this host in a file that several hosts share [default: the name of the agent in
    /// the file]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Print JSON; the agent prints one object per line
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}
