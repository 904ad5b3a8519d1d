//! Output of Unix traceroute, Windows tracert, and mtr reports.

use crate::printed_numbers::{parse_scaled, parse_whole, text_between};
use crate::{ImportFormat, ImportedResult, MAX_RESULTS, sanitize_text};
use jiff::Timestamp;
use longhaul_model::report::v1::imported::ImportedHop;
use std::net::IpAddr;

pub(crate) fn parse_traceroute(text: &str) -> Vec<ImportedResult> {
    let mut found: Vec<ImportedResult> = Vec::new();
    let mut mtr_started = None;
    for line in text.lines().map(str::trim) {
        if let Some(moment) = line.strip_prefix("Start: ") {
            mtr_started = parse_mtr_time(moment);
        } else if let Some(one) = parse_traceroute_header(line, mtr_started) {
            if found.len() > MAX_RESULTS {
                break;
            }
            found.push(one);
        } else if let Some(one) = found.last_mut() {
            let hop =
                if one.observation.tool == "mtr" { parse_mtr_hop(line) } else { parse_hop(line) };
            // Hops come in order; other lines belong to other programs.
            let next = one.observation.hops.last().map_or(1, |last| last.ttl_index + 1);
            if let Some(hop) = hop.filter(|hop| hop.ttl_index == next) {
                one.add_hop(hop);
            }
        }
    }
    found.retain(|one| !one.observation.hops.is_empty());
    found.iter_mut().for_each(finish_result);
    found
}

/// Parses `traceroute to far (192.0.2.7), …`, `Tracing route to far [192.0.2.7]` and
/// `HOST: near  Loss% …`.
fn parse_traceroute_header(line: &str, mtr_started: Option<Timestamp>) -> Option<ImportedResult> {
    if let Some(rest) = line.strip_prefix("HOST: ") {
        let mut one = ImportedResult::new(ImportFormat::Traceroute, "mtr");
        one.started = mtr_started;
        one.observation.near = rest.split_whitespace().next().map(sanitize_text);
        return rest.contains("Loss%").then_some(one);
    }
    let unix =
        ["traceroute to ", "traceroute6 to "].iter().find_map(|head| line.strip_prefix(head));
    let rest = unix.or(line.strip_prefix("Tracing route to "))?;
    let mut one = ImportedResult::new(ImportFormat::Traceroute, "traceroute");
    // Windows tracert sends only ICMP.
    one.observation.protocol = unix.is_none().then(|| "icmp".to_owned());
    one.observation.far = rest.split([' ', ',']).next().map(sanitize_text);
    let address = text_between(rest, "(", ")").or(text_between(rest, "[", "]"));
    one.observation.far_address =
        address.filter(|it| it.parse::<IpAddr>().is_ok()).map(sanitize_text);
    Some(one)
}

/// Parses `3  7 ms 7 ms 13 ms name [addr]` and
/// `3  name (addr)  7.1 ms  7.2 ms *  other (addr)  9 ms`.
fn parse_hop(line: &str) -> Option<ImportedHop> {
    let mut words = line.split_whitespace().peekable();
    let ttl = u32::try_from(parse_whole(words.next()?)?).ok()?;
    let mut hop = ImportedHop { ttl_index: ttl, ..ImportedHop::default() };
    let mut answers = 0;
    while let Some(word) = words.next() {
        let is_time = word.ends_with("ms") || words.peek() == Some(&"ms");
        let number = word.trim_end_matches("ms");
        if word == "*" {
            *hop.unanswered_packets.get_or_insert(0) += 1;
            answers += 1;
        } else if is_time && let Some(us) = parse_scaled(number, 1e3) {
            hop.rtts_us.push(us);
            answers += 1;
        } else if is_time && number.starts_with('<') {
            *hop.bounded_packets.get_or_insert(0) += 1;
            answers += 1;
        } else {
            add_hop_name(&mut hop, word);
        }
        if answers > 64 {
            return None;
        }
    }
    (answers > 0).then_some(hop)
}

fn add_hop_name(hop: &mut ImportedHop, word: &str) {
    let bare = word.trim_matches(['(', ')', '[', ']']);
    if bare.parse::<IpAddr>().is_ok() {
        if hop.addresses.len() < 64 && !hop.addresses.iter().any(|it| it == bare) {
            hop.addresses.push(bare.to_owned());
        }
    } else if word != "ms" && hop.host.is_none() && word.contains(|c: char| c.is_alphabetic()) {
        let is_text = ["Request", "timed", "out."].contains(&word) || word.starts_with('!');
        hop.host = (!is_text).then(|| sanitize_text(word));
    }
}

/// Parses `3.|-- name  0.0%  10  7.1  7.2  7.0  13.0  1.9`.
fn parse_mtr_hop(line: &str) -> Option<ImportedHop> {
    let (ttl, rest) = line.split_once(".|--")?;
    let mut hop = ImportedHop {
        ttl_index: u32::try_from(parse_whole(ttl.trim())?).ok()?,
        ..ImportedHop::default()
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let figures = words.iter().position(|word| word.ends_with('%'))?;
    for word in &words[..figures] {
        add_hop_name(&mut hop, word);
    }
    let loss = parse_scaled(words[figures].trim_end_matches('%'), 1e3)?;
    hop.loss_ratio = Some(loss as f64 / 1e5).filter(|ratio| *ratio <= 1.0);
    let figure = |index: usize| words.get(figures + index).copied();
    hop.sent_packets = figure(1).and_then(parse_whole);
    // mtr prints zeros for a silent hop; they were not measured.
    if hop.loss_ratio < Some(1.0) {
        hop.rtt_mean_us = figure(3).and_then(|it| parse_scaled(it, 1e3));
        hop.rtt_min_us = figure(4).and_then(|it| parse_scaled(it, 1e3));
        hop.rtt_max_us = figure(5).and_then(|it| parse_scaled(it, 1e3));
    }
    Some(hop)
}

/// Parses `2026-11-22T10:00:00+0000`.
fn parse_mtr_time(text: &str) -> Option<Timestamp> {
    Timestamp::strptime("%Y-%m-%dT%H:%M:%S%z", text.trim()).ok()
}

fn finish_result(one: &mut ImportedResult) {
    if one.observation.tool == "mtr" {
        let last = one.observation.hops.last();
        let far = last.and_then(|hop| hop.host.clone().or(hop.addresses.first().cloned()));
        one.observation.far = far;
    } else {
        one.add_missing("source host");
    }
    let bounded = one.observation.hops.iter().filter_map(|hop| hop.bounded_packets);
    let bounded: u64 = bounded.sum();
    if bounded > 0 {
        one.add_missing(&format!("{bounded} round trips, printed as below 1 ms"));
    }
    one.add_missing("load balancing, return path");
}
