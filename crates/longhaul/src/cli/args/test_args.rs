//! Options of `longhaul test`, with iperf3's letters where the meaning is the same.

use super::{Iperf3UserArgs, LocalArgs, OutputArgs, ReportOutputArgs, TestCaptureArgs, TokenArgs};
use crate::cli::expectation::ThroughputExpectation;
use crate::cli::value_parsers;
use clap::{Args, ValueEnum};
use longhaul_model::report::v1::plan::CoreAffinity;
use longhaul_probe::plan_limits;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul test far                     1 stream for 10 s
  longhaul test far -P 9 -w 64M -t 30   9 streams, 64 MiB buffers, 30 s
  longhaul test far -R                  reverse: the server sends
  longhaul test far --bidir --json      both directions at once, as JSON
  longhaul test far -u -b 500M          UDP at 500 Mbit/s: loss and jitter
  longhaul test far --iperf3            against an iperf3 server
  longhaul test far --expect 'goodput >= 9 Gbit/s'
                                        exit with 1 if goodput is lower";

const DETAILS: &str = "\
Sizes take K, M, G (powers of 1024), KiB, MiB, GiB, or kB, MB, GB (powers of
1000). Rates take K, M, G (powers of 1000 bit/s), Mbit/s, Gbit/s, or MB/s.
Times take ns, us, ms, s, min, h; a bare number is in seconds.

--window requests a buffer size. Linux limits it to net.core.rmem_max and
net.core.wmem_max, and the report shows the size that was granted. Without
--window the kernel autotunes the buffers, which is best on most hosts.

Goodput is the payload that reached the memory of the receiving program
(`delivered`). With --wire the receiver's kernel discards the payload, which
shows what path and network stack can do; the result is labelled `wire`.

With --iperf3 the server is an iperf3 server, version 3.1 or newer. Without it,
an iperf3 server is detected automatically unless a token is given, because
iperf3 cannot prove that it knows the token. docs/iperf3.md lists what an iperf3
server does not support or report.

Every run is archived before it is shown. If the archive fails, the result is
shown with the caveat `not_archived`, and the exit code does not change.";

/// In which shape a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    Text,
    Json,
    Iperf3,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct TestArgs {
    /// Name or address of the server (`longhaul serve` or iperf3)
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Number of streams in each direction [default: 1]
    #[arg(short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Load")]
    pub streams: Option<u32>,
    /// Time to send for [default: 10 s]
    #[arg(
        short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Load",
        conflicts_with_all = ["bytes", "blocks"],
    )]
    pub time: Option<u64>,
    /// Number of bytes to send, all streams together
    #[arg(
        short = 'n', long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes,
        help_heading = "Load", conflicts_with = "blocks",
    )]
    pub bytes: Option<u64>,
    /// Number of writes to send (such as 16K), all streams together
    #[arg(short = 'k', long, value_name = "N", value_parser = value_parsers::parse_blocks, help_heading = "Load")]
    pub blocks: Option<u64>,
    /// Reverse: the server sends
    #[arg(short = 'R', long, help_heading = "Load", conflicts_with = "bidir")]
    pub reverse: bool,
    /// Send in both directions at once, on separate streams
    #[arg(long, visible_alias = "both", help_heading = "Load")]
    pub bidir: bool,
    /// Use UDP and measure loss and jitter
    #[arg(
        short,
        long,
        help_heading = "Load",
        conflicts_with_all = ["congestion_control", "mss", "no_delay", "zerocopy"],
    )]
    pub udp: bool,
    /// Total rate at which the sender writes [default: unlimited for TCP, 1 Mbit/s for UDP]
    #[arg(short, long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Load")]
    pub bitrate: Option<u64>,
    /// Total rate at which the receiver reads [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Load")]
    pub read_rate: Option<u64>,

    /// Request this send and receive buffer size at both ends
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub window: Option<u64>,
    /// Request this send buffer size (overrides --window)
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub send_buffer: Option<u64>,
    /// Request this receive buffer size (overrides --window)
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub receive_buffer: Option<u64>,
    /// Bytes per write, or payload bytes per datagram [default: automatic]
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub length: Option<u64>,
    /// Bytes per read [default: automatic]
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub read_length: Option<u64>,
    /// Congestion control of the sender, such as cubic or bbr
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "TCP and sockets",
    )]
    pub congestion_control: Option<String>,
    /// Maximum rate at which the kernel paces each stream
    #[arg(
        long, value_name = "RATE", visible_alias = "fq-rate", value_parser = value_parsers::parse_rate,
        help_heading = "TCP and sockets",
    )]
    pub pacing: Option<u64>,
    /// Maximum segment size in bytes
    #[arg(
        short = 'M', long, value_name = "BYTES", visible_alias = "set-mss",
        value_parser = value_parsers::accept_count::<u32>(plan_limits::MSS_BYTES), help_heading = "TCP and sockets",
    )]
    pub mss: Option<u32>,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "TCP and sockets")]
    pub dscp: Option<u8>,
    /// Yield to other traffic: keep queueing delay low, mark packets as lower effort (LE)
    #[arg(long, help_heading = "TCP and sockets", conflicts_with = "udp")]
    pub scavenger: bool,
    /// Disable Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, help_heading = "TCP and sockets")]
    pub no_delay: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Cores of the stream threads: auto, off, or a list for this host and, after a slash, one
    /// for the server, such as 0-3/4,6
    #[arg(
        short = 'A', long, value_name = "CORES", default_value = "auto",
        value_parser = value_parsers::parse_affinity, help_heading = "Host",
    )]
    pub affinity: CoreAffinity,
    /// Use zero-copy writes
    #[arg(short = 'Z', long, help_heading = "Host")]
    pub zerocopy: bool,
    /// Discard the payload in the receiver's kernel
    #[arg(long, help_heading = "Host")]
    pub wire: bool,

    /// Time between samples [default: 100 ms, or the RTT if longer]
    #[arg(short, long, value_name = "TIME", value_parser = value_parsers::accept_micros(plan_limits::INTERVAL_US), help_heading = "Measurement")]
    pub interval: Option<u64>,
    /// Omit this time at the start of the run [default: the detected ramp]
    #[arg(short = 'O', long, value_name = "TIME", value_parser = value_parsers::accept_micros(0..=plan_limits::MAX_RUN_US), help_heading = "Measurement")]
    pub omit: Option<u64>,
    /// Exit with 1 unless the condition holds; may be repeated. Quantities: goodput,
    /// mean_goodput, rtt, rtt_max, retransmits, loss, jitter, limited_by
    #[arg(long, value_name = "CONDITION", help_heading = "Measurement")]
    pub expect: Vec<ThroughputExpectation>,
    /// Maximum time to connect
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Measurement",
    )]
    pub connect_timeout: Duration,

    /// The server is an iperf3 server
    #[arg(long, help_heading = "Measurement")]
    pub iperf3: bool,
    #[command(flatten)]
    pub iperf3_user: Iperf3UserArgs,

    #[command(flatten)]
    pub token: TokenArgs,

    #[command(flatten)]
    pub capture: TestCaptureArgs,

    /// Output format: text, longhaul's JSON, or JSON like that of iperf3
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        help_heading = "Output",
        conflicts_with_all = ["json", "markdown"]
    )]
    pub format: TestFormat,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl TestArgs {
    /// Returns the output of the report, with `--format json` as `--json`.
    pub fn report_output(&self) -> ReportOutputArgs {
        ReportOutputArgs {
            json: self.output_format() == TestFormat::Json,
            ..self.output.form.clone()
        }
    }

    /// Returns the output format of the run.
    pub fn output_format(&self) -> TestFormat {
        if self.output.form.json { TestFormat::Json } else { self.format }
    }
}
