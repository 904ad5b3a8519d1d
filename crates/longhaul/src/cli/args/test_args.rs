//! Options of `longhaul test`, with iperf3's letters where the meaning is the same.

use super::{ArchiveArgs, Iperf3UserArgs, LocalArgs, TestCaptureArgs, TokenArgs};
use crate::cli::expectation::ThroughputExpectation;
use crate::cli::value_parsers::{self, StartAt};
use clap::{Args, ValueEnum};
use longhaul_model::report::v1::plan::CoreAffinity;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul test far                     one stream, ten seconds
  longhaul test far -P 9 -w 64M -t 30   nine streams, 64 MiB buffers, 30 s
  longhaul test far -R                  the far end sends
  longhaul test far --bidir --json      both directions at once, as JSON
  longhaul test far -u -b 500M          UDP at 500 Mbit/s: loss and jitter
  longhaul test far --iperf3            the far end is an iperf3 server
  longhaul test far --expect 'goodput >= 9 Gbit/s'
                                        exit code 1 when that is missed";

const DETAILS: &str = "\
Sizes take K, M, G (powers of 1024), KiB, MiB, GiB, or kB, MB, GB (powers of 1000).
Rates take K, M, G (powers of 1000 bit/s), Mbit/s, Gbit/s, or MB/s.
Durations take ns, us, ms, s, min, h; a bare number is seconds.

Buffers are asked and granted: Linux clips them at net.core.rmem_max and
net.core.wmem_max, and the report always says what was granted. Without
--window the kernel sizes them, which is best on most hosts.

Goodput is payload that reached the receiver's memory (`delivered`). With --wire
the receiver discards it in its kernel, which shows what path and stack can do;
the result is labelled `wire`.

With --iperf3 the far end is an iperf3 server, 3.1 or newer. One that answers
where `longhaul serve` was expected is found by itself, unless a token is
given: it could not prove that it knows it. docs/iperf3.md says what it cannot
do and does not tell.

Every finished run goes into the archive before it is shown. An archive that
fails costs the entry, not the result: the report then carries the caveat
`not_archived`, and the exit code is that of the measurement.";

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
    /// Name or address of the far end, where `longhaul serve` or an iperf3 server runs
    #[arg(value_name = "HOST", value_parser = value_parsers::parse_host)]
    pub host: String,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_port)]
    pub port: u16,

    /// Streams in each direction [default: 1]
    #[arg(short = 'P', long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Load")]
    pub streams: Option<u32>,
    /// Send for this long [default: 10 s]
    #[arg(
        short, long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Load",
        conflicts_with_all = ["bytes", "blocks"],
    )]
    pub time: Option<u64>,
    /// Send this many bytes, all streams together
    #[arg(
        short = 'n', long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes,
        help_heading = "Load", conflicts_with = "blocks",
    )]
    pub bytes: Option<u64>,
    /// Send this many writes (16K), all streams together
    #[arg(short = 'k', long, value_name = "N", value_parser = value_parsers::parse_blocks, help_heading = "Load")]
    pub blocks: Option<u64>,
    /// The far end sends
    #[arg(short = 'R', long, help_heading = "Load", conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both ends send at once, on streams of their own
    #[arg(long, visible_alias = "both", help_heading = "Load")]
    pub bidir: bool,
    /// Datagrams instead of TCP: counts loss and jitter
    #[arg(
        short,
        long,
        help_heading = "Load",
        conflicts_with_all = ["congestion_control", "mss", "no_delay", "zerocopy"],
    )]
    pub udp: bool,
    /// Total rate of the sender: how fast the application writes (TCP), or the datagrams go
    /// (UDP, default 1 Mbit/s)
    #[arg(short, long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Load")]
    pub bitrate: Option<u64>,
    /// Total rate at which the receiver's application reads
    #[arg(long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Load")]
    pub read_rate: Option<u64>,
    /// Begin at this time: HH:MM, HH:MM:SS or RFC 3339, UTC
    #[arg(long, value_name = "WHEN", value_parser = value_parsers::parse_start_at, help_heading = "Load")]
    pub start_at: Option<StartAt>,

    /// Ask for this send and receive buffer at both ends
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub window: Option<u64>,
    /// Ask for this send buffer; goes before --window
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub send_buffer: Option<u64>,
    /// Ask for this receive buffer; goes before --window
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_buffer_size, help_heading = "TCP and sockets")]
    pub receive_buffer: Option<u64>,
    /// Bytes of one write, or payload of one datagram [default: chosen by the engine]
    #[arg(short, long, value_name = "SIZE", value_parser = value_parsers::parse_io_size, help_heading = "TCP and sockets")]
    pub length: Option<u64>,
    /// Bytes of one read [default: chosen by the engine]
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_io_size, help_heading = "TCP and sockets")]
    pub read_length: Option<u64>,
    /// Congestion control of the sender, such as cubic or bbr
    #[arg(
        short = 'C', long, value_name = "NAME", visible_alias = "congestion",
        value_parser = value_parsers::parse_congestion_control, help_heading = "TCP and sockets",
    )]
    pub congestion_control: Option<String>,
    /// Let the kernel pace each stream at this rate at most
    #[arg(
        long, value_name = "RATE", visible_alias = "fq-rate", value_parser = value_parsers::parse_rate,
        help_heading = "TCP and sockets",
    )]
    pub pacing: Option<u64>,
    /// Maximum segment size in bytes
    #[arg(
        short = 'M', long, value_name = "BYTES", visible_alias = "set-mss",
        value_parser = value_parsers::parse_mss, help_heading = "TCP and sockets",
    )]
    pub mss: Option<u32>,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = value_parsers::parse_dscp, help_heading = "TCP and sockets")]
    pub dscp: Option<u8>,
    /// Yield to others: hold the queue below a small delay, and mark packets as lower effort
    #[arg(long, help_heading = "TCP and sockets", conflicts_with = "udp")]
    pub scavenger: bool,
    /// Send small writes at once (TCP_NODELAY)
    #[arg(short = 'N', long, help_heading = "TCP and sockets")]
    pub no_delay: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    /// Cores of the stream threads: auto, off, or a list for this end and, after a slash, one
    /// for the far end, such as 0-3/4,6
    #[arg(
        short = 'A', long, value_name = "CORES", default_value = "auto",
        value_parser = value_parsers::parse_affinity, help_heading = "Host",
    )]
    pub affinity: CoreAffinity,
    /// Zero-copy writes
    #[arg(short = 'Z', long, help_heading = "Host")]
    pub zerocopy: bool,
    /// The receiver discards the payload in its kernel
    #[arg(long, help_heading = "Host")]
    pub wire: bool,

    /// Spacing of samples [default: 100 ms, at least one round trip]
    #[arg(short, long, value_name = "TIME", value_parser = value_parsers::parse_interval, help_heading = "Measurement")]
    pub interval: Option<u64>,
    /// Leave out this much of the beginning [default: found from the data]
    #[arg(short = 'O', long, value_name = "TIME", value_parser = value_parsers::parse_warm_up, help_heading = "Measurement")]
    pub omit: Option<u64>,
    /// Exit with 1 unless this holds; may be repeated. Of goodput, mean_goodput, rtt, rtt_max,
    /// retransmits, loss, jitter, limited_by
    #[arg(long, value_name = "CONDITION", value_parser = value_parsers::parse_expectation, help_heading = "Measurement")]
    pub expect: Vec<ThroughputExpectation>,
    /// Give up when no connection is made in this time
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::parse_connect_timeout,
        help_heading = "Measurement",
    )]
    pub connect_timeout: Duration,

    /// The far end is an iperf3 server
    #[arg(long, help_heading = "Measurement")]
    pub iperf3: bool,
    #[command(flatten)]
    pub iperf3_user: Iperf3UserArgs,

    #[command(flatten)]
    pub token: TokenArgs,

    #[command(flatten)]
    pub capture: TestCaptureArgs,

    /// What to print: a report for people, our JSON, or JSON in the shape of iperf3's
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        help_heading = "Output",
        conflicts_with = "json"
    )]
    pub format: TestFormat,
    /// The report as JSON on stdout
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// No lines while the run is going on
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Keep the run in the archive (the default)
    #[arg(long, help_heading = "Output", overrides_with = "no_save")]
    pub save: bool,
    /// Do not keep the run
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

impl TestArgs {
    /// Returns the output format of the run.
    pub fn output_format(&self) -> TestFormat {
        if self.json {
            TestFormat::Json
        } else {
            self.format
        }
    }
}
