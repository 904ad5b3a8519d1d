//! Options of `longhaul serve`.

use super::TokenArgs;
use crate::cli::value_parsers;
use clap::Args;
use longhaul_copy::FilesRoot;
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul serve                 generate a token; limit anonymous clients
  longhaul serve --token-file /etc/longhaul/token
  longhaul serve --anonymous     no token: limit all clients";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Port to listen on
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = value_parsers::accept_count::<u16>(0..=65_535))]
    pub port: u16,
    /// Local address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Local interface to listen on
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device)]
    pub bind_dev: Option<String>,
    /// Exit after one run
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// Maximum streams of a run in each direction
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = value_parsers::parse_streams)]
    pub max_streams: u32,
    /// Maximum concurrent runs, all clients together
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = value_parsers::accept_count::<u32>(1..=1024))]
    pub max_sessions: u32,
    /// Refuse requests for packet captures
    #[arg(long)]
    pub no_capture: bool,
    /// Let clients copy files from below DIR; with DIR:rw, clients with the token may also write
    /// there. May be repeated: then remote names begin with the last part of DIR
    #[arg(long, value_name = "DIR", value_parser = value_parsers::parse_served_folder)]
    pub files: Vec<FilesRoot>,
    /// Refuse iperf3 clients
    #[arg(long)]
    pub no_iperf3: bool,
    /// Log one JSON object per line
    #[arg(short = 'J', long)]
    pub json: bool,

    #[command(flatten)]
    pub token: TokenArgs,
    /// Use no token: serve all clients within the anonymous limits
    #[arg(long, help_heading = "Access", conflicts_with_all = ["token", "token_file"])]
    pub anonymous: bool,
    /// Refuse clients without the token
    #[arg(long, help_heading = "Access", conflicts_with = "anonymous")]
    pub token_only: bool,
    /// Private RSA key (PEM) for the credentials of iperf3 clients
    #[arg(long, value_name = "FILE", requires = "iperf3_users", help_heading = "Access")]
    pub iperf3_key: Option<PathBuf>,
    /// Authorized users of iperf3: name, comma, SHA-256 of `{name}password`
    #[arg(long, value_name = "FILE", requires = "iperf3_key", help_heading = "Access")]
    pub iperf3_users: Option<PathBuf>,
    /// Maximum clock skew of iperf3 clients, and the time to reject replays [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_run_time, requires = "iperf3_key", help_heading = "Access")]
    pub iperf3_skew: Option<u64>,
    /// Maximum concurrent runs without a token
    #[arg(long, value_name = "N", value_parser = value_parsers::accept_count::<u32>(1..=1024), help_heading = "Access")]
    pub anonymous_runs: Option<u32>,
    /// Maximum streams of a run without a token
    #[arg(long, value_name = "N", value_parser = value_parsers::parse_streams, help_heading = "Access")]
    pub anonymous_streams: Option<u32>,
    /// Maximum duration of a run without a token
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_run_time, help_heading = "Access")]
    pub anonymous_time: Option<u64>,
    /// Maximum rate of a run without a token
    #[arg(long, value_name = "RATE", value_parser = value_parsers::parse_rate, help_heading = "Access")]
    pub anonymous_rate: Option<u64>,
    /// Maximum bytes of a run without a token
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::parse_run_bytes, help_heading = "Access")]
    pub anonymous_bytes: Option<u64>,
}
