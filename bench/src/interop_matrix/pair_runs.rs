//! Runs the rows of one pair on one path, one after the other against one server.

use super::count_check::{self, CountTolerance, RowReadings};
use super::device_counters::{DeviceCounters, HostObserver};
use super::interop_peer::InteropPeer;
use super::option_rows::OptionRow;
use super::{FAR_V4, FAR_V6, InteropPath, PairOnPath, RATE_BPS};
use std::time::{Duration, Instant};
use xtask::program_runner::{self, ChildGuard};

/// The time beyond the transfer after which a row counts as hanging.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
const IDLE_PERIOD: Duration = Duration::from_millis(60);
const IDLE_DEADLINE: Duration = Duration::from_secs(4);

/// The result of a row: how its counts agreed, or why it failed.
pub type RowResult = Result<RowAgreement, String>;

/// The agreement of the counts of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowAgreement {
    /// The bytes that the sender counted and that never left, as a share of those that did.
    pub dropped_share: f64,
    /// The counts disagreed at the first attempt.
    pub is_repeated: bool,
}

/// The rows that both ends support.
#[derive(Debug, Clone)]
pub struct PairResult {
    pub pair: PairOnPath,
    pub rows: Vec<(OptionRow, RowResult)>,
}

impl PairResult {
    pub fn passed(&self) -> impl Iterator<Item = &RowAgreement> {
        self.rows.iter().filter_map(|(_, result)| result.as_ref().ok())
    }

    /// Returns one sentence for each failed row.
    pub fn describe_failures(&self) -> Vec<String> {
        let title = self.pair.title();
        let failed =
            self.rows.iter().filter_map(|(row, result)| Some((row, result.as_ref().err()?)));
        failed.map(|(row, why)| format!("{title}, `{}`: {why}", row.text)).collect()
    }
}

/// Runs every row of `option_rows` that both ends support.
pub fn run_pair(path: &InteropPath, pair: &PairOnPath, rows: &[&'static str]) -> PairResult {
    let mut server = None;
    let mut results = Vec::new();
    for text in rows {
        let row = OptionRow { text };
        let host = if row.is_ipv6() { FAR_V6 } else { FAR_V4 };
        let Some(words) = pair.client.client_command(host, row) else {
            continue;
        };
        let result =
            start_server(&mut server, path, pair).and_then(|()| run_row(path, pair, row, &words));
        if result.is_err() {
            // The next row starts with a fresh server.
            server = None;
        }
        results.push((row, result));
    }
    PairResult { pair: pair.clone(), rows: results }
}

fn start_server(
    server: &mut Option<ChildGuard>,
    path: &InteropPath,
    pair: &PairOnPath,
) -> Result<(), String> {
    let ended = |server: &mut ChildGuard| !matches!(server.0.try_wait(), Ok(None));
    if server.as_mut().is_none_or(ended) {
        let mut command = path.far(&pair.server.server());
        *server = Some(ChildGuard(program_runner::spawn_silent(&mut command)?));
    }
    path.wait_for_listener()
}

/// Runs a row, twice if the counts disagree: on a busy machine a reader may be late by more than
/// the tolerance. A hang or an error fails at once.
fn run_row(path: &InteropPath, pair: &PairOnPath, row: OptionRow, words: &[String]) -> RowResult {
    let attempt = || attempt_row(path, pair, row, words);
    let first = match attempt()? {
        Ok(dropped_share) => return Ok(RowAgreement { dropped_share, is_repeated: false }),
        Err(why) => why,
    };
    path.wait_for_listener()?;
    match attempt()? {
        Ok(_) => Ok(RowAgreement { dropped_share: 0.0, is_repeated: true }),
        Err(why) => Err(format!("{first}; at a second try {why}")),
    }
}

/// Runs a row once and compares its counts; fails if it hangs or ends with an error.
fn attempt_row(
    path: &InteropPath,
    pair: &PairOnPath,
    row: OptionRow,
    words: &[String],
) -> Result<Result<f64, String>, String> {
    path.near_watch.clear();
    path.far_watch.clear();
    let read = || Ok::<_, String>([path.near_watch.now()?, path.far_watch.now()?]);
    let before = read()?;
    let limit = row.transfer_time(pair.round_trip()) + HANG_TIMEOUT;
    let output = program_runner::capture_output(&mut path.near(words), limit)
        .map_err(|why| describe_hang(&why))?;
    let after = wait_until_idle(&read, pair.round_trip())?;
    if !output.status.success() {
        let error = super::parse_reported_counts(row, &output.stdout).err();
        let error = error.filter(|_| !output.stdout.trim().is_empty());
        let error = error.unwrap_or_else(|| super::shorten_output(&output.stderr));
        return Err(format!("{}: {error}", output.status));
    }
    let claims = super::parse_reported_counts(row, &output.stdout)?;
    let readings = |end: usize, watch: &HostObserver, peer: &InteropPeer| RowReadings {
        before: before[end],
        at_end: watch.before_end(Duration::from_millis(peer.early_stop_ms)),
        after: after[end],
        uncounted: peer.uncounted,
    };
    let devices =
        [readings(0, &path.near_watch, &pair.client), readings(1, &path.far_watch, &pair.server)];
    let slack = CountTolerance {
        buffer_bytes: path.window_bytes as f64,
        omitted_bytes: (pair.round_trip().as_secs_f64() + 0.1) * RATE_BPS / 8.0,
    };
    Ok(count_check::compare_counts(row, &claims, devices, slack))
}

fn describe_hang(why: &str) -> String {
    // The client's words are those of the row.
    let (_, short) = why.rsplit_once("`: ").unwrap_or(("", why));
    format!("hangs: {short}")
}

/// Returns the counters once no more packets pass.
fn wait_until_idle(
    read: &dyn Fn() -> Result<[DeviceCounters; 2], String>,
    round_trip: Duration,
) -> Result<[DeviceCounters; 2], String> {
    let deadline = Instant::now() + IDLE_DEADLINE;
    let mut last = read()?;
    loop {
        std::thread::sleep(IDLE_PERIOD + round_trip);
        let now = read()?;
        if now == last || Instant::now() > deadline {
            return Ok(now);
        }
        last = now;
    }
}
