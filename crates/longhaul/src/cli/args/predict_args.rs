//! Options of `longhaul predict`.

use super::OutputArgs;
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists::{
    self, LossRatios, SizeList, StreamCounts, WindowList,
};
use clap::Args;
use longhaul_probe::plan_limits;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Idle RTT of the path
    #[arg(long, value_name = "TIME", value_parser = setting_lists::accept_round_trip(),
        required_unless_present = "scan", help_heading = "Path")]
    pub rtt: Option<u64>,
    /// IP rate of the narrow link
    #[arg(short = 'b', long, value_name = "RATE", value_parser = value_parsers::parse_rate,
        required_unless_present = "scan", help_heading = "Path")]
    pub rate: Option<u64>,
    /// Queue sizes of the narrow link [default: one BDP]
    #[arg(long, value_name = "SIZES", value_parser = setting_lists::parse_queue_sizes, help_heading = "Path")]
    pub buffer: Option<SizeList>,
    /// Probabilities of random segment loss [default: 0]
    #[arg(long, value_name = "RATIOS", value_parser = setting_lists::parse_loss_ratios, help_heading = "Path")]
    pub loss: Option<LossRatios>,
    /// Payload bytes per segment [default: 1448]
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = value_parsers::accept_count::<u32>(plan_limits::MSS_BYTES), help_heading = "Path")]
    pub mss: Option<u32>,
    /// Use path, hosts and settings of this scan, and compare with it: a scan id, its first
    /// letters, or `last`. Other options override the values of the scan
    #[arg(long, value_name = "ID", help_heading = "Path")]
    pub scan: Option<String>,
    /// Use the reverse direction of the scan
    #[arg(short = 'R', long, requires = "scan", help_heading = "Path")]
    pub reverse: bool,
    /// Windows: sizes, ranges that double (64K-64M) or step (1M-4M/1M), auto
    /// [default: auto,64K-64M]
    #[arg(short = 'w', long, value_name = "SIZES", value_parser = setting_lists::parse_windows,
        help_heading = "Settings")]
    pub windows: Option<WindowList>,
    /// Streams: numbers, ranges that double (1-32) or step (4-32/4) [default: 1-32]
    #[arg(short = 'P', long, value_name = "NUMBERS", value_parser = setting_lists::parse_stream_counts,
        help_heading = "Settings")]
    pub streams: Option<StreamCounts>,
    /// Congestion controls: reno, cubic, bbr [default: cubic]
    #[arg(short = 'C', long = "congestion", value_name = "NAMES", value_delimiter = ',',
        value_parser = ["reno", "cubic", "bbr"], hide_possible_values = true, help_heading = "Settings")]
    pub congestion: Vec<String>,
    /// Duration of the transfer, including its ramp [default: 30s, or the scan's]
    #[arg(short = 't', long, value_name = "TIME", value_parser = value_parsers::parse_run_time,
        help_heading = "Settings")]
    pub time: Option<u64>,
    /// Maximum window of an autotuned stream: half of tcp_rmem max
    /// [default: 3 MiB, or the scan's]
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Hosts")]
    pub auto_window: Option<u64>,
    /// Maximum window that the kernels grant on request (rmem_max and wmem_max)
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Hosts")]
    pub granted: Option<u64>,
    /// Maximum rate of the slower host's CPU, all streams together
    #[arg(long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Hosts")]
    pub processor: Option<u64>,
    /// Write the cells as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Plot goodput over streams to an .svg or .png file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}
