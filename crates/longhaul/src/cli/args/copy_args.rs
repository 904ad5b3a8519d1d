//! Options of `longhaul copy`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::copy_command::copy_endpoint::{self, CopyEndpoint};
use crate::cli::value_parsers;
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul serve --files /data:rw       at the far end: one folder, writable
  longhaul copy run7.dat far:runs/      there
  longhaul copy far:runs/run7.dat .     and back
  tar c . | longhaul copy - far:all.tar from standard input
  longhaul copy far:runs /tmp/runs --dry-disk
                                        what both disks take, without network";

const DETAILS: &str = "\
One of SRC and DST is a file or folder of this host (or - for standard input or
output), the other is HOST:NAME, where NAME is below a folder that the far end
serves with --files; [ADDRESS]:NAME for IPv6. A folder is copied with all that
is in it. Where DST is a folder, the copy gets the name of SRC in it. Write
./a:b for a file here whose name holds a colon.

Blocks of 1 MiB go over -P connections at once, each with a tag that nobody can
forge who does not have the session's key; they are not encrypted. The sum of
each file (BLAKE3, as b3sum prints it) is compared at the end. A file grows
under a hidden name and gets its own in one step. What an interrupted copy has
left is taken up by the same command.

Streams, window and congestion control are those that longhaul tune has found
for this host and direction in the last 30 days, unless options say otherwise.

Exit codes are those of longhaul --help; 130 after Ctrl-C.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct CopyArgs {
    /// What is copied: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "SRC", value_parser = copy_endpoint::parse_copy_endpoint)]
    pub source: CopyEndpoint,
    /// Where it goes: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "DST", value_parser = copy_endpoint::parse_copy_endpoint)]
    pub target: CopyEndpoint,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Connections at once [default: as tuned, else 4]
    #[arg(short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Copy")]
    pub streams: Option<u32>,
    /// Ask for this send and receive buffer at both ends [default: as tuned]
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "Copy")]
    pub window: Option<u64>,
    /// Congestion control of the sender, such as cubic or bbr [default: as tuned]
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "Copy",
    )]
    pub congestion_control: Option<String>,
    /// Read and write past the page cache
    #[arg(long, help_heading = "Copy")]
    pub direct: bool,
    /// Replace a file that stands at the target
    #[arg(long, help_heading = "Copy")]
    pub overwrite: bool,
    /// Measure only the disks: read SRC, write as much at DST, keep nothing
    #[arg(long, help_heading = "Copy", conflicts_with = "dry_net")]
    pub dry_disk: bool,
    /// Measure only the network: as many bytes as SRC has, of no file
    #[arg(long, help_heading = "Copy")]
    pub dry_net: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Give up when no connection is made in this time
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
