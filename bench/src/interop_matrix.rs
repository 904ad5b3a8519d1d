//! Tests the interoperability of programs that speak iperf3's protocol, over three distances: the
//! matrix of docs/iperf3-matrix.md.
//!
//! Each pair of a client and a server runs each row of options over emulated paths of three delays.
//! A row passes if it ends in time, with exit code 0, and both ends' byte counts agree with what
//! the devices of the path carried, see [`count_check`].
//!
//! - [`interop_peer`]: the programs and their command lines
//! - [`option_rows`]: the options
//! - [`pair_runs`]: the rows of one pair on one path
//! - [`matrix_page`]: the table
//!
//! # Interop path
//!
//! An emulated path whose far end is free for any server.
//!
//! `longhaul lab run` sets it up and starts a `longhaul serve` there, which is ended at once,
//! because its port is needed.

pub mod count_check;
pub mod device_counters;
pub mod interop_peer;
pub mod matrix_page;
pub mod option_rows;
pub mod pair_runs;

use crate::BenchOutcome;
use crate::bench_lab::{self, BenchLab, HeldProcess};
use crate::narrow_path::NarrowPath;
use crate::scratch_folder::ScratchFolder;
use device_counters::HostObserver;
use interop_peer::InteropPeer;
use option_rows::OptionRow;
use pair_runs::{PairResult, run_pair};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner::run_in_parallel;

/// Loopback-like, across a continent, and Los Angeles to Geneva.
pub const RTTS_MS: [u32; 3] = [0, 50, 172];
/// The RTT at which pairs without longhaul are also tested.
const COMPARED_RTT_MS: u32 = 50;
/// The number of paths in use at once. Each carries 50 Mbit/s at most.
const PARALLEL_PATHS: usize = 8;

/// Runs the matrix for pairs whose `CLIENT -> SERVER, 50 ms` contains `only`; misses are failed rows
/// of pairs with longhaul.
pub fn run_all(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let peers = InteropPeer::list(longhaul, true)?;
    let mut pairs = list_pairs(&peers);
    pairs.retain(|pair| pair.title().contains(only));
    let results = run_all_pairs(longhaul, &pairs, &option_rows::list_rows(), PARALLEL_PATHS)?;
    Ok(BenchOutcome {
        text: matrix_page::format_page(&peers, &results),
        missed: list_missed_rows(&results),
    })
}

/// One pair on one path.
#[derive(Debug, Clone)]
pub struct PairOnPath {
    pub client: InteropPeer,
    pub server: InteropPeer,
    pub rtt_ms: u32,
}

impl PairOnPath {
    pub fn title(&self) -> String {
        let (client, server) = (&self.client.name, &self.server.name);
        format!("{client} -> {server}, {} ms", self.rtt_ms)
    }

    pub fn round_trip(&self) -> Duration {
        Duration::from_millis(u64::from(self.rtt_ms))
    }

    pub fn has_longhaul(&self) -> bool {
        self.client.is_longhaul() || self.server.is_longhaul()
    }
}

/// Returns every pair with longhaul on every path, and for comparison, on one path, the pairs of
/// others with Debian's iperf3.
pub fn list_pairs(peers: &[InteropPeer]) -> Vec<PairOnPath> {
    let mut all = Vec::new();
    for rtt_ms in RTTS_MS {
        for client in peers {
            all.extend(peers.iter().map(|server| PairOnPath {
                client: client.clone(),
                server: server.clone(),
                rtt_ms,
            }));
        }
    }
    let is_compared = |pair: &PairOnPath| {
        let has_debians = pair.client.is_debian_iperf3() || pair.server.is_debian_iperf3();
        has_debians && pair.rtt_ms == COMPARED_RTT_MS
    };
    all.retain(|pair| pair.has_longhaul() || is_compared(pair));
    // Longest first, so that no path ends up alone with a long pair.
    all.sort_by_key(|pair| std::cmp::Reverse((pair.has_longhaul(), pair.rtt_ms)));
    all
}

/// Runs the pairs on `path_count` paths at once.
pub fn run_all_pairs(
    longhaul: &Path,
    pairs: &[PairOnPath],
    rows: &[&'static str],
    path_count: usize,
) -> Result<Vec<PairResult>, String> {
    let results = run_in_parallel(pairs, path_count, |pair| {
        let path = InteropPath::set_up(longhaul, pair.rtt_ms);
        let result = path.map(|path| run_pair(&path, pair, rows));
        if let Ok(result) = &result {
            eprintln!("{}: {}/{}", pair.title(), result.passed().count(), result.rows.len());
        }
        result
    });
    results.into_iter().collect()
}

/// Returns the rows missed by pairs with longhaul.
pub fn list_missed_rows(results: &[PairResult]) -> Vec<String> {
    let own = results.iter().filter(|result| result.pair.has_longhaul());
    own.flat_map(PairResult::describe_failures).collect()
}

pub const PORT: u16 = 5201;
pub const FAR_V4: &str = "10.77.0.2";
pub const FAR_V6: &str = "fd77::2";
pub const RATE_BPS: f64 = 50e6;

/// An emulated path, with observers of the devices at both ends.
#[derive(Debug)]
pub struct InteropPath {
    /// The default capacity of a connection's send buffer.
    pub window_bytes: u64,
    pub near_watch: HostObserver,
    pub far_watch: HostObserver,
    /// Keeps the far host alive, whichever server runs there.
    _holder: HeldProcess,
    /// Dropped last, because it takes the path down.
    lab: BenchLab,
}

impl InteropPath {
    /// Sets up a path of 50 Mbit/s with a queue that never overflows.
    pub fn set_up(longhaul: &Path, rtt_ms: u32) -> Result<InteropPath, String> {
        let window_bytes = compute_window_bytes(rtt_ms);
        let scratch = ScratchFolder::on_disk()?;
        let receive = format!("4096 131072 {}", 2 * window_bytes);
        let send = format!("4096 65536 {window_bytes}");
        let host = [
            ("net.ipv4.tcp_rmem", receive.as_str()),
            ("net.ipv4.tcp_wmem", &send),
            ("net.ipv4.tcp_congestion_control", "cubic"),
        ];
        let path = NarrowPath {
            title: "interop",
            rtt_ms: rtt_ms.into(),
            link: &toml::toml! { rate = "50 Mbit/s" queue = "64 MB" },
            near: &host,
            far: &host,
        };
        let file = scratch.write("path.toml", &path.path_file())?;
        let mut lab = BenchLab::set_up(longhaul, &file.to_string_lossy())?;
        let holder = lab.replace_server()?;
        Ok(InteropPath {
            window_bytes,
            near_watch: HostObserver::start(lab.near)?,
            far_watch: HostObserver::start(lab.far)?,
            _holder: holder,
            lab,
        })
    }

    /// Returns a command at the near host.
    pub fn near(&self, words: &[String]) -> Command {
        bench_lab::command_at_host(self.lab.near, words)
    }

    /// Returns a command at the far host.
    pub fn far(&self, words: &[String]) -> Command {
        bench_lab::command_at_host(self.lab.far, words)
    }

    /// Waits until the port at the far host is open.
    pub fn wait_for_listener(&self) -> Result<(), String> {
        bench_lab::wait_until_listening(self.lab.far)
    }
}

/// Returns twice the BDP: enough to fill the path, and little in flight when a test ends.
fn compute_window_bytes(rtt_ms: u32) -> u64 {
    let held = f64::from(rtt_ms) / 1e3 * RATE_BPS / 8.0;
    (2.0 * held).max(256e3) as u64
}

/// The bytes of one direction, as reported by the ends.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReportedCounts {
    /// The server sent them.
    pub is_reverse: bool,
    /// Reported by the sender.
    pub sent: Option<f64>,
    /// Reported by the receiver.
    pub received: Option<f64>,
    /// Retransmits, as reported by the sender.
    pub retransmits: f64,
    /// The payload of lost datagrams, as reported by the receiver.
    pub lost_bytes: f64,
}

/// Reads the counts of each direction from the client's output, which is JSON.
pub fn parse_reported_counts(row: OptionRow, output: &str) -> Result<Vec<ReportedCounts>, String> {
    let whole: Value = serde_json::from_str(output)
        .map_err(|error| format!("no JSON ({error}): {}", shorten_output(output)))?;
    if let Some(error) = whole["error"].as_str() {
        return Err(error.to_owned());
    }
    let first = ReportedCounts { is_reverse: row.has("-R"), ..read_totals(&whole, "", row) };
    if first.sent.is_none() && first.received.is_none() {
        return Err(format!("no byte counts in `end`: {}", whole["end"]));
    }
    let mut counts = vec![first];
    if row.has("--bidir") {
        let reverse = read_totals(&whole, "_bidir_reverse", row);
        counts.push(ReportedCounts { is_reverse: true, ..reverse });
    }
    Ok(counts)
}

/// Returns the totals whose names have this ending.
fn read_totals(whole: &Value, ending: &str, row: OptionRow) -> ReportedCounts {
    let end = &whole["end"];
    let bytes = |name: &str| end[format!("{name}{ending}")]["bytes"].as_f64();
    let omitted = read_omitted_bytes(whole, ending);
    let (sent, received) = if row.is_udp() {
        // Before 3.17 datagrams have one sum: of what was sent, with what was lost.
        let sent = bytes("sum_sent").or_else(|| bytes("sum"));
        (sent, bytes("sum_received").filter(|bytes| *bytes > 0.0))
    } else {
        (bytes("sum_sent"), bytes("sum_received"))
    };
    let sum = &end[format!("sum{ending}")];
    let number = |name: &str| sum[name].as_f64().unwrap_or_default();
    let datagram = number("bytes") / number("packets").max(1.0);
    ReportedCounts {
        is_reverse: false,
        lost_bytes: number("lost_packets").max(0.0) * datagram,
        sent: sent.map(|bytes| bytes + omitted),
        received: received.map(|bytes| bytes + omitted),
        retransmits: end[format!("sum_sent{ending}")]["retransmits"]
            .as_f64()
            .filter(|count| *count < 1e9)
            .unwrap_or_default(),
    }
}

/// Returns the bytes of the omitted seconds, which only this end reports.
fn read_omitted_bytes(whole: &Value, ending: &str) -> f64 {
    let intervals = whole["intervals"].as_array().into_iter().flatten();
    let sums = intervals.map(|interval| &interval[format!("sum{ending}")]);
    let left_out = sums.filter(|sum| sum["omitted"] == true);
    left_out.filter_map(|sum| sum["bytes"].as_f64()).sum()
}

/// Returns the first 160 characters of a program's output, on one line.
pub fn shorten_output(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: OptionRow = OptionRow { text: "-t 2" };
    const BOTH: OptionRow = OptionRow { text: "-t 2 --bidir" };

    #[test]
    fn both_ends_of_a_json_are_read() {
        let text = r#"{"end":{"sum_sent":{"bytes":1000,"retransmits":2},"sum_received":{"bytes":900},
            "sum_sent_bidir_reverse":{"bytes":70},"sum_received_bidir_reverse":{"bytes":60}}}"#;
        let claims = parse_reported_counts(BOTH, text).expect("claims");
        let counts = |is_reverse, sent, received, retransmits| ReportedCounts {
            is_reverse,
            sent: Some(sent),
            received: Some(received),
            retransmits,
            lost_bytes: 0.0,
        };
        assert_eq!(claims, [counts(false, 1000.0, 900.0, 2.0), counts(true, 70.0, 60.0, 0.0)]);
    }

    #[test]
    fn omitted_seconds_are_part_of_what_passed() {
        let text = r#"{"intervals":[{"sum":{"bytes":5,"omitted":true}},{"sum":{"bytes":7,"omitted":false}}],
            "end":{"sum_sent":{"bytes":7},"sum_received":{"bytes":6}}}"#;
        let claims = parse_reported_counts(FORWARD, text).expect("claims");
        assert_eq!((claims[0].sent, claims[0].received), (Some(12.0), Some(11.0)));
    }

    #[test]
    fn an_error_and_an_empty_end_are_no_claims() {
        let error = parse_reported_counts(FORWARD, r#"{"error":"the server is busy"}"#);
        assert_eq!(error, Err("the server is busy".to_owned()));
        assert!(parse_reported_counts(FORWARD, r#"{"end":{}}"#).is_err());
        assert!(parse_reported_counts(FORWARD, "").is_err());
    }
}
