//! The dispersion of packets that are sent back to back.
//!
//! Groups of datagrams are sent back to back; the far kernel timestamps their arrival. Behind a
//! link of rate r, packets of L wire bytes should arrive L/r apart. A pair shows single releases, a
//! train their mean.
//!
//! Source: packet-pair dispersion, Dovrolis, Ramanathan and Moore 2004.
//! Units: nanoseconds between arrivals. Error: waking a halted core costs 10 to 25 µs, which a
//! pair at 1 Gbit/s (12 µs) cannot hide. Wrong when: other traffic shares the link.

use super::markdown_table::{median, quantile};
use longhaul_sys::sockopt;
use longhaul_sys::udp_batch::ReceiveBatch;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;
use xtask::TaskResult;

/// The UDP payload that fills an MTU of 1500 with 28 bytes of IP and UDP.
pub const PAYLOAD_BYTES: usize = 1472;
/// The wire bytes: IP packet and Ethernet with preamble and gap.
pub const WIRE_BYTES: u32 = 1538;
const PORT: u16 = 5999;
/// The idle time that ends the receiver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time until the first datagram.
const FIRST_DATAGRAM_TIMEOUT: Duration = Duration::from_secs(20);
const GROUPS_MAX: u32 = 10_000;

/// The commands of the two ends in this program.
pub const RECEIVE: &str = "dispersion-receive";
pub const SEND: &str = "dispersion-send";

fn parse_number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("`{word}` is no whole number"))
}

/// Sends groups of datagrams; the words are the host, the number of groups, their size, and the
/// milliseconds between them.
pub fn send_groups(words: &[String]) -> TaskResult {
    let [host, groups, size, gap_ms] = words else {
        return Err(format!("{SEND} takes a host and three numbers"));
    };
    let (groups, size) = (parse_number(groups)?, parse_number(size)?);
    let gap = Duration::from_millis(u64::from(parse_number(gap_ms)?));
    let failed = |e: std::io::Error| format!("cannot send to {host}: {e}");
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    socket.connect((host.as_str(), PORT)).map_err(failed)?;
    let mut payload = vec![0_u8; PAYLOAD_BYTES];
    for group in 0..groups.min(GROUPS_MAX) {
        payload[..4].copy_from_slice(&group.to_be_bytes());
        for _ in 0..size {
            socket.send(&payload).map_err(failed)?;
        }
        std::thread::sleep(gap);
    }
    Ok(())
}

/// Receives groups of the given size until it is idle; prints the mean gap of each complete group in
/// ns.
pub fn receive_groups(words: &[String]) -> TaskResult {
    let [size] = words else {
        return Err(format!("{RECEIVE} takes the size of a group"));
    };
    let size = parse_number(size)?;
    let failed = |e: std::io::Error| format!("cannot receive: {e}");
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).map_err(failed)?;
    sockopt::set_receive_timestamps(&socket).map_err(failed)?;
    sockopt::set_receive_timeout(&socket, FIRST_DATAGRAM_TIMEOUT).map_err(failed)?;
    let mut batch = ReceiveBatch::new(64, PAYLOAD_BYTES);
    let mut arrivals: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    while batch.receive(&socket).is_ok() {
        for datagram in batch.datagrams() {
            let group = datagram.bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            if let (Some(group), Some(at)) =
                (group.filter(|&group| group < GROUPS_MAX), datagram.arrived)
            {
                arrivals.entry(group).or_default().push(at);
            }
        }
        sockopt::set_receive_timeout(&socket, IDLE_TIMEOUT).map_err(failed)?;
    }
    for times in arrivals.values().filter(|times| times.len() == size as usize) {
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            let gap = last.saturating_sub(*first) / size.saturating_sub(1).max(1);
            println!("{}", gap.as_nanos());
        }
    }
    Ok(())
}

/// The statistics of a list of gaps relative to the gap expected from the rate.
#[derive(Debug, Clone, Copy)]
pub struct GapSpread {
    pub median_us: f64,
    pub p10_us: f64,
    pub p90_us: f64,
    /// The share of groups within one and within ten per cent of the expected gap.
    pub within_1: f64,
    pub within_10: f64,
    pub groups: usize,
}

impl GapSpread {
    /// Returns `None` if nothing arrived.
    pub fn of(gaps_ns: &[f64], right_ns: f64) -> Option<Self> {
        let within = |share: f64| {
            let near = gaps_ns.iter().filter(|&&gap| (gap / right_ns - 1.0).abs() <= share).count();
            near as f64 / gaps_ns.len() as f64
        };
        Some(GapSpread {
            median_us: median(gaps_ns)? / 1e3,
            p10_us: quantile(gaps_ns, 0.1)? / 1e3,
            p90_us: quantile(gaps_ns, 0.9)? / 1e3,
            within_1: within(0.01),
            within_10: within(0.1),
            groups: gaps_ns.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::GapSpread;

    #[test]
    fn a_spread_counts_what_is_near_the_right_gap() {
        let spread = GapSpread::of(&[100.0, 100.5, 108.0, 150.0], 100.0).expect("four gaps");
        assert!((spread.within_1 - 0.5).abs() < 1e-9 && (spread.within_10 - 0.75).abs() < 1e-9);
        assert!(GapSpread::of(&[], 100.0).is_none());
    }
}
