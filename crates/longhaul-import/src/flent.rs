//! Results of flent (`.flent.gz`, decompressed): tests `ping`, `tcp_*` and `rrul*` against one server.
//!
//! Each direction of TCP is a result, and so is each series of echoes. The tools that flent runs
//! (netperf, iperf, ping, irtt) count at the client, which sends in an upload.
//!
//! Source: `doc/data-format.rst` and `resultset.py` of flent 0.11 to 2.2 (file versions 1 to 4).
//! Units: Mbit/s, ms and seconds in the file. Error: as printed by the tools; values of a series without
//! raw values are interpolated by flent.
//! Wrong when: flent ran with `--swap-up-down`, which the file does not say.

use crate::json_results::{read_count, read_scaled_number, store_printed_value};
use crate::printed_numbers::half_unit_of_last_digit;
use crate::{ImportFormat, ImportedResult, sanitize_text};
use longhaul_model::report::v1::imported::{ImportedInterval, ImportedStream, ImportedTransfer};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The beginnings of the names of the tests that are read.
const TESTS: [&str; 3] = ["ping", "tcp_", "rrul"];
/// The beginnings of the names of the series of each direction, and whether the client sends.
const DIRECTIONS: [(&str, bool); 2] = [("TCP upload", true), ("TCP download", false)];
const ECHOES: &str = "Ping (ms)";
/// Names of series that flent computes from others.
const COMPUTED: [&str; 3] = ["avg", "sum", "fairness"];

/// Reports whether the value is a file of flent.
pub(crate) fn is_flent_value(value: &Value) -> bool {
    value["metadata"]["NAME"].is_string() && value["results"].is_object()
}

/// Returns the results of a file, or the reason why it cannot be read.
pub(crate) fn parse_flent_results(value: &Value) -> Result<Vec<ImportedResult>, String> {
    let metadata = &value["metadata"];
    let test = metadata["NAME"].as_str().unwrap_or_default();
    if !TESTS.iter().any(|known| test.starts_with(known)) {
        return Err(format!(
            "it is a flent test `{}`; only ping, tcp_* and rrul* are read",
            sanitize_text(test)
        ));
    }
    let hosts = metadata["HOSTS"].as_array().map_or(&[][..], Vec::as_slice);
    if hosts.iter().any(|host| *host != hosts[0]) {
        return Err("it is a flent test with several servers; only those with one are read".into());
    }
    let names: Vec<&str> = value["results"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .filter(|name| is_measured(name))
        .collect();
    let mut found = Vec::new();
    for (prefix, client_sends) in DIRECTIONS {
        let of_direction = names.iter().copied().filter(|name| name.starts_with(prefix));
        let of_direction: Vec<&str> = of_direction.collect();
        if !of_direction.is_empty() {
            found.push(read_direction(value, prefix, &of_direction, client_sends));
        }
    }
    let is_loaded = !found.is_empty();
    let echoes = names.iter().filter(|name| name.starts_with(ECHOES));
    found.extend(echoes.map(|name| read_echoes(value, name, is_loaded)));
    if found.is_empty() {
        return Err(format!(
            "the flent test `{}` has no series of TCP or ping",
            sanitize_text(test)
        ));
    }
    Ok(found)
}

/// Leaves out series that are computed from others, belong to a part of another, or go elsewhere.
fn is_measured(name: &str) -> bool {
    let last = name.rsplit([' ', ':']).next().unwrap_or_default();
    !COMPUTED.contains(&last) && !name.contains("::tcp_") && !name.ends_with("(extra)")
}

/// Starts a result with what concerns the whole file.
fn start_result(value: &Value) -> ImportedResult {
    let metadata = &value["metadata"];
    let text = |value: &Value| value.as_str().map(sanitize_text).filter(|it| !it.is_empty());
    let mut one = ImportedResult::new(ImportFormat::Flent, "flent");
    // Before 1.0 the time was a local one.
    one.started = metadata["TIME"].as_str().and_then(|it| it.parse().ok());
    let seen = &mut one.observation;
    seen.tool_version = text(&metadata["FLENT_VERSION"]);
    seen.near = text(&metadata["LOCAL_HOST"]);
    seen.far = text(&metadata["HOST"]).or_else(|| text(&metadata["HOSTS"][0]));
    seen.far_address = seen.far.clone().filter(|it| it.parse::<IpAddr>().is_ok());
    for key in ["NAME", "TITLE", "LENGTH", "STEP_SIZE", "IP_VERSION"] {
        store_printed_value(&mut one, key, &metadata[key]);
    }
    one
}

/// Returns what flent stores about a series.
fn series_metadata<'a>(value: &'a Value, name: &str) -> &'a Value {
    &value["metadata"]["SERIES_META"][name]
}

fn read_direction(
    value: &Value,
    prefix: &str,
    names: &[&str],
    client_sends: bool,
) -> ImportedResult {
    let mut one = start_result(value);
    one.observation.protocol = Some("tcp".to_owned());
    one.observation.forward = Some(client_sends);
    let started_s = find_start(value, names);
    let mut totals = DirectionTotals::default();
    for name in names {
        let rest = name[prefix.len()..].trim_start_matches([' ', ':']);
        let stream_name = sanitize_text(if rest.is_empty() { "1" } else { rest });
        let about = series_metadata(value, name);
        let (sender, receiver) = read_ends(about, client_sends);
        totals.add(sender.as_ref(), receiver.as_ref());
        for key in ["CONG_CONTROL", "TCP_MSS"] {
            store_printed_value(&mut one, &format!("{key} of {stream_name}"), &about[key]);
        }
        add_intervals(&mut one, value, name, &stream_name, started_s);
        one.add_stream(ImportedStream { name: stream_name, sender, receiver, either: None });
    }
    let printed = match names {
        [name] => read_mean(series_metadata(value, name)),
        _ => read_mean(series_metadata(value, &format!("{prefix} sum"))),
    };
    let (sender, receiver) = totals.finish(names.len(), printed, client_sends);
    (one.observation.sender, one.observation.receiver) = (sender, receiver);
    one.add_missing("limiting factor: effective buffers, blocked times, window limits");
    one
}

/// Reads the counts of both ends of a stream. Only the client's rate is printed.
fn read_ends(
    about: &Value,
    client_sends: bool,
) -> (Option<ImportedTransfer>, Option<ImportedTransfer>) {
    let duration_us = read_scaled_number(&about["ELAPSED_TIME"], 1e6).filter(|us| *us > 0);
    let count = |key: &str, is_client: bool| {
        let mut end = if is_client { read_mean(about) } else { None }.unwrap_or_default();
        end.bytes = read_count(&about[key]);
        end.duration_us = duration_us;
        let is_known = end.bytes.is_some() || end.printed_bps.is_some();
        is_known.then_some(end)
    };
    let retransmits = &about["TCP_RETRANSMIT"];
    let retransmits =
        read_count(retransmits).or_else(|| retransmits.as_str().and_then(|it| it.parse().ok()));
    let sender = count("BYTES_SENT", client_sends)
        .map(|end| ImportedTransfer { retransmitted_packets: retransmits, ..end });
    (sender, count("BYTES_RECVD", !client_sends))
}

/// Reads the mean rate that flent printed, with its rounding error.
fn read_mean(about: &Value) -> Option<ImportedTransfer> {
    let mean = &about["MEAN_VALUE"];
    Some(ImportedTransfer {
        printed_bps: Some(read_scaled_number(mean, 1e6)?),
        rounding_bps: Some(half_unit_of_last_digit(&mean.to_string(), 1e6)),
        ..ImportedTransfer::default()
    })
}

/// The sums over the streams of one direction.
#[derive(Default)]
struct DirectionTotals {
    sender: EndTotal,
    receiver: EndTotal,
}

/// The sums of one end, and the number of streams that it counted.
#[derive(Default)]
struct EndTotal {
    streams: usize,
    bytes: u64,
    duration_us: u64,
    retransmits: Option<u64>,
}

impl DirectionTotals {
    fn add(&mut self, sender: Option<&ImportedTransfer>, receiver: Option<&ImportedTransfer>) {
        self.sender.add(sender);
        self.receiver.add(receiver);
    }

    /// Returns the totals of sender and receiver; `printed` is the sum as flent printed it.
    fn finish(
        self,
        streams: usize,
        printed: Option<ImportedTransfer>,
        client_sends: bool,
    ) -> (Option<ImportedTransfer>, Option<ImportedTransfer>) {
        let end = |total: EndTotal, is_client: bool| {
            let is_whole = total.streams == streams;
            let printed = printed.filter(|_| is_client);
            (is_whole || printed.is_some()).then(|| ImportedTransfer {
                bytes: is_whole.then_some(total.bytes),
                duration_us: is_whole.then_some(total.duration_us),
                retransmitted_packets: total.retransmits.filter(|_| is_whole),
                ..printed.unwrap_or_default()
            })
        };
        (end(self.sender, client_sends), end(self.receiver, !client_sends))
    }
}

impl EndTotal {
    fn add(&mut self, end: Option<&ImportedTransfer>) {
        let Some(end) = end else { return };
        let Some((bytes, duration_us)) = end.bytes.zip(end.duration_us) else { return };
        self.streams += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.duration_us = self.duration_us.max(duration_us);
        if let Some(count) = end.retransmitted_packets {
            self.retransmits = Some(self.retransmits.unwrap_or(0).saturating_add(count));
        }
    }
}

/// Returns the raw values of a series.
fn raw_values<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value["raw_values"][name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the time at which the first interval of these series began, in seconds.
fn find_start(value: &Value, names: &[&str]) -> f64 {
    let begin = |raw: &Value| Some(raw["t"].as_f64()? - raw["dur"].as_f64()?);
    let all = names.iter().flat_map(|name| raw_values(value, name));
    all.filter_map(begin).fold(f64::INFINITY, f64::min)
}

/// Adds the intervals of a stream: the raw values, or else those that flent interpolated.
fn add_intervals(
    one: &mut ImportedResult,
    value: &Value,
    name: &str,
    stream: &str,
    started_s: f64,
) {
    let mut add = |end_s: Option<f64>, length: &Value, mbps: &Value| {
        let interval = || {
            let duration_us = read_scaled_number(length, 1e6)?;
            let started_us = read_scaled_number(&(end_s? - length.as_f64()?).into(), 1e6)?;
            Some(ImportedInterval {
                stream: Some(stream.to_owned()),
                started_us,
                duration_us,
                printed_bps: Some(read_scaled_number(mbps, 1e6)?),
                ..ImportedInterval::default()
            })
        };
        if let Some(interval) = interval() {
            one.add_interval(interval);
        }
    };
    let raw = raw_values(value, name);
    for raw in raw {
        add(raw["t"].as_f64().map(|t| t - started_s), &raw["dur"], &raw["val"]);
    }
    if raw.is_empty() {
        let step = &value["metadata"]["STEP_SIZE"];
        let times = value["x_values"].as_array().into_iter().flatten();
        let rates = value["results"][name].as_array().into_iter().flatten();
        for (time, mbps) in times.zip(rates) {
            add(time.as_f64().zip(step.as_f64()).map(|(t, step)| t + step), step, mbps);
        }
    }
}

fn read_echoes(value: &Value, name: &str, is_loaded: bool) -> ImportedResult {
    let mut one = start_result(value);
    let protocol = if name.contains("ICMP") { "icmp" } else { "udp" };
    one.observation.protocol = Some(protocol.to_owned());
    store_printed_value(&mut one, "series", &Value::from(name));
    // Raw values without a sequence number are no round trips but transactions per second.
    let raw = raw_values(value, name).iter().filter(|it| it["seq"].is_number());
    let raw: Vec<u64> = raw.filter_map(|it| read_ms(&it["val"])).collect();
    let answers = raw.len() as u64;
    let about = series_metadata(value, name);
    if raw.is_empty() {
        let values = value["results"][name].as_array().into_iter().flatten();
        values.filter_map(read_ms).for_each(|us| one.add_round_trip(us));
        one.add_missing("single round trips: flent interpolated them");
    } else {
        for us in raw {
            one.add_round_trip(us);
        }
    }
    let pings = one.observation.pings.get_or_insert_default();
    pings.sent_packets = read_count(&about["PACKETS_SENT"]);
    pings.received_packets =
        read_count(&about["PACKETS_RECEIVED"]).or(Some(answers).filter(|count| *count > 0));
    let figure = |key: &str| read_ms(&about[key]);
    pings.rtt_min_us = figure("RTT_MIN").or_else(|| figure("MIN_VALUE"));
    pings.rtt_max_us = figure("RTT_MAX").or_else(|| figure("MAX_VALUE"));
    pings.rtt_mean_us = figure("MEAN_VALUE");
    if is_loaded {
        one.import_caveats.push("the echoes were sent while TCP streams ran".to_owned());
    }
    one
}

/// Reads a time in milliseconds; zero is no round trip.
fn read_ms(value: &Value) -> Option<u64> {
    read_scaled_number(value, 1e3).filter(|us| *us > 0)
}
