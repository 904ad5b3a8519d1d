//! Tests the interoperability of programs that speak iperf3's protocol, over three distances: the
//! matrix of docs/iperf3-matrix.md.
//!
//! Each pair of a client and a server runs each row of options over emulated paths of three delays.
//! A row passes if it ends in time, with exit code 0, and both ends' byte counts agree with what
//! the devices of the path carried, see [`count_check`].
//!
//! - [`interop_peer`]: the programs and their command lines
//! - [`option_rows`]: the options
//! - [`interop_path`], [`device_counters`]: a path, and the counters of its devices
//! - [`reported_counts`], [`count_check`]: the reported counts, and their check
//! - [`pair_runs`]: the rows of one pair on one path
//! - [`matrix_page`]: the table

pub mod count_check;
pub mod device_counters;
pub mod interop_path;
pub mod interop_peer;
pub mod matrix_page;
pub mod option_rows;
pub mod pair_runs;
pub mod reported_counts;

use crate::BenchOutcome;
use interop_path::InteropPath;
use interop_peer::InteropPeer;
use pair_runs::{PairResult, run_pair};
use std::path::Path;
use std::time::Duration;
use xtask::parallel_jobs::run_in_parallel;

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
