//! Options of `longhaul path`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::path_command::path_plan;
use crate::cli::value_parsers;
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul path far                round trips, route there and back, path MTU
  longhaul path 192.0.2.7 --tcp --to-port 443
                                   a plain host, by TCP segments to its port 443
  longhaul path far --alternatives the next hops of load balancers as well
  longhaul path far --load=8s      where the queue grows: the narrow link
  longhaul path far --watch        a live table; q ends it, h shows the keys";

const DETAILS: &str = "\
HOST may be any host. Where `longhaul serve` answers there, it is asked for its
view too: round trips and route from there to here. A plain host works without.

ICMP is tried first. A user without privilege may send it where the kernel
allows (net.ipv4.ping_group_range); elsewhere UDP takes its place, and the
report says so. TCP probes ask for privilege.

--load sends bulk data to the far end, which must be a longhaul, and watches
every hop before, under and after that load, with one probe per second and hop.

--watch probes each hop once a second at most, until q or Ctrl-C, or for
--count rounds. Where standard output is no terminal it writes one line for
each hop and round instead. When it ends, the watch is a report like any other.

AS numbers and places come from data that was imported with `longhaul data
import`; nothing is ever asked of others but the names of addresses, and these
only of this host's own resolver (--no-names asks nobody).

Exit codes are those of `longhaul --help`; 3 when nothing at all answered,
5 when privilege is missing for all that was asked, and 130 after Ctrl-C: what
was seen until then is shown and kept.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct PathArgs {
    /// Name or address of the far end
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of `longhaul serve` at the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Probe by ICMP (the default)
    #[arg(long, help_heading = "Probes", group = "protocol")]
    pub icmp: bool,
    /// Probe by UDP
    #[arg(short, long, help_heading = "Probes", group = "protocol")]
    pub udp: bool,
    /// Probe by TCP
    #[arg(long, help_heading = "Probes", group = "protocol")]
    pub tcp: bool,
    /// Port that UDP and TCP probes go to [default: 33434 for UDP, 5201 for TCP]
    #[arg(
        long, value_name = "PORT", value_parser = value_parsers::parse_port, help_heading = "Probes",
        conflicts_with = "icmp",
    )]
    pub to_port: Option<u16>,
    /// Round trips to the far end [default: 10; with --watch: rounds, without end]
    #[arg(short, long, value_name = "N", value_parser = path_plan::parse_probe_count, help_heading = "Probes")]
    pub count: Option<u32>,
    /// Time between two of them [default: 100 ms; with --watch: 1 s, which is the least]
    #[arg(short, long, value_name = "TIME", value_parser = path_plan::parse_round_interval, help_heading = "Probes")]
    pub interval: Option<u64>,
    /// Bytes of the whole IP packet
    #[arg(
        short, long, value_name = "BYTES", default_value_t = 64, value_parser = path_plan::parse_probe_size,
        help_heading = "Probes",
    )]
    pub size: u32,
    /// Wait this long for an answer
    #[arg(
        long, value_name = "TIME", default_value = "2s", value_parser = path_plan::parse_probe_timeout,
        help_heading = "Probes",
    )]
    pub timeout: Duration,

    /// Do not trace the route
    #[arg(long, help_heading = "Route", conflicts_with_all = ["alternatives", "load", "watch"])]
    pub no_route: bool,
    /// Hops to look for at most
    #[arg(
        short, long, value_name = "N", default_value_t = 64, value_parser = path_plan::parse_max_hops,
        help_heading = "Route",
    )]
    pub max_hops: u8,
    /// Probes for each hop
    #[arg(
        long, value_name = "N", default_value_t = 3, value_parser = path_plan::parse_queries,
        help_heading = "Route",
    )]
    pub queries: u32,
    /// Find all next hops of load balancers, with this probability [default: 0.95]
    #[arg(
        long, value_name = "CONFIDENCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "0.95", value_parser = path_plan::parse_confidence, help_heading = "Route",
    )]
    pub alternatives: Option<f64>,
    /// Do not ask the far end for its view
    #[arg(long, help_heading = "Route")]
    pub no_reverse: bool,
    /// Do not look up the names of addresses
    #[arg(long, help_heading = "Route")]
    pub no_names: bool,

    /// Look for the path MTU (the default)
    #[arg(long, help_heading = "Path", overrides_with = "no_mtu")]
    pub mtu: bool,
    /// Do not look for the path MTU
    #[arg(long, help_heading = "Path")]
    pub no_mtu: bool,
    /// See what becomes of TCP options on the way; the far end must be a longhaul
    #[arg(long, help_heading = "Path")]
    pub options: bool,
    /// Find the narrow link: watch every hop idle, under load and idle, each this long
    /// [default: 8 s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "8s", value_parser = path_plan::parse_phase_time, help_heading = "Path",
    )]
    pub load: Option<u64>,
    /// Streams of that load [default: 4]
    #[arg(
        short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, requires = "load",
        help_heading = "Path",
    )]
    pub streams: Option<u32>,
    /// The far end sends that load
    #[arg(short = 'R', long, requires = "load", help_heading = "Path")]
    pub reverse: bool,

    /// Keep watching, hop by hop, in a live table
    #[arg(
        short, long, help_heading = "Watch",
        conflicts_with_all = ["load", "options", "alternatives", "mtu"],
    )]
    pub watch: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
