//! Options of `longhaul record`.

use super::{ArchiveArgs, ReportOutputArgs, TestArgs};
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul record far --legs way.toml -P 4 -w 256M -t 10min
                                        measure, and write the bundle
  longhaul record make --run last --legs way.toml
                                        write the bundle of an archived run
  longhaul record verify record-20261122T181206Z-5a40f3
                                        verify that a bundle is unchanged
  longhaul record check claim.toml      check that the figures of a claim agree

The legs file names the cities that the data passes, in order:
  stops = [\"San Jose (SJC)\", \"Chicago (ORD)\", \"Lulea\"]
Without it, a record has no distance and no score. docs/record.md documents the
legs file and the bundle, docs/claims.md the claims.

Exit code 1: a claim or a bundle is inconsistent; otherwise those of
`longhaul --help`. If the name of a server is a command of `record`, use its
address.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
)]
pub struct RecordArgs {
    #[command(subcommand)]
    pub command: Option<RecordCommand>,
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub measure: RecordMeasureArgs,
}

/// The options of `longhaul test`; absent with a subcommand of `record`, which names no server.
#[derive(Debug)]
pub struct RecordMeasureArgs(pub Option<TestArgs>);

/// The derived implementation for `Option<TestArgs>` does not detect that HOST is present.
impl FromArgMatches for RecordMeasureArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let named = matches.contains_id("host");
        let test = named.then(|| TestArgs::from_arg_matches(matches));
        Ok(RecordMeasureArgs(test.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = RecordMeasureArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RecordMeasureArgs {
    fn augment_args(command: Command) -> Command {
        // A record has its own output format.
        TestArgs::augment_args(command).mut_arg("format", |format| format.hide(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        TestArgs::augment_args_for_update(command)
    }
}

/// What goes into a bundle beside the runs.
#[derive(Debug, Clone, Args)]
pub struct BundleArgs {
    /// Cities that the data passes, as TOML
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub legs: Option<PathBuf>,
    /// New or empty folder for the bundle [default: record-ID of the run]
    #[arg(long, value_name = "DIR", help_heading = "Record")]
    pub out: Option<PathBuf>,
    /// Sign the bundle with this key
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub sign: Option<PathBuf>,
    /// Add this file to the bundle, such as the server's log; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub attach: Vec<PathBuf>,
    /// Rule set to apply [default: internet2-lsr]
    #[arg(long, value_name = "NAME", help_heading = "Record")]
    pub rules: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Write the bundle of an archived run
    Make(Box<RecordMakeArgs>),
    /// Verify that a bundle is unchanged, and recompute its figures
    Verify(RecordVerifyArgs),
    /// Generate a key that signs bundles, and print its public key
    Key {
        /// New file for the private key
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check the figures of published claims for consistency, also with light in fibre
    Check {
        /// Files with one or more claims each
        #[arg(value_name = "FILE", required = true, num_args = 1..=64)]
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct RecordMakeArgs {
    /// Id of the transfer run, its first letters, or `last`
    #[arg(long, value_name = "ID")]
    pub run: String,
    /// Id of the path run [default: the nearest in time, within a day]
    #[arg(long, value_name = "ID")]
    pub path: Option<String>,
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct RecordVerifyArgs {
    /// Folder of the bundle
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Require a signature by this public key: 64 hexadecimal digits, or a file with them
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}
