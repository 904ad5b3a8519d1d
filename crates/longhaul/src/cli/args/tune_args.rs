//! Options of `longhaul tune`. Options that `longhaul test` also has mean the same.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::tune_command::scan_plan;
use crate::cli::value_parsers;
use crate::cli::value_parsers::setting_lists::{self, StreamCounts, WindowList};
use clap::Args;
use longhaul_model::report::v1::plan::CoreAffinity;
use longhaul_model::report::v1::scan::TransferSetting;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul tune far                     find the best setting in a few probes
  longhaul tune far -R                  reverse: the server sends
  longhaul tune far --present 8x1M      start from 8 streams of 1 MiB
  longhaul tune far --grid -w auto,256K-16M -P 1-32
                                        measure every cell; repeat to resume
  longhaul tune far --grid --csv scan.csv --plot heat.svg
                                        also write a CSV table and a heat map";

const DETAILS: &str = "\
A guided search determines what limited each probe and changes only that:
window, streams, congestion control or pacing. It ends when no further gain is
expected, or before it would exceed its budget, which is printed first. The
result is the smallest setting within 3 % of the best.

Lists are separated by commas; a range doubles (1-32) or steps (4-32/4). The
window `auto` is autotuned by the kernel; the congestion control `default` is
the sender's default.

Every probe is archived as a run of its own. If a scan is interrupted by Ctrl-C,
a crash or a lost server, the same command resumes it within a day. The result
is remembered for the path, and a later search starts from it.

Exit codes are those of `longhaul --help`; 3 if the server was lost before the
end, 130 after Ctrl-C. The results so far are then shown and archived.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct TuneArgs {
    /// Name or address of the server (`longhaul serve`)
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Reverse: the server sends
    #[arg(short = 'R', long, help_heading = "Search", conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both directions, one after the other
    #[arg(long, visible_alias = "both", help_heading = "Search")]
    pub bidir: bool,
    /// Duration of each probe [default: 10 s; a guided search may use more]
    #[arg(short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Search")]
    pub time: Option<u64>,
    /// Maximum number of probes [default: 10 per direction]
    #[arg(
        long, value_name = "N", value_parser = value_parsers::accept_count::<u32>(1..=1000), help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_probes: Option<u32>,
    /// Maximum total time [default: 5 min per direction]
    #[arg(
        long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_time: Option<u64>,
    /// Maximum payload of all probes together [default: unlimited]
    #[arg(
        long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_bytes: Option<u64>,
    /// Windows to try: sizes, ranges, auto [default: any; grid:
    /// auto,64K,256K,1M,4M,16M]
    #[arg(short, long, value_name = "LIST", value_parser = setting_lists::parse_windows, help_heading = "Search")]
    pub windows: Option<WindowList>,
    /// Numbers of streams to try [default: any; grid: 1-32]
    #[arg(short = 'P', long, value_name = "LIST", value_parser = setting_lists::parse_stream_counts, help_heading = "Search")]
    pub streams: Option<StreamCounts>,
    /// Congestion controls to try, such as cubic,bbr; `default` is the sender's default
    #[arg(
        short = 'C', long, value_name = "LIST", visible_alias = "congestion",
        value_delimiter = ',', value_parser = value_parsers::parse_congestion_control, help_heading = "Search",
    )]
    pub congestion_control: Vec<String>,
    /// Current setting, such as 8x1M (streams x window): the search starts from it and compares
    /// the result with it
    #[arg(
        long, value_name = "SETTING", value_parser = scan_plan::parse_setting, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub present: Option<TransferSetting>,
    /// Ignore the recommendation of earlier scans of this path
    #[arg(long, help_heading = "Search", conflicts_with = "grid")]
    pub forget: bool,
    /// Start a new scan instead of resuming an interrupted one
    #[arg(long, help_heading = "Search")]
    pub fresh: bool,

    /// Measure every cell of windows x streams (x congestion controls)
    #[arg(long, help_heading = "Grid")]
    pub grid: bool,
    /// Number of measurements per cell
    #[arg(
        long, value_name = "N", value_parser = value_parsers::accept_count::<u32>(1..=100), default_value_t = 1,
        help_heading = "Grid", requires = "grid",
    )]
    pub repeats: u32,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Grid", requires = "grid")]
    pub seed: u64,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Cores of the stream threads: auto, off, or a list for this host and, after a slash, one
    /// for the server, such as 0-3/4,6
    #[arg(
        short = 'A', long, value_name = "CORES", default_value = "auto",
        value_parser = value_parsers::parse_affinity, help_heading = "Host",
    )]
    pub affinity: CoreAffinity,
    /// Use zero-copy writes
    #[arg(short = 'Z', long, help_heading = "Host")]
    pub zerocopy: bool,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "Host")]
    pub dscp: Option<u8>,
    /// Maximum time to connect
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Host",
    )]
    pub connect_timeout: Duration,

    #[command(flatten)]
    pub token: TokenArgs,

    #[command(flatten)]
    pub files: ScanFilesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Files that a scan can be written to.
#[derive(Debug, Clone, Default, Args)]
pub struct ScanFilesArgs {
    /// Write the probes of a scan or a load as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Plot the heat map of a scan, or loads over time, to an .svg or .png file; may be repeated
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot: Vec<PathBuf>,
    /// Plot the throughput of a scan over streams to an .svg or .png file
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot_curves: Vec<PathBuf>,
    /// Plot the asymmetry of a scan's directions to an .svg or .png file
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot_asymmetry: Vec<PathBuf>,
}
