//! Output of ping on Linux, BSD and Windows.

use crate::printed_numbers::{parse_scaled, parse_whole, text_between};
use crate::{ImportFormat, ImportedResult, MAX_RESULTS, sanitize_text};
use jiff::Timestamp;
use longhaul_model::report::v1::imported::ImportedPings;

pub(crate) fn parse_ping(text: &str) -> Vec<ImportedResult> {
    let mut found: Vec<ImportedResult> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(one) = parse_ping_header(line) {
            if found.len() > MAX_RESULTS {
                break;
            }
            found.push(one);
        } else if let Some(one) = found.last_mut() {
            parse_ping_line(one, line);
        }
    }
    found.retain(|one| one.observation.pings != Some(ImportedPings::default()));
    for one in &mut found {
        finish_result(one);
    }
    found
}

/// Parses `PING far (192.0.2.7) 56(84) bytes of data.` and
/// `Pinging far [192.0.2.7] with 32 bytes of data:`.
fn parse_ping_header(line: &str) -> Option<ImportedResult> {
    let (rest, brackets) = match line.strip_prefix("PING ") {
        Some(rest) => (rest, ("(", ")")),
        None => (line.strip_prefix("Pinging ")?, ("[", "]")),
    };
    if !rest.contains("bytes") {
        return None;
    }
    let mut one = ImportedResult::new(ImportFormat::Ping, "ping");
    let host = rest.split([' ', '(']).next().filter(|it| !it.is_empty())?;
    one.observation.far = Some(sanitize_text(host));
    one.observation.far_address = text_between(rest, brackets.0, brackets.1)
        .filter(|it| it.parse::<std::net::IpAddr>().is_ok())
        .map(sanitize_text);
    one.observation.protocol = Some("icmp".to_owned());
    one.observation.pings = Some(ImportedPings::default());
    Some(one)
}

fn parse_ping_line(one: &mut ImportedResult, line: &str) {
    if let Some((_, after)) = line.split_once(" bytes from ").or(line.split_once("Reply from ")) {
        parse_ping_answer(one, after);
        parse_ping_timestamp(one, line);
    }
    let Some(pings) = one.observation.pings.as_mut() else {
        return;
    };
    if line.contains("packets transmitted") {
        let mut parts = line.split(", ");
        let number = |part: Option<&str>| parse_whole(part?.split_whitespace().next()?);
        pings.sent_packets = number(parts.next());
        pings.received_packets = number(parts.next());
    } else if let Some(rest) = line.strip_prefix("Packets: Sent = ") {
        pings.sent_packets = rest.split(',').next().and_then(parse_whole);
        pings.received_packets = text_between(line, "Received = ", ",").and_then(parse_whole);
    } else if let Some((_, rest)) = line.split_once("min/avg/max") {
        let figures = rest.split_once("= ").map_or("", |(_, after)| after);
        let figures = figures.split(' ').next().unwrap_or_default();
        let mut figures = figures.split('/').map(|it| parse_scaled(it, 1e3));
        pings.rtt_min_us = figures.next().flatten();
        pings.rtt_mean_us = figures.next().flatten();
        pings.rtt_max_us = figures.next().flatten();
    } else if line.starts_with("Minimum = ") {
        let figure = |before: &str| {
            let (_, rest) = line.split_once(before)?;
            parse_scaled(rest.split("ms").next()?, 1e3)
        };
        pings.rtt_min_us = figure("Minimum = ");
        pings.rtt_mean_us = figure("Average = ");
        pings.rtt_max_us = figure("Maximum = ");
    }
}

/// Parses `… time=172 ms`, `time=172ms`, `time<1ms`.
fn parse_ping_answer(one: &mut ImportedResult, after: &str) {
    if after.contains("time<") {
        let pings = one.observation.pings.get_or_insert_default();
        *pings.bounded_packets.get_or_insert(0) += 1;
        return;
    }
    let time = after.split_once("time=").map(|(_, rest)| rest);
    let number = time.and_then(|rest| rest.split([' ', 'm']).next());
    if let Some(us) = number.and_then(|it| parse_scaled(it, 1e3)) {
        one.add_round_trip(us);
    }
}

/// Parses the time that `ping -D` prints in brackets: seconds since 1970.
fn parse_ping_timestamp(one: &mut ImportedResult, line: &str) {
    if one.started.is_some() || !line.starts_with('[') {
        return;
    }
    let stamp = text_between(line, "[", "]").and_then(|it| parse_scaled(it, 1e6));
    let stamp = stamp.and_then(|us| i64::try_from(us).ok());
    one.started = stamp.and_then(|us| Timestamp::from_microsecond(us).ok());
}

fn finish_result(one: &mut ImportedResult) {
    one.add_missing("source host");
    let Some(pings) = &one.observation.pings else {
        return;
    };
    if pings.sent_packets.is_none() {
        one.import_caveats
            .push("the statistics at the end are missing: the output is truncated".to_owned());
    }
    if let Some(bounded) = pings.bounded_packets {
        one.add_missing(&format!("{bounded} round trips, printed as below 1 ms"));
    }
}
