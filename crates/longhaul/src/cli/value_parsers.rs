//! Parses option values and checks them against the limits of any run. No I/O.
//!
//! clap prints the option and the value before each message, so a message only says what is
//! allowed.
//!
//! # Setting lists
//!
//! Lists and ranges of settings: `auto,64K-4M`, `1,2,4-32`, `4-32/4`.
//!
//! A range doubles from its first value and ends with its last one; `/STEP` adds instead. Values
//! are sorted, without duplicates.

pub mod time_period;

use crate::command_failure::CommandFailure;
use longhaul_copy::FilesRoot;
use longhaul_import::{FORMATS, ImportFormat, sanitize_text};
use longhaul_model::report::v1::ReportKind;
use longhaul_model::report::v1::plan::CoreAffinity;
use longhaul_model::units::{Bytes, ParseUnitError, Rate, format_duration, parse_duration};
use longhaul_probe::plan_limits;
use longhaul_report::plot;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use time_period::parse_span_us;

/// The maximum timeout of a connection.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

fn check_range<T: PartialOrd + Copy>(
    value: T,
    least: T,
    most: T,
    show: impl Fn(&T) -> String,
) -> Result<T, String> {
    if value < least || value > most {
        return Err(format!("must be {} to {}", show(&least), show(&most)));
    }
    Ok(value)
}

fn parse_count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let value: u64 = text
        .replace('_', "")
        .parse()
        .map_err(|_| format!("not a whole number from {least} to {most}"))?;
    check_range(value, least, most, u64::to_string)
}

fn parse_size(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let Bytes(value) = text.parse().map_err(|e| expected_message(&e))?;
    check_range(value, least, most, |n| Bytes(*n).to_string())
}

pub fn parse_micros(text: &str, least_us: u64, most_us: u64) -> Result<u64, String> {
    let value = parse_duration(text).map_err(|e| expected_message(&e))?;
    let us = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    check_range(us, least_us, most_us, |us| format_duration(Duration::from_micros(*us)))
}

/// Returns a parser of whole numbers in a range.
pub fn accept_count<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    let (least, most) = range.into_inner();
    move |text: &str| {
        let value = parse_count(text, least, most)?;
        T::try_from(value).map_err(|_| format!("must be {least} to {most}"))
    }
}

/// Returns a parser of sizes in bytes in a range.
pub fn accept_size(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text: &str| parse_size(text, *range.start(), *range.end())
}

/// Returns a parser of durations in microseconds in a range.
pub fn accept_micros(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text: &str| parse_micros(text, *range.start(), *range.end())
}

/// Accepts the names of new or regular files with one of these extensions.
pub fn accept_file(
    extensions: &'static [&'static str],
) -> impl Fn(&str) -> Result<PathBuf, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let path = PathBuf::from(text);
        if !extensions.contains(&file_extension(&path).as_str()) {
            return Err(format!("expected a name that ends in .{}", extensions.join(", .")));
        }
        plot::check_replaceable(&path).map_err(|error| CommandFailure::from(error).chain())?;
        Ok(path)
    }
}

/// Returns the extension of a file in lower case.
pub fn file_extension(file: &Path) -> String {
    file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// Returns only the expected form, because clap already prints the value.
fn expected_message(error: &ParseUnitError) -> String {
    format!("expected {}", error.expected)
}

pub fn parse_port(text: &str) -> Result<u16, String> {
    parse_count(text, 1, 65_535).map(|n| n as u16)
}

pub fn parse_streams(text: &str) -> Result<u32, String> {
    parse_count(text, 1, u64::from(plan_limits::MAX_STREAMS)).map(|n| n as u32)
}

/// Parses a number with an optional unit K, M or G (1024, 1024², 1024³), as iperf3 does.
pub fn parse_blocks(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 50;
    let unit = match text.bytes().last().map(|last| last.to_ascii_uppercase()) {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        _ => return parse_count(text, 1, MOST),
    };
    let number = &text[..text.len() - 1];
    parse_count(number, 1, MOST / unit).map(|number| number * unit)
}

pub fn parse_run_time(text: &str) -> Result<u64, String> {
    parse_micros(text, 100_000, plan_limits::MAX_RUN_US)
}

/// Parses the time of a run; 0 is a run that lasts until it is stopped.
pub fn parse_open_run_time(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_run_time(text) }
}

/// Parses a precision such as `3%`, in thousandths.
pub fn parse_precision(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent: f64 = number.parse().map_err(|_| "expected a percentage such as 3%".to_owned())?;
    let percent = check_range(percent, 0.1, 50.0, |value| format!("{value}%"))?;
    Ok((percent * 10.0).round() as u32)
}

pub fn parse_run_bytes(text: &str) -> Result<u64, String> {
    parse_size(text, 1, 1 << 60)
}

/// Parses the time of `--connect-timeout`, which needs a unit: a bare number is milliseconds in
/// iperf3, and would be seconds here.
pub fn parse_connect_timeout(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("{text}ms or {text}s? give a unit"));
    }
    let most_us = MAX_CONNECT_TIMEOUT.as_micros() as u64;
    parse_micros(text, 1_000, most_us).map(Duration::from_micros)
}

pub fn parse_buffer_size(text: &str) -> Result<u64, String> {
    parse_size(text, 1, plan_limits::MAX_BUFFER_BYTES)
}

/// Parses the number of bytes captured per packet.
pub fn parse_snap_length(text: &str) -> Result<u32, String> {
    let (least, most) = plan_limits::SNAP_BYTES;
    parse_size(text, u64::from(least), u64::from(most)).map(|n| n as u32)
}

/// Parses a rate; 0 is unlimited, as in iperf3.
pub fn parse_rate_or_unlimited(text: &str) -> Result<u64, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate.as_bps() == 0 => Ok(0),
        _ => parse_rate(text),
    }
}

/// Parses the interval of printed lines; 0 is none.
pub fn parse_line_interval(text: &str) -> Result<u64, String> {
    let (least, most) = plan_limits::INTERVAL_US;
    if text == "0" { Ok(0) } else { parse_micros(text, least, most) }
}

/// Parses a type of service in decimal, octal or hexadecimal form.
pub fn parse_tos(text: &str) -> Result<u8, String> {
    let parsed = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => u8::from_str_radix(&text[2..], 16),
        [b'0', _, ..] => u8::from_str_radix(&text[1..], 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| "must be 0 to 255".to_owned())
}

pub fn parse_rate(text: &str) -> Result<u64, String> {
    let value: Rate = text.parse().map_err(|e| expected_message(&e))?;
    check_range(value.as_bps(), 1_000, plan_limits::MAX_RATE_BPS, |bps| {
        Rate::bits_per_second(*bps).to_string()
    })
}

/// Parses the network of runs: one word, or `lab:` and the name of an emulated path.
pub fn parse_environment(text: &str) -> Result<String, String> {
    let is_path = text.strip_prefix("lab:").is_some_and(|name| !name.is_empty());
    if is_path || ["network", "loopback", "lab", "all"].contains(&text) {
        return Ok(text.to_owned());
    }
    Err("must be network, loopback, lab, lab:NAME or all".to_owned())
}

/// Parses a kind of report.
pub fn parse_report_kind(text: &str) -> Result<ReportKind, String> {
    let found = ReportKind::ALL.iter().find(|kind| kind.word() == text);
    found.copied().ok_or_else(|| {
        let words: Vec<&str> = ReportKind::ALL.iter().map(|kind| kind.word()).collect();
        format!("must be one of {}", words.join(", "))
    })
}

/// Parses a network device: at most 15 bytes, no slash or space (Linux `dev_valid_name`).
pub fn parse_device(text: &str) -> Result<String, String> {
    let fine = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    if text.is_empty() || text.len() > 15 || !text.chars().all(fine) {
        return Err("not an interface name: 1 to 15 characters, without / and spaces".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses a congestion control name (TCP_CA_NAME_MAX is 16 with the final NUL).
pub fn parse_congestion_control(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() || text.len() > 15 || !text.chars().all(fine) {
        return Err("not the name of a congestion control: 1 to 15 letters, digits, _ or -".into());
    }
    Ok(text.to_owned())
}

/// Parses `auto`, `off`, `0-3`, iperf3's `2,3` (one core of each end), `0,2/1,3` or `/5`.
pub fn parse_affinity(text: &str) -> Result<CoreAffinity, String> {
    match text {
        "auto" => return Ok(CoreAffinity::Auto),
        "off" => return Ok(CoreAffinity::Off),
        _ => {}
    }
    let (here, there) = text
        .split_once('/')
        .or_else(|| text.split_once(',').filter(|(_, there)| !there.contains(',')))
        .unwrap_or((text, ""));
    if !text.contains('/') && here.contains(',') {
        return Err(format!("a list needs a slash after the cores of this host: {text}/"));
    }
    let (initiator, responder) = (parse_cores(here)?, parse_cores(there)?);
    if initiator.is_empty() && responder.is_empty() {
        return Err(EXPECTED_CORES.to_owned());
    }
    Ok(CoreAffinity::Cores { initiator, responder })
}

const EXPECTED_CORES: &str =
    "expected auto, off, or cores such as 2,3 (this host, server), 0-3, or 0,2/1,3";

fn parse_cores(text: &str) -> Result<Vec<u16>, String> {
    let mut list = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |t: &str| t.parse::<u16>().map_err(|_| EXPECTED_CORES.to_owned());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || u64::from(last) >= plan_limits::MAX_CORES {
            return Err(format!("{EXPECTED_CORES}, each below {}", plan_limits::MAX_CORES));
        }
        list.extend(first..=last);
    }
    Ok(list)
}

/// Parses a time; relative times count from now.
pub fn parse_moment(text: &str) -> Result<jiff::Timestamp, String> {
    time_period::resolve_moment(text, jiff::Timestamp::now())
}

/// Parses a period; relative times count from now.
pub fn parse_period(text: &str) -> Result<longhaul_model::report::v1::TimePeriod, String> {
    time_period::resolve_period(text, jiff::Timestamp::now())
}

const EXPECTED: &str = "expected 0 to 63, or a name: CS0 to CS7, AF11 to AF43, EF, LE, \
                        VOICE-ADMIT, BE";

/// Parses a code point by number (decimal or 0x) or name.
pub fn parse_dscp(text: &str) -> Result<u8, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number
        .or_else(|| find_dscp_name(&text.to_ascii_uppercase()))
        .filter(|n| *n <= 63)
        .ok_or_else(|| EXPECTED.to_owned())
}

fn find_dscp_name(name: &str) -> Option<u8> {
    match name {
        "BE" | "DF" => return Some(0),
        "LE" => return Some(1),
        "EF" => return Some(46),
        "VA" | "VOICE-ADMIT" => return Some(44),
        _ => {}
    }
    let digit = |range: std::ops::RangeInclusive<u8>, c: Option<&u8>| {
        c.map(|c| c.wrapping_sub(b'0')).filter(|n| range.contains(n))
    };
    let bytes = name.as_bytes();
    match (name.get(..2)?, bytes.len()) {
        ("CS", 3) => Some(8 * digit(0..=7, bytes.get(2))?),
        ("AF", 4) => Some(8 * digit(1..=4, bytes.get(2))? + 2 * digit(1..=3, bytes.get(3))?),
        _ => None,
    }
}

pub fn parse_import_format(text: &str) -> Result<ImportFormat, String> {
    let known = FORMATS.into_iter().find(|format| format.name() == text);
    known.ok_or_else(|| {
        let words: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

/// Parses a host name: not empty, short, and without control characters.
pub fn parse_host_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || sanitize_text(text) != text {
        return Err("expected a name of at most 255 characters, without control characters".into());
    }
    Ok(text.to_owned())
}

pub fn parse_served_folder(text: &str) -> Result<FilesRoot, String> {
    let (path, mode) = match text.rsplit_once(':') {
        Some((path, mode @ ("rw" | "ro" | "anonymous"))) => (path, mode),
        _ => (text, "ro"),
    };
    let absolute =
        std::path::absolute(path).map_err(|_| "expected DIR, DIR:ro, DIR:rw or DIR:anonymous")?;
    let last = absolute.file_name().and_then(|name| name.to_str());
    Ok(FilesRoot {
        name: last.unwrap_or("files").to_owned(),
        path: PathBuf::from(&absolute),
        writable: mode == "rw",
        anonymous: mode == "anonymous",
        user: None,
    })
}

/// The maximum number of cells of a grid: a scan of them takes hours, a prediction seconds.
const MAX_CELLS: usize = 4096;
/// The maximum queue of a prediction.
const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// The maximum loss ratio; no transfer works beyond it.
const MAX_LOSS_RATIO: f64 = 0.5;

/// A list of windows; `None` is `auto`: the kernel sizes the window. A name of its own, because
/// clap takes a `Vec` for an option that may be repeated.
pub type WindowList = Vec<Option<u64>>;
/// A list of stream counts.
pub type StreamCounts = Vec<u32>;
/// A list of sizes in bytes.
pub type SizeList = Vec<u64>;
/// A list of probabilities.
pub type LossRatios = Vec<f64>;

/// Parses `auto`, sizes, and ranges of sizes.
pub fn parse_windows(text: &str) -> Result<WindowList, String> {
    let (auto, sized): (Vec<&str>, Vec<&str>) = text.split(',').partition(|part| *part == "auto");
    let sizes = if sized.is_empty() {
        Vec::new()
    } else {
        parse_list(&sized.join(","), |t| parse_size(t, 1, plan_limits::MAX_BUFFER_BYTES))?
    };
    let first = (!auto.is_empty()).then_some(None);
    let all = first.into_iter().chain(sizes.into_iter().map(Some));
    Ok(all.collect())
}

/// Parses numbers of streams, and ranges of them.
pub fn parse_stream_counts(text: &str) -> Result<StreamCounts, String> {
    let values = parse_list(text, |t| parse_streams(t).map(u64::from))?;
    Ok(values.into_iter().map(|n| n as u32).collect())
}

/// Parses queue sizes of a link; 0 is no queue.
pub fn parse_queue_sizes(text: &str) -> Result<SizeList, String> {
    parse_list(text, |t| parse_size(t, 0, MAX_QUEUE_BYTES))
}

/// Parses loss probabilities: `0,1e-6,0.0001`.
pub fn parse_loss_ratios(text: &str) -> Result<LossRatios, String> {
    let one = |part: &str| {
        let wrong = || "expected probabilities such as 0,1e-6,0.001".to_owned();
        let value: f64 = part.trim().parse().map_err(|_| wrong())?;
        if !value.is_finite() {
            return Err(wrong());
        }
        check_range(value, 0.0, MAX_LOSS_RATIO, f64::to_string)
    };
    let mut values = text.split(',').map(one).collect::<Result<Vec<f64>, String>>()?;
    values.sort_by(f64::total_cmp);
    values.dedup();
    check_cell_count(values.len() as u64)?;
    Ok(values)
}

/// Returns a parser of round-trip times, from 10 µs to 60 s (beyond the Moon).
pub fn accept_round_trip() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    accept_micros(10..=60_000_000)
}

/// Fails if the product of the list lengths exceeds the maximum number of cells.
pub fn check_grid_size(lengths: &[usize]) -> Result<usize, String> {
    let cells = lengths.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    check_cell_count(cells as u64).map(|()| cells)
}

fn check_cell_count(values: u64) -> Result<(), String> {
    if values > MAX_CELLS as u64 {
        return Err(format!("{values} cells; at most {MAX_CELLS} are allowed"));
    }
    Ok(())
}

fn parse_list(text: &str, one: impl Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        parse_range(part.trim(), &one, &mut values)?;
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

fn parse_range(
    text: &str,
    one: &impl Fn(&str) -> Result<u64, String>,
    values: &mut Vec<u64>,
) -> Result<(), String> {
    let (ends, step) = match text.split_once('/') {
        Some((ends, step)) => (ends, Some(one(step)?)),
        None => (text, None),
    };
    let Some((first, last)) = ends.split_once('-') else {
        if step.is_some() {
            return Err(format!("{text}: a step needs a range such as 4-32/4"));
        }
        values.push(one(text)?);
        return Ok(());
    };
    let (first, last) = (one(first)?, one(last)?);
    if first > last {
        return Err(format!("{text}: the range is backwards"));
    }
    if first == 0 || step == Some(0) {
        return Err(format!("{text}: a range from 0 or with steps of 0 does not grow"));
    }
    if let Some(step) = step {
        check_cell_count((last - first) / step + 1 + values.len() as u64)?;
    }
    let grown = |n: &u64| match step {
        Some(step) => n.checked_add(step),
        None => n.checked_mul(2),
    };
    values.extend(std::iter::successors(Some(first), grown).take_while(|n| *n < last));
    values.push(last);
    check_cell_count(values.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_lists_and_ranges_for_each_end() {
        let at = |initiator: &[u16], responder: &[u16]| CoreAffinity::Cores {
            initiator: initiator.to_vec(),
            responder: responder.to_vec(),
        };
        for (text, want) in [
            ("auto", CoreAffinity::Auto),
            ("off", CoreAffinity::Off),
            ("3", at(&[3], &[])),
            ("2,3", at(&[2], &[3])),
            ("0-3,4", at(&[0, 1, 2, 3], &[4])),
            ("0,2/", at(&[0, 2], &[])),
            ("0-2,7/4", at(&[0, 1, 2, 7], &[4])),
            ("/5", at(&[], &[5])),
        ] {
            assert_eq!(parse_affinity(text), Ok(want), "{text}");
        }
        for text in ["", "/", "a", "3-1", "0-70000", "1,,2", "1,2,3", "2000"] {
            assert!(parse_affinity(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_are_counted_in_units_of_1024_too() {
        for (text, want) in [("7", 7), ("1K", 1 << 10), ("3m", 3 << 20), ("2G", 2 << 30)] {
            assert_eq!(parse_blocks(text), Ok(want), "{text}");
        }
        for text in ["", "K", "0", "1.5K", "-1", "1T", "2000000G", "½", "1KK"] {
            assert!(parse_blocks(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_have_a_known_extension_and_are_regular() {
        assert!(accept_file(&["svg"])("a/heat.SVG").is_ok());
        for text in ["heat.png", "heat", "", ".svg"] {
            assert!(accept_file(&["svg"])(text).is_err(), "{text}");
        }
        assert!(accept_file(&[""])("/dev").is_err(), "a folder");
    }

    #[test]
    fn values_out_of_range_name_the_range() {
        assert_eq!(parse_streams("0"), Err("must be 1 to 128".to_owned()));
        let hops = accept_count::<u8>(1..=255);
        assert_eq!(hops("0"), Err("must be 1 to 255".to_owned()));
        assert_eq!(parse_run_time("1ms"), Err("must be 100 ms to 86400 s".to_owned()));
    }

    #[test]
    fn names_and_numbers_are_the_standard_ones() {
        for (text, code) in [
            ("0", 0),
            ("63", 63),
            ("0x2e", 46),
            ("ef", 46),
            ("AF11", 10),
            ("af43", 38),
            ("CS1", 8),
            ("cs7", 56),
            ("le", 1),
            ("BE", 0),
        ] {
            assert_eq!(parse_dscp(text), Ok(code), "{text}");
        }
        for text in ["", "64", "-1", "AF44", "AF51", "CS8", "EFF", "é"] {
            assert!(parse_dscp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn formats_are_found_by_their_words_and_names_are_held_to_be_harmless() {
        for format in FORMATS {
            assert_eq!(parse_import_format(format.name()), Ok(format));
        }
        let refused = parse_import_format("netperf").expect_err("not known");
        assert!(refused.contains("iperf3-json"), "{refused}");
        assert_eq!(parse_host_name("far.example.net"), Ok("far.example.net".into()));
        for bad in ["", " ", "\u{1b}[2J", &"x".repeat(256)] {
            assert!(parse_host_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_folder_is_read_only_unless_it_says_otherwise() {
        for (text, path, writable) in [
            ("/data", "/data", false),
            ("/data:ro", "/data", false),
            ("/data:rw", "/data", true),
            ("/data:x", "/data:x", false),
        ] {
            let root = parse_served_folder(text).expect("a folder");
            assert_eq!((root.path, root.writable), (PathBuf::from(path), writable));
        }
        assert_eq!(parse_served_folder("/a/b/").map(|root| root.name), Ok("b".to_owned()));
        assert!(parse_served_folder("").is_err());
    }
}

#[cfg(test)]
mod setting_lists_tests {
    use super::*;

    #[test]
    fn ranges_double_or_step_and_end_where_they_say() {
        for (text, want) in [
            ("1,2,4-32", vec![1, 2, 4, 8, 16, 32]),
            ("4-32/4", vec![4, 8, 12, 16, 20, 24, 28, 32]),
            ("1-20", vec![1, 2, 4, 8, 16, 20]),
            ("8,1-4,2", vec![1, 2, 4, 8]),
            ("7-7", vec![7]),
            ("128", vec![128]),
        ] {
            assert_eq!(parse_stream_counts(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn windows_are_sizes_ranges_and_auto() {
        let kib = |n: u64| Some(n << 10);
        assert_eq!(
            parse_windows("64K-512K,auto,4M"),
            Ok(vec![None, kib(64), kib(128), kib(256), kib(512), kib(4096)])
        );
        assert_eq!(parse_windows("auto"), Ok(vec![None]));
        assert_eq!(parse_windows("64K").unwrap(), parse_windows("64KiB,64K").unwrap());
    }

    #[test]
    fn impossible_lists_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "not a whole number"),
            ("1,,2", "not a whole number"),
            ("32-4", "backwards"),
            ("0-4", "must be 1"),
            ("1-4/0", "must be 1"),
            ("0", "must be 1"),
            ("1-200", "must be 1 to 128"),
            ("4/2", "needs a range"),
            ("-", "not a whole number"),
            ("1-2-3", "not a whole number"),
            ("auto", "not a whole number"),
        ] {
            let told = parse_stream_counts(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
        for (text, part) in [
            ("", "a size"),
            ("auto,", "a size"),
            ("4M-64K", "backwards"),
            ("0", "must be 1 B"),
            ("64K-2G", "must be 1 B to 1 GiB"),
            ("1-1G/1", "at most 4096"),
            ("auto-4M", "a size"),
        ] {
            let told = parse_windows(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
    }

    #[test]
    fn many_short_ranges_are_counted_together() {
        let text = ["1-1000K/1K"; 5].join(",");
        assert!(parse_windows(&text).unwrap_err().contains("at most 4096"));
        assert_eq!(check_grid_size(&[64, 64]), Ok(4096));
        for lengths in [&[64usize, 65][..], &[usize::MAX, 2]] {
            assert!(check_grid_size(lengths).unwrap_err().contains("at most 4096"));
        }
    }

    #[test]
    fn losses_are_probabilities_that_a_transfer_survives() {
        assert_eq!(parse_loss_ratios("0.001,0,1e-6,0"), Ok(vec![0.0, 1e-6, 0.001]));
        for text in ["", "x", "nan", "inf", "-1", "0.6", "1%"] {
            assert!(parse_loss_ratios(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_queue_may_be_none() {
        assert_eq!(parse_queue_sizes("0,64K"), Ok(vec![0, 65_536]));
        assert!(parse_queue_sizes("0-64K").unwrap_err().contains("from 0"));
    }
}
