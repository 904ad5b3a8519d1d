//! NTttcp's XML: `-xml` of NTttcp.exe (5.x) and `-x` of ntttcp-for-linux (1.x).
//!
//! A result is an element `ntttcps`, written by the sender, or `ntttcpr`; a text may hold several,
//! and other lines around them. It is parsed as a stream of events, so a truncated file gives what
//! it has. NTttcp does not escape names: parsing stops where its XML is malformed.

use crate::ntttcp_text::set_megabytes;
use crate::printed_numbers::{half_unit_of_last_digit, parse_scaled, parse_whole};
use crate::{ImportFormat, ImportedResult, MAX_RESULTS, MAX_TEXT_CHARS, sanitize_text};
use longhaul_model::report::v1::imported::{ImportedStream, ImportedTransfer, PrintedFigure};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesStart, Event};

/// The maximum nesting depth: NTttcp uses four, and six with its kernel counters.
const MAX_DEPTH: usize = 16;
const MAX_PRINTED: usize = 64;
const MAX_ATTRIBUTES: usize = 16;

/// Parameters that describe how the run was made.
const PARAMETERS: [&str; 8] = [
    "run_time",
    "warmup_time",
    "cooldown_time",
    "send_socket_buff",
    "recv_socket_buff",
    "no_sync",
    "use_ipv6",
    "async",
];

pub(crate) fn parse_ntttcp_xml(text: &str) -> Vec<ImportedResult> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = find_root_element(rest) {
        if found.len() > MAX_RESULTS {
            break;
        }
        let (one, end) = parse_root_element(&rest[at..]);
        found.extend(one);
        // Text after malformed XML may be anything, and trying each position would take too long.
        let Some(end) = end else { break };
        rest = &rest[at + end..];
    }
    found
}

/// Returns the position at which the next result begins.
fn find_root_element(text: &str) -> Option<usize> {
    let mut marks = text.match_indices("<ntttcp");
    let root = marks.find(|(at, mark)| {
        let mut next = text[at + mark.len()..].chars();
        matches!(next.next(), Some('s' | 'r'))
            && next.next().is_some_and(|c| " >\t\r\n".contains(c))
    });
    root.map(|(at, _)| at)
}

/// An open element.
struct OpenElement {
    name: String,
    metric: String,
    /// The element has contained only text so far.
    is_leaf: bool,
}

/// A result that is not complete yet.
struct PartialNtttcpResult {
    result: ImportedResult,
    total: ImportedTransfer,
    /// As printed; rate and time decide whether a megabyte is 10^6 or 2^20 bytes.
    megabytes: Option<String>,
    bytes_per_second: Option<u64>,
    thread: ImportedTransfer,
    is_sender: bool,
    /// Written by ntttcp-for-linux, which prints zeros where NTttcp.exe has values.
    is_linux: bool,
}

/// Parses the result at the beginning of the text and returns it with its end, or no end if the XML
/// is malformed.
fn parse_root_element(text: &str) -> (Option<ImportedResult>, Option<usize>) {
    let mut reader = Reader::from_str(text);
    let mut partial = PartialNtttcpResult {
        result: ImportedResult::new(ImportFormat::NtttcpXml, "ntttcp"),
        total: ImportedTransfer::default(),
        megabytes: None,
        bytes_per_second: None,
        thread: ImportedTransfer::default(),
        is_sender: false,
        is_linux: false,
    };
    let why = match parse_xml_events(&mut reader, &mut partial) {
        Ok(()) => None,
        Err(why) => Some(format!(
            "the XML is truncated or invalid ({}); the rest is not read",
            sanitize_text(&why)
        )),
    };
    let end = usize::try_from(reader.buffer_position()).ok();
    let end = end.filter(|_| why.is_none());
    (partial.finish(why), end)
}

/// Reads events until the root element is closed.
fn parse_xml_events(
    reader: &mut Reader<&[u8]>,
    partial: &mut PartialNtttcpResult,
) -> Result<(), String> {
    let mut open: Vec<OpenElement> = Vec::new();
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(tag) => {
                if open.len() == MAX_DEPTH {
                    return Err(format!("it is nested deeper than {MAX_DEPTH}"));
                }
                if let Some(parent) = open.last_mut() {
                    parent.is_leaf = false;
                }
                let element = partial.start_element(open.len(), &tag);
                open.push(element);
                text.clear();
            }
            Event::Text(part) => append_text(&mut text, &part),
            Event::CData(part) => append_text(&mut text, &part),
            Event::GeneralRef(name) => {
                let letter = name.resolve_char_ref().ok().flatten();
                let letter = letter.map(String::from);
                let known = letter.or_else(|| resolve_xml_entity(&name).map(str::to_owned));
                append_text(&mut text, known.as_deref().unwrap_or("\u{fffd}"));
            }
            Event::End(_) => {
                partial.end_element(&open, text.trim());
                open.pop();
                if open.is_empty() {
                    return Ok(());
                }
            }
            Event::Eof => return Err("its first element has no end".to_owned()),
            Event::Empty(_) => {
                if let Some(parent) = open.last_mut() {
                    parent.is_leaf = false;
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::DocType(_) => return Err("it has a document type".to_owned()),
        }
    }
}

/// Appends text up to a limit: no number is longer than what is kept.
fn append_text(text: &mut String, part: &str) {
    if text.len() < 4 * MAX_TEXT_CHARS {
        text.extend(part.chars().take(MAX_TEXT_CHARS));
    }
}

fn read_attribute(tag: &BytesStart, wanted: &str) -> Option<String> {
    // The check for duplicates takes quadratic time, so it is off.
    let mut all = tag.attributes();
    let all = all.with_checks(false).flatten().take(MAX_ATTRIBUTES);
    let mut of = all.filter(|it| it.key.as_ref() == wanted);
    let raw = of.next()?.value;
    let text = unescape(&raw).map(|it| sanitize_text(&it));
    Some(text.unwrap_or_else(|_| sanitize_text(&raw)))
}

impl PartialNtttcpResult {
    fn start_element(&mut self, depth: usize, tag: &BytesStart) -> OpenElement {
        let name = sanitize_text(tag.name().as_ref());
        if depth == 0 {
            self.start_root(&name, tag);
        }
        if depth == 1 && name == "thread" {
            self.thread = ImportedTransfer::default();
        }
        let wanted = if name == "thread" { "index" } else { "metric" };
        OpenElement { name, metric: read_attribute(tag, wanted).unwrap_or_default(), is_leaf: true }
    }

    fn start_root(&mut self, name: &str, tag: &BytesStart) {
        let seen = &mut self.result.observation;
        self.is_sender = name == "ntttcps";
        seen.tool_version = read_attribute(tag, "version").filter(|it| !it.is_empty());
        let version = seen.tool_version.as_deref();
        self.is_linux = version.is_some_and(|it| it.ends_with("linux"));
        let computer = read_attribute(tag, "computername").filter(|it| !it.is_empty());
        // The sender always initiates.
        if self.is_sender {
            seen.near = computer;
        } else {
            seen.far = computer;
        }
        seen.forward = Some(true);
        seen.protocol = Some("tcp".to_owned());
    }

    fn end_element(&mut self, open: &[OpenElement], text: &str) {
        match open {
            [_, thread] if thread.name == "thread" => self.end_thread(&thread.metric),
            [_, figure] if figure.is_leaf => self.add_total(figure, text),
            [_, thread, figure] if thread.name == "thread" => {
                read_rate_or_time(&mut self.thread, figure, text);
            }
            [_, group, figure] if group.name == "parameters" => {
                self.add_parameter(&figure.name, text);
            }
            _ => {}
        }
    }

    fn end_thread(&mut self, index: &str) {
        let (sender, receiver) = self.by_direction(self.thread);
        let stream = ImportedStream {
            name: if index.is_empty() { "?" } else { index }.to_owned(),
            sender,
            receiver,
            either: None,
        };
        self.result.add_stream(stream);
    }

    fn by_direction(
        &self,
        transfer: ImportedTransfer,
    ) -> (Option<ImportedTransfer>, Option<ImportedTransfer>) {
        if self.is_sender { (Some(transfer), None) } else { (None, Some(transfer)) }
    }

    fn add_parameter(&mut self, name: &str, text: &str) {
        if name == "udp" && text == "True" {
            self.result.observation.protocol = Some("udp".to_owned());
        } else if PARAMETERS.contains(&name) {
            self.add_printed(name, text);
        }
    }

    fn add_total(&mut self, figure: &OpenElement, text: &str) {
        match (figure.name.as_str(), figure.metric.as_str()) {
            ("total_bytes", "MB") => self.megabytes = Some(sanitize_text(text)),
            ("realtime", _) | ("throughput", "mbps") => {
                read_rate_or_time(&mut self.total, figure, text);
            }
            ("throughput", "Bps") => self.bytes_per_second = parse_scaled(text, 1.0),
            ("packets_retransmitted", _) => self.total.retransmitted_packets = parse_whole(text),
            // All bits set: no connection reported its RTT.
            ("tcp_average_rtt", "us") => {
                let told = parse_whole(text).filter(|us| (1..u64::from(u32::MAX)).contains(us));
                self.total.rtt_mean_us = told;
            }
            (name, "") => self.add_printed(name, text),
            (name, metric) => self.add_printed(&format!("{name} {metric}"), text),
        }
    }

    fn add_printed(&mut self, name: &str, text: &str) {
        let zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
        let full = self.result.observation.printed.len() == MAX_PRINTED;
        if full || text.is_empty() || (zero && self.is_linux) {
            return;
        }
        self.result
            .observation
            .printed
            .push(PrintedFigure { name: sanitize_text(name), text: sanitize_text(text) });
    }

    fn finish(mut self, why: Option<String>) -> Option<ImportedResult> {
        self.total.printed_bps =
            self.total.printed_bps.or(self.bytes_per_second.and_then(|it| it.checked_mul(8)));
        if let Some(printed) = self.megabytes.take() {
            set_megabytes(&mut self.total, &printed, &mut self.result.import_caveats);
        }
        if self.result.observation.protocol.as_deref() == Some("udp") {
            self.total.retransmitted_packets = None;
        }
        let has_total = self.total != ImportedTransfer::default();
        if !has_total && self.result.observation.streams.is_empty() {
            return None;
        }
        if has_total {
            (self.result.observation.sender, self.result.observation.receiver) =
                self.by_direction(self.total);
        }
        self.result.import_caveats.extend(why);
        self.list_missing();
        Some(self.result)
    }

    fn list_missing(&mut self) {
        let one = &mut self.result;
        one.add_missing(if one.observation.streams.is_empty() {
            "per-stream figures (ntttcp-for-linux prints them with -V)"
        } else {
            "bytes per stream"
        });
        one.add_missing(if self.is_sender { "receiver counts" } else { "sender counts" });
        one.add_missing("time series, congestion windows");
        if self.total.rtt_mean_us.is_none() {
            one.add_missing("round trips");
        }
    }
}

fn read_rate_or_time(transfer: &mut ImportedTransfer, figure: &OpenElement, text: &str) {
    match (figure.name.as_str(), figure.metric.as_str()) {
        ("realtime", "s") => transfer.duration_us = parse_scaled(text, 1e6).filter(|us| *us > 0),
        ("throughput", "mbps") => {
            transfer.printed_bps = parse_scaled(text, 1e6);
            transfer.rounding_bps =
                transfer.printed_bps.map(|_| half_unit_of_last_digit(text, 1e6));
        }
        _ => {}
    }
}
