//! Output of `ss -tinmp`: snapshots of TCP connections, taken one after the other.
//!
//! Source: `misc/ss.c` of iproute2 5.0 to 6.15. It omits counters that are zero, so that a missing
//! counter is zero if the kernel has it (`segs_out`). Units: as printed, converted to those of report v1.
//! Error: the times of the snapshots are not in the text; their spacing is given by the caller.
//! Wrong when: the text was edited, or the snapshots are not evenly spaced.

use crate::MAX_FILE_BYTES;
use longhaul_model::report::v1::flows::ProcessIdentity;
use longhaul_model::report::v1::flows::flow_grouping::{FlowMemory, FlowSample, FlowSeries};
use longhaul_model::report::v1::observation::{TcpOptions, TcpReading};
use longhaul_model::sanitize::sanitize_line;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The maximum number of connections, and of their samples together.
const MAX_CONNECTIONS: usize = 100_000;
const MAX_SAMPLES: usize = 1_000_000;
const MAX_NAME_CHARS: usize = 32;
/// Words before the name of the congestion control.
const OPTION_WORDS: [&str; 8] =
    ["ts", "usec_ts", "sack", "ecn", "ecnseen", "accecn", "accecnseen", "fastopen"];

/// A text that holds no connections with counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsTextError {
    reason: &'static str,
}

impl fmt::Display for SsTextError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason)
    }
}

impl std::error::Error for SsTextError {}

/// The flows of all snapshots, and the number of snapshots.
#[derive(Debug, Clone)]
pub struct SsFlows {
    pub flows: Vec<FlowSeries>,
    pub snapshots: u64,
}

/// Parses two or more snapshots that are `interval_us` apart.
///
/// # Errors
/// There are fewer than two snapshots, too many connections, or none with counters (option `-i`).
pub fn parse_ss_snapshots(text: &str, interval_us: u64) -> Result<SsFlows, SsTextError> {
    let fail = |reason| Err(SsTextError { reason });
    if text.len() as u64 > MAX_FILE_BYTES {
        return fail("the text is longer than 16 MiB");
    }
    let mut flows: BTreeMap<(SocketAddr, SocketAddr), FlowSeries> = BTreeMap::new();
    let (mut snapshots, mut samples) = (0_u64, 0);
    for entry in split_entries(text) {
        let Some(entry) = entry else {
            snapshots += 1;
            continue;
        };
        let Some((connection, counters)) = parse_entry(&entry) else { continue };
        let snapshot = snapshots.max(1);
        let flow = flows
            .entry((connection.local, connection.peer))
            .or_insert_with(|| connection.start_series(&counters));
        let at_us = (snapshot - 1).saturating_mul(interval_us);
        if flow.samples.last().is_none_or(|last| last.at_us < at_us) {
            flow.samples.push(connection.build_sample(at_us, &counters));
            samples += 1;
        }
        if flows.len() > MAX_CONNECTIONS || samples > MAX_SAMPLES {
            return fail("the text has more than 100,000 connections, or a million samples");
        }
    }
    match (snapshots, samples) {
        (_, 0) => fail("no connection has counters: use `ss -tinmp`"),
        (0 | 1, _) => {
            fail("there is one snapshot: two or more are needed, each with its header line")
        }
        _ => Ok(SsFlows { flows: flows.into_values().collect(), snapshots }),
    }
}

/// Splits the text into connections, each with its indented lines; `None` stands for the header line,
/// with which a snapshot begins.
fn split_entries(text: &str) -> Vec<Option<String>> {
    let mut entries: Vec<Option<String>> = Vec::new();
    for line in text.lines() {
        let is_header = line.contains("Recv-Q") && line.contains("Send-Q");
        match entries.last_mut() {
            _ if is_header => entries.push(None),
            Some(Some(entry)) if line.starts_with([' ', '\t']) => {
                entry.push(' ');
                entry.push_str(line.trim());
            }
            _ if line.trim().is_empty() => {}
            _ => entries.push(Some(line.trim().to_owned())),
        }
    }
    entries
}

/// The first line of a connection.
struct SsConnection {
    local: SocketAddr,
    peer: SocketAddr,
    unread_bytes: u64,
    unacknowledged_bytes: u64,
    process: Option<ProcessIdentity>,
}

/// The words of the counters: `key:value`, `key value` and flags.
struct SsCounters<'a> {
    values: BTreeMap<&'a str, &'a str>,
    words: Vec<&'a str>,
}

/// Parses a connection; `None` if it is not established or has no counters.
fn parse_entry(entry: &str) -> Option<(SsConnection, SsCounters<'_>)> {
    let mut words = entry.split_whitespace().peekable();
    // With a filter for one state there is no column for it.
    if words.peek()?.parse::<u64>().is_err() && words.next()? != "ESTAB" {
        return None;
    }
    let unread_bytes = words.next()?.parse().ok()?;
    let unacknowledged_bytes = words.next()?.parse().ok()?;
    let local = parse_address(words.next()?)?;
    let peer = parse_address(words.next()?)?;
    let words: Vec<&str> = words.collect();
    let process = words.iter().find_map(|word| parse_process(word));
    let values = words.iter().filter_map(|word| word.split_once(':')).collect();
    let counters = SsCounters { values, words };
    let is_counted = counters.values.contains_key("cwnd");
    let connection = SsConnection { local, peer, unread_bytes, unacknowledged_bytes, process };
    is_counted.then_some((connection, counters))
}

/// Parses `10.0.0.1:22`, `[::1]:22`, `[fe80::1]%eth0:22` and `[::ffff:10.0.0.1]:22`.
fn parse_address(word: &str) -> Option<SocketAddr> {
    let (address, port) = word.rsplit_once(':')?;
    let address = address.split('%').next()?.trim_matches(['[', ']']);
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?.to_canonical(), port.parse().ok()?))
}

/// Parses `users:(("rclone",pid=12,fd=9))`.
fn parse_process(word: &str) -> Option<ProcessIdentity> {
    let (name, rest) = word.strip_prefix("users:((\"")?.split_once("\",pid=")?;
    let pid = rest.split(',').next()?.parse().ok()?;
    Some(ProcessIdentity { pid, name: sanitize_line(name, MAX_NAME_CHARS), parent: None })
}

impl SsConnection {
    fn start_series(&self, counters: &SsCounters) -> FlowSeries {
        let scaling = counters.values.get("wscale").and_then(|shifts| shifts.split_once(','));
        let shift = |of: Option<&str>| of.and_then(|it| it.parse().ok());
        FlowSeries {
            process: self.process.clone(),
            congestion_control: counters.congestion_control(),
            options: Some(TcpOptions {
                timestamps: counters.has_word("ts"),
                sack: counters.has_word("sack"),
                window_scaling: scaling.is_some(),
                ecn: counters.has_word("ecn"),
                send_window_shift: shift(scaling.map(|it| it.0)),
                receive_window_shift: shift(scaling.map(|it| it.1)),
            }),
            ..FlowSeries::new(self.local, self.peer, Vec::new())
        }
    }

    fn build_sample(&self, at_us: u64, counters: &SsCounters) -> FlowSample {
        FlowSample {
            at_us,
            unread_bytes: self.unread_bytes,
            unacknowledged_bytes: self.unacknowledged_bytes,
            memory: counters.memory(),
            cpu_us: None,
            core_wait_us: None,
            tcp: counters.reading(),
        }
    }
}

impl SsCounters<'_> {
    fn has_word(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Returns the first bare word that is no option.
    fn congestion_control(&self) -> Option<String> {
        let is_name = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
                && !OPTION_WORDS.contains(&word)
        };
        self.words.iter().find(|word| is_name(word)).map(|word| sanitize_line(word, MAX_NAME_CHARS))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.values.get(key)?.parse().ok()
    }

    /// Returns a counter; 0 if it was omitted by a program that prints others of its age.
    fn count(&self, key: &str) -> Option<u64> {
        let is_counted =
            self.values.contains_key("segs_out") || self.values.contains_key("segs_in");
        self.number(key).or_else(|| is_counted.then_some(0))
    }

    /// Parses a time in milliseconds, such as `100.7/0.1`, `6004ms` or `8ms(0.1%)`: part `index`.
    fn time_us(&self, key: &str, index: usize) -> Option<u64> {
        let text = self.values.get(key)?.split('/').nth(index)?;
        let digits = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let ms: f64 = digits.parse().ok()?;
        Some((ms * 1000.0).round() as u64)
    }

    fn limited_us(&self, key: &str) -> Option<u64> {
        self.time_us(key, 0).or_else(|| self.count(key))
    }

    /// Parses the rate after a word: `delivery_rate 171.2Mbps`.
    fn rate_bps(&self, name: &str) -> Option<u64> {
        let at = self.words.iter().position(|word| *word == name)?;
        let text = self.words.get(at + 1)?.strip_suffix("bps")?;
        let (number, factor) = match text.as_bytes().last()? {
            b'K' => (&text[..text.len() - 1], 1e3),
            b'M' => (&text[..text.len() - 1], 1e6),
            b'G' => (&text[..text.len() - 1], 1e9),
            b'T' => (&text[..text.len() - 1], 1e12),
            _ => (text, 1.0),
        };
        Some((number.parse::<f64>().ok()? * factor) as u64)
    }

    /// Parses `skmem:(r0,rb131072,t0,tb3600384,f0,w2783448,o0,bl0,d0)`.
    fn memory(&self) -> Option<FlowMemory> {
        let list = self.values.get("skmem")?.trim_matches(['(', ')']);
        let find =
            |key: &str| list.split(',').find_map(|it| it.strip_prefix(key)?.parse::<u64>().ok());
        Some(FlowMemory {
            receive_buffer_bytes: find("rb")?,
            send_buffer_bytes: find("tb")?,
            send_queue_bytes: find("w")?,
        })
    }

    fn reading(&self) -> TcpReading {
        let mss_bytes = self.number("mss").unwrap_or(0);
        let segments = |key: &str| self.number(key).map(|count| count.saturating_mul(mss_bytes));
        let retransmits = self.values.get("retrans").and_then(|it| it.split_once('/'));
        TcpReading {
            rtt_us: self.time_us("rtt", 0).unwrap_or(0),
            rttvar_us: self.time_us("rtt", 1).unwrap_or(0),
            rtt_min_us: self.time_us("minrtt", 0),
            receive_rtt_us: self.time_us("rcv_rtt", 0),
            mss_bytes,
            cwnd_bytes: segments("cwnd").unwrap_or(0),
            ssthresh_bytes: segments("ssthresh"),
            unacked_bytes: segments("unacked").unwrap_or(0),
            lost_segments: self.number("lost").unwrap_or(0),
            retransmitted_segments: retransmits.and_then(|it| it.1.parse().ok()).unwrap_or(0),
            reordering_segments: self.number("reordering").unwrap_or(3),
            pacing_bps: self.rate_bps("pacing_rate"),
            delivery_bps: self.rate_bps("delivery_rate"),
            app_limited: Some(self.has_word("app_limited")),
            bytes_acked: self.count("bytes_acked"),
            bytes_received: self.count("bytes_received"),
            segments_out: self.count("segs_out"),
            segments_in: self.count("segs_in"),
            data_segments_out: self.count("data_segs_out"),
            data_segments_in: self.count("data_segs_in"),
            delivered_segments: self.count("delivered"),
            marked_segments: self.count("delivered_ce"),
            unsent_bytes: self.count("notsent"),
            busy_us: self.limited_us("busy"),
            receive_window_limited_us: self.limited_us("rwnd_limited"),
            send_buffer_limited_us: self.limited_us("sndbuf_limited"),
            bytes_sent: self.count("bytes_sent"),
            bytes_retransmitted: self.count("bytes_retrans"),
            dsack_duplicates: self.count("dsack_dups"),
            reordering_seen: self.count("reord_seen"),
            out_of_order_segments: self.count("rcv_ooopack"),
            peer_window_bytes: self.number("snd_wnd"),
            own_window_bytes: self.number("rcv_wnd"),
            ..TcpReading::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n";

    /// A connection as iproute2 6.1 prints it, with this many bytes acknowledged.
    fn connection(acked: u64) -> String {
        format!(
            "ESTAB 0 2170552 [::ffff:10.77.0.1]:41192 [::ffff:10.77.0.2]:22 \
             users:((\"rclone\",pid=12,fd=9))\n\t skmem:(r0,rb131072,t0,tb3600384,f0,w2200000,o0,bl0,\
             d0) ts sack cubic wscale:7,8 rto:301 rtt:100.7/0.1 mss:1448 cwnd:4627 ssthresh:1384 \
             bytes_sent:{acked} bytes_acked:{acked} segs_out:600 segs_in:300 send 532Mbps \
             pacing_rate 639.1Mbps delivery_rate 171200000bps app_limited busy:6004ms \
             rwnd_limited:8ms(0.1%) unacked:1400 retrans:0/3 reordering:9 rcv_rtt:100.25 \
             minrtt:100.1 snd_wnd:8090624\n"
        )
    }

    #[test]
    fn snapshots_of_one_connection_are_samples_of_one_flow() {
        let text = [1_000_000, 3_000_000].map(|acked| format!("{HEADER}{}", connection(acked)));
        let parsed = parse_ss_snapshots(&text.concat(), 2_000_000).expect("snapshots");
        assert_eq!((parsed.snapshots, parsed.flows.len()), (2, 1));
        let flow = &parsed.flows[0];
        assert_eq!(flow.peer, "10.77.0.2:22".parse().expect("an address"));
        assert_eq!(flow.process.as_ref().map(|it| it.name.as_str()), Some("rclone"));
        assert_eq!(flow.congestion_control.as_deref(), Some("cubic"));
        let [first, last] = &flow.samples[..] else { panic!("{:?}", flow.samples) };
        assert_eq!((first.at_us, last.at_us), (0, 2_000_000));
        let tcp = &last.tcp;
        assert_eq!((tcp.rtt_us, tcp.rtt_min_us), (100_700, Some(100_100)));
        assert_eq!(tcp.receive_rtt_us, Some(100_250));
        assert_eq!((tcp.bytes_acked, tcp.retransmitted_segments), (Some(3_000_000), 3));
        assert_eq!((tcp.busy_us, tcp.receive_window_limited_us), (Some(6_004_000), Some(8000)));
        assert_eq!((tcp.pacing_bps, tcp.delivery_bps), (Some(639_100_000), Some(171_200_000)));
        assert_eq!(tcp.unacked_bytes, 1400 * 1448);
        // Counters that are zero are not printed.
        assert_eq!((tcp.send_buffer_limited_us, tcp.unsent_bytes), (Some(0), Some(0)));
        let memory = last.memory.expect("memory");
        assert_eq!((memory.send_buffer_bytes, memory.send_queue_bytes), (3_600_384, 2_200_000));
    }

    #[test]
    fn a_text_without_counters_or_with_one_snapshot_is_refused_with_the_reason() {
        let reason = |text: &str| parse_ss_snapshots(text, 1).expect_err("refused").to_string();
        assert!(reason("").contains("no connection has counters"));
        let plain = "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2\n";
        assert!(reason(&format!("{HEADER}{plain}{HEADER}{plain}")).contains("ss -tinmp"));
        assert!(reason(&format!("{HEADER}{}", connection(1))).contains("one snapshot"));
    }

    #[test]
    fn connections_in_other_states_are_left_out() {
        let closing = connection(5).replace("ESTAB", "FIN-WAIT-1");
        let text = format!("{HEADER}{}{closing}{HEADER}{}", connection(1), connection(2));
        assert_eq!(parse_ss_snapshots(&text, 1).expect("snapshots").flows[0].samples.len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(
            words in proptest::collection::vec("[a-z_]{1,12}:?[0-9./,()%a-zKMG]{0,12}", 0..30),
            text in ".{0,200}",
        ) {
            let line = format!("{HEADER}ESTAB 1 2 10.0.0.1:1 10.0.0.2:2 cwnd:1 {}\n", words.join(" "));
            // An error is acceptable here; only a panic is not.
            let _ = parse_ss_snapshots(&format!("{line}{line}{text}"), u64::MAX);
        }
    }
}
