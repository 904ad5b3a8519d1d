//! Options of `longhaul import`.

use super::ArchiveArgs;
use crate::cli::value_parsers;
use clap::Args;
use jiff::Timestamp;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul import run.json                   iperf3 --json tells when it ran
  longhaul import ntttcp.log --at 2004-02-22 --from losangeles --to geneva
  ping -D far -c 20 | longhaul import -

Formats: iperf3-json, iperf-text (iperf 2 and 3), ntttcp-text, ntttcp-xml, ping,
pscheduler (perfSONAR: throughput, rtt, trace), traceroute (tracert and reports
of mtr as well); found by themselves. A file may hold several results. What a
text does not tell is absent. The same file twice is filed once. Nothing is
filed unless every file can be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Output of another program; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Read it as this format alone
    #[arg(long, value_name = "NAME", value_parser = value_parsers::parse_import_format)]
    pub format: Option<longhaul_import::ImportFormat>,
    /// Host that began the run, instead of the one that is printed
    #[arg(long, value_name = "HOST", value_parser = value_parsers::parse_host_name)]
    pub from: Option<String>,
    /// Host that answered, instead of the one that is printed
    #[arg(long, value_name = "HOST", value_parser = value_parsers::parse_host_name)]
    pub to: Option<String>,
    /// When it was measured, where the text does not tell (UTC)
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_since)]
    pub at: Option<Timestamp>,
    /// Say what would be filed, and file nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The reports as JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
