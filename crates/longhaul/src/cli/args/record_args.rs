//! Options of `longhaul record`.

use super::{ArchiveArgs, TestArgs};
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul record far --legs way.toml -P 4 -w 256M -t 10min
                                        measure, and make the bundle
  longhaul record make --run last --legs way.toml
                                        the same of an archived run
  longhaul record verify record-20261122T181206Z-5a40f3
                                        is a bundle as it was made?
  longhaul record check claim.toml      do the figures of a claim agree?

The legs file names the cities that the data passes, in order:
  stops = [\"San Jose (SJC)\", \"Chicago (ORD)\", \"Lulea\"]
Without one they are taken from imported data and from codes of airports in
names of routers. docs/record.md has the fields of that file and of the bundle,
docs/claims.md those of a claim.

Exit code 1: a claim or a bundle does not agree with itself; otherwise those of
`longhaul --help`. A far end that is called as one of the commands is reached by
its address.";

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
    /// Folder of the bundle; new or empty [default: record-ID of the run]
    #[arg(long, value_name = "DIR", help_heading = "Record")]
    pub out: Option<PathBuf>,
    /// Sign the bundle with this key
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub sign: Option<PathBuf>,
    /// Put this file into the bundle too, such as the far end's log; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub attach: Vec<PathBuf>,
    /// Hold it to this set of rules [default: internet2-lsr]
    #[arg(long, value_name = "NAME", help_heading = "Record")]
    pub rules: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Make the bundle of a run that is in the archive
    Make(Box<RecordMakeArgs>),
    /// Find what was changed in a bundle, and make its figures again
    Verify(RecordVerifyArgs),
    /// Make a key that signs bundles, and print its public part
    Key {
        /// File of the private key; must not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check the figures of published claims against each other and against light in fibre
    Check {
        /// Claims, one or several in each file
        #[arg(value_name = "FILE", required = true, num_args = 1..=64)]
        files: Vec<PathBuf>,
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct RecordMakeArgs {
    /// The transfer: an id, its first letters, or `last`
    #[arg(long, value_name = "ID")]
    pub run: String,
    /// The look at its path [default: the nearest in time, within a day]
    #[arg(long, value_name = "ID")]
    pub path: Option<String>,
    #[command(flatten)]
    pub bundle: BundleArgs,
    /// The record as JSON on standard output
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct RecordVerifyArgs {
    /// The bundle
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// It must be signed by this public key: 64 hexadecimal digits, or a file with them
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// As JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}
