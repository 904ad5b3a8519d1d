//! Options of `longhaul capture`, and the options of `longhaul test` that capture packets.

use crate::cli::value_parsers;
use clap::{Args, Subcommand};
use longhaul_model::report::v1::capture::CapturePlan;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul test far --capture run.pcapng     makes run.pcapng and run-far.pcapng
  longhaul capture show run.pcapng           what was negotiated, lost, delayed
  longhaul capture text run.pcapng           the first 100 packets as text
  longhaul capture anonymise run.pcapng shown.pcapng

Files of pcapng and pcap are read, cut off ones as far as they go. Exit code 1:
the file is damaged; what is before the damage is shown.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CaptureArgs {
    #[command(subcommand)]
    pub command: CaptureCommand,
}

#[derive(Debug, Subcommand)]
pub enum CaptureCommand {
    /// Handshakes, packets sent again, round trips, windows and payload of each flow
    Show {
        /// Capture to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// As JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
    },
    /// The first packets as text, one after the other
    Text {
        /// Capture to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How many of them
        #[arg(
            short = 'n', long, value_name = "N", default_value_t = 100,
            value_parser = value_parsers::parse_capture_packets,
        )]
        packets: u64,
    },
    /// A copy with other addresses and without payload, link headers and comments
    Anonymise {
        /// Capture to read
        #[arg(value_name = "FROM")]
        from: PathBuf,
        /// Copy to write
        #[arg(value_name = "TO")]
        to: PathBuf,
        /// Replace TO if it is there
        #[arg(long)]
        overwrite: bool,
    },
}

/// What `longhaul test` captures.
#[derive(Debug, Clone, Default, Args)]
pub struct TestCaptureArgs {
    /// Capture this run's packets into FILE, and the far end's into one beside it, with `-far`
    /// before the extension (pcapng; needs CAP_NET_RAW)
    #[arg(long, value_name = "FILE", help_heading = "Capture")]
    pub capture: Option<PathBuf>,
    /// Keep so many packets at each end [default: 50000]
    #[arg(
        long, value_name = "N", requires = "capture", value_parser = value_parsers::parse_capture_packets,
        help_heading = "Capture",
    )]
    pub capture_packets: Option<u64>,
    /// Keep the last packets instead of the first
    #[arg(long, requires = "capture", help_heading = "Capture")]
    pub capture_last: bool,
    /// Keep so much of each packet [default: the headers alone]
    #[arg(
        long, value_name = "SIZE", requires = "capture", value_parser = value_parsers::parse_snap_length,
        help_heading = "Capture",
    )]
    pub capture_bytes: Option<u32>,
    /// Capture at this end only
    #[arg(long, requires = "capture", help_heading = "Capture")]
    pub capture_near: bool,
    /// Replace files that are there
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
