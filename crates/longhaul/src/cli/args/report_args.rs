//! Options of `longhaul report`.

use super::{
    ArchiveArgs, AsymmetryArgs, CaseArgs, CompareArgs, ReportOutputArgs, ScanFilesArgs, SiteArgs,
};
use crate::cli::value_parsers::{accept_count, parse_moment};
use clap::{Args, Subcommand};
use jiff::Timestamp;

#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(subcommand)]
    pub command: ReportCommand,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// List the latest runs, newest first
    List {
        /// Maximum number of runs
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = accept_count::<u32>(1..=100_000))]
        limit: u32,
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Show an archived run
    Show {
        /// Id of the run, its first letters, or `last`
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        written: ReportOutputArgs,
        #[command(flatten)]
        files: Box<ScanFilesArgs>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Compare paths in two periods: changes, their significance and causes
    Case(Box<CaseArgs>),
    /// Summarise all paths: maximum, best setting, RTT, links
    Site(Box<SiteArgs>),
    /// Compare the two directions of paths, and explain the differences
    Asymmetry(Box<AsymmetryArgs>),
    /// Compare two runs or sets of runs, with a significance test
    Compare(Box<CompareArgs>),
    /// Show routes over time: a table of hours per host, and all changes
    Routes(RoutesArgs),
    /// List lasting changes found by `longhaul watch`, newest first
    Events(EventsArgs),
    /// Show a change and its causes
    Event {
        /// Id of the event, or its first letters
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}

#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// Hosts, as named in the runs
    #[arg(value_name = "HOST", required = true)]
    pub hosts: Vec<String>,
    /// Only traces since this date or time (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "7d")]
    pub since: Timestamp,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only paths from or to this host, as named in the watch file
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Only changes since this date or time (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "30d")]
    pub since: Timestamp,
    /// Include withdrawn suspicions
    #[arg(short, long)]
    pub all: bool,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
