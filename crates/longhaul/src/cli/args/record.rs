//! Options of `longhaul record`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul record check claim.toml      do the figures of a claim agree?
  longhaul record check *.toml --json   the same of many, for a program

A claim is a file of TOML or JSON with figures as they were printed; its fields
are in docs/claims.md. Exit code 1: something differs, or is impossible.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    #[command(subcommand)]
    pub command: RecordCommand,
}

#[derive(Debug, Subcommand)]
pub enum RecordCommand {
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
