//! iperf 2 and iperf3 text output: the lines that begin with a bracket.
//!
//! Bytes and rates are printed with three or four digits, so both carry their rounding error.

use crate::printed_numbers::{
    half_unit_of_last_digit, parse_rate_unit, parse_scaled, parse_size_unit, parse_whole,
    text_between,
};
use crate::{ImportFormat, ImportedResult, MAX_INTERVALS, MAX_RESULTS, MAX_STREAMS, sanitize_text};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use longhaul_model::report::v1::imported::{
    ImportedInterval, ImportedObservation, ImportedStream, ImportedTransfer,
};

/// A line of a stream or of the sum of all streams.
struct IperfLine<'a> {
    /// The stream's name: `5`, `SUM`.
    name: &'a str,
    started_us: u64,
    transfer: ImportedTransfer,
    cwnd_bytes: Option<u64>,
    /// The last word of the line: `sender`, `receiver`, `(omitted)`.
    last_word: &'a str,
}

/// The maximum number of iperf's own messages kept for one run.
const MAX_REMARKS: usize = 16;

const BEGINS: [&str; 4] = [
    "Connecting to host ",
    "Client connecting to ",
    "Accepted connection from ",
    "Server listening on ",
];

pub(crate) fn parse_iperf_text(text: &str) -> Vec<ImportedResult> {
    let mut found: Vec<ImportedResult> = Vec::new();
    let (mut version, mut started) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("iperf ") {
            version = rest.split_whitespace().next().map(sanitize_text);
        }
        if let Some(moment) = parse_time_line(line) {
            started = Some(moment);
            continue;
        }
        if BEGINS.iter().any(|head| line.starts_with(head)) {
            if found.len() > MAX_RESULTS {
                break;
            }
            let mut one = parse_test_start(line, version.clone());
            one.started = started.take();
            found.push(one);
        } else if line.starts_with('[') {
            if found.is_empty() && parse_iperf_line(line).is_some() {
                found.push(ImportedResult::new(ImportFormat::IperfText, "iperf"));
            }
            if let Some(one) = found.last_mut() {
                parse_bracket_line(one, line);
            }
        } else if let Some(one) = found.last_mut() {
            parse_remark(one, line);
        }
    }
    found
        .retain(|one| !one.observation.intervals.is_empty() || !one.observation.streams.is_empty());
    found.iter_mut().for_each(finish_result);
    found
}

fn parse_test_start(line: &str, version: Option<String>) -> ImportedResult {
    let mut one = ImportedResult::new(ImportFormat::IperfText, "iperf");
    one.observation.tool_version = version;
    let seen = &mut one.observation;
    if let Some(rest) = line.strip_prefix("Accepted connection from ") {
        "iperf3".clone_into(&mut seen.tool);
        seen.near = rest.split(',').next().map(sanitize_text);
    } else if let Some(rest) = line.strip_prefix("Connecting to host ") {
        "iperf3".clone_into(&mut seen.tool);
        seen.far = rest.split(',').next().map(sanitize_text);
        seen.forward = Some(!line.contains("reverse"));
    } else if let Some(rest) = line.strip_prefix("Client connecting to ") {
        seen.far = rest.split(',').next().map(sanitize_text);
        seen.protocol =
            text_between(rest, ", ", " port").map(|it| sanitize_text(it).to_lowercase());
        seen.forward = Some(true);
    }
    one
}

/// Parses `Time: Sun, 22 Nov 2026 10:00:00 GMT`, which `iperf3 -V` prints before a run.
fn parse_time_line(line: &str) -> Option<Timestamp> {
    let text = line.strip_prefix("Time: ")?.trim();
    let text = text.trim_end_matches("UTC").trim_end_matches("GMT").trim();
    let civil = DateTime::strptime("%a, %d %b %Y %H:%M:%S", text).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn parse_remark(one: &mut ImportedResult, line: &str) {
    if line.starts_with("Reverse mode") {
        one.observation.forward = Some(false);
    } else if line.contains("sender seems to have been interrupted") || line.contains("error - ") {
        let text = format!("iperf reports: {}", sanitize_text(line));
        if one.import_caveats.len() < MAX_REMARKS {
            one.import_caveats.push(text);
        }
    }
}

fn parse_bracket_line(one: &mut ImportedResult, line: &str) {
    if let Some((_, ends)) = line.split_once(" local ") {
        let Some((near, far)) = ends.split_once(" connected ") else {
            return;
        };
        let first = |text: &str| text.split_whitespace().next().map(sanitize_text);
        let far = first(far.trim_start_matches("with ").trim_start_matches("to "));
        let (near, accepted) = (first(near), one.observation.near.is_some());
        if accepted {
            one.observation.far = one.observation.far.take().or(near);
        } else {
            one.observation.near = near;
            one.observation.far = one.observation.far.take().or_else(|| far.clone());
            one.observation.far_address = far;
        }
        return;
    }
    let Some(figures) = parse_iperf_line(line) else {
        return;
    };
    match figures.last_word {
        "sender" | "receiver" => store_total(one, &figures),
        last => {
            let sum = figures.name == "SUM";
            let interval = ImportedInterval {
                stream: (!sum).then(|| sanitize_text(figures.name)),
                started_us: figures.started_us,
                duration_us: figures.transfer.duration_us.unwrap_or(0),
                bytes: figures.transfer.bytes,
                printed_bps: figures.transfer.printed_bps,
                retransmitted_packets: figures.transfer.retransmitted_packets,
                cwnd_bytes: figures.cwnd_bytes,
                omitted: last == "(omitted)",
                ..ImportedInterval::default()
            };
            store_unattributed_total(one, &figures);
            let limit = (MAX_INTERVALS, "intervals");
            ImportedResult::push_bounded(
                &mut one.observation.intervals,
                &mut one.import_caveats,
                interval,
                limit,
            );
        }
    }
}

/// Parses `[  5]   0.00-10.00  sec  1.10 GBytes   943 Mbits/sec   12             sender`.
fn parse_iperf_line(line: &str) -> Option<IperfLine<'_>> {
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    // `[  5][TX-C]` in bidirectional runs.
    let rest = match rest.strip_prefix('[') {
        Some(role) => role.split_once(']')?.1,
        None => rest,
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let sec = words.iter().position(|word| *word == "sec")?;
    let range = words[..sec].concat();
    let (from, to) = range.split_once('-')?;
    let started_us = parse_scaled(from, 1e6)?;
    let duration_us = parse_scaled(to, 1e6)?.checked_sub(started_us)?;
    let after = &words[sec + 1..];
    let size = parse_size_unit(after.get(1)?)?;
    let mut transfer = ImportedTransfer {
        bytes: parse_scaled(after[0], size),
        rounding_bytes: Some(half_unit_of_last_digit(after[0], size)).filter(|bytes| *bytes > 0),
        duration_us: Some(duration_us).filter(|us| *us > 0),
        ..ImportedTransfer::default()
    };
    if let Some(unit) = after.get(3).and_then(|word| parse_rate_unit(word)) {
        transfer.printed_bps = parse_scaled(after[2], unit);
        transfer.rounding_bps = Some(half_unit_of_last_digit(after[2], unit));
    }
    let more = after.get(4..).unwrap_or_default();
    parse_datagram_counts(&mut transfer, more);
    let tcp = transfer.jitter_us.is_none() && transfer.datagrams.is_none();
    if tcp {
        transfer.retransmitted_packets = more.first().and_then(|word| parse_whole(word));
    }
    let cwnd = more.get(2).and_then(|word| parse_size_unit(word));
    Some(IperfLine {
        name: name.trim(),
        started_us,
        transfer,
        cwnd_bytes: cwnd.and_then(|unit| parse_scaled(more[1], unit)),
        last_word: more.last().copied().unwrap_or_default(),
    })
}

/// Parses `0.041 ms  12/8500 (0.14%)`.
fn parse_datagram_counts(transfer: &mut ImportedTransfer, more: &[&str]) {
    if more.get(1) == Some(&"ms") {
        transfer.jitter_us = parse_scaled(more[0], 1e3);
    }
    let counted = more.iter().find_map(|word| {
        let (lost, all) = word.split_once('/')?;
        Some((parse_whole(lost)?, parse_whole(all)?))
    });
    if let Some((lost, all)) = counted {
        transfer.lost_datagrams = Some(lost);
        transfer.datagrams = Some(all);
    }
}

/// Stores one of iperf3's last lines, which name the end that counted.
fn store_total(one: &mut ImportedResult, line: &IperfLine) {
    let sender = line.last_word == "sender";
    if line.name == "SUM" {
        let place = if sender {
            &mut one.observation.sender
        } else {
            &mut one.observation.receiver
        };
        *place = Some(line.transfer);
        return;
    }
    let name = sanitize_text(line.name);
    if !one.observation.streams.iter().any(|it| it.name == name) {
        let stream = ImportedStream {
            name: name.clone(),
            ..ImportedStream::default()
        };
        let limit = (MAX_STREAMS, "streams");
        ImportedResult::push_bounded(
            &mut one.observation.streams,
            &mut one.import_caveats,
            stream,
            limit,
        );
    }
    let stream = one
        .observation
        .streams
        .iter_mut()
        .find(|it| it.name == name);
    if let Some(stream) = stream {
        let place = if sender {
            &mut stream.sender
        } else {
            &mut stream.receiver
        };
        *place = Some(line.transfer);
    }
}

/// Stores one of iperf 2's last lines, which begin at 0 again and do not name the end that counted.
fn store_unattributed_total(one: &mut ImportedResult, line: &IperfLine) {
    if one.observation.tool != "iperf" || line.started_us != 0 {
        return;
    }
    let longer = |old: &Option<ImportedTransfer>| {
        old.is_none_or(|old| old.duration_us <= line.transfer.duration_us)
    };
    if line.name == "SUM" {
        if longer(&one.observation.either) {
            one.observation.either = Some(line.transfer);
        }
        return;
    }
    let name = sanitize_text(line.name);
    match one
        .observation
        .streams
        .iter_mut()
        .find(|it| it.name == name)
    {
        Some(stream) if longer(&stream.either) => stream.either = Some(line.transfer),
        Some(_) => {}
        None => {
            let stream = ImportedStream {
                name,
                either: Some(line.transfer),
                ..ImportedStream::default()
            };
            let limit = (MAX_STREAMS, "streams");
            ImportedResult::push_bounded(
                &mut one.observation.streams,
                &mut one.import_caveats,
                stream,
                limit,
            );
        }
    }
}

/// Drops totals of a truncated run that are only its first interval.
fn drop_first_intervals(seen: &mut ImportedObservation) {
    let ends = seen.intervals.iter();
    let end_us = ends
        .map(|it| it.started_us.saturating_add(it.duration_us))
        .max();
    let whole = |it: &ImportedTransfer| it.duration_us >= end_us.map(|us| us / 10 * 9);
    seen.either = seen.either.filter(whole);
    seen.streams
        .retain(|stream| stream.either.as_ref().is_none_or(whole));
}

fn finish_result(one: &mut ImportedResult) {
    let seen = &mut one.observation;
    drop_first_intervals(seen);
    // A single stream has no sum line.
    if let [only] = &seen.streams[..] {
        seen.sender = seen.sender.or(only.sender);
        seen.receiver = seen.receiver.or(only.receiver);
        seen.either = seen.either.or(only.either);
    }
    let udp = seen
        .streams
        .iter()
        .flat_map(|it| [&it.sender, &it.receiver, &it.either]);
    let udp = udp.flatten().any(|it| it.datagrams.is_some());
    if seen.protocol.is_none() {
        seen.protocol = Some(if udp { "udp" } else { "tcp" }.to_owned());
    }
    if seen.streams.is_empty() {
        one.import_caveats
            .push("the totals of the run are missing: the output is truncated".to_owned());
    }
    one.add_missing("bytes beyond the printed digits");
    one.add_missing("round trips, effective buffers, limiting factor");
}
