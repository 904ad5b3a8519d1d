//! Options of `longhaul serve`.

use super::TokenArgs;
use crate::cli::value_parsers;
use clap::Args;
use longhaul_probe::measurement_server::FilesRoot;
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul serve                 make a token, print it; strangers get limits
  longhaul serve --token-file /etc/longhaul/token
  longhaul serve --anonymous     no token: everybody gets the limits";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Port to listen on
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::parse_any_port)]
    pub port: u16,
    /// Local address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Local device to listen on
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device)]
    pub bind_dev: Option<String>,
    /// End after one run
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// Streams in each direction that one run may have
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = value_parsers::parse_streams)]
    pub max_streams: u32,
    /// Runs at one time, all peers together
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = value_parsers::parse_sessions)]
    pub max_sessions: u32,
    /// Make no captures for those who ask for one
    #[arg(long)]
    pub no_capture: bool,
    /// Let peers copy files from below DIR; with :rw those with the token may also write there.
    /// May be repeated: then a peer's names begin with the last part of DIR
    #[arg(long, value_name = "DIR", value_parser = value_parsers::parse_served_folder)]
    pub files: Vec<FilesRoot>,
    /// Do not answer iperf3's clients
    #[arg(long)]
    pub no_iperf3: bool,
    /// Give iperf3's clients the server's output as JSON instead of text
    #[arg(long, conflicts_with = "no_iperf3")]
    pub iperf3_json: bool,
    /// The log as one JSON object for each line
    #[arg(short = 'J', long)]
    pub json: bool,

    #[command(flatten)]
    pub token: TokenArgs,
    /// Make no token: answer everybody, within the anonymous limits
    #[arg(long, help_heading = "Access", conflicts_with_all = ["token", "token_file"])]
    pub anonymous: bool,
    /// Turn away whoever does not have the token
    #[arg(long, help_heading = "Access", conflicts_with = "anonymous")]
    pub token_only: bool,
    /// Private RSA key (PEM) for the tokens of iperf3's clients
    #[arg(
        long,
        value_name = "FILE",
        requires = "iperf3_users",
        help_heading = "Access"
    )]
    pub iperf3_key: Option<PathBuf>,
    /// Users of iperf3, as iperf3 has them: name, comma, SHA-256 of `{name}password`
    #[arg(
        long,
        value_name = "FILE",
        requires = "iperf3_key",
        help_heading = "Access"
    )]
    pub iperf3_users: Option<PathBuf>,
    /// How far their clocks may be off, and how long a token counts as used [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_run_time, requires = "iperf3_key", help_heading = "Access")]
    pub iperf3_skew: Option<u64>,
    /// Runs without a token at one time
    #[arg(long, value_name = "N", value_parser = value_parsers::parse_sessions, help_heading = "Access")]
    pub anonymous_runs: Option<u32>,
    /// Most streams of a run without a token
    #[arg(long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Access")]
    pub anonymous_streams: Option<u32>,
    /// Longest run without a token
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Access")]
    pub anonymous_time: Option<u64>,
    /// Highest rate of a run without a token
    #[arg(long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Access")]
    pub anonymous_rate: Option<u64>,
    /// Most bytes of a run without a token
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes, help_heading = "Access")]
    pub anonymous_bytes: Option<u64>,
}
