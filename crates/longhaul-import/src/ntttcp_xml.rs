//! NTttcp's XML: `-xml` of NTttcp.exe (5.x) and `-x` of ntttcp-for-linux (1.x).
//!
//! A result is an element `ntttcps`, written by the sender, or `ntttcpr`; a text may hold several,
//! and other lines around them. It is parsed as a stream of events, so a truncated file gives what
//! it has. NTttcp does not escape names: parsing stops where its XML is malformed.

use crate::lines::{rounding, scaled, whole};
use crate::ntttcp::megabytes;
use crate::{Format, Found, MOST_LETTERS, MOST_RESULTS, MOST_STREAMS, tame};
use longhaul_model::report::v1::imported::{Printed, Stream, Transfer};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesStart, Event};

/// The maximum nesting depth: NTttcp uses four, and six with its kernel counters.
const MOST_DEPTH: usize = 16;
const MOST_PRINTED: usize = 64;
const MOST_ATTRIBUTES: usize = 16;

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

pub(crate) fn read(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = begin(rest) {
        if found.len() > MOST_RESULTS {
            break;
        }
        let (one, end) = result(&rest[at..]);
        found.extend(one);
        // Text after malformed XML may be anything, and trying each position would take too long.
        let Some(end) = end else { break };
        rest = &rest[at + end..];
    }
    found
}

/// Returns the position at which the next result begins.
fn begin(text: &str) -> Option<usize> {
    let mut marks = text.match_indices("<ntttcp");
    let root = marks.find(|(at, mark)| {
        let mut next = text[at + mark.len()..].chars();
        matches!(next.next(), Some('s' | 'r'))
            && next.next().is_some_and(|c| " >\t\r\n".contains(c))
    });
    root.map(|(at, _)| at)
}

/// An open element.
struct Open {
    name: String,
    metric: String,
    /// The element has contained only text so far.
    leaf: bool,
}

/// A result that is not complete yet.
struct Partial {
    one: Found,
    total: Transfer,
    /// As printed; rate and time decide whether a megabyte is 10^6 or 2^20 bytes.
    megabytes: Option<String>,
    bytes_per_second: Option<u64>,
    thread: Transfer,
    is_sender: bool,
    /// Written by ntttcp-for-linux, which prints zeros where NTttcp.exe has values.
    is_linux: bool,
}

/// Parses the result at the beginning of the text and returns it with its end, or no end if the XML
/// is malformed.
fn result(text: &str) -> (Option<Found>, Option<usize>) {
    let mut reader = Reader::from_str(text);
    let mut partial = Partial::default();
    let why = match events(&mut reader, &mut partial) {
        Ok(()) => None,
        Err(why) => Some(format!(
            "the XML is cut off or not sound ({}); nothing is read from there on",
            tame(&why)
        )),
    };
    let end = usize::try_from(reader.buffer_position()).ok();
    let end = end.filter(|_| why.is_none());
    (partial.finish(why), end)
}

/// Reads events until the root element is closed.
fn events(reader: &mut Reader<&[u8]>, partial: &mut Partial) -> Result<(), String> {
    let mut open: Vec<Open> = Vec::new();
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(tag) => {
                if open.len() == MOST_DEPTH {
                    return Err(format!("it is nested deeper than {MOST_DEPTH}"));
                }
                if let Some(parent) = open.last_mut() {
                    parent.leaf = false;
                }
                let element = partial.begun(open.len(), &tag);
                open.push(element);
                text.clear();
            }
            Event::Text(part) => add(&mut text, &part),
            Event::CData(part) => add(&mut text, &part),
            Event::GeneralRef(name) => {
                let letter = name.resolve_char_ref().ok().flatten();
                let letter = letter.map(String::from);
                let known = letter.or_else(|| resolve_xml_entity(&name).map(str::to_owned));
                add(&mut text, known.as_deref().unwrap_or("\u{fffd}"));
            }
            Event::End(_) => {
                partial.ended(&open, text.trim());
                open.pop();
                if open.is_empty() {
                    return Ok(());
                }
            }
            Event::Eof => return Err("the end of its first element is not there".to_owned()),
            Event::Empty(_) => {
                if let Some(parent) = open.last_mut() {
                    parent.leaf = false;
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::DocType(_) => return Err("it has a document type".to_owned()),
        }
    }
}

/// Appends text up to a limit: no number is longer than what is kept.
fn add(text: &mut String, part: &str) {
    if text.len() < 4 * MOST_LETTERS {
        text.extend(part.chars().take(MOST_LETTERS));
    }
}

fn attribute(tag: &BytesStart, wanted: &str) -> Option<String> {
    // The check for duplicates takes quadratic time, so it is off.
    let mut all = tag.attributes();
    let all = all.with_checks(false).flatten().take(MOST_ATTRIBUTES);
    let mut of = all.filter(|it| it.key.as_ref() == wanted);
    let raw = of.next()?.value;
    let text = unescape(&raw).map(|it| tame(&it));
    Some(text.unwrap_or_else(|_| tame(&raw)))
}

impl Default for Partial {
    fn default() -> Partial {
        Partial {
            one: Found::new(Format::NtttcpXml, "ntttcp"),
            total: Transfer::default(),
            megabytes: None,
            bytes_per_second: None,
            thread: Transfer::default(),
            is_sender: false,
            is_linux: false,
        }
    }
}

impl Partial {
    fn begun(&mut self, depth: usize, tag: &BytesStart) -> Open {
        let name = tame(tag.name().as_ref());
        if depth == 0 {
            self.root(&name, tag);
        }
        if depth == 1 && name == "thread" {
            self.thread = Transfer::default();
        }
        let wanted = if name == "thread" { "index" } else { "metric" };
        Open {
            name,
            metric: attribute(tag, wanted).unwrap_or_default(),
            leaf: true,
        }
    }

    fn root(&mut self, name: &str, tag: &BytesStart) {
        let seen = &mut self.one.seen;
        self.is_sender = name == "ntttcps";
        seen.tool_version = attribute(tag, "version").filter(|it| !it.is_empty());
        let version = seen.tool_version.as_deref();
        self.is_linux = version.is_some_and(|it| it.ends_with("linux"));
        let computer = attribute(tag, "computername").filter(|it| !it.is_empty());
        // The sender always initiates.
        if self.is_sender {
            seen.near = computer;
        } else {
            seen.far = computer;
        }
        seen.forward = Some(true);
        seen.protocol = Some("tcp".to_owned());
    }

    fn ended(&mut self, open: &[Open], text: &str) {
        match open {
            [_, thread] if thread.name == "thread" => self.thread_ended(&thread.metric),
            [_, figure] if figure.leaf => self.total(figure, text),
            [_, thread, figure] if thread.name == "thread" => {
                rate_or_time(&mut self.thread, figure, text);
            }
            [_, group, figure] if group.name == "parameters" => self.parameter(&figure.name, text),
            _ => {}
        }
    }

    fn thread_ended(&mut self, index: &str) {
        let (sender, receiver) = self.sides(self.thread);
        let stream = Stream {
            name: if index.is_empty() { "?" } else { index }.to_owned(),
            sender,
            receiver,
            either: None,
        };
        let limit = (MOST_STREAMS, "streams");
        Found::add(
            &mut self.one.seen.streams,
            &mut self.one.flaws,
            stream,
            limit,
        );
    }

    fn sides(&self, transfer: Transfer) -> (Option<Transfer>, Option<Transfer>) {
        if self.is_sender {
            (Some(transfer), None)
        } else {
            (None, Some(transfer))
        }
    }

    fn parameter(&mut self, name: &str, text: &str) {
        if name == "udp" && text == "True" {
            self.one.seen.protocol = Some("udp".to_owned());
        } else if PARAMETERS.contains(&name) {
            self.print(name, text);
        }
    }

    fn total(&mut self, figure: &Open, text: &str) {
        match (figure.name.as_str(), figure.metric.as_str()) {
            ("total_bytes", "MB") => self.megabytes = Some(tame(text)),
            ("realtime", _) | ("throughput", "mbps") => {
                rate_or_time(&mut self.total, figure, text);
            }
            ("throughput", "Bps") => self.bytes_per_second = scaled(text, 1.0),
            ("packets_retransmitted", _) => self.total.retransmitted_packets = whole(text),
            // All bits set: no connection reported its RTT.
            ("tcp_average_rtt", "us") => {
                let told = whole(text).filter(|us| (1..u64::from(u32::MAX)).contains(us));
                self.total.rtt_mean_us = told;
            }
            (name, "") => self.print(name, text),
            (name, metric) => self.print(&format!("{name} {metric}"), text),
        }
    }

    fn print(&mut self, name: &str, text: &str) {
        let zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
        let full = self.one.seen.printed.len() == MOST_PRINTED;
        if full || text.is_empty() || (zero && self.is_linux) {
            return;
        }
        self.one.seen.printed.push(Printed {
            name: tame(name),
            text: tame(text),
        });
    }

    fn finish(mut self, why: Option<String>) -> Option<Found> {
        self.total.printed_bps = self
            .total
            .printed_bps
            .or(self.bytes_per_second.and_then(|it| it.checked_mul(8)));
        if let Some(printed) = self.megabytes.take() {
            self.total.bytes = megabytes(&printed, self.total);
            self.total.rounding_bytes = Some(rounding(&printed, 1e6)).filter(|bytes| *bytes > 0);
            if self.total.bytes.is_none() {
                self.one.flaws.push(format!(
                    "`{printed}` megabytes fit the printed rate neither as 10^6 nor as 2^20 bytes"
                ));
            }
        }
        if self.one.seen.protocol.as_deref() == Some("udp") {
            self.total.retransmitted_packets = None;
        }
        let has_total = self.total != Transfer::default();
        if !has_total && self.one.seen.streams.is_empty() {
            return None;
        }
        if has_total {
            (self.one.seen.sender, self.one.seen.receiver) = self.sides(self.total);
        }
        self.one.flaws.extend(why);
        self.gaps();
        Some(self.one)
    }

    fn gaps(&mut self) {
        let one = &mut self.one;
        one.lacks(if one.seen.streams.is_empty() {
            "figures of each stream (ntttcp-for-linux has them with -V)"
        } else {
            "bytes of each stream"
        });
        one.lacks(if self.is_sender {
            "what the receiver counted"
        } else {
            "what the sender counted"
        });
        one.lacks("readings over time, congestion windows");
        if self.total.rtt_mean_us.is_none() {
            one.lacks("round trips");
        }
    }
}

fn rate_or_time(transfer: &mut Transfer, figure: &Open, text: &str) {
    match (figure.name.as_str(), figure.metric.as_str()) {
        ("realtime", "s") => transfer.duration_us = scaled(text, 1e6).filter(|us| *us > 0),
        ("throughput", "mbps") => {
            transfer.printed_bps = scaled(text, 1e6);
            transfer.rounding_bps = transfer.printed_bps.map(|_| rounding(text, 1e6));
        }
        _ => {}
    }
}
