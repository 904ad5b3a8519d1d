//! Options of `longhaul report`.

use super::{ArchiveArgs, ScanFilesArgs};
use crate::cli::parse;
use clap::{Args, Subcommand};

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
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = parse::list_limit)]
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
}
