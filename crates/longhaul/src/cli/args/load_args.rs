//! Options of `longhaul load`. Options that `longhaul test` also has mean the same.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::load_command::load_plan::{self, RateList};
use crate::cli::tune_command::scan_plan::parse_picture_path;
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists::{self, StreamCounts};
use clap::Args;
use longhaul_probe::load_run;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul load far                RTT and loss under one stream
  longhaul load far -P 1,4,16 --plot load.svg
                                   three loads in one plot
  longhaul load far -b 20M,40M,max below, near and above the path's capacity
  longhaul load far --scavenger --competitor
                                   does a scavenger yield to other traffic?";

const DETAILS: &str = "\
RTT probes are sent every 10 ms before, during and after each load. Each load is
archived as a run of its own. A load is one number of streams at one rate; lists
give all combinations, one after another.

With --competitor, a plain stream in a session of its own runs during every
load, and alone before the first and after the last load. The share of its rate
that it keeps shows how much the load leaves to other traffic. With --scavenger,
every load runs twice: with a plain sender, and with a scavenger, which marks
its packets as lower effort (LE, RFC 8622) and keeps the queueing delay below a
quarter of the RTT (5 to 25 ms).

Exit codes are those of `longhaul --help`; 130 after Ctrl-C. The results so far
are then shown and archived.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct LoadArgs {
    /// Name or address of the server (`longhaul serve`)
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Reverse: the server sends the load
    #[arg(short = 'R', long, help_heading = "Load")]
    pub reverse: bool,
    /// Numbers of streams: a list such as 1,4,16, or ranges
    #[arg(
        short = 'P', long, value_name = "LIST", default_value = "1", value_parser = setting_lists::parse_stream_counts,
        help_heading = "Load",
    )]
    pub streams: StreamCounts,
    /// Total rates of a load: a list; max is unlimited
    #[arg(
        short = 'b', long, visible_alias = "bitrate", value_name = "LIST", default_value = "max",
        value_parser = load_plan::parse_rates, help_heading = "Load",
    )]
    pub rate: RateList,
    /// Duration of each load
    #[arg(
        short, long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_run_time,
        help_heading = "Load",
    )]
    pub time: u64,
    /// Idle time before the first load and after each load
    #[arg(
        long, value_name = "TIME", default_value = "3s", value_parser = value_parsers::accept_micros(load_plan::IDLE_US),
        help_heading = "Load",
    )]
    pub idle: u64,
    /// Repeat every load with a scavenger sender, which yields
    #[arg(long, help_heading = "Load")]
    pub scavenger: bool,
    /// Run a plain stream during every load, and alone for comparison
    #[arg(long, help_heading = "Load")]
    pub competitor: bool,
    /// Request this send and receive buffer size at both ends
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Load")]
    pub window: Option<u64>,
    /// Congestion control of the load's sender, such as cubic or bbr
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "Load",
    )]
    pub congestion_control: Option<String>,
    /// Time between RTT probes
    #[arg(
        long, value_name = "TIME", default_value = "10ms", value_parser = value_parsers::accept_micros(load_run::PROBE_INTERVAL_US),
        help_heading = "Load",
    )]
    pub probe_interval: u64,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Maximum time to connect
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Host",
    )]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub token: TokenArgs,

    /// Plot throughput, RTT and loss over time to an .svg or .png file; may be repeated
    #[arg(long, value_name = "FILE", value_parser = parse_picture_path, help_heading = "Output")]
    pub plot: Vec<PathBuf>,
    /// Write all probes as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}
