//! Options of `longhaul path`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::path_command::path_plan;
use crate::cli::value_parsers;
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul path far                RTT, routes in both directions, path MTU
  longhaul path 192.0.2.7 --tcp --to-port 443
                                   any host, with TCP probes to its port 443
  longhaul path far --alternatives also find the next hops of load balancers
  longhaul path far --load=8s      find the narrow link, where the queue grows
  longhaul path far --watch        live table; q quits";

const DETAILS: &str = "\
HOST can be any host. If `longhaul serve` runs there, RTT and route are also
measured from the server to this host.

Probes use ICMP by default. Unprivileged users can send it if the kernel allows
it (net.ipv4.ping_group_range); otherwise UDP is used, and the report says so.
TCP probes need privileges.

--load sends bulk data to the host, which must run `longhaul serve`, and probes
every hop once per second before, during and after the load.

--watch probes each hop at most once per second until q or Ctrl-C, or for
--count rounds. If standard output is not a terminal, it prints one line per hop
and round instead. At the end, the result is shown as a report.

AS numbers and locations come from databases imported with `longhaul data
import`. The only lookups are those of names of addresses, by this host's
resolver; --no-names disables them.

Exit codes are those of `longhaul --help`; 3 if no host answered, 5 if
privileges are missing for all requested probes, 130 after Ctrl-C. The results
so far are then shown and archived.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct PathArgs {
    /// Name or address of the target host
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of `longhaul serve` on the target
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Use ICMP probes (the default)
    #[arg(long, help_heading = "Probes", group = "protocol")]
    pub icmp: bool,
    /// Use UDP probes
    #[arg(short, long, help_heading = "Probes", group = "protocol")]
    pub udp: bool,
    /// Use TCP probes
    #[arg(long, help_heading = "Probes", group = "protocol")]
    pub tcp: bool,
    /// Destination port of UDP and TCP probes [default: 33434 for UDP, 5201 for TCP]
    #[arg(
        long, value_name = "PORT", value_parser = value_parsers::parse_port, help_heading = "Probes",
        conflicts_with = "icmp",
    )]
    pub to_port: Option<u16>,
    /// Number of RTT probes [default: 10; with --watch: rounds, unlimited]
    #[arg(short, long, value_name = "N", value_parser = value_parsers::accept_count::<u32>(1..=100_000), help_heading = "Probes")]
    pub count: Option<u32>,
    /// Time between RTT probes, or rounds of --watch [default: 100 ms; --watch: 1 s, the minimum]
    #[arg(short, long, value_name = "TIME", value_parser = value_parsers::accept_micros(10_000..=60_000_000), help_heading = "Probes")]
    pub interval: Option<u64>,
    /// Packet size in bytes, with the IP header
    #[arg(
        short, long, value_name = "BYTES", default_value_t = 64, value_parser = value_parsers::accept_count::<u32>(64..=65_535),
        help_heading = "Probes",
    )]
    pub size: u32,
    /// Time to wait for an answer
    #[arg(
        long, value_name = "TIME", default_value = "2s", value_parser = value_parsers::accept_duration_us(10_000..=30_000_000),
        help_heading = "Probes",
    )]
    pub timeout: Duration,

    /// Do not trace the route
    #[arg(long, help_heading = "Route", conflicts_with_all = ["alternatives", "load", "watch"])]
    pub no_route: bool,
    /// Maximum number of hops
    #[arg(
        short, long, value_name = "N", default_value_t = 64, value_parser = value_parsers::accept_count::<u8>(1..=255),
        help_heading = "Route",
    )]
    pub max_hops: u8,
    /// Number of probes per hop
    #[arg(
        long, value_name = "N", default_value_t = 3, value_parser = value_parsers::accept_count::<u32>(1..=20),
        help_heading = "Route",
    )]
    pub queries: u32,
    /// Find all next hops of load balancers with this confidence [default: 0.95]
    #[arg(
        long, value_name = "CONFIDENCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "0.95", value_parser = path_plan::parse_confidence, help_heading = "Route",
    )]
    pub alternatives: Option<f64>,
    /// Do not measure from the server to this host
    #[arg(long, help_heading = "Route")]
    pub no_reverse: bool,
    /// Do not resolve addresses to names
    #[arg(long, help_heading = "Route")]
    pub no_names: bool,

    /// Measure the path MTU (the default)
    #[arg(long, help_heading = "Path", overrides_with = "no_mtu")]
    pub mtu: bool,
    /// Do not measure the path MTU
    #[arg(long, help_heading = "Path")]
    pub no_mtu: bool,
    /// Check whether TCP options are changed on the path (needs `longhaul serve`)
    #[arg(long, help_heading = "Path")]
    pub options: bool,
    /// Find the narrow link: probe every hop idle, under load and idle, for TIME each
    /// [default: 8 s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "8s", value_parser = value_parsers::accept_micros(3_000_000..=300_000_000), help_heading = "Path",
    )]
    pub load: Option<u64>,
    /// Number of streams of the load [default: 4]
    #[arg(
        short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, requires = "load",
        help_heading = "Path",
    )]
    pub streams: Option<u32>,
    /// Reverse: the server sends the load
    #[arg(short = 'R', long, requires = "load", help_heading = "Path")]
    pub reverse: bool,

    /// Show a live table of all hops
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
