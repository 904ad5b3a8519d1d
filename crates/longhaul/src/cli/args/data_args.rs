//! Options of `longhaul data`.

use super::ArchiveArgs;
use clap::{Args, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul data import asn-ipv4.csv asn-ipv6.csv
                                   AS numbers, as @ip-location-db/asn has them
  longhaul data import GeoLite2-City.mmdb
                                   places, from a file in MaxMind's format
  longhaul data find 192.0.2.7     what the imported sets say of an address
  longhaul data list               the sets, their size and their licences";

const FORMATS: &str = "\
Understood are CSV with first address, last address and then: AS number and
organisation; or a country; or the columns of a set of cities; TSV as iptoasn.com
has it; and files in MaxMind's format (.mmdb) of whatever maker, with AS numbers,
countries or cities. Unpack .gz first.

A set goes beside the archive under the name of its file; the same name again
replaces it. Files named LICENSE or LICENCE in the same folder are kept with it.
Nothing is ever downloaded.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{FORMATS}"),
)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Take sets of address ranges in, to name AS and place of hops
    #[command(after_help = FORMATS)]
    Import {
        /// Files with ranges of addresses
        #[arg(value_name = "FILE", required = true, num_args = 1..=32)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// The imported sets
    List {
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// What the imported sets say of an address
    Find {
        /// Address to look up
        #[arg(value_name = "ADDR")]
        address: IpAddr,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Remove imported sets
    Remove {
        /// Names of sets, as `longhaul data list` has them
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}
