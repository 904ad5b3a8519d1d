//! Runs the rows of one pair on one path, one after the other against one server.

use super::check::{self, Course, Devices, Found, Slack};
use super::lane::{FAR_V4, FAR_V6, Lane, RATE_BPS};
use super::marks::Carried;
use super::peer::Says;
use super::rows::Row;
use super::{Unit, claims};
use crate::process;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The time beyond the transfer after which a row counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);
/// uiperf3 always takes ten seconds.
const UIPERF_FLOWS: Duration = Duration::from_secs(11);
const SETTLED: Duration = Duration::from_millis(60);
const SETTLE_MAX: Duration = Duration::from_secs(4);

/// The result of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Result {
    Passed,
    /// As [`Found::Dropped`].
    Dropped(f64),
    /// The counts disagreed at the first attempt and agreed at the second.
    PassedAgain(String),
    Failed(String),
}

/// The rows that both ends support.
#[derive(Debug, Clone)]
pub struct Played {
    pub unit: Unit,
    pub rows: Vec<(Row, Result)>,
}

impl Played {
    pub fn passed(&self) -> usize {
        let failed = |(_, result): &&(Row, Result)| matches!(result, Result::Failed(_));
        self.rows.len() - self.rows.iter().filter(failed).count()
    }

    /// Returns the number of rows in which the sender counted bytes that it dropped, and their
    /// largest share.
    pub fn dropped(&self) -> (usize, f64) {
        let shares = self.rows.iter().filter_map(|(_, result)| match result {
            Result::Dropped(share) => Some(*share),
            _ => None,
        });
        shares.fold((0, 0.0), |(count, most), share| {
            (count + 1, share.max(most))
        })
    }

    /// Returns the rows whose counts agreed only at the second attempt.
    pub fn again(&self) -> impl Iterator<Item = (Row, &str)> {
        self.rows.iter().filter_map(|(row, result)| match result {
            Result::PassedAgain(why) => Some((*row, why.as_str())),
            _ => None,
        })
    }

    pub fn failures(&self) -> impl Iterator<Item = (Row, &str)> {
        self.rows.iter().filter_map(|(row, result)| match result {
            Result::Failed(why) => Some((*row, why.as_str())),
            _ => None,
        })
    }

    pub fn summary(&self) -> String {
        let failures: Vec<String> = self
            .failures()
            .map(|(row, why)| format!("\n  {}: {why}", row.text))
            .collect();
        format!("{}/{}{}", self.passed(), self.rows.len(), failures.concat())
    }

    /// Returns one sentence for each failed row.
    pub fn misses(&self) -> Vec<String> {
        let title = self.unit.title();
        self.failures()
            .map(|(row, why)| format!("{title}, {}: {why}", row.text))
            .collect()
    }
}

/// Runs every row of `rows` that both ends support.
pub fn play(lane: &Lane, unit: &Unit, rows: &'static [&'static str]) -> Played {
    let mut server = None;
    let mut results = Vec::new();
    for text in rows {
        let row = Row { text };
        let host = if row.is_ipv6() { FAR_V6 } else { FAR_V4 };
        let Some(words) = unit.client.client(host, row) else {
            continue;
        };
        if !unit.server.serves(row) {
            continue;
        }
        let result = match served(&mut server, lane, unit) {
            Ok(()) => one(lane, unit, row, &words),
            Err(why) => Result::Failed(why),
        };
        if matches!(result, Result::Failed(_)) {
            // The next row starts with a fresh server.
            server = None;
        }
        results.push((row, result));
    }
    Played {
        unit: unit.clone(),
        rows: results,
    }
}

/// A server that ends when the value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}

fn served(
    server: &mut Option<Server>,
    lane: &Lane,
    unit: &Unit,
) -> std::result::Result<(), String> {
    let ended = |server: &mut Server| !matches!(server.0.try_wait(), Ok(None));
    if server.as_mut().is_none_or(ended) {
        let mut command = lane.far(&unit.server.server());
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        let child = child.map_err(|e| format!("the server cannot be started: {e}"))?;
        *server = Some(Server(child));
    }
    lane.wait_for_listener()
}

/// Runs a row, twice if the counts disagree: on a busy machine a reader may be late by more than
/// the tolerance. A hang or an error fails at once.
fn one(lane: &Lane, unit: &Unit, row: Row, words: &[String]) -> Result {
    let first = attempt(lane, unit, row, words);
    match first {
        Ok(Found::Alike) => Result::Passed,
        Ok(Found::Dropped(share)) => Result::Dropped(share),
        Ok(Found::Apart(why)) => again(lane, unit, row, words, why),
        Err(why) => Result::Failed(why),
    }
}

fn again(lane: &Lane, unit: &Unit, row: Row, words: &[String], first: String) -> Result {
    let listens = lane.wait_for_listener();
    match listens.and_then(|()| attempt(lane, unit, row, words)) {
        Ok(Found::Alike | Found::Dropped(_)) => Result::PassedAgain(first),
        Ok(Found::Apart(why)) => Result::Failed(format!("{first}; at a second try {why}")),
        Err(why) => Result::Failed(why),
    }
}

fn attempt(
    lane: &Lane,
    unit: &Unit,
    row: Row,
    words: &[String],
) -> std::result::Result<Found, String> {
    lane.near_watch.forget();
    lane.far_watch.forget();
    let before = (lane.near_watch.now()?, lane.far_watch.now()?);
    let says = unit.client.says();
    let flows = match says {
        Says::UiperfText => UIPERF_FLOWS,
        Says::Json => row.flows(unit.delay),
    };
    let output =
        process::capture(&mut lane.near(words), flows + PATIENCE).map_err(|why| hang(&why))?;
    let after = settled(lane, unit.delay.round_trip())?;
    if !output.status.success() {
        let said = claims::read(says, row, &output.stdout).err();
        let said = said.filter(|_| !output.stdout.trim().is_empty());
        let said = said.unwrap_or_else(|| claims::start(&output.stderr));
        return Err(format!("{}: {said}", output.status));
    }
    let claims = claims::read(says, row, &output.stdout)?;
    let devices = Devices {
        near: Course {
            before: before.0,
            at_end: lane.near_watch.before_end(unit.client.stops_early()),
            after: after.0,
        },
        far: Course {
            before: before.1,
            at_end: lane.far_watch.before_end(Duration::ZERO),
            after: after.1,
        },
    };
    let buffer_bytes = lane.buffer_bytes();
    let slack = Slack {
        buffer_bytes,
        round_trip_bytes: unit.delay.round_trip().as_secs_f64() * RATE_BPS / 8.0,
        sample_bytes: 0.1 * RATE_BPS / 8.0,
        uncounted_far: unit.server.uncounted(row, buffer_bytes),
        uncounted_near: unit.client.uncounted(row, buffer_bytes),
    };
    Ok(check::compare(row, &claims, &devices, slack))
}

fn hang(why: &str) -> String {
    // The client's words are those of the row.
    let (_, short) = why.rsplit_once("`: ").unwrap_or(("", why));
    format!("hangs: {short}")
}

/// Returns the counters once no more packets pass.
fn settled(lane: &Lane, round_trip: Duration) -> std::result::Result<(Carried, Carried), String> {
    let deadline = Instant::now() + SETTLE_MAX;
    let read = || Ok::<_, String>((lane.near_watch.now()?, lane.far_watch.now()?));
    let mut last = read()?;
    loop {
        std::thread::sleep(SETTLED + round_trip);
        let now = read()?;
        if now == last || Instant::now() > deadline {
            return Ok(now);
        }
        last = now;
    }
}
