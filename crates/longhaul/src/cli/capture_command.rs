//! `longhaul capture`: analyses and prints packet captures.
//!
//! - [`capture_files`]: capture files of a run, local and remote

pub mod capture_files;

use crate::cli::args::OutputArgs;
use crate::cli::explain_command::{SeriesSource, is_named};
use crate::cli::value_parsers::{accept_count, parse_snap_length};
use crate::cli::{command_output, explain_command};
use crate::command_failure::{self, CommandFailure, USAGE};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use longhaul_analysis::capture_analysis::{CaptureAnalyser, MAX_CAPTURE_FLOWS};
use longhaul_capture::capture_reader::{CaptureDamage, CaptureReadError, CaptureReader};
use longhaul_model::decoded_packet::DecodedPacket;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::capture::{CapturePlan, CaptureReading, SCHEMA};
use longhaul_model::report::v1::flows::FlowsPlan;
use longhaul_model::report::v1::flows::flow_grouping::FlowSeries;
use longhaul_probe::plan_limits;
use longhaul_report::capture_text;
use serde_json::json;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/capture-examples.txt").trim_ascii_end();
const EXPLAIN_DETAILS: &str = include_str!("help/capture-explain-details.txt").trim_ascii_end();

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
    /// Name the limit of each transfer in a capture, as `longhaul explain` does of running ones
    #[command(after_help = EXPLAIN_DETAILS)]
    Explain {
        /// Captures to read: pcap or pcapng, also compressed (gzip, xz, zstd)
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Explain only the flows of this host or :port
        #[arg(long, value_name = "WHAT", default_value = "all", hide_default_value = true)]
        only: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the first packets as text
    Text {
        /// Capture to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Number of packets to print
        #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = accept_count::<u64>(PACKET_COUNTS))]
        packets: u64,
    },
}

/// The packets that `longhaul test` captures.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Capture")]
pub struct TestCaptureArgs {
    /// Capture packets of this run to FILE, and those of the server to a second file with `-far`
    /// before the extension (pcapng; needs CAP_NET_RAW)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub capture: Option<PathBuf>,
    /// Maximum number of packets at each end [default: 50000]
    #[arg(long, value_name = "N", requires = "capture", value_parser = accept_count::<u64>(PACKET_COUNTS), hide_short_help = true)]
    pub capture_packets: Option<u64>,
    /// Keep the last packets instead of the first
    #[arg(long, requires = "capture", hide_short_help = true)]
    pub capture_last: bool,
    /// Bytes to keep of each packet [default: only the headers]
    #[arg(long, value_name = "SIZE", requires = "capture", value_parser = parse_snap_length, hide_short_help = true)]
    pub capture_bytes: Option<u32>,
    /// Overwrite existing files
    #[arg(long, requires = "capture", hide_short_help = true)]
    pub capture_overwrite: bool,
}

const PACKET_COUNTS: RangeInclusive<u64> = 1..=plan_limits::MAX_CAPTURE_PACKETS;
/// The default number of packets: about 6 MB of headers, enough for the start of any run.
const DEFAULT_CAPTURE_PACKETS: u64 = 50_000;

impl TestCaptureArgs {
    pub fn plan(&self) -> Option<CapturePlan> {
        self.capture.as_ref()?;
        Some(CapturePlan {
            snap_bytes: self.capture_bytes,
            packets: self.capture_packets.unwrap_or(DEFAULT_CAPTURE_PACKETS),
            last: self.capture_last,
            far: true,
        })
    }
}

pub fn run(args: &CaptureArgs) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        CaptureCommand::Show { file, json } => show_capture(file, *json),
        CaptureCommand::Explain { files, only, output } => explain_captures(files, only, output),
        CaptureCommand::Text { file, packets } => print_first_packets(file, *packets),
    }
}

fn show_capture(file: &Path, as_json: bool) -> Result<ExitCode, CommandFailure> {
    let (reading, _) = analyse_capture(open_capture(file)?);
    command_output::print_json_or_document(
        as_json,
        &json!(reading),
        &capture_text::build_capture_document(&printable_file_name(file), &reading),
    )?;
    Ok(command_failure::met_exit_code(reading.damage.is_none()))
}

/// Analyses all packets of a capture.
fn analyse_capture(mut input: CaptureReader<'static>) -> (CaptureReading, Vec<FlowSeries>) {
    let mut analyser = CaptureAnalyser::default();
    let (mut packets, mut other_packets) = (0, 0);
    let (mut first_ns, mut last_ns) = (None, 0);
    while let Some(record) = input.next_packet() {
        packets += 1;
        first_ns.get_or_insert(record.at_ns);
        last_ns = record.at_ns.max(last_ns);
        match record.decode() {
            Some(packet) => analyser.add_packet(&packet),
            None => other_packets += 1,
        }
    }
    let found = analyser.finish();
    let about = input.file_info().clone();
    let started = first_ns.and_then(|ns| Timestamp::from_nanosecond(i128::from(ns)).ok());
    let reading = CaptureReading {
        schema: SCHEMA.to_owned(),
        format: input.format().to_owned(),
        application: about.application,
        comments: about.comments,
        interfaces: about.interfaces,
        packets,
        other_packets,
        started_at: started.map(|at| at.to_string()),
        duration_us: last_ns.saturating_sub(first_ns.unwrap_or(last_ns)) / 1000,
        damage: input.damage().map(CaptureDamage::to_string),
        flows: found.flows,
        left_out_packets: found.left_out_packets,
        payload: found.payload,
    };
    (reading, found.series)
}

/// Explains the transfers of all files in one report.
fn explain_captures(
    files: &[PathBuf],
    only: &str,
    output: &OutputArgs,
) -> Result<ExitCode, CommandFailure> {
    let mut source = SeriesSource {
        plan: FlowsPlan {
            interval_us: EXPLAIN_INTERVAL_US,
            flows_max: MAX_CAPTURE_FLOWS as u32,
            ..FlowsPlan::default()
        },
        flows: Vec::new(),
        started: Timestamp::UNIX_EPOCH,
        caveats: Vec::new(),
    };
    let mut names = Vec::new();
    for file in files {
        let name = printable_file_name(file);
        let (reading, series) = analyse_capture(open_capture(file)?);
        let started = reading.started_at.as_ref().and_then(|at| at.parse().ok());
        source.started = source.started.max(started.unwrap_or_default());
        source.plan.duration_us = source.plan.duration_us.max(reading.duration_us);
        source.caveats.extend(list_file_caveats(&name, &reading));
        source.flows.extend(series.into_iter().filter(|flow| is_named(flow, only)));
        names.push(name);
    }
    source.plan.selector = names.join(", ");
    explain_command::finish_series(output, "capture", source)
}

/// The spacing of the samples of a long transfer.
const EXPLAIN_INTERVAL_US: u64 = 100_000;

/// Lists the parts of a file that are missing.
fn list_file_caveats(name: &str, reading: &CaptureReading) -> Vec<ReportCaveat> {
    let dropped = reading.interfaces.iter().filter_map(|it| it.dropped_packets);
    let dropped = dropped.fold(0, u64::saturating_add);
    let parts = [
        reading.damage.as_ref().map(|damage| format!("{damage}; everything before it is explained")),
        (dropped > 0).then(|| format!("the capturing program dropped {dropped} packets")),
        (reading.left_out_packets > 0).then(|| {
            let count = reading.left_out_packets;
            format!("{count} packets of small flows over the limit of {MAX_CAPTURE_FLOWS} flows are left out")
        }),
    ];
    let caveat = |why| ReportCaveat::new("capture_incomplete", format!("{name}: {why}"));
    parts.into_iter().flatten().map(caveat).collect()
}

/// Returns the analysis of a capture, and its text.
pub fn read_capture(file: &Path) -> Result<(CaptureReading, String), CommandFailure> {
    let (reading, _) = analyse_capture(open_capture(file)?);
    let text = capture_text::build_capture_document(&printable_file_name(file), &reading).text();
    Ok((reading, text))
}

fn print_first_packets(file: &Path, most: u64) -> Result<ExitCode, CommandFailure> {
    let (extract, damaged) = format_first_packets(file, most)?;
    command_output::print_text(&extract)?;
    Ok(command_failure::met_exit_code(!damaged))
}

/// Returns the first packets as text, and whether the file is damaged.
pub fn format_first_packets(file: &Path, most: u64) -> Result<(String, bool), CommandFailure> {
    let mut input = open_capture(file)?;
    let mut packets: Vec<Option<DecodedPacket>> = Vec::new();
    while (packets.len() as u64) < most
        && let Some(record) = input.next_packet()
    {
        packets.push(record.decode());
    }
    let first_ns = packets.iter().flatten().next().map(|packet| i128::from(packet.at_ns));
    let started = first_ns.and_then(|ns| Timestamp::from_nanosecond(ns).ok());
    let started = started.map(|at| at.to_string());
    let damage = input.damage().map(CaptureDamage::to_string);
    let extract =
        capture_text::build_packet_document(&packets, started.as_deref(), damage.as_deref());
    Ok((extract.text(), damage.is_some()))
}

fn open_capture(file: &Path) -> Result<CaptureReader<'static>, CommandFailure> {
    let failed = |why: String, hint: &str| {
        let text = format!("cannot read the capture {}", printable_file_name(file));
        CommandFailure::new(USAGE, text).cause(&why).hint(Some(hint))
    };
    let opened = File::open(file).map_err(|error| {
        let hint = "check the name, or capture with `longhaul test HOST --capture FILE`";
        failed(error.to_string(), hint)
    })?;
    CaptureReader::open(opened).map_err(|error| {
        let hint = match error {
            CaptureReadError::Read(_) => "check that it is a readable file",
            _ => "use a pcap or pcapng file; gzip, xz and zstd are read as they are",
        };
        failed(error.to_string(), hint)
    })
}

/// Returns the file name, sanitized for display.
fn printable_file_name(file: &Path) -> String {
    capture_text::sanitize_shown(&file.to_string_lossy())
}
