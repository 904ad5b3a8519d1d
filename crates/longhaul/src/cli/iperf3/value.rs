//! Values of iperf3's options, read as iperf3 reads them and refused in its words.

use crate::cli::value_parsers;
use jiff::Zoned;
use jiff::fmt::strtime;
use longhaul_iperf3::text_output::RateFormat;
use std::net::IpAddr;
use std::time::Duration;

/// The most that iperf3 takes of each.
const MOST_STREAMS: u32 = 128;
const MOST_SECONDS: u32 = 86_400;
const MOST_OMIT_SECONDS: u32 = 600;
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=60.0;
const MOST_WINDOW_BYTES: u64 = 512 << 20;
const MOST_MSS_BYTES: u64 = 9216;
const MOST_TIMEOUT_MS: u64 = 86_400_000;
const LEAST_RECEIVE_TIMEOUT_MS: u64 = 100;
const MOST_FORMAT_LETTERS: usize = 64;

/// A host, and behind a % the device through which it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAndDevice {
    pub host: String,
    pub device: Option<String>,
}

/// Cores: of this end, and of the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity {
    pub own: u16,
    pub far: Option<u16>,
}

/// A rate in bit/s, and behind a slash a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    pub bps: u64,
    pub count: Option<u64>,
}

/// A form of strftime that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timestamps(String);

impl Timestamps {
    /// Date and time, here and now.
    pub fn now(&self) -> String {
        self.shown().unwrap_or_default()
    }

    /// With `%c` as C writes date and time where no place is set; the formatter at hand knows
    /// another form.
    fn shown(&self) -> Result<String, String> {
        let form = self.0.replace("%c", "%a %b %e %H:%M:%S %Y");
        strtime::format(form, &Zoned::now()).map_err(|error| error.to_string())
    }
}

/// A number with K, M, G or T behind it, each `step` times the one before.
fn scaled(text: &str, step: f64) -> Result<f64, String> {
    let (digits, power) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 2),
        Some((at, 'g' | 'G')) => (&text[..at], 3),
        Some((at, 't' | 'T')) => (&text[..at], 4),
        _ => (text, 0),
    };
    let value: f64 = digits
        .parse()
        .map_err(|_| format!("'{text}' is no number, with K, M, G or T behind it"))?;
    let value = value * step.powi(power);
    if (0.0..1e18).contains(&value) {
        Ok(value)
    } else {
        Err(format!("'{text}' is out of range"))
    }
}

/// In powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    scaled(text, 1024.0).map(|value| value as u64)
}

/// In powers of 1000.
pub fn rate(text: &str) -> Result<u64, String> {
    scaled(text, 1000.0).map(|value| value as u64)
}

/// A rate, and behind a slash a whole number.
pub fn burst(text: &str) -> Result<Burst, String> {
    let (bps, count) = match text.split_once('/') {
        Some((bps, count)) => (bps, Some(number(count)?)),
        None => (text, None),
    };
    let bps = rate(bps)?;
    Ok(Burst { bps, count })
}

/// In any base that C knows: 52, 064, 0x34.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&text[2..], 16),
        [b'0', _, ..] => u64::from_str_radix(&text[1..], 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is no whole number"))
}

pub fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "port number must be between 1 and 65535 inclusive".to_owned())
}

pub fn unit(text: &str) -> Result<RateFormat, String> {
    let mut letters = text.chars();
    let unit = letters.next().and_then(RateFormat::from_letter);
    unit.filter(|_| letters.next().is_none())
        .ok_or_else(|| "bad format specifier (valid formats are in the set [kmgtKMGT])".to_owned())
}

pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|s| *s == 0.0 || INTERVAL_S.contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        let (least, most) = (INTERVAL_S.start(), INTERVAL_S.end());
        format!("invalid report interval (min = {least}, max = {most} seconds)")
    })
}

pub fn seconds(text: &str) -> Result<u32, String> {
    // A fraction is cut off, as there.
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is no number of seconds"))?;
    if (0.0..=f64::from(MOST_SECONDS)).contains(&seconds) {
        Ok(seconds as u32)
    } else {
        Err(format!(
            "test duration too long (maximum = {MOST_SECONDS} seconds)"
        ))
    }
}

pub fn omit(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|s| *s <= MOST_OMIT_SECONDS);
    seconds.ok_or_else(|| "bogus value for --omit".to_owned())
}

pub fn streams(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no number of parallel streams")),
        Ok(count) if count > MOST_STREAMS => Err(format!(
            "number of parallel streams too large (maximum = {MOST_STREAMS})"
        )),
        Ok(count) => Ok(count),
    }
}

pub fn window(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes > MOST_WINDOW_BYTES {
        return Err(format!(
            "socket buffer size too large (maximum = {MOST_WINDOW_BYTES} bytes)"
        ));
    }
    Ok(bytes)
}

pub fn mss(text: &str) -> Result<u32, String> {
    let bytes = number(text)?;
    if bytes > MOST_MSS_BYTES {
        return Err(format!(
            "TCP MSS too large (maximum = {MOST_MSS_BYTES} bytes)"
        ));
    }
    Ok(bytes as u32)
}

const BAD_TOS: &str = "bad TOS value (must be between 0 and 255 inclusive)";

pub fn tos(text: &str) -> Result<u8, String> {
    let value = number(text).ok().and_then(|value| value.try_into().ok());
    value.ok_or_else(|| BAD_TOS.to_owned())
}

/// As a type of service.
pub fn dscp(text: &str) -> Result<u8, String> {
    let code = match number(text) {
        Ok(value) => u8::try_from(value).ok().filter(|code| *code <= 63),
        Err(_) => value_parsers::parse_dscp(text).ok(),
    };
    code.map(|code| code << 2).ok_or_else(|| BAD_TOS.to_owned())
}

fn milliseconds(text: &str, least: u64) -> Option<Duration> {
    let ms = text.parse().ok()?;
    (least..=MOST_TIMEOUT_MS)
        .contains(&ms)
        .then(|| Duration::from_millis(ms))
}

pub fn receive_timeout(text: &str) -> Result<Duration, String> {
    milliseconds(text, LEAST_RECEIVE_TIMEOUT_MS)
        .ok_or_else(|| "receive timeout value is incorrect or not in range".to_owned())
}

pub fn send_timeout(text: &str) -> Result<Duration, String> {
    milliseconds(text, 0)
        .ok_or_else(|| "send timeout value is incorrect or not in range".to_owned())
}

pub fn connect_timeout(text: &str) -> Result<Duration, String> {
    milliseconds(text, 1).ok_or_else(|| format!("'{text}' is no number of milliseconds"))
}

pub fn affinity(text: &str) -> Result<Affinity, String> {
    let core = |text: &str| text.parse().ok().filter(|core| *core < 1024);
    let read = match text.split_once(',') {
        Some((own, far)) => core(own).zip(core(far)).map(|(own, far)| (own, Some(far))),
        None => core(text).map(|own| (own, None)),
    };
    read.map(|(own, far)| Affinity { own, far })
        .ok_or_else(|| format!("unable to set CPU affinity: '{text}' is not N or N,M"))
}

/// A host, an IPv6 address in brackets too, and perhaps a device.
pub fn place(text: &str) -> Result<HostAndDevice, String> {
    let (host, device) = match text.split_once('%') {
        Some((host, device)) => (host, Some(value_parsers::parse_device(device)?)),
        None => (text, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("a host is wanted".to_owned());
    }
    // The device of a link-local address is part of it.
    let whole = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let scoped = host.parse().is_ok_and(whole) && device.is_some();
    Ok(HostAndDevice {
        host: if scoped {
            text.to_owned()
        } else {
            host.to_owned()
        },
        device,
    })
}

pub fn timestamps(text: &str) -> Result<Timestamps, String> {
    if text.len() > MOST_FORMAT_LETTERS {
        return Err(format!(
            "a form of time has at most {MOST_FORMAT_LETTERS} letters"
        ));
    }
    let timestamps = Timestamps(text.to_owned());
    timestamps.shown()?;
    Ok(timestamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_rates_are_decimal() {
        assert_eq!(size("1K"), Ok(1024));
        assert_eq!(size("1.5m"), Ok(1_572_864));
        assert_eq!(rate("10M"), Ok(10_000_000));
        assert_eq!(rate("1.5G"), Ok(1_500_000_000));
        let asked = burst("10M/5").expect("a burst");
        assert_eq!((asked.bps, asked.count), (10_000_000, Some(5)));
        for wrong in ["", "x", "10X", "-1", "1e30"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_in_iperf3s_words() {
        let streams = streams("200").expect_err("too many");
        assert_eq!(
            streams,
            "number of parallel streams too large (maximum = 128)"
        );
        let interval = interval("0.01").expect_err("too short");
        assert_eq!(
            interval,
            "invalid report interval (min = 0.1, max = 60 seconds)"
        );
        assert_eq!(seconds("1.5"), Ok(1));
        assert_eq!(tos("0x34"), Ok(52));
        assert_eq!(tos("064"), Ok(52));
        assert_eq!(dscp("EF"), Ok(184));
        assert!(dscp("64").is_err());
    }

    #[test]
    fn a_device_stands_behind_a_host() {
        let place = |text| place(text).map(|place| (place.host, place.device));
        let device = Some("eth0".to_owned());
        assert_eq!(place("far%eth0"), Ok(("far".to_owned(), device.clone())));
        assert_eq!(
            place("fe80::1%eth0"),
            Ok(("fe80::1%eth0".to_owned(), device))
        );
        assert_eq!(place("[::1]"), Ok(("::1".to_owned(), None)));
        assert_eq!(affinity("1,2").map(|a| (a.own, a.far)), Ok((1, Some(2))));
    }
}
