//! iperf 2 and iperf3 text output: the lines that begin with a bracket.
//!
//! Bytes and rates are printed with three or four digits, so both carry their rounding error.

use crate::lines::{between, rate_unit, rounding, scaled, size_unit, whole};
use crate::{Format, Found, MOST_INTERVALS, MOST_RESULTS, MOST_STREAMS, tame};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use longhaul_model::report::v1::imported::{Interval, Observation, Stream, Transfer};

/// A line of a stream or of the sum of all streams.
struct Line<'a> {
    /// The stream's name: `5`, `SUM`.
    name: &'a str,
    started_us: u64,
    transfer: Transfer,
    cwnd_bytes: Option<u64>,
    /// The last word of the line: `sender`, `receiver`, `(omitted)`.
    last: &'a str,
}

/// The maximum number of iperf's own messages kept for one run.
const MOST_REMARKS: usize = 16;

const BEGINS: [&str; 4] = [
    "Connecting to host ",
    "Client connecting to ",
    "Accepted connection from ",
    "Server listening on ",
];

pub(crate) fn read(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let (mut version, mut started) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("iperf ") {
            version = rest.split_whitespace().next().map(tame);
        }
        if let Some(moment) = moment(line) {
            started = Some(moment);
            continue;
        }
        if BEGINS.iter().any(|head| line.starts_with(head)) {
            if found.len() > MOST_RESULTS {
                break;
            }
            let mut one = begun(line, version.clone());
            one.started = started.take();
            found.push(one);
        } else if line.starts_with('[') {
            if found.is_empty() && figures(line).is_some() {
                found.push(Found::new(Format::IperfText, "iperf"));
            }
            if let Some(one) = found.last_mut() {
                take(one, line);
            }
        } else if let Some(one) = found.last_mut() {
            remark(one, line);
        }
    }
    found.retain(|one| !one.seen.intervals.is_empty() || !one.seen.streams.is_empty());
    found.iter_mut().for_each(finish);
    found
}

fn begun(line: &str, version: Option<String>) -> Found {
    let mut one = Found::new(Format::IperfText, "iperf");
    one.seen.tool_version = version;
    let seen = &mut one.seen;
    if let Some(rest) = line.strip_prefix("Accepted connection from ") {
        "iperf3".clone_into(&mut seen.tool);
        seen.near = rest.split(',').next().map(tame);
    } else if let Some(rest) = line.strip_prefix("Connecting to host ") {
        "iperf3".clone_into(&mut seen.tool);
        seen.far = rest.split(',').next().map(tame);
        seen.forward = Some(!line.contains("reverse"));
    } else if let Some(rest) = line.strip_prefix("Client connecting to ") {
        seen.far = rest.split(',').next().map(tame);
        seen.protocol = between(rest, ", ", " port").map(|it| tame(it).to_lowercase());
        seen.forward = Some(true);
    }
    one
}

/// Parses `Time: Sun, 22 Nov 2026 10:00:00 GMT`, which `iperf3 -V` prints before a run.
fn moment(line: &str) -> Option<Timestamp> {
    let text = line.strip_prefix("Time: ")?.trim();
    let text = text.trim_end_matches("UTC").trim_end_matches("GMT").trim();
    let civil = DateTime::strptime("%a, %d %b %Y %H:%M:%S", text).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn remark(one: &mut Found, line: &str) {
    if line.starts_with("Reverse mode") {
        one.seen.forward = Some(false);
    } else if line.contains("sender seems to have been interrupted") || line.contains("error - ") {
        let text = format!("iperf says: {}", tame(line));
        if one.flaws.len() < MOST_REMARKS {
            one.flaws.push(text);
        }
    }
}

fn take(one: &mut Found, line: &str) {
    if let Some((_, ends)) = line.split_once(" local ") {
        let Some((near, far)) = ends.split_once(" connected ") else {
            return;
        };
        let first = |text: &str| text.split_whitespace().next().map(tame);
        let far = first(far.trim_start_matches("with ").trim_start_matches("to "));
        let (near, accepted) = (first(near), one.seen.near.is_some());
        if accepted {
            one.seen.far = one.seen.far.take().or(near);
        } else {
            one.seen.near = near;
            one.seen.far = one.seen.far.take().or_else(|| far.clone());
            one.seen.far_address = far;
        }
        return;
    }
    let Some(figures) = figures(line) else {
        return;
    };
    match figures.last {
        "sender" | "receiver" => total(one, &figures),
        last => {
            let sum = figures.name == "SUM";
            let interval = Interval {
                stream: (!sum).then(|| tame(figures.name)),
                started_us: figures.started_us,
                duration_us: figures.transfer.duration_us.unwrap_or(0),
                bytes: figures.transfer.bytes,
                printed_bps: figures.transfer.printed_bps,
                retransmitted_packets: figures.transfer.retransmitted_packets,
                cwnd_bytes: figures.cwnd_bytes,
                omitted: last == "(omitted)",
                ..Interval::default()
            };
            whole_run(one, &figures);
            let limit = (MOST_INTERVALS, "intervals");
            Found::add(&mut one.seen.intervals, &mut one.flaws, interval, limit);
        }
    }
}

/// Parses `[  5]   0.00-10.00  sec  1.10 GBytes   943 Mbits/sec   12             sender`.
fn figures(line: &str) -> Option<Line<'_>> {
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
    let started_us = scaled(from, 1e6)?;
    let duration_us = scaled(to, 1e6)?.checked_sub(started_us)?;
    let after = &words[sec + 1..];
    let size = size_unit(after.get(1)?)?;
    let mut transfer = Transfer {
        bytes: scaled(after[0], size),
        rounding_bytes: Some(rounding(after[0], size)).filter(|bytes| *bytes > 0),
        duration_us: Some(duration_us).filter(|us| *us > 0),
        ..Transfer::default()
    };
    if let Some(unit) = after.get(3).and_then(|word| rate_unit(word)) {
        transfer.printed_bps = scaled(after[2], unit);
        transfer.rounding_bps = Some(rounding(after[2], unit));
    }
    let more = after.get(4..).unwrap_or_default();
    datagrams(&mut transfer, more);
    let tcp = transfer.jitter_us.is_none() && transfer.datagrams.is_none();
    if tcp {
        transfer.retransmitted_packets = more.first().and_then(|word| whole(word));
    }
    let cwnd = more.get(2).and_then(|word| size_unit(word));
    Some(Line {
        name: name.trim(),
        started_us,
        transfer,
        cwnd_bytes: cwnd.and_then(|unit| scaled(more[1], unit)),
        last: more.last().copied().unwrap_or_default(),
    })
}

/// Parses `0.041 ms  12/8500 (0.14%)`.
fn datagrams(transfer: &mut Transfer, more: &[&str]) {
    if more.get(1) == Some(&"ms") {
        transfer.jitter_us = scaled(more[0], 1e3);
    }
    let counted = more.iter().find_map(|word| {
        let (lost, all) = word.split_once('/')?;
        Some((whole(lost)?, whole(all)?))
    });
    if let Some((lost, all)) = counted {
        transfer.lost_datagrams = Some(lost);
        transfer.datagrams = Some(all);
    }
}

/// Stores one of iperf3's last lines, which name the end that counted.
fn total(one: &mut Found, line: &Line) {
    let sender = line.last == "sender";
    if line.name == "SUM" {
        let place = if sender {
            &mut one.seen.sender
        } else {
            &mut one.seen.receiver
        };
        *place = Some(line.transfer);
        return;
    }
    let name = tame(line.name);
    if !one.seen.streams.iter().any(|it| it.name == name) {
        let stream = Stream {
            name: name.clone(),
            ..Stream::default()
        };
        let limit = (MOST_STREAMS, "streams");
        Found::add(&mut one.seen.streams, &mut one.flaws, stream, limit);
    }
    let stream = one.seen.streams.iter_mut().find(|it| it.name == name);
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
fn whole_run(one: &mut Found, line: &Line) {
    if one.seen.tool != "iperf" || line.started_us != 0 {
        return;
    }
    let longer =
        |old: &Option<Transfer>| old.is_none_or(|old| old.duration_us <= line.transfer.duration_us);
    if line.name == "SUM" {
        if longer(&one.seen.either) {
            one.seen.either = Some(line.transfer);
        }
        return;
    }
    let name = tame(line.name);
    match one.seen.streams.iter_mut().find(|it| it.name == name) {
        Some(stream) if longer(&stream.either) => stream.either = Some(line.transfer),
        Some(_) => {}
        None => {
            let stream = Stream {
                name,
                either: Some(line.transfer),
                ..Stream::default()
            };
            let limit = (MOST_STREAMS, "streams");
            Found::add(&mut one.seen.streams, &mut one.flaws, stream, limit);
        }
    }
}

/// Drops totals of a truncated run that are only its first interval.
fn drop_first_intervals(seen: &mut Observation) {
    let ends = seen.intervals.iter();
    let end_us = ends
        .map(|it| it.started_us.saturating_add(it.duration_us))
        .max();
    let whole = |it: &Transfer| it.duration_us >= end_us.map(|us| us / 10 * 9);
    seen.either = seen.either.filter(whole);
    seen.streams
        .retain(|stream| stream.either.as_ref().is_none_or(whole));
}

fn finish(one: &mut Found) {
    let seen = &mut one.seen;
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
        one.flaws
            .push("the lines of the whole run are not there: it is cut off".to_owned());
    }
    one.lacks("bytes beyond the printed digits");
    one.lacks("round trips, buffers in force, what limited the run");
}
