//! Options of `longhaul data`.

use super::ArchiveArgs;
use clap::{Args, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul data import GeoLite2-ASN.mmdb GeoLite2-City.mmdb
  longhaul data find 192.0.2.7     network and place of an address
  longhaul data list               databases with type and build time

Databases are files in MaxMind's format (.mmdb) with AS numbers, countries or
cities, from any maker. They are copied to the folder of the archive; importing
the same name again replaces the database. Nothing is downloaded.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Import databases of networks and places
    Import {
        /// Databases in MaxMind's format (.mmdb)
        #[arg(value_name = "FILE", required = true, num_args = 1..=32)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// List the imported databases
    List {
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Look up an address
    Find {
        /// Address to look up
        #[arg(value_name = "ADDR")]
        address: IpAddr,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Remove databases
    Remove {
        /// Names of databases, as listed
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}
