//! Options of `longhaul import`.

use super::ArchiveArgs;
use crate::cli::value_parsers;
use clap::Args;
use jiff::Timestamp;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul import run.json                   iperf3 --json has its start time
  longhaul import ntttcp.log --at 2004-02-22 --from losangeles --to geneva
  ping -D far -c 20 | longhaul import -

Formats: iperf3-json, ntttcp-text, ntttcp-xml, ping, pscheduler (perfSONAR
throughput, rtt, trace) and traceroute (also tracert and mtr reports). The
format is detected automatically. A file may hold several results. Values missing from the output are absent in the report. A file that is
imported twice is stored once. If any file cannot be read, nothing is stored.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Output of another program; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Format of the input [default: detected]
    #[arg(long, value_name = "NAME", value_parser = value_parsers::parse_import_format)]
    pub format: Option<longhaul_import::ImportFormat>,
    /// Client host, instead of the one in the output
    #[arg(long, value_name = "HOST", value_parser = value_parsers::parse_host_name)]
    pub from: Option<String>,
    /// Server host, instead of the one in the output
    #[arg(long, value_name = "HOST", value_parser = value_parsers::parse_host_name)]
    pub to: Option<String>,
    /// Time of the measurement (UTC), if the output has none
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_moment)]
    pub at: Option<Timestamp>,
    /// Show what would be imported, and store nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the reports as JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
