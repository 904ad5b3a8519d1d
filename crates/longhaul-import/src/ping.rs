//! Output of ping on Linux, BSD and Windows.

use crate::lines::{between, scaled, whole};
use crate::{Format, Found, MOST_ANSWERS, MOST_RESULTS, tame};
use jiff::Timestamp;
use longhaul_model::report::v1::imported::Pings;

pub(crate) fn read(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(one) = begun(line) {
            if found.len() > MOST_RESULTS {
                break;
            }
            found.push(one);
        } else if let Some(one) = found.last_mut() {
            take(one, line);
        }
    }
    found.retain(|one| one.seen.pings != Some(Pings::default()));
    for one in &mut found {
        finish(one);
    }
    found
}

/// Parses `PING far (192.0.2.7) 56(84) bytes of data.` and
/// `Pinging far [192.0.2.7] with 32 bytes of data:`.
fn begun(line: &str) -> Option<Found> {
    let (rest, brackets) = match line.strip_prefix("PING ") {
        Some(rest) => (rest, ("(", ")")),
        None => (line.strip_prefix("Pinging ")?, ("[", "]")),
    };
    if !rest.contains("bytes") {
        return None;
    }
    let mut one = Found::new(Format::Ping, "ping");
    let host = rest.split([' ', '(']).next().filter(|it| !it.is_empty())?;
    one.seen.far = Some(tame(host));
    one.seen.far_address = between(rest, brackets.0, brackets.1)
        .filter(|it| it.parse::<std::net::IpAddr>().is_ok())
        .map(tame);
    one.seen.protocol = Some("icmp".to_owned());
    one.seen.pings = Some(Pings::default());
    Some(one)
}

fn take(one: &mut Found, line: &str) {
    if let Some((_, after)) = line
        .split_once(" bytes from ")
        .or(line.split_once("Reply from "))
    {
        answer(one, after);
        stamped(one, line);
    }
    let Some(pings) = one.seen.pings.as_mut() else {
        return;
    };
    if line.contains("packets transmitted") {
        let mut parts = line.split(", ");
        let number = |part: Option<&str>| whole(part?.split_whitespace().next()?);
        pings.sent_packets = number(parts.next());
        pings.received_packets = number(parts.next());
    } else if let Some(rest) = line.strip_prefix("Packets: Sent = ") {
        pings.sent_packets = rest.split(',').next().and_then(whole);
        pings.received_packets = between(line, "Received = ", ",").and_then(whole);
    } else if let Some((_, rest)) = line.split_once("min/avg/max") {
        let figures = rest.split_once("= ").map_or("", |(_, after)| after);
        let figures = figures.split(' ').next().unwrap_or_default();
        let mut figures = figures.split('/').map(|it| scaled(it, 1e3));
        pings.rtt_min_us = figures.next().flatten();
        pings.rtt_mean_us = figures.next().flatten();
        pings.rtt_max_us = figures.next().flatten();
    } else if line.starts_with("Minimum = ") {
        let figure = |before: &str| {
            let (_, rest) = line.split_once(before)?;
            scaled(rest.split("ms").next()?, 1e3)
        };
        pings.rtt_min_us = figure("Minimum = ");
        pings.rtt_mean_us = figure("Average = ");
        pings.rtt_max_us = figure("Maximum = ");
    }
}

/// Parses `… time=172 ms`, `time=172ms`, `time<1ms`.
fn answer(one: &mut Found, after: &str) {
    let Some(pings) = one.seen.pings.as_mut() else {
        return;
    };
    if after.contains("time<") {
        *pings.bounded_packets.get_or_insert(0) += 1;
        return;
    }
    let time = after.split_once("time=").map(|(_, rest)| rest);
    let number = time.and_then(|rest| rest.split([' ', 'm']).next());
    if let Some(us) = number.and_then(|it| scaled(it, 1e3)) {
        let limit = (MOST_ANSWERS, "answers");
        Found::add(&mut pings.rtts_us, &mut one.flaws, us, limit);
    }
}

/// Parses the time that `ping -D` prints in brackets: seconds since 1970.
fn stamped(one: &mut Found, line: &str) {
    if one.started.is_some() || !line.starts_with('[') {
        return;
    }
    let stamp = between(line, "[", "]").and_then(|it| scaled(it, 1e6));
    let stamp = stamp.and_then(|us| i64::try_from(us).ok());
    one.started = stamp.and_then(|us| Timestamp::from_microsecond(us).ok());
}

fn finish(one: &mut Found) {
    one.lacks("who asked");
    let Some(pings) = &one.seen.pings else {
        return;
    };
    if pings.sent_packets.is_none() {
        one.flaws
            .push("the statistics at the end are not there: it is cut off".to_owned());
    }
    if let Some(bounded) = pings.bounded_packets {
        one.lacks(&format!("{bounded} round trips, printed as below 1 ms"));
    }
}
