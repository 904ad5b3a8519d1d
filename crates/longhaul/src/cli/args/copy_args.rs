//! Options of `longhaul copy`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::copy_command::copy_endpoint::{self, CopyEndpoint};
use crate::cli::value_parsers;
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul serve --files /data:rw       on the server: serve a writable folder
  longhaul copy run7.dat far:runs/      copy to the server
  longhaul copy far:runs/run7.dat .     copy from the server
  tar c . | longhaul copy - far:all.tar copy standard input
  longhaul copy far:runs /tmp/runs --dry-disk
                                        measure both disks, not the network";

const DETAILS: &str = "\
One of SRC and DST is a local file or folder, or - for standard input or output.
The other is HOST:NAME, or [ADDRESS]:NAME for IPv6, where NAME is below a folder
that the server offers with --files. A folder is copied with its contents. If
DST is a folder, the copy is placed in it under the name of SRC. Write ./a:b for
a local file whose name contains a colon.

Blocks of 1 MiB are sent over -P connections in parallel. Each block is
authenticated with the key of the session; blocks are not encrypted. The
checksum of each file (BLAKE3, as printed by b3sum) is compared at the end. A
file is written under a hidden name and renamed when it is complete. The same
command resumes an interrupted copy.

Streams, window and congestion control are those that `longhaul tune` found for
this host and direction in the last 30 days, unless options override them.

Exit codes are those of `longhaul --help`; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct CopyArgs {
    /// Source: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "SRC", value_parser = copy_endpoint::parse_copy_endpoint)]
    pub source: CopyEndpoint,
    /// Target: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "DST", value_parser = copy_endpoint::parse_copy_endpoint)]
    pub target: CopyEndpoint,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Number of parallel connections [default: as tuned, else 4]
    #[arg(short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Copy")]
    pub streams: Option<u32>,
    /// Request this send and receive buffer size at both ends [default: as tuned]
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Copy")]
    pub window: Option<u64>,
    /// Congestion control of the sender, such as cubic or bbr [default: as tuned]
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "Copy",
    )]
    pub congestion_control: Option<String>,
    /// Bypass the page cache when reading and writing
    #[arg(long, help_heading = "Copy")]
    pub direct: bool,
    /// Overwrite an existing file at the target
    #[arg(long, help_heading = "Copy")]
    pub overwrite: bool,
    /// Measure only the disks: read SRC, write as much at DST, keep nothing
    #[arg(long, help_heading = "Copy", conflicts_with = "dry_net")]
    pub dry_disk: bool,
    /// Measure only the network: send as many bytes as SRC has, without files
    #[arg(long, help_heading = "Copy")]
    pub dry_net: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Maximum time to connect
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Host",
    )]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
