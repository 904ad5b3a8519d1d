//! Options of `longhaul available`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::value_parsers;
use clap::Args;
use longhaul_probe::plan_limits;

const EXAMPLES: &str = "\
Examples:
  longhaul available far            both directions, about 2 s each
  longhaul available far --light    at most 58 kB and 1 s in each direction
  longhaul available far --careful -R
                                    reverse, with narrower intervals
  longhaul available far --shaper   also look for a large token bucket
  longhaul available www --tcp 80   a host without longhaul, with TCP only";

const DETAILS: &str = "\
Capacity is the maximum rate of the narrow link; available bandwidth is the part
of it that other traffic leaves unused. Both count IP packets with their
headers, and each has an interval. The corresponding rate of TCP payload is
shown as well. If a path is too fast for the clocks of these hosts, the report
says so and gives no number.

Mode       limit per direction    probes
--light    58 kB, 1 s             bursts and small probes
--quick    64 MB, 3 s             also trains at many rates; on most paths
                                  less than 1 MB
--careful  256 MB, 10 s           more trains

The budget limits the IP bytes and the time from the first probe to the last. It
is printed before anything is sent, and it is never exceeded.

--tcp needs no longhaul on the other host, only a service that accepts bulk data
on that port. It measures the throughput of one TCP connection, not available
bandwidth, and the result is labelled accordingly.

The tracked value combines this run with earlier runs to the same HOST.

Exit codes are those of `longhaul --help`; 4 if the server is an older release
that does not support probes.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct AvailableArgs {
    /// Name or address of the server (`longhaul serve`)
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Send at most 58 kB and for 1 s in each direction
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub light: bool,
    /// Measure for about 2 s in each direction (the default)
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub quick: bool,
    /// Send more trains, for narrower intervals
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub careful: bool,
    /// Measure only forward: this host sends
    #[arg(long, help_heading = "Probes", group = "direction")]
    pub forward: bool,
    /// Measure only reverse: the server sends
    #[arg(short = 'R', long, help_heading = "Probes", group = "direction")]
    pub reverse: bool,
    /// Measure both directions, one after the other (the default)
    #[arg(long, visible_alias = "bidir", help_heading = "Probes", group = "direction")]
    pub both: bool,
    /// Maximum bytes in each direction, with headers [default: by mode]
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::accept_size(10_000..=plan_limits::MAX_PROBE_BYTES), help_heading = "Probes")]
    pub bytes: Option<u64>,
    /// Size of a full probe, with its IP header [default: what the path accepts]
    #[arg(long, value_name = "BYTES", value_parser = value_parsers::accept_count::<u32>(576..=u64::from(plan_limits::PACKET_BYTES.1)), help_heading = "Probes")]
    pub packet_bytes: Option<u32>,
    /// DSCP of the probes: a name (CS1, EF) or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "Probes")]
    pub dscp: Option<u8>,
    /// Look for a large token bucket: send at full rate for up to TIME [default: 20 s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "20s", value_parser = value_parsers::accept_micros(1_000_000..=60_000_000), help_heading = "Probes",
    )]
    pub shaper: Option<u64>,
    /// Send bulk TCP to this port of a host without longhaul
    #[arg(
        long, value_name = "PORT", value_parser = value_parsers::parse_port, help_heading = "Probes",
        conflicts_with_all = ["mode", "direction", "packet_bytes", "shaper"],
    )]
    pub tcp: Option<u16>,

    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
