//! Parses the output of iperf3, NTttcp, perfSONAR, ndt7, flent, ping, traceroute and mtr, for programs
//! that need their results as plain data.
//!
//! A format is recognised by text that its program always prints. All input is untrusted: sizes are
//! limited, texts are sanitized, and impossible numbers are treated as absent. Nothing is filled
//! in. The crate knows no clock, disk or store: the caller reads the text and stores the results.
//!
//! - [`parse_output`]: output of other programs
//! - [`printed_numbers`]: numbers, units and words of lines
//! - [`json_results`]: splits JSON into values and finds the program that wrote them
//! - [`flent`], [`iperf3_json_output`], [`ndt7`], [`ntttcp_text`], [`ntttcp_xml`], [`ping`],
//!   [`pscheduler`], [`traceroute`]: one file for each format
//! - [`ss_snapshots`]: connections of `ss`, for the explanation of transfers
//! - [`firefly`]: datagrams that tell of transfers; [`tcp_info_json`]: TCP_INFO as JSON

#![forbid(unsafe_code)]

pub mod firefly;
mod flent;
mod iperf3_json_output;
mod json_results;
mod ndt7;
mod ntttcp_text;
mod ntttcp_xml;
mod ping;
mod printed_numbers;
mod pscheduler;
pub mod ss_snapshots;
mod tcp_info_json;
#[cfg(test)]
mod tests;
mod traceroute;

pub use pscheduler::parse_iso_duration;

use jiff::Timestamp;
use longhaul_model::report::v1::imported::{
    ImportedHop, ImportedInterval, ImportedObservation, ImportedStream,
};
use longhaul_model::sanitize::sanitize_line;

/// The maximum file size in bytes: an hour of iperf3's JSON with 16 streams. Parsed JSON takes
/// about ten times that in memory.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// The maximum number of results in one file.
pub const MAX_RESULTS: usize = 1000;
/// The maximum number of streams in one result.
const MAX_STREAMS: usize = 4096;
const MAX_INTERVALS: usize = 500_000;
const MAX_ANSWERS: usize = 100_000;
const MAX_HOPS: usize = 255;
/// The maximum number of characters in one text.
const MAX_TEXT_CHARS: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    Iperf3Json,
    NtttcpText,
    NtttcpXml,
    Ping,
    Pscheduler,
    Traceroute,
    Ndt7,
    Flent,
}

pub const FORMATS: [ImportFormat; 8] = [
    ImportFormat::Iperf3Json,
    ImportFormat::NtttcpText,
    ImportFormat::NtttcpXml,
    ImportFormat::Ping,
    ImportFormat::Pscheduler,
    ImportFormat::Traceroute,
    ImportFormat::Ndt7,
    ImportFormat::Flent,
];

impl ImportFormat {
    /// Returns the name used by `--format` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ImportFormat::Iperf3Json => "iperf3-json",
            ImportFormat::NtttcpText => "ntttcp-text",
            ImportFormat::NtttcpXml => "ntttcp-xml",
            ImportFormat::Ping => "ping",
            ImportFormat::Pscheduler => "pscheduler",
            ImportFormat::Traceroute => "traceroute",
            ImportFormat::Ndt7 => "ndt7",
            ImportFormat::Flent => "flent",
        }
    }

    const fn is_json(self) -> bool {
        use ImportFormat::{Flent, Iperf3Json, Ndt7, Pscheduler};
        matches!(self, Iperf3Json | Pscheduler | Ndt7 | Flent)
    }

    /// Parses line-based formats; [`json_results`] parses JSON.
    fn parse_text(self, text: &str) -> Vec<ImportedResult> {
        match self {
            ImportFormat::NtttcpText => ntttcp_text::parse_ntttcp_text(text),
            ImportFormat::NtttcpXml => ntttcp_xml::parse_ntttcp_xml(text),
            ImportFormat::Ping => ping::parse_ping(text),
            ImportFormat::Traceroute => traceroute::parse_traceroute(text),
            ImportFormat::Iperf3Json
            | ImportFormat::Pscheduler
            | ImportFormat::Ndt7
            | ImportFormat::Flent => Vec::new(),
        }
    }
}

/// One result of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedResult {
    pub format: ImportFormat,
    /// Absent if the text does not say.
    pub started: Option<Timestamp>,
    pub observation: ImportedObservation,
    /// Limits of this import, as sentences.
    pub import_caveats: Vec<String>,
}

impl ImportedResult {
    fn new(format: ImportFormat, tool: &str) -> ImportedResult {
        let seen = ImportedObservation { tool: tool.to_owned(), ..ImportedObservation::default() };
        ImportedResult { format, started: None, observation: seen, import_caveats: Vec::new() }
    }

    fn add_missing(&mut self, what: &str) {
        if !self.observation.missing.iter().any(|it| it == what) {
            self.observation.missing.push(what.to_owned());
        }
    }

    fn add_stream(&mut self, stream: ImportedStream) {
        let (list, caveats) = (&mut self.observation.streams, &mut self.import_caveats);
        push_bounded(list, caveats, stream, MAX_STREAMS, "streams");
    }

    fn add_interval(&mut self, interval: ImportedInterval) {
        let (list, caveats) = (&mut self.observation.intervals, &mut self.import_caveats);
        push_bounded(list, caveats, interval, MAX_INTERVALS, "intervals");
    }

    fn add_hop(&mut self, hop: ImportedHop) {
        let (list, caveats) = (&mut self.observation.hops, &mut self.import_caveats);
        push_bounded(list, caveats, hop, MAX_HOPS, "hops");
    }

    fn add_round_trip(&mut self, us: u64) {
        let pings = self.observation.pings.get_or_insert_default();
        let (list, caveats) = (&mut pings.rtts_us, &mut self.import_caveats);
        push_bounded(list, caveats, us, MAX_ANSWERS, "answers");
    }
}

/// Adds an item while there is room; reports once that the rest is left out.
fn push_bounded<T>(list: &mut Vec<T>, caveats: &mut Vec<String>, item: T, max: usize, what: &str) {
    if list.len() < max {
        list.push(item);
        return;
    }
    let caveat = format!("more than {max} {what}: the rest is left out");
    if !caveats.contains(&caveat) {
        caveats.push(caveat);
    }
}

/// Parses all results of a text, of one format if `format` is given, or returns the reason why it
/// has none.
pub fn parse_output(
    text: &str,
    format: Option<ImportFormat>,
) -> Result<Vec<ImportedResult>, String> {
    let first = text.trim_start().chars().next();
    let formats = match format {
        Some(format) => vec![format],
        None => FORMATS.into_iter().filter(|it| it.is_json() == (first == Some('{'))).collect(),
    };
    let found = if formats[0].is_json() {
        json_results::parse_json_results(text, &formats)?
    } else {
        formats.iter().flat_map(|it| it.parse_text(text)).collect()
    };
    if found.len() > MAX_RESULTS {
        return Err(format!("more than {MAX_RESULTS} results"));
    }
    if found.is_empty() {
        return Err("no output of a known program found".to_owned());
    }
    Ok(found)
}

/// Sanitizes and truncates untrusted text.
pub fn sanitize_text(text: &str) -> String {
    sanitize_line(text, MAX_TEXT_CHARS)
}
