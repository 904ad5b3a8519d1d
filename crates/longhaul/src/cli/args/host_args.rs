//! Options of `longhaul host`.

use super::{ArchiveArgs, TokenArgs};
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul host                    judged for the paths in the archive
  longhaul host --rtt 160ms --rate 10G
                                   judged for this path
  longhaul host --apply            also writes what is safe and can be put back
  longhaul host --apply --prove far.example.net
                                   keeps only what runs before and after show to help
  longhaul host --revert           puts everything back, bit for bit";

const DETAILS: &str = "\
Settings are applied for now only: they do not outlive a boot, and the journal
holds what stood before. What is written is marked in the report; the rest are
commands to paste, for they disturb others or cannot be put back.

A proof runs before, after, after, before, each way that the changes bear on:
this host sends, or receives. It keeps a way's changes when they gain 3 % beyond
the scatter of the runs or take away the window or buffer that limited them, and
puts the others back; and all of them when the far end goes away or after
Ctrl-C. If longhaul itself is killed, `longhaul host --revert` heals.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct HostArgs {
    /// Round-trip time of the path to be ready for [default: those in the archive]
    #[arg(
        long, value_name = "TIME", value_parser = setting_lists::parse_round_trip, requires = "rate",
        help_heading = "Path",
    )]
    pub rtt: Option<u64>,
    /// Rate of the path to be ready for
    #[arg(
        long, value_name = "RATE", value_parser = value_parsers::parse_rate, requires = "rtt",
        help_heading = "Path",
    )]
    pub rate: Option<u64>,
    /// Interface to judge [default: the one towards the far end, or of the default route]
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device, help_heading = "Path")]
    pub interface: Option<String>,

    /// Write what is safe and can be put back
    #[arg(long, help_heading = "Changes")]
    pub apply: bool,
    /// Put back what --apply wrote
    #[arg(
        long, help_heading = "Changes",
        conflicts_with_all = ["apply", "rtt", "rate", "interface", "all"],
    )]
    pub revert: bool,
    /// With --apply: measure with this far end before and after, and keep what helps
    #[arg(
        long, value_name = "HOST", value_parser = value_parsers::parse_host, requires = "apply",
        help_heading = "Changes",
    )]
    pub prove: Option<String>,
    /// Journal of what stood before [default: longhaul/host-journal.json in the XDG state folder]
    #[arg(
        long,
        value_name = "FILE",
        env = "LONGHAUL_JOURNAL",
        hide_env_values = true,
        help_heading = "Changes"
    )]
    pub journal: Option<PathBuf>,

    /// Port of the far end
    #[arg(
        short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port,
        help_heading = "Proof",
    )]
    pub port: u16,
    /// Payload time of each run [default: 8 s, or 20 round trips]
    #[arg(
        short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, requires = "prove",
        help_heading = "Proof",
    )]
    pub time: Option<u64>,
    /// Runs before and runs after, in each direction
    #[arg(
        long, value_name = "N", default_value_t = 2, help_heading = "Proof",
        value_parser = clap::value_parser!(u32).range(2..=20),
    )]
    pub pairs: u32,
    /// Give up when no connection is made in this time
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Proof",
    )]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub token: TokenArgs,

    /// Tell of every rule, the good ones too
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    /// The report as JSON on stdout
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// No lines while a proof is going on
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Keep the report in the archive (the default)
    #[arg(long, help_heading = "Output", overrides_with = "no_save")]
    pub save: bool,
    /// Do not keep it
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
