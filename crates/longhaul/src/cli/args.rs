//! The commands and their options, as close to what was typed as types allow.

mod lab;
mod report;

pub use lab::{LabArgs, LabCommand};
pub use report::{ReportArgs, ReportCommand};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul serve                        at the far end; prints a token
  longhaul test far.example.net         at this end: measures, says what limited it
  longhaul lab run la-geneva -- longhaul test far
                                        the same over an emulated path on this machine
  longhaul report show last             the latest run once more

Exit codes: 0 measured; 1 measured, but an --expect was missed; 2 usage;
3 no peer or the peer failed; 4 versions differ; 5 privilege or kernel feature
missing; 6 archive; 70 a defect of longhaul.";

/// Measure a long fat path, and say what limited it.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, after_help = EXAMPLES, max_term_width = 80)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// When to use colour (NO_COLOR is obeyed)
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Emulate long paths on this machine, with ground truth
    Lab(LabArgs),
    /// Read the archive of earlier runs
    Report(ReportArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// Where the archive is.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArgs {
    /// Archive of finished runs [default: longhaul/archive.sqlite3 in the XDG data folder]
    #[arg(
        long,
        value_name = "FILE",
        env = "LONGHAUL_ARCHIVE",
        hide_env_values = true,
        help_heading = "Output"
    )]
    pub archive: Option<PathBuf>,
}

/// The secret that the two ends share.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// Token of the far end; other users of this host can see it in the process list, so
    /// prefer --token-file or LONGHAUL_TOKEN
    #[arg(
        long,
        value_name = "TOKEN",
        conflicts_with = "token_file",
        help_heading = "Access"
    )]
    pub token: Option<String>,
    /// File whose first line is the token
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub token_file: Option<PathBuf>,
}
