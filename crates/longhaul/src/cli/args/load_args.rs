//! Options of `longhaul load`. Options that `longhaul test` also has mean the same.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::load_command::load_plan::{self, RateList};
use crate::cli::tune_command::scan_plan::parse_picture_path;
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists::{self, StreamCounts};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul load far                what one stream does to round trips and loss
  longhaul load far -P 1,4,16 --plot load.svg
                                   three loads, and one picture of them all
  longhaul load far -b 20M,40M,max below, near and above what the path carries
  longhaul load far --scavenger --competitor
                                   does a sender that yields spare others?";

const DETAILS: &str = "\
Probes of the round trip go every 10 ms before, during and after each load, and
each load is a run of its own in the archive. A load is one number of streams at
one rate; lists give all combinations, one after another.

With --competitor a plain stream of its own session runs beside every load, and
alone before the first and after the last one: the share of its rate that it
keeps is what the load leaves to others. With --scavenger every load runs twice,
once plain and once with a sender that yields: it marks its packets as lower
effort (RFC 8622) and holds the queue below a quarter of the round trip (5 to
25 ms).

Exit codes are those of `longhaul --help`; 130 after Ctrl-C. What was measured
is shown and kept.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct LoadArgs {
    /// Name or address of the far end, where `longhaul serve` runs
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// The far end sends the load
    #[arg(short = 'R', long, help_heading = "Load")]
    pub reverse: bool,
    /// Numbers of streams: lists and ranges such as 1,4,16
    #[arg(
        short = 'P', long, value_name = "LIST", default_value = "1", value_parser = setting_lists::parse_stream_counts,
        help_heading = "Load",
    )]
    pub streams: StreamCounts,
    /// Rates of a load, all its streams together; max is as fast as it goes
    #[arg(
        short = 'b', long, visible_alias = "bitrate", value_name = "LIST", default_value = "max",
        value_parser = load_plan::parse_rates, help_heading = "Load",
    )]
    pub rate: RateList,
    /// Payload time of each load
    #[arg(
        short, long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_run_time,
        help_heading = "Load",
    )]
    pub time: u64,
    /// Idle time before the first load and after each
    #[arg(
        long, value_name = "TIME", default_value = "3s", value_parser = load_plan::parse_idle_time,
        help_heading = "Load",
    )]
    pub idle: u64,
    /// Every load a second time, with a sender that yields
    #[arg(long, help_heading = "Load")]
    pub scavenger: bool,
    /// A plain stream beside every load, and alone for comparison
    #[arg(long, help_heading = "Load")]
    pub competitor: bool,
    /// Ask for this send and receive buffer at both ends
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Load")]
    pub window: Option<u64>,
    /// Congestion control of the load's sender, such as cubic or bbr
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "Load",
    )]
    pub congestion_control: Option<String>,
    /// From one probe to the next
    #[arg(
        long, value_name = "TIME", default_value = "10ms", value_parser = load_plan::parse_probe_interval,
        help_heading = "Load",
    )]
    pub probe_interval: u64,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Give up when no connection is made in this time
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Host",
    )]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub token: TokenArgs,

    /// Draw throughput, round trips and loss on one time axis, .svg or .png; may be repeated
    #[arg(long, value_name = "FILE", value_parser = parse_picture_path, help_heading = "Output")]
    pub plot: Vec<PathBuf>,
    /// Write every probe as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}
