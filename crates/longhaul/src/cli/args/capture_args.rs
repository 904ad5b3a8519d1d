//! Options of `longhaul capture`, and the options of `longhaul test` that capture packets.

use crate::cli::value_parsers;
use clap::{Args, Subcommand};
use longhaul_model::report::v1::capture::CapturePlan;
use longhaul_probe::plan_limits;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul test far --capture run.pcapng     write run.pcapng and run-far.pcapng
  longhaul capture show run.pcapng           options, retransmits, RTT, windows
  longhaul capture text run.pcapng           print the first 100 packets
  longhaul capture anonymise run.pcapng shown.pcapng

Reads pcap and pcapng; truncated files are read up to the damage. Exit code 1:
the file is damaged; the packets before the damage are shown.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CaptureArgs {
    #[command(subcommand)]
    pub command: CaptureCommand,
}

#[derive(Debug, Subcommand)]
pub enum CaptureCommand {
    /// Show handshakes, retransmits, RTT, windows and payload of each flow
    Show {
        /// Capture to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the analysis as JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
    },
    /// Print the first packets as text
    Text {
        /// Capture to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Number of packets to print
        #[arg(
            short = 'n', long, value_name = "N", default_value_t = 100,
            value_parser = value_parsers::accept_count::<u64>(1..=plan_limits::MAX_CAPTURE_PACKETS),
        )]
        packets: u64,
    },
    /// Write a copy with other addresses, without payload, link headers and comments
    Anonymise {
        /// Capture to read
        #[arg(value_name = "FROM")]
        from: PathBuf,
        /// Copy to write
        #[arg(value_name = "TO")]
        to: PathBuf,
        /// Overwrite an existing file
        #[arg(long)]
        overwrite: bool,
    },
}

/// What `longhaul test` captures.
#[derive(Debug, Clone, Default, Args)]
pub struct TestCaptureArgs {
    /// Capture packets of this run to FILE, and those of the server to a second file with `-far`
    /// before the extension (pcapng; needs CAP_NET_RAW)
    #[arg(long, value_name = "FILE", help_heading = "Capture")]
    pub capture: Option<PathBuf>,
    /// Maximum number of packets at each end [default: 50000]
    #[arg(
        long, value_name = "N", requires = "capture", value_parser = value_parsers::accept_count::<u64>(1..=plan_limits::MAX_CAPTURE_PACKETS),
        help_heading = "Capture",
    )]
    pub capture_packets: Option<u64>,
    /// Keep the last packets instead of the first
    #[arg(long, requires = "capture", help_heading = "Capture")]
    pub capture_last: bool,
    /// Bytes to keep of each packet [default: only the headers]
    #[arg(
        long, value_name = "SIZE", requires = "capture", value_parser = value_parsers::parse_snap_length,
        help_heading = "Capture",
    )]
    pub capture_bytes: Option<u32>,
    /// Capture only at this end
    #[arg(long, requires = "capture", help_heading = "Capture")]
    pub capture_near: bool,
    /// Overwrite existing files
    #[arg(long, requires = "capture", help_heading = "Capture")]
    pub capture_overwrite: bool,
}

/// The default number of packets: about 6 MB of headers, enough for the start of any run.
const DEFAULT_CAPTURE_PACKETS: u64 = 50_000;

impl TestCaptureArgs {
    pub fn plan(&self) -> Option<CapturePlan> {
        self.capture.as_ref()?;
        Some(CapturePlan {
            snap_bytes: self.capture_bytes,
            packets: self.capture_packets.unwrap_or(DEFAULT_CAPTURE_PACKETS),
            last: self.capture_last,
            far: !self.capture_near,
        })
    }
}
