//! The specification of a pScheduler test as options of `longhaul test`, `path` and `latency`.
//!
//! One table serves `can-run`, which reports every member that has no option, and `run`.

use super::TestInput;
use crate::cli::args::{CliArgs, CliCommand};
use clap::Parser;
use longhaul_import::parse_iso_duration;
use longhaul_probe::latency::test_packet::packet_bytes;
use longhaul_report::pscheduler_json::PschedulerTest;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::time::Duration;

/// The time to connect and to finish, beside that of the payload.
const THROUGHPUT_MARGIN: Duration = Duration::from_secs(15);
/// The time of a path run beside that of its echoes: names, and answers that do not come.
const PATH_MARGIN: Duration = Duration::from_secs(15);
/// The maximum duration of a trace and of a search for the path MTU.
const TRACE_TIME: Duration = Duration::from_secs(60);
const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// pScheduler's defaults of a test `rtt`.
const DEFAULT_COUNT: u64 = 5;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// Those of a test `latency`, and the time of a run beside that of its packets.
const LATENCY_COUNT: u64 = 100;
const LATENCY_INTERVAL_S: f64 = 0.1;
const LATENCY_MARGIN: Duration = Duration::from_secs(10);
/// The width in seconds of the buckets of our histograms of delays.
const BUCKET_WIDTH_S: f64 = 1e-5;

/// Builds the command of a test for this host as participant 0.
///
/// # Errors
/// All members of the specification that longhaul cannot follow, as sentences.
pub fn build_command(
    test: PschedulerTest,
    spec: &Map<String, Value>,
) -> Result<CliCommand, Vec<String>> {
    let (command, usual): (_, &[&str]) = match test {
        PschedulerTest::Throughput => ("test", &[]),
        PschedulerTest::Rtt => {
            ("path", &["--no-route", "--no-mtu", "--no-reverse", "--count=5", "--interval=1s"])
        }
        PschedulerTest::Trace => ("path", &["--no-mtu", "--no-reverse", "--count=1"]),
        PschedulerTest::Mtu => ("path", &["--no-route", "--no-reverse", "--count=1"]),
        PschedulerTest::Latency => ("latency", &[]),
    };
    // The destination of a flipped test begins, and is participant 0.
    let is_flipped = test == PschedulerTest::Latency && spec.get("flip") == Some(&true.into());
    let flipped = is_flipped.then(|| flip_ends(spec));
    let spec = flipped.as_ref().unwrap_or(spec);
    let mut words = vec!["longhaul".to_owned(), command.to_owned()];
    words.extend(["--no-save", "--quiet"].iter().chain(usual).map(|word| (*word).to_owned()));
    let mut reasons = Vec::new();
    for (name, value) in spec {
        let option = match test {
            _ if is_common(name) => convert_common_member(name, value),
            PschedulerTest::Throughput => convert_throughput_member(name, value, spec),
            PschedulerTest::Latency => convert_latency_member(name, value, spec),
            _ => convert_path_member(test, name, value, spec),
        };
        match option {
            Ok(option) => words.extend(option),
            Err(reason) => reasons.push(reason),
        }
    }
    match spec.get("dest").and_then(Value::as_str) {
        Some(dest) => words.extend(["--".to_owned(), dest.to_owned()]),
        None => reasons.push("dest is missing".to_owned()),
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let parsed = CliArgs::try_parse_from(&words).map_err(|error| {
        let text = error.to_string();
        vec![text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()]
    })?;
    Ok(parsed.command)
}

fn flip_ends(spec: &Map<String, Value>) -> Map<String, Value> {
    let flip = |name: &String| match name.as_str() {
        "source" => "dest".to_owned(),
        "dest" => "source".to_owned(),
        _ => name.clone(),
    };
    spec.iter().map(|(name, value)| (flip(name), value.clone())).collect()
}

/// An option, `None` for a member that needs none, or why there is no option.
type OptionResult = Result<Option<String>, String>;

fn is_common(name: &str) -> bool {
    let names =
        ["schema", "source", "source-node", "dest", "dest-node", "local-address", "ip-version"];
    names.contains(&name)
}

/// Converts a member that tests of several types have.
fn convert_common_member(name: &str, value: &Value) -> OptionResult {
    let address = || value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    match name {
        // A name has several addresses, of which the resolver chooses.
        "source" => Ok(address().map(|address| format!("--bind={address}"))),
        "local-address" => match address() {
            Some(address) => Ok(Some(format!("--bind={address}"))),
            None => Err("local-address must be an IP address".to_owned()),
        },
        "ip-version" if value == 4 => Ok(Some("--ipv4".to_owned())),
        "ip-version" if value == 6 => Ok(Some("--ipv6".to_owned())),
        "ip-version" => Err("ip-version must be 4 or 6".to_owned()),
        _ => Ok(None),
    }
}

fn convert_throughput_member(name: &str, value: &Value, spec: &Map<String, Value>) -> OptionResult {
    let option = match name {
        "interval" | "link-rtt" | "single-ended" | "single-ended-port" | "loopback" => {
            return Ok(None);
        }
        "udp" | "reverse" | "no-delay" | "zero-copy" => {
            let is_set = value.as_bool().ok_or_else(|| format!("{name} must be true or false"))?;
            let option = if name == "zero-copy" { "zerocopy" } else { name };
            return Ok(is_set.then(|| format!("--{option}")));
        }
        "duration" => return read_time("--time", name, value),
        "omit" => return read_time("--omit", name, value),
        "parallel" => "--streams",
        "bandwidth" => "--bitrate",
        "fq-rate" => "--pacing",
        "window-size" => "--window",
        "mss" => "--mss",
        "buffer-length" => "--length",
        "ip-tos" => "--tos",
        "congestion" => "--congestion-control",
        "client-cpu-affinity" => {
            let client = read_word(name, value)?;
            let server = spec.get("server-cpu-affinity").map(|value| read_word(name, value));
            let server = server.transpose()?.map_or_else(String::new, |it| format!(",{it}"));
            return Ok(Some(format!("--affinity={client}{server}")));
        }
        "server-cpu-affinity" if spec.contains_key("client-cpu-affinity") => return Ok(None),
        _ => return refuse_member(name),
    };
    Ok(Some(format!("{option}={}", read_word(name, value)?)))
}

fn convert_path_member(
    test: PschedulerTest,
    name: &str,
    value: &Value,
    spec: &Map<String, Value>,
) -> OptionResult {
    use PschedulerTest::{Mtu, Rtt, Trace};
    let option = match (test, name) {
        (Rtt, "count") => "--count",
        (Rtt, "interval") => return read_time("--interval", name, value),
        (Rtt, "length") => {
            // The length is that of the data of an echo, without the headers of IP and ICMP.
            let is_v6 = spec.get("ip-version") == Some(&Value::from(6));
            let headers = if is_v6 { 48 } else { 28 };
            let bytes = value.as_u64().ok_or("length must be a number")?.saturating_add(headers);
            return Ok(Some(format!("--size={bytes}")));
        }
        (Rtt, "timeout") | (Trace, "wait") => return read_time("--timeout", name, value),
        (Rtt | Trace, "hostnames") => return Ok((value == false).then(|| "--no-names".to_owned())),
        (Rtt, "protocol") if value == "icmp" => return Ok(None),
        (Rtt, "suppress-loopback") | (Trace, "fragment") if value == false => return Ok(None),
        (Trace, "first-ttl") if value == 1 => return Ok(None),
        (Trace, "as") | (Mtu, "port") => return Ok(None),
        (Trace, "hops") => "--max-hops",
        (Trace, "queries") => "--queries",
        (Trace, "dest-port") => "--to-port",
        (Trace, "probe-type") => {
            let types = ["icmp", "udp", "tcp"];
            let known = types.into_iter().find(|known| value == known);
            let known = known.ok_or("probe-type must be icmp, udp or tcp")?;
            return Ok(Some(format!("--{known}")));
        }
        _ => return refuse_member(name),
    };
    Ok(Some(format!("{option}={}", read_word(name, value)?)))
}

fn convert_latency_member(name: &str, value: &Value, spec: &Map<String, Value>) -> OptionResult {
    let protocol = spec.get("protocol").and_then(Value::as_str);
    let read_number = || value.as_u64().ok_or_else(|| format!("{name} must be a number"));
    match name {
        "packet-count" => Ok(Some(format!("--count={}", read_word(name, value)?))),
        "packet-interval" => {
            let seconds = value.as_f64().ok_or("packet-interval must be a number")?;
            Ok(Some(format!("--interval={}us", (seconds * 1e6).round() as u64)))
        }
        "packet-timeout" => match read_number()? {
            0 => Ok(None),
            seconds => Ok(Some(format!("--timeout={seconds}s"))),
        },
        "packet-padding" => match read_number()? {
            0 => Ok(None),
            bytes => {
                let base = packet_bytes(false) as u64;
                Ok(Some(format!("--size={}", bytes.saturating_add(base))))
            }
        },
        "ip-tos" => {
            let tos = read_number()?;
            if tos % 4 == 0 { Ok(Some(format!("--dscp={}", tos / 4))) } else { refuse_member(name) }
        }
        "protocol" => match protocol {
            Some("stamp") => Ok(Some("--stamp".to_owned())),
            Some("twamp-light") => Ok(Some("--twamp-light".to_owned())),
            Some("twamp") => {
                let port = spec.get("ctrl-port").map(|port| read_word("ctrl-port", port));
                let port = port.transpose()?.map_or_else(String::new, |port| format!("={port}"));
                Ok(Some(format!("--twamp-control{port}")))
            }
            _ => Err("protocol must be stamp, twamp-light or twamp".to_owned()),
        },
        "ctrl-port" if protocol == Some("twamp") => Ok(None),
        "ctrl-port" => Ok(Some(format!("--port={}", read_word(name, value)?))),
        "bucket-width" if value.as_f64() == Some(BUCKET_WIDTH_S) => Ok(None),
        "output-raw" if value == false => Ok(None),
        "flip" | "reverse" | "traverse-nat" => Ok(None),
        _ => refuse_member(name),
    }
}

fn refuse_member(name: &str) -> OptionResult {
    Err(format!("longhaul does not support this value of {name} in a test of this type"))
}

/// Returns a number, or a text without spaces.
fn read_word(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) if text.chars().all(|c| c.is_ascii_graphic()) => Ok(text.clone()),
        _ => Err(format!("{name} must be a number or a word")),
    }
}

/// Converts a duration of ISO 8601.
fn read_time(option: &str, name: &str, value: &Value) -> OptionResult {
    let time = read_duration(value)
        .ok_or_else(|| format!("{name} must be a duration of ISO 8601, such as PT10S"))?;
    Ok(Some(format!("{option}={}us", time.as_micros())))
}

/// Reads a duration of ISO 8601.
pub fn read_duration(value: &Value) -> Option<Duration> {
    parse_iso_duration(value.as_str()?)
}

/// Returns the time that a test needs from the first connection to the result, in whole seconds.
pub fn expected_duration(input: &TestInput) -> Duration {
    let time = |name: &str| input.spec.get(name).and_then(read_duration);
    let sum = match input.test() {
        Some(PschedulerTest::Throughput) => time("duration")
            .unwrap_or(DEFAULT_TIME)
            .saturating_add(time("omit").unwrap_or_default())
            .saturating_add(THROUGHPUT_MARGIN),
        Some(PschedulerTest::Rtt) => {
            let count = input.spec.get("count").and_then(Value::as_u64).unwrap_or(DEFAULT_COUNT);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let echoes = time("interval").unwrap_or(DEFAULT_INTERVAL).saturating_mul(count);
            echoes.saturating_add(time("timeout").unwrap_or_default()).saturating_add(PATH_MARGIN)
        }
        Some(PschedulerTest::Latency) => {
            let read = |name: &str| input.spec.get(name).and_then(Value::as_f64);
            let count = read("packet-count").unwrap_or(LATENCY_COUNT as f64);
            let seconds = count * read("packet-interval").unwrap_or(LATENCY_INTERVAL_S)
                + read("packet-timeout").unwrap_or(0.0);
            Duration::try_from_secs_f64(seconds)
                .unwrap_or(Duration::MAX)
                .saturating_add(LATENCY_MARGIN)
        }
        Some(PschedulerTest::Trace | PschedulerTest::Mtu) | None => TRACE_TIME + PATH_MARGIN,
    };
    // At most a day, so that no sum with a time overflows.
    Duration::from_secs((sum.as_secs() + u64::from(sum.subsec_nanos() > 0)).min(86_400))
}
