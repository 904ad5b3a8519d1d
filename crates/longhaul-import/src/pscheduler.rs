//! Results of pScheduler, perfSONAR's scheduler (5.x), for throughput, RTT and trace tests, alone
//! or in the document that its archiver sends.
//!
//! The schema does not say which end counted `throughput-bytes`, nor the units of RTTs, windows and
//! jitter: they are whatever the tool printed. So bytes are accepted if they match rate and time,
//! and the other values if the tool is iperf.

use crate::json::{count, number, print};
use crate::{Format, Found, MOST_ANSWERS, MOST_HOPS, MOST_INTERVALS, MOST_STREAMS, tame};
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::imported::{Hop, Interval, Pings, Stream, Transfer};
use serde_json::Value;
use std::net::IpAddr;

/// The maximum number of paths of one result that are merged.
const MOST_ADDRESSES: usize = 64;

#[derive(Clone, Copy)]
enum Test {
    Throughput,
    Rtt,
    Trace,
}

/// Returns the result in a JSON value, `None` if it is not a pScheduler result, or the reason why
/// it cannot be read.
pub(crate) fn result(value: &Value) -> Result<Option<Found>, String> {
    let places = [&value["result"], &value["result-merged"], value];
    let Some(result) = places.into_iter().find(|it| it["succeeded"].is_boolean()) else {
        return Ok(None);
    };
    let Some(test) = test(value, result)? else {
        return Ok(None);
    };
    let mut one = Found::new(Format::Pscheduler, "pscheduler");
    let moments = [
        &value["run"]["start-time"],
        &value["start-time"],
        &value["schedule"]["start"],
    ];
    let mut moments = moments.into_iter().filter_map(Value::as_str);
    one.started = moments.find_map(|text| text.parse::<Timestamp>().ok());
    ends(&mut one, value, test);
    figures(&mut one, value, result);
    match test {
        Test::Throughput => throughput(&mut one, value, result),
        Test::Rtt => rtt(&mut one, value, result),
        Test::Trace => {
            let probes = value["test"]["spec"]["probe-type"].as_str();
            one.seen.protocol = probes.map(tame);
            trace(&mut one, result);
        }
    }
    if result["succeeded"] == false {
        let why = result["error"].as_str().map_or_else(
            || "without a reason".to_owned(),
            |it| format!("with: {}", tame(it)),
        );
        one.flaws
            .push(format!("pScheduler says that the run failed, {why}"));
    }
    Ok(Some(one))
}

fn test(value: &Value, result: &Value) -> Result<Option<Test>, String> {
    match value["test"]["type"].as_str() {
        Some("throughput") => return Ok(Some(Test::Throughput)),
        Some("rtt") => return Ok(Some(Test::Rtt)),
        Some("trace") => return Ok(Some(Test::Trace)),
        Some(other) => {
            return Err(format!(
                "its result of pScheduler is of a test `{}`; throughput, rtt and trace are read",
                tame(other)
            ));
        }
        None => {}
    }
    Ok(if result["roundtrips"].is_array() {
        Some(Test::Rtt)
    } else if result["paths"].is_array() {
        Some(Test::Trace)
    } else if result["summary"].is_object() || result["intervals"].is_array() {
        Some(Test::Throughput)
    } else {
        None
    })
}

fn ends(one: &mut Found, value: &Value, test: Test) {
    let spec = &value["test"]["spec"];
    let host = |value: &Value| value.as_str().map(tame).filter(|it| !it.is_empty());
    one.seen.near = host(&spec["source"]).or_else(|| host(&value["participants"][0]));
    one.seen.far = host(&spec["dest"]);
    let address = one.seen.far.as_ref();
    one.seen.far_address = address.filter(|it| it.parse::<IpAddr>().is_ok()).cloned();
    if matches!(test, Test::Throughput) && spec.is_object() {
        one.seen.forward = Some(spec["reverse"] != true);
    }
}

fn figures(one: &mut Found, value: &Value, result: &Value) {
    print(one, "tool", &value["tool"]["name"]);
    print(one, "tool version", &value["tool"]["version"]);
    for key in [
        "duration",
        "parallel",
        "bandwidth",
        "window-size",
        "congestion",
        "ip-version",
        "length",
        "count",
    ] {
        print(one, key, &value["test"]["spec"][key]);
    }
    for key in [
        "mss",
        "mtu",
        "tcp-window-size",
        "requested-tcp-window-size",
        "duplicates",
        "reorders",
    ] {
        print(one, key, &result[key]);
    }
}

/// Recognises iperf by the tool's name or by its output in the result.
fn is_iperf(value: &Value, result: &Value) -> bool {
    match value["tool"]["name"].as_str() {
        Some(name) => name.starts_with("iperf"),
        None => result["diags"]
            .as_str()
            .is_some_and(|it| it.contains("iperf")),
    }
}

fn throughput(one: &mut Found, value: &Value, result: &Value) {
    let by_iperf = is_iperf(value, result);
    let whole = &result["summary"]["summary"];
    let total = transfer(whole, by_iperf);
    if let (Some(total), Some(printed)) = (&total, count(&whole["throughput-bytes"]))
        && total.bytes.is_none()
        && !is_the_rate(printed, total.printed_bps)
    {
        one.flaws.push(format!(
            "`throughput-bytes` is {printed}, which its rate and time do not make: it is left out"
        ));
    }
    one.seen.sender = total;
    one.seen.receiver = count(&whole["receiver-throughput-bits"]).map(|bps| Transfer {
        printed_bps: Some(bps),
        ..Transfer::default()
    });
    for summary in result["summary"]["streams"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let stream = Stream {
            name: id(summary).unwrap_or_else(|| "?".to_owned()),
            sender: transfer(summary, by_iperf),
            ..Stream::default()
        };
        let limit = (MOST_STREAMS, "streams");
        Found::add(&mut one.seen.streams, &mut one.flaws, stream, limit);
    }
    intervals(one, &result["intervals"], by_iperf);
    protocol(one, &value["test"]["spec"]);
    one.lacks("bytes that the receiver counted");
    one.lacks("what limited the run: buffers in force, time blocked, limits of windows");
}

fn protocol(one: &mut Found, spec: &Value) {
    let sender = one.seen.sender.unwrap_or_default();
    let udp = sender.datagrams.is_some() || sender.lost_datagrams.is_some();
    let word = match (spec["udp"] == true || udp, spec.is_object()) {
        (true, _) => "udp",
        (false, true) => "tcp",
        (false, false) if sender.retransmitted_packets.is_some() => "tcp",
        (false, false) => return,
    };
    one.seen.protocol = Some(word.to_owned());
}

fn id(value: &Value) -> Option<String> {
    match &value["stream-id"] {
        Value::String(text) => Some(tame(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn duration_us(value: &Value) -> Option<u64> {
    let (start, end) = (value["start"].as_f64()?, value["end"].as_f64()?);
    number(&Value::from(end - start), 1e6).filter(|us| *us > 0)
}

fn transfer(value: &Value, by_iperf: bool) -> Option<Transfer> {
    if !value.is_object() {
        return None;
    }
    let mut transfer = Transfer {
        duration_us: duration_us(value),
        printed_bps: count(&value["throughput-bits"]),
        retransmitted_packets: count(&value["retransmits"]),
        datagrams: count(&value["sent"]),
        lost_datagrams: count(&value["lost"]),
        ..Transfer::default()
    };
    transfer.bytes = count(&value["throughput-bytes"]).filter(|it| fits(*it, &transfer));
    if by_iperf {
        transfer.jitter_us = number(&value["jitter"], 1e3);
        transfer.rtt_mean_us = count(&value["rtt"]).filter(|us| *us > 0);
    }
    Some(transfer)
}

/// Reports whether rate and time agree with these bytes within one per cent.
fn fits(bytes: u64, transfer: &Transfer) -> bool {
    let (Some(bps), Some(us)) = (transfer.printed_bps, transfer.duration_us) else {
        return false;
    };
    let made = u128::from(bps) * u128::from(us) / 8_000_000;
    u128::from(bytes).abs_diff(made) <= made / 100
}

/// Reports whether the value is bytes per second, which some tools print under the same name.
fn is_the_rate(printed: u64, bps: Option<u64>) -> bool {
    bps.is_some_and(|bps| printed.abs_diff(bps / 8) <= bps / 800 + 1)
}

fn intervals(one: &mut Found, all: &Value, by_iperf: bool) {
    for value in all.as_array().into_iter().flatten() {
        let streams = value["streams"].as_array().filter(|it| !it.is_empty());
        let whole = std::slice::from_ref(&value["summary"]);
        for stream in streams.map_or(whole, Vec::as_slice) {
            let (started, seen) = (number(&stream["start"], 1e6), transfer(stream, by_iperf));
            let Some((started_us, seen)) = started.zip(seen) else {
                continue;
            };
            let Some(duration_us) = seen.duration_us else {
                continue;
            };
            // pScheduler's parser of iperf stores the congestion window under this name.
            let cwnd = count(&stream["tcp-window-size"]).filter(|bytes| by_iperf && *bytes > 0);
            let interval = Interval {
                stream: streams.and_then(|_| id(stream)),
                started_us,
                duration_us,
                bytes: seen.bytes,
                printed_bps: seen.printed_bps,
                retransmitted_packets: seen.retransmitted_packets,
                cwnd_bytes: cwnd,
                rtt_us: seen.rtt_mean_us,
                rttvar_us: None,
                omitted: stream["omitted"] == true,
            };
            let limit = (MOST_INTERVALS, "intervals");
            Found::add(&mut one.seen.intervals, &mut one.flaws, interval, limit);
        }
    }
}

/// Parses `PT0.009059S` into microseconds.
fn iso_us(value: &Value) -> Option<u64> {
    let text = value.as_str().filter(|it| it.len() < 64)?;
    let duration: SignedDuration = text.parse().ok()?;
    let us = u64::try_from(duration.as_nanos().checked_add(500)? / 1000).ok()?;
    (us < 9_000_000_000_000_000).then_some(us)
}

fn rtt(one: &mut Found, value: &Value, result: &Value) {
    let mut pings = Pings {
        sent_packets: count(&result["sent"]),
        received_packets: count(&result["received"]),
        rtt_min_us: iso_us(&result["min"]),
        rtt_mean_us: iso_us(&result["mean"]),
        rtt_max_us: iso_us(&result["max"]),
        ..Pings::default()
    };
    for echo in result["roundtrips"].as_array().into_iter().flatten() {
        if one.seen.far_address.is_none() {
            one.seen.far_address = address(&echo["ip"]);
        }
        if let Some(us) = iso_us(&echo["rtt"]) {
            let limit = (MOST_ANSWERS, "answers");
            Found::add(&mut pings.rtts_us, &mut one.flaws, us, limit);
        }
    }
    one.seen.pings = Some(pings);
    if value["tool"]["name"] == "ping" {
        one.seen.protocol = Some("icmp".to_owned());
    }
}

fn address(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    text.parse::<IpAddr>().ok().map(|_| text.to_owned())
}

/// Merges the paths, one or one per probe, hop by hop.
fn trace(one: &mut Found, result: &Value) {
    let paths = result["paths"].as_array().into_iter().flatten();
    for path in paths.take(MOST_ADDRESSES) {
        for (index, step) in path.as_array().into_iter().flatten().enumerate() {
            if index == one.seen.hops.len() {
                let hop = Hop {
                    ttl_index: index as u32 + 1,
                    ..Hop::default()
                };
                let limit = (MOST_HOPS, "hops");
                Found::add(&mut one.seen.hops, &mut one.flaws, hop, limit);
            }
            match one.seen.hops.get_mut(index) {
                Some(hop) => answered(hop, step),
                None => break,
            }
        }
    }
    one.lacks("the balancing of flows, the way back");
}

fn answered(hop: &mut Hop, step: &Value) {
    let Some(from) = address(&step["ip"]) else {
        *hop.unanswered_packets.get_or_insert(0) += 1;
        return;
    };
    if !hop.addresses.contains(&from) {
        hop.addresses.push(from);
    }
    if hop.host.is_none() {
        hop.host = step["hostname"].as_str().map(tame);
    }
    hop.rtts_us.extend(iso_us(&step["rtt"]));
}
