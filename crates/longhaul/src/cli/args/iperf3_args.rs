//! Options of `longhaul iperf3`, with iperf3's names, for both roles in one list as in iperf3.
//!
//! Values are parsed here as iperf3 parses them: sizes in powers of 1024, rates in powers of 1000.
//! `cli::iperf3` checks combinations of options and reports errors with iperf3's messages.

use crate::cli::iperf3::password;
use crate::cli::iperf3::value::{self, Affinity, Burst, HostAndDevice, Timestamps};
use crate::command_failure::{CommandFailure, USAGE};
use clap::{Args, Parser};
use longhaul_iperf3::client_run::{LoginCredentials, TokenPadding};
use longhaul_iperf3::text_output::RateFormat;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `longhaul iperf3` is followed by: read by [`Iperf3Args`], which speaks as iperf3 does.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct Iperf3PassthroughArgs {
    /// Options as `iperf3` has them; `longhaul iperf3 -h` lists them
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// Measure as iperf3 does: same options, same text, same JSON.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "iperf3",
    disable_version_flag = true,
    disable_help_flag = true,
    args_override_self = true,
    infer_long_args = true,
    max_term_width = 80
)]
pub struct Iperf3Args {
    /// Server port to listen on, or to connect to
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value::port)]
    pub port: u16,
    /// Unit of rates: k, m, g, t for bits, K, M, G, T for bytes
    #[arg(short, long, value_name = "UNIT", default_value = "a", value_parser = value::unit)]
    pub format: RateFormat,
    /// Seconds between reports; 0: none but the last
    #[arg(short, long, value_name = "SECONDS", value_parser = value::interval)]
    pub interval: Option<Duration>,
    /// File for the process id
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Send from, or receive into, this file
    #[arg(short = 'F', long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Core of this end, or of both ends: N or N,M
    #[arg(short = 'A', long, value_name = "CORES", value_parser = value::affinity)]
    pub affinity: Option<Affinity>,
    /// Local address, and after a % a device
    #[arg(short = 'B', long, value_name = "HOST", value_parser = value::place)]
    pub bind: Option<HostAndDevice>,
    /// Local device (SO_BINDTODEVICE)
    #[arg(long, value_name = "DEVICE")]
    pub bind_dev: Option<String>,
    /// More of everything
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// The result as JSON, at the end
    #[arg(short = 'J', long)]
    pub json: bool,
    /// JSON as it comes, one event a line
    #[arg(long)]
    pub json_stream: bool,
    /// With --json-stream: the whole object too, at the end
    #[arg(long)]
    pub json_stream_full_output: bool,
    /// File for all output
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Flush output at every report
    #[arg(long)]
    pub forceflush: bool,
    /// A time in front of every line, in this form of strftime
    #[arg(
        long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "%c ", value_parser = value::timestamps,
    )]
    pub timestamps: Option<Timestamps>,
    /// End the test when nothing comes for so many milliseconds
    #[arg(long, value_name = "MS", value_parser = value::receive_timeout)]
    pub rcv_timeout: Option<Duration>,
    /// Milliseconds that sent data may stay unacknowledged
    #[arg(long, value_name = "MS", value_parser = value::send_timeout)]
    pub snd_timeout: Option<Duration>,
    /// Say more of what is done
    #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4")]
    pub debug: Option<u8>,
    /// Version
    #[arg(short, long)]
    pub version: bool,
    /// This list
    #[arg(short, long)]
    pub help: bool,
    /// Only IPv4
    #[arg(short = '4', long)]
    pub version4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub version6: bool,
    /// The older padding of user tokens, instead of OAEP
    #[arg(long)]
    pub use_pkcs1_padding: bool,
    /// Keep the control connection alive: idle, interval, count
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub cntl_ka: Option<String>,
    /// MPTCP instead of TCP
    #[arg(short = 'm', long)]
    pub mptcp: bool,

    #[command(flatten)]
    pub server: Iperf3ServerArgs,
    #[command(flatten)]
    pub client: Iperf3ClientArgs,
}

/// What only a server knows.
#[derive(Debug, Clone, Args)]
pub struct Iperf3ServerArgs {
    /// Be the server
    #[arg(short, long, help_heading = "Server")]
    pub server: bool,
    /// Go into the background
    #[arg(short = 'D', long, help_heading = "Server")]
    pub daemon: bool,
    /// Serve one test, then end
    #[arg(short = '1', long, help_heading = "Server")]
    pub one_off: bool,
    /// The most that a test may carry in bit/s, after a slash over how many seconds
    #[arg(long, value_name = "RATE", value_parser = value::burst, help_heading = "Server")]
    pub server_bitrate_limit: Option<Burst>,
    /// Start anew after so many seconds without a test
    #[arg(long, value_name = "SECONDS", help_heading = "Server")]
    pub idle_timeout: Option<u32>,
    /// The longest test in seconds
    #[arg(long, value_name = "SECONDS", help_heading = "Server")]
    pub server_max_duration: Option<u32>,
    /// Private key for users' tokens
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub rsa_private_key_path: Option<PathBuf>,
    /// Users and the hashes of their passwords
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub authorized_users_path: Option<PathBuf>,
    /// Seconds that the clocks of both ends may differ
    #[arg(long, value_name = "SECONDS", help_heading = "Server")]
    pub time_skew_threshold: Option<u32>,
}

/// What only a client knows.
#[derive(Debug, Clone, Args)]
pub struct Iperf3ClientArgs {
    /// Be the client of this server; after a % a device
    #[arg(short = 'c', long = "client", value_name = "HOST", value_parser = value::place, help_heading = "Client")]
    pub host: Option<HostAndDevice>,
    /// SCTP instead of TCP
    #[arg(long, help_heading = "Client")]
    pub sctp: bool,
    /// Bind an SCTP association
    #[arg(short = 'X', long, value_name = "NAME", help_heading = "Client")]
    pub xbind: Option<String>,
    /// SCTP streams
    #[arg(long, value_name = "N", help_heading = "Client")]
    pub nstreams: Option<u32>,
    /// UDP instead of TCP
    #[arg(short, long, help_heading = "Client")]
    pub udp: bool,
    /// Milliseconds for the control connection
    #[arg(long, value_name = "MS", value_parser = value::connect_timeout, help_heading = "Client")]
    pub connect_timeout: Option<Duration>,
    /// Bits per second of each stream; 0: no limit; after a slash how many blocks at once
    #[arg(
        short, long, value_name = "RATE", visible_alias = "bandwidth", value_parser = value::burst,
        help_heading = "Client"
    )]
    pub bitrate: Option<Burst>,
    /// Microseconds between two looks at the rate
    #[arg(long, value_name = "US", value_parser = value::size, help_heading = "Client")]
    pub pacing_timer: Option<u64>,
    /// Bits per second of each stream, kept by the kernel
    #[arg(long, value_name = "RATE", value_parser = value::rate, help_heading = "Client")]
    pub fq_rate: Option<u64>,
    /// Seconds to transmit
    #[arg(short, long, value_name = "SECONDS", value_parser = value::seconds, help_heading = "Client")]
    pub time: Option<u32>,
    /// Bytes to transmit
    #[arg(short = 'n', long, value_name = "SIZE", visible_alias = "num", value_parser = value::size, help_heading = "Client")]
    pub bytes: Option<u64>,
    /// Blocks to transmit
    #[arg(short = 'k', long, value_name = "N", value_parser = value::size, help_heading = "Client")]
    pub blockcount: Option<u64>,
    /// Bytes of a block, or of a datagram
    #[arg(short, long, value_name = "SIZE", value_parser = value::size, help_heading = "Client")]
    pub length: Option<u64>,
    /// Local port of the first data stream
    #[arg(long, value_name = "PORT", value_parser = value::port, help_heading = "Client")]
    pub cport: Option<u16>,
    /// Streams at one time
    #[arg(short = 'P', long, value_name = "N", value_parser = value::streams, help_heading = "Client")]
    pub parallel: Option<u32>,
    /// The server sends
    #[arg(short = 'R', long, help_heading = "Client")]
    pub reverse: bool,
    /// Both ends send
    #[arg(long, help_heading = "Client")]
    pub bidir: bool,
    /// Size of both socket buffers
    #[arg(short, long, value_name = "SIZE", value_parser = value::window, help_heading = "Client")]
    pub window: Option<u64>,
    /// Congestion control
    #[arg(
        short = 'C',
        long,
        value_name = "NAME",
        visible_alias = "linux-congestion",
        help_heading = "Client"
    )]
    pub congestion: Option<String>,
    /// Maximum segment size
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = value::mss, help_heading = "Client")]
    pub set_mss: Option<u32>,
    /// Send small writes at once
    #[arg(short = 'N', long, help_heading = "Client")]
    pub no_delay: bool,
    /// Type of service, 0 to 255
    #[arg(short = 'S', long, value_name = "TOS", value_parser = value::tos, help_heading = "Client")]
    pub tos: Option<u8>,
    /// DSCP, 0 to 63 or a name
    #[arg(long, value_name = "DSCP", value_parser = value::dscp, help_heading = "Client")]
    pub dscp: Option<u8>,
    /// IPv6 flow label
    #[arg(short = 'L', long, value_name = "N", value_parser = value::number, help_heading = "Client")]
    pub flowlabel: Option<u64>,
    /// Send without copying
    #[arg(short = 'Z', long, help_heading = "Client")]
    pub zerocopy: bool,
    /// Seconds before anything counts
    #[arg(short = 'O', long, value_name = "SECONDS", value_parser = value::omit, help_heading = "Client")]
    pub omit: Option<u32>,
    /// In front of every line
    #[arg(short = 'T', long, value_name = "TEXT", help_heading = "Client")]
    pub title: Option<String>,
    /// Text to keep in the JSON of both ends
    #[arg(long, value_name = "TEXT", help_heading = "Client")]
    pub extra_data: Option<String>,
    /// Print the server's output too
    #[arg(long, help_heading = "Client")]
    pub get_server_output: bool,
    /// Datagrams are counted with 64 bits
    #[arg(long, help_heading = "Client")]
    pub udp_counters_64bit: bool,
    /// Payload that repeats itself
    #[arg(long, help_heading = "Client")]
    pub repeating_payload: bool,
    /// Discard at the receiver, in the kernel
    #[arg(long, help_heading = "Client")]
    pub skip_rx_copy: bool,
    /// Set "don't fragment" (IPv4)
    #[arg(long, help_heading = "Client")]
    pub dont_fragment: bool,
    /// Several datagrams in one call
    #[arg(long, help_heading = "Client")]
    pub gsro: bool,
    /// Who measures; the password comes from IPERF3_PASSWORD or the terminal
    #[arg(long, value_name = "NAME", help_heading = "Client")]
    pub username: Option<String>,
    /// Public key of the server
    #[arg(long, value_name = "FILE", help_heading = "Client")]
    pub rsa_public_key_path: Option<PathBuf>,
}

impl Iperf3ServerArgs {
    /// Returns true if any server option other than the role itself is set.
    pub fn any_option_set(&self) -> bool {
        self.daemon
            || self.one_off
            || self.server_bitrate_limit.is_some()
            || self.idle_timeout.is_some()
            || self.server_max_duration.is_some()
            || self.rsa_private_key_path.is_some()
            || self.authorized_users_path.is_some()
            || self.time_skew_threshold.is_some()
    }
}

impl Iperf3ClientArgs {
    /// Returns true if any option is set that iperf3 refuses on a server.
    pub fn any_option_set(&self) -> bool {
        let flags = [
            self.udp,
            self.reverse,
            self.bidir,
            self.no_delay,
            self.get_server_output,
            self.dont_fragment,
            self.repeating_payload,
            self.sctp,
        ];
        let values = [
            self.connect_timeout.is_some(),
            self.bitrate.is_some(),
            self.fq_rate.is_some(),
            self.time.is_some(),
            self.bytes.is_some(),
            self.blockcount.is_some(),
            self.length.is_some(),
            self.cport.is_some(),
            self.parallel.is_some(),
            self.window.is_some(),
            self.congestion.is_some(),
            self.set_mss.is_some(),
            self.tos.is_some(),
            self.dscp.is_some(),
            self.flowlabel.is_some(),
            self.omit.is_some(),
            self.title.is_some(),
            self.extra_data.is_some(),
            self.username.is_some(),
            self.rsa_public_key_path.is_some(),
        ];
        flags.into_iter().chain(values).any(|asked| asked)
    }
}

/// A user of an iperf3 server, of commands that are not the personality.
#[derive(Debug, Clone, Default, Args)]
pub struct Iperf3UserArgs {
    /// User of an iperf3 server that wants one; the password comes from IPERF3_PASSWORD or the
    /// terminal
    #[arg(
        id = "iperf3_user",
        long = "iperf3-user",
        value_name = "NAME",
        requires = "iperf3_public_key",
        help_heading = "Access"
    )]
    pub user: Option<String>,
    /// Public RSA key of that server, in PEM
    #[arg(
        id = "iperf3_public_key",
        long = "iperf3-public-key",
        value_name = "FILE",
        requires = "iperf3_user",
        help_heading = "Access"
    )]
    pub public_key: Option<PathBuf>,
    /// The padding of iperf3 before 3.17, PKCS #1 v1.5
    #[arg(
        id = "iperf3_pkcs1",
        long = "iperf3-pkcs1",
        requires = "iperf3_user",
        help_heading = "Access"
    )]
    pub pkcs1: bool,
}

impl Iperf3UserArgs {
    /// Asks for the password of the user. Returns `None` if no user is given.
    pub fn login(&self) -> Result<Option<LoginCredentials>, CommandFailure> {
        let (Some(user), Some(key)) = (&self.user, &self.public_key) else {
            return Ok(None);
        };
        let password = password::ask()
            .map_err(|error| CommandFailure::new(USAGE, error).hint(Some("set IPERF3_PASSWORD")))?;
        let login = LoginCredentials::new(key, user, &password, choose_padding(self.pkcs1));
        login
            .map(Some)
            .map_err(|error| CommandFailure::from_error(USAGE, &error))
    }
}

/// Returns the padding of a user's token.
pub fn choose_padding(pkcs1: bool) -> TokenPadding {
    if pkcs1 {
        TokenPadding::Pkcs1
    } else {
        TokenPadding::Oaep
    }
}
