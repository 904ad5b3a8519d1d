//! Options of `longhaul available`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::available_command::available_plan;
use crate::cli::value_parsers;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  longhaul available far            there and back, about two seconds each
  longhaul available far --light    at most 58 kB and a second each way
  longhaul available far --careful -R
                                    from there to here, with narrower intervals
  longhaul available far --shaper   looks for a large token bucket as well
  longhaul available www --tcp 80   a far end without longhaul: by TCP alone";

const DETAILS: &str = "\
Capacity is the highest rate that the narrow link passes; available bandwidth
is what others leave of it at the moment. Both count IP packets, headers
included, and each has an interval; the TCP payload that fits stands beside.
A path that is too fast for the clocks of these hosts is called that, and no
number is given in its place.

Mode       at most, each way      what is sent
--light    58 kB, 1 s             bursts and small probes
--quick    64 MB, 3 s             trains of many rates as well; on most paths
                                  less than 1 MB
--careful  256 MB, 10 s           more of them

The budget counts IP bytes and time from the first probe to the last; it is
told before anything is sent, and never exceeded.

--tcp needs no longhaul at the far end, only something that takes bulk data on
that port. It tells what one connection gets and not what is free, and is
labelled as such.

Earlier runs to the same HOST in the archive make the tracked figure.

Exit codes are those of `longhaul --help`; 4 when the far end is an older
release, which knows no probes.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct AvailableArgs {
    /// Name or address of the far end, where `longhaul serve` runs
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// No more than 58 kB and one second, each way
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub light: bool,
    /// About two seconds, each way (the default)
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub quick: bool,
    /// More trains, for narrower intervals
    #[arg(long, help_heading = "Probes", group = "mode")]
    pub careful: bool,
    /// Only from here to the far end
    #[arg(long, help_heading = "Probes", group = "direction")]
    pub forward: bool,
    /// Only from the far end to here
    #[arg(short = 'R', long, help_heading = "Probes", group = "direction")]
    pub reverse: bool,
    /// Both, one after the other (the default)
    #[arg(
        long,
        visible_alias = "bidir",
        help_heading = "Probes",
        group = "direction"
    )]
    pub both: bool,
    /// Spend no more than this each way, headers included [default: by mode]
    #[arg(long, value_name = "SIZE", value_parser = available_plan::parse_probe_budget, help_heading = "Probes")]
    pub bytes: Option<u64>,
    /// Bytes of a full probe, IP header included [default: what the path takes]
    #[arg(long, value_name = "BYTES", value_parser = available_plan::parse_packet_bytes, help_heading = "Probes")]
    pub packet_bytes: Option<u32>,
    /// DSCP of the probes: a name (CS1, EF) or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "Probes")]
    pub dscp: Option<u8>,
    /// Look for a large token bucket: at full rate, at most this long [default: 20 s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "20s", value_parser = available_plan::parse_shaper_time, help_heading = "Probes",
    )]
    pub shaper: Option<u64>,
    /// By bulk TCP to this port, where no longhaul answers
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
