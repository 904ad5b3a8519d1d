//! NTttcp's XML: `-xml` of NTttcp.exe (5.x) and `-x` of ntttcp-for-linux (1.x).
//!
//! A result is an element `ntttcps`, written by the sender, or `ntttcpr`; a text may hold several,
//! and other lines around them. A truncated file gives what it has. NTttcp does not escape names:
//! parsing stops where its XML is malformed.

use crate::ntttcp_text::set_megabytes;
use crate::printed_numbers::{half_unit_of_last_digit, parse_scaled, parse_whole};
use crate::{ImportFormat, ImportedResult, MAX_RESULTS, MAX_TEXT_CHARS, sanitize_text};
use longhaul_model::report::v1::imported::{ImportedStream, ImportedTransfer, PrintedFigure};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesStart, Event};

/// The maximum nesting depth: NTttcp uses four, and six with its kernel counters.
const MAX_DEPTH: usize = 16;
const MAX_ELEMENTS: usize = 100_000;
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
        rest = &rest[at..];
        let mut reader = Reader::from_str(rest);
        let mut open = Vec::new();
        let read = read_elements(&mut reader, &mut open);
        let is_whole = read.is_ok();
        // Other elements that are still open are incomplete.
        if let Some(root) = open.first() {
            found.extend(build_result(root, read.err()));
        }
        // Text after malformed XML may be anything, and trying each position would take too long.
        let Some(end) = usize::try_from(reader.buffer_position()).ok().filter(|_| is_whole) else {
            break;
        };
        rest = &rest[end..];
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

/// An element with its text and the elements in it.
struct XmlElement {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<XmlElement>,
}

impl XmlElement {
    fn new(tag: &BytesStart) -> XmlElement {
        // The check for duplicates takes quadratic time, so it is off.
        let mut attributes = tag.attributes();
        let attributes = attributes.with_checks(false).flatten().take(MAX_ATTRIBUTES);
        let attributes = attributes.map(|attribute| {
            let value = unescape(&attribute.value).map(|it| sanitize_text(&it));
            let value = value.unwrap_or_else(|_| sanitize_text(&attribute.value));
            (sanitize_text(attribute.key.as_ref()), value)
        });
        XmlElement {
            name: sanitize_text(tag.name().as_ref()),
            attributes: attributes.collect(),
            text: String::new(),
            children: Vec::new(),
        }
    }

    /// Returns the value of an attribute; empty if it has none.
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Appends text up to a limit: no number is longer than what is kept.
    fn append_text(&mut self, part: &str) {
        if self.text.len() < 4 * MAX_TEXT_CHARS {
            self.text.extend(part.chars().take(MAX_TEXT_CHARS));
        }
    }
}

/// Reads the first element of a text. `open` then has it, or all that are open where the text is
/// truncated or malformed.
fn read_elements(reader: &mut Reader<&[u8]>, open: &mut Vec<XmlElement>) -> Result<(), String> {
    let mut count = 0;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        let current = open.last_mut();
        match (event, current) {
            (Event::Start(tag), _) => {
                count += 1;
                if open.len() == MAX_DEPTH {
                    return Err(format!("it is nested deeper than {MAX_DEPTH}"));
                }
                if count > MAX_ELEMENTS {
                    return Err(format!("it has more than {MAX_ELEMENTS} elements"));
                }
                open.push(XmlElement::new(&tag));
            }
            (Event::Text(part), Some(element)) => element.append_text(&part),
            (Event::CData(part), Some(element)) => element.append_text(&part),
            (Event::GeneralRef(name), Some(element)) => {
                let letter = name.resolve_char_ref().ok().flatten().map(String::from);
                let known = letter.or_else(|| resolve_xml_entity(&name).map(str::to_owned));
                element.append_text(known.as_deref().unwrap_or("\u{fffd}"));
            }
            (Event::End(_), _) => {
                if open.len() < 2 {
                    return Ok(());
                }
                let closed = open.pop();
                if let Some(parent) = open.last_mut() {
                    parent.children.extend(closed);
                }
            }
            (Event::Eof, _) => return Err("its first element has no end".to_owned()),
            (Event::DocType(_), _) => return Err("it has a document type".to_owned()),
            _ => {}
        }
    }
}

fn build_result(root: &XmlElement, flaw: Option<String>) -> Option<ImportedResult> {
    let mut one = ImportedResult::new(ImportFormat::NtttcpXml, "ntttcp");
    let is_sender = root.name == "ntttcps";
    let by_direction = |transfer: ImportedTransfer| {
        if is_sender { (Some(transfer), None) } else { (None, Some(transfer)) }
    };
    read_root(&mut one, root, is_sender);
    let mut total = ImportedTransfer::default();
    for element in &root.children {
        match element.name.as_str() {
            "thread" => {
                let mut transfer = ImportedTransfer::default();
                for figure in &element.children {
                    read_rate_or_time(&mut transfer, figure);
                }
                let (sender, receiver) = by_direction(transfer);
                let index = Some(element.attribute("index")).filter(|it| !it.is_empty());
                let name = index.unwrap_or("?").to_owned();
                one.add_stream(ImportedStream { name, sender, receiver, either: None });
            }
            "parameters" => {
                element.children.iter().for_each(|it| read_parameter(&mut one, it));
            }
            _ if element.children.is_empty() => read_total(&mut one, &mut total, element),
            _ => {}
        }
    }
    convert_total(&mut one, &mut total, root);
    let has_total = total != ImportedTransfer::default();
    if !has_total && one.observation.streams.is_empty() {
        return None;
    }
    if has_total {
        (one.observation.sender, one.observation.receiver) = by_direction(total);
    }
    one.import_caveats.extend(flaw.map(|why| {
        let why = sanitize_text(&why);
        format!("the XML is truncated or invalid ({why}); the rest is not read")
    }));
    one.add_missing(if one.observation.streams.is_empty() {
        "per-stream figures (ntttcp-for-linux prints them with -V)"
    } else {
        "bytes per stream"
    });
    one.add_missing(if is_sender { "receiver counts" } else { "sender counts" });
    one.add_missing("time series, congestion windows");
    if total.rtt_mean_us.is_none() {
        one.add_missing("round trips");
    }
    Some(one)
}

fn read_root(one: &mut ImportedResult, root: &XmlElement, is_sender: bool) {
    let attribute = |name| Some(root.attribute(name).to_owned()).filter(|it| !it.is_empty());
    let seen = &mut one.observation;
    seen.tool_version = attribute("version");
    // The sender always initiates.
    let end = if is_sender { &mut seen.near } else { &mut seen.far };
    *end = attribute("computername");
    seen.forward = Some(true);
    seen.protocol = Some("tcp".to_owned());
}

fn read_parameter(one: &mut ImportedResult, parameter: &XmlElement) {
    let text = parameter.text.trim();
    if parameter.name == "udp" && text == "True" {
        one.observation.protocol = Some("udp".to_owned());
    } else if PARAMETERS.contains(&parameter.name.as_str()) {
        add_printed(one, &parameter.name, text);
    }
}

fn read_total(one: &mut ImportedResult, total: &mut ImportedTransfer, figure: &XmlElement) {
    let text = figure.text.trim();
    match (figure.name.as_str(), figure.attribute("metric")) {
        ("total_bytes", "MB") | ("throughput", "Bps") => {}
        ("realtime", _) | ("throughput", "mbps") => read_rate_or_time(total, figure),
        ("packets_retransmitted", _) => total.retransmitted_packets = parse_whole(text),
        // All bits set: no connection reported its RTT.
        ("tcp_average_rtt", "us") => {
            let told = parse_whole(text).filter(|us| (1..u64::from(u32::MAX)).contains(us));
            total.rtt_mean_us = told;
        }
        (name, "") => add_printed(one, name, text),
        (name, metric) => add_printed(one, &format!("{name} {metric}"), text),
    }
}

fn read_rate_or_time(transfer: &mut ImportedTransfer, figure: &XmlElement) {
    let text = figure.text.trim();
    match (figure.name.as_str(), figure.attribute("metric")) {
        ("realtime", "s") => transfer.duration_us = parse_scaled(text, 1e6).filter(|us| *us > 0),
        ("throughput", "mbps") => {
            transfer.printed_bps = parse_scaled(text, 1e6);
            transfer.rounding_bps =
                transfer.printed_bps.map(|_| half_unit_of_last_digit(text, 1e6));
        }
        _ => {}
    }
}

fn add_printed(one: &mut ImportedResult, name: &str, text: &str) {
    let seen = &mut one.observation;
    // ntttcp-for-linux prints zeros where NTttcp.exe has values.
    let is_linux = seen.tool_version.as_deref().is_some_and(|it| it.ends_with("linux"));
    let is_zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
    if seen.printed.len() < MAX_PRINTED && !text.is_empty() && !(is_zero && is_linux) {
        let (name, text) = (sanitize_text(name), sanitize_text(text));
        seen.printed.push(PrintedFigure { name, text });
    }
}

/// Sets what follows from several figures: rate and time decide whether a megabyte is 10^6 or 2^20
/// bytes.
fn convert_total(one: &mut ImportedResult, total: &mut ImportedTransfer, root: &XmlElement) {
    let printed = |name: &str, metric: &str| {
        let mut leaves = root.children.iter().filter(|it| it.children.is_empty());
        let figure = leaves.rfind(|it| it.name == name && it.attribute("metric") == metric);
        figure.map(|it| sanitize_text(it.text.trim()))
    };
    let bytes_per_second = printed("throughput", "Bps").and_then(|text| parse_scaled(&text, 1.0));
    total.printed_bps =
        total.printed_bps.or(bytes_per_second.and_then(|bytes| bytes.checked_mul(8)));
    if let Some(megabytes) = printed("total_bytes", "MB") {
        set_megabytes(total, &megabytes, &mut one.import_caveats);
    }
    if one.observation.protocol.as_deref() == Some("udp") {
        total.retransmitted_packets = None;
    }
}
