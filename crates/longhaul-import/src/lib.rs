//! Parses the output of other programs into plain data: text in, observations or an error out.
//!
//! A format is recognised by text that its program always prints. All input is untrusted: sizes are
//! limited, texts are sanitized, and impossible numbers are treated as absent. Nothing is filled
//! in. The crate knows no clock, disk or store: the caller reads the text and stores the results.
//!
//! - [`read`]: output of other programs
//! - [`claims`], [`legs`], [`manifest`]: files written by people, and the manifest of a bundle
//! - [`lines`]: numbers, units and words of lines; [`letters`]: sanitizes text
//! - [`json`]: splits JSON into values and finds the program that wrote them
//! - [`iperf3_json`], [`iperf_text`], [`ntttcp`], [`ntttcp_xml`], [`ping`], [`pscheduler`],
//!   [`traceroute`]: one file for each format

#![forbid(unsafe_code)]

pub mod claims;
mod iperf3_json;
mod iperf_text;
mod json;
pub mod legs;
pub mod letters;
mod lines;
pub mod manifest;
mod ntttcp;
mod ntttcp_xml;
mod ping;
mod pscheduler;
#[cfg(test)]
mod tests;
mod traceroute;

use jiff::Timestamp;
use letters::still;
use longhaul_model::report::v1::imported::Observation;

/// The maximum file size in bytes: an hour of iperf3's JSON with 16 streams. Parsed JSON takes
/// about ten times that in memory.
pub const MOST_BYTES: u64 = 16 << 20;
/// The maximum number of results in one file.
pub const MOST_RESULTS: usize = 1000;
/// The maximum number of streams in one result.
const MOST_STREAMS: usize = 4096;
const MOST_INTERVALS: usize = 500_000;
const MOST_ANSWERS: usize = 100_000;
const MOST_HOPS: usize = 255;
/// The maximum number of characters in one text.
const MOST_LETTERS: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Iperf3Json,
    IperfText,
    NtttcpText,
    NtttcpXml,
    Ping,
    Pscheduler,
    Traceroute,
}

pub const FORMATS: [Format; 7] = [
    Format::Iperf3Json,
    Format::IperfText,
    Format::NtttcpText,
    Format::NtttcpXml,
    Format::Ping,
    Format::Pscheduler,
    Format::Traceroute,
];

impl Format {
    /// Returns the name used by `--format` and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Iperf3Json => "iperf3-json",
            Format::IperfText => "iperf-text",
            Format::NtttcpText => "ntttcp-text",
            Format::NtttcpXml => "ntttcp-xml",
            Format::Ping => "ping",
            Format::Pscheduler => "pscheduler",
            Format::Traceroute => "traceroute",
        }
    }

    const fn is_json(self) -> bool {
        matches!(self, Format::Iperf3Json | Format::Pscheduler)
    }

    /// Parses line-based formats; [`json`] parses JSON.
    fn read(self, text: &str) -> Vec<Found> {
        match self {
            Format::IperfText => iperf_text::read(text),
            Format::NtttcpText => ntttcp::read(text),
            Format::NtttcpXml => ntttcp_xml::read(text),
            Format::Ping => ping::read(text),
            Format::Traceroute => traceroute::read(text),
            Format::Iperf3Json | Format::Pscheduler => Vec::new(),
        }
    }
}

/// One result of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub format: Format,
    /// Absent if the text does not say.
    pub started: Option<Timestamp>,
    pub seen: Observation,
    /// Limits of this import, as sentences.
    pub flaws: Vec<String>,
}

impl Found {
    fn new(format: Format, tool: &str) -> Found {
        let seen = Observation {
            tool: tool.to_owned(),
            ..Observation::default()
        };
        Found {
            format,
            started: None,
            seen,
            flaws: Vec::new(),
        }
    }

    fn lacks(&mut self, what: &str) {
        if !self.seen.missing.iter().any(|it| it == what) {
            self.seen.missing.push(what.to_owned());
        }
    }

    /// Adds an item while there is room; reports once that the rest is left out.
    fn add<T>(list: &mut Vec<T>, flaws: &mut Vec<String>, item: T, (most, what): (usize, &str)) {
        if list.len() < most {
            list.push(item);
            return;
        }
        let flaw = format!("more than {most} {what}: the rest is left out");
        if !flaws.contains(&flaw) {
            flaws.push(flaw);
        }
    }
}

/// Parses all results of a text, of one format if `format` is given, or returns the reason why it
/// has none.
pub fn read(text: &str, format: Option<Format>) -> Result<Vec<Found>, String> {
    let first = text.trim_start().chars().next();
    let formats = match format {
        Some(format) => vec![format],
        None => FORMATS
            .into_iter()
            .filter(|it| it.is_json() == (first == Some('{')))
            .collect(),
    };
    let found = if formats[0].is_json() {
        json::read(text, &formats)?
    } else {
        formats.iter().flat_map(|it| it.read(text)).collect()
    };
    if found.len() > MOST_RESULTS {
        return Err(format!("it has more than {MOST_RESULTS} results"));
    }
    if found.is_empty() {
        return Err("no output of a program that is known is in it".to_owned());
    }
    Ok(found)
}

/// Sanitizes and truncates untrusted text.
pub fn tame(text: &str) -> String {
    let letters = text.trim().chars().take(MOST_LETTERS);
    letters.map(|c| still(c, '\u{fffd}')).collect()
}
