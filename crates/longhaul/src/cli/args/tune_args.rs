//! Options of `longhaul tune`. Options that `longhaul test` also has mean the same.

use super::{ArchiveArgs, LocalArgs, TokenArgs};
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
  longhaul tune far                     the best setting, in a handful of probes
  longhaul tune far -R                  the same, and the far end sends
  longhaul tune far --present 8x1M      is 8 streams of 1 MiB still right?
  longhaul tune far --grid -w auto,256K-16M -P 1-32
                                        every cell; again after a cut: takes it up
  longhaul tune far --grid --csv scan.csv --plot heat.svg
                                        the table as CSV, the heat map as SVG";

const DETAILS: &str = "\
A guided search asks of every probe what limited it, and moves only that: window,
streams, congestion control or pacing. It ends when nothing more can be gained,
or before it would pass its budget, which is stated first. The result is the
smallest setting within 3 % of the best.

Lists have commas; a range doubles (1-32) or steps (4-32/4). `auto` among the
windows leaves them to the kernel, `default` among the congestion controls takes
the sender's own.

Every probe is a run of its own in the archive. A scan that was cut off, by
Ctrl-C, a crash or a far end that went away, is taken up by the same command
within a day. The result is remembered for the path: a later search starts there.

Exit codes are those of `longhaul --help`; 3 when the far end went away before
the end, and 130 after Ctrl-C. What was measured is shown and kept.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct TuneArgs {
    /// Name or address of the far end, where `longhaul serve` runs
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// The far end sends
    #[arg(short = 'R', long, help_heading = "Search", conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both directions, one after the other
    #[arg(long, visible_alias = "both", help_heading = "Search")]
    pub bidir: bool,
    /// Payload time of each probe [default: 10 s; a guided search may ask for more]
    #[arg(short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Search")]
    pub time: Option<u64>,
    /// At most this many probes [default: 10 for each direction]
    #[arg(
        long, value_name = "N", value_parser = scan_plan::parse_budget_probes, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_probes: Option<u32>,
    /// At most this much time [default: 5 min for each direction]
    #[arg(
        long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_time: Option<u64>,
    /// At most this much payload, all probes together [default: no limit]
    #[arg(
        long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub budget_bytes: Option<u64>,
    /// Windows that may be tried: sizes, ranges, auto [default: any; grid:
    /// auto,64K,256K,1M,4M,16M]
    #[arg(short, long, value_name = "LIST", value_parser = setting_lists::parse_windows, help_heading = "Search")]
    pub windows: Option<WindowList>,
    /// Numbers of streams that may be tried [default: any; grid: 1-32]
    #[arg(short = 'P', long, value_name = "LIST", value_parser = setting_lists::parse_stream_counts, help_heading = "Search")]
    pub streams: Option<StreamCounts>,
    /// Congestion controls that may be tried, such as cubic,bbr; `default` is the sender's own
    #[arg(
        short = 'C', long, value_name = "LIST", visible_alias = "congestion",
        value_delimiter = ',', value_parser = value_parsers::parse_congestion_control, help_heading = "Search",
    )]
    pub congestion_control: Vec<String>,
    /// Setting in use now, such as 8x1M (streams x window): the search starts there, and the
    /// result is compared with it
    #[arg(
        long, value_name = "SETTING", value_parser = scan_plan::parse_setting, help_heading = "Search",
        conflicts_with = "grid",
    )]
    pub present: Option<TransferSetting>,
    /// Do not start from what an earlier scan of this path recommends
    #[arg(long, help_heading = "Search", conflicts_with = "grid")]
    pub forget: bool,
    /// Begin anew, even where this same scan was cut off
    #[arg(long, help_heading = "Search")]
    pub fresh: bool,

    /// Measure every cell of windows x streams (x congestion controls)
    #[arg(long, help_heading = "Grid")]
    pub grid: bool,
    /// Measurements of each cell
    #[arg(
        long, value_name = "N", value_parser = scan_plan::parse_repeats, default_value_t = 1,
        help_heading = "Grid", requires = "grid",
    )]
    pub repeats: u32,
    /// Seed of the shuffled order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Grid",
        requires = "grid"
    )]
    pub seed: u64,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Cores of the stream threads: auto, off, or a list for this end and, after a slash, one
    /// for the far end, such as 0-3/4,6
    #[arg(
        short = 'A', long, value_name = "CORES", default_value = "auto",
        value_parser = value_parsers::parse_affinity, help_heading = "Host",
    )]
    pub affinity: CoreAffinity,
    /// Zero-copy writes
    #[arg(short = 'Z', long, help_heading = "Host")]
    pub zerocopy: bool,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "Host")]
    pub dscp: Option<u8>,
    /// Give up when no connection is made in this time
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Host",
    )]
    pub connect_timeout: Duration,

    #[command(flatten)]
    pub token: TokenArgs,

    /// The report as JSON on stdout
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// Neither budget nor progress on stderr
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Keep probes and result in the archive (the default)
    #[arg(long, help_heading = "Output", overrides_with = "no_save")]
    pub save: bool,
    /// Keep nothing: neither taken up after a cut nor remembered
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub files: ScanFilesArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// Files that a scan can be written to.
#[derive(Debug, Clone, Default, Args)]
pub struct ScanFilesArgs {
    /// Write the probes of a scan or of loads as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Draw a scan's heat map, or the course of loads, .svg or .png; may be repeated
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot: Vec<PathBuf>,
    /// Draw a scan's throughput against streams, .svg or .png
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot_curves: Vec<PathBuf>,
    /// Draw a scan's asymmetry of both directions, .svg or .png
    #[arg(long, value_name = "FILE", value_parser = scan_plan::parse_picture_path, help_heading = "Output")]
    pub plot_asymmetry: Vec<PathBuf>,
}
