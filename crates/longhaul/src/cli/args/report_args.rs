//! Options of `longhaul report`.

use super::{ArchiveArgs, AsymmetryArgs, CaseArgs, CompareArgs, ScanFilesArgs, SiteArgs};
use crate::cli::value_parsers;
use clap::{Args, Subcommand};
use jiff::Timestamp;

#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(subcommand)]
    pub command: ReportCommand,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// The latest runs, newest first
    List {
        /// At most this many
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = value_parsers::parse_list_limit)]
        limit: u32,
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// One run, as it was shown
    Show {
        /// Id of the run, its first letters, or `last`
        #[arg(value_name = "ID")]
        id: String,
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        files: Box<ScanFilesArgs>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Before and after: paths in two periods, what changed, how sure that is, and why
    Case(Box<CaseArgs>),
    /// All paths on one page: maximum, best setting, round trips, links
    Site(Box<SiteArgs>),
    /// The two directions of paths beside each other, and why they differ
    Asymmetry(Box<AsymmetryArgs>),
    /// Two runs or sets of runs, with a test of significance
    Compare(Box<CompareArgs>),
    /// Routes over time: a table of hours for each far end, and what changed
    Routes(RoutesArgs),
    /// Lasting changes that `longhaul watch` found, the latest first
    Events(EventsArgs),
    /// One change: what it was, and what caused it
    Event {
        /// Id of the event, or its first letters
        #[arg(value_name = "ID")]
        id: String,
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}

#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// Far ends, as they were called when they were measured
    #[arg(value_name = "HOST", required = true)]
    pub hosts: Vec<String>,
    /// Traces of the last N days
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = value_parsers::parse_days)]
    pub days: u16,
    /// Traces from this day or time on (UTC)
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_since, conflicts_with = "days")]
    pub since: Option<Timestamp>,
    /// Every trace as a line of CSV
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub csv: bool,
    /// As JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Of paths from or to this host alone, as the watch file calls it
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Changes of the last N days
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parsers::parse_days)]
    pub days: u16,
    /// Changes from this day or time on (UTC)
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_since, conflicts_with = "days")]
    pub since: Option<Timestamp>,
    /// Withdrawn suspicions too
    #[arg(short, long)]
    pub all: bool,
    /// As JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
