//! Options of `longhaul host`.

use super::{OutputArgs, TokenArgs};
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul host                    audit for the paths in the archive
  longhaul host --rtt 160ms --rate 10G
                                   audit for this path
  longhaul host --apply            also write safe, reversible settings
  longhaul host --apply --prove far.example.net
                                   keep only settings that improve test runs
  longhaul host --revert           restore all previous values";

const DETAILS: &str = "\
Settings are applied until the next boot; a journal keeps the previous values.
The report marks the settings that were written. It lists the others as commands
to paste, because they may disturb other users or cannot be reverted.

--prove runs tests before, after, after and before the changes, in each
direction that they affect. The changes of a direction are kept if they gain 3 %
beyond the scatter of the runs, or if they remove the window or buffer that was
the limit; otherwise they are reverted. All changes are reverted if the server
is lost or after Ctrl-C. If longhaul itself is killed, `longhaul host --revert`
restores the previous values.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct HostArgs {
    /// RTT of the path to audit for [default: the paths in the archive]
    #[arg(
        long, value_name = "TIME", value_parser = setting_lists::accept_round_trip(), requires = "rate",
        help_heading = "Path",
    )]
    pub rtt: Option<u64>,
    /// Rate of the path to audit for
    #[arg(
        long, value_name = "RATE", value_parser = value_parsers::parse_rate, requires = "rtt",
        help_heading = "Path",
    )]
    pub rate: Option<u64>,
    /// Interface to audit [default: the one towards the server, or of the default route]
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device, help_heading = "Path")]
    pub interface: Option<String>,

    /// Write safe, reversible settings
    #[arg(long, help_heading = "Changes")]
    pub apply: bool,
    /// Restore the values from before --apply
    #[arg(
        long, help_heading = "Changes",
        conflicts_with_all = ["apply", "rtt", "rate", "interface", "all"],
    )]
    pub revert: bool,
    /// With --apply: test against this server before and after, and keep what helps
    #[arg(
        long, value_name = "HOST", value_parser = value_parsers::parse_host, requires = "apply",
        help_heading = "Changes",
    )]
    pub prove: Option<String>,
    /// Journal of previous values [default: longhaul/host-journal.json in the XDG state folder]
    #[arg(
        long,
        value_name = "FILE",
        env = "LONGHAUL_JOURNAL",
        hide_env_values = true,
        help_heading = "Changes"
    )]
    pub journal: Option<PathBuf>,

    /// Port of the server
    #[arg(
        short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port,
        help_heading = "Test runs",
    )]
    pub port: u16,
    /// Duration of each run [default: 8 s, or 20 RTTs if longer]
    #[arg(
        short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, requires = "prove",
        help_heading = "Test runs",
    )]
    pub time: Option<u64>,
    /// Number of runs before and after the changes, in each direction
    #[arg(
        long, value_name = "N", default_value_t = 2, help_heading = "Test runs",
        value_parser = clap::value_parser!(u32).range(2..=20),
    )]
    pub pairs: u32,
    /// Maximum time to connect
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Test runs",
    )]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub token: TokenArgs,

    /// Show all rules, including those that passed
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
