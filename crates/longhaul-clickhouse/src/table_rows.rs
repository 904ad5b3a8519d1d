//! Table rows, as the driver writes them. Field names are column names.

use clickhouse::Row;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Row, Serialize)]
pub struct PairInsertRow<'a> {
    pub sender: &'a str,
    pub receiver: &'a str,
}

#[derive(Debug, Row, Serialize)]
pub struct ReportInsertRow<'a> {
    pub id: &'a str,
    pub at_us: i64,
    pub report: &'a str,
    pub earliness: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct RunInsertRow<'a> {
    pub sender: &'a str,
    pub receiver: &'a str,
    pub at_us: i64,
    pub id: &'a str,
    pub near: &'a str,
    pub started_at: &'a str,
    pub kind: &'a str,
    pub initiator_host: &'a str,
    pub responder_host: &'a str,
    pub responder_address: Option<&'a str>,
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<&'a str>,
    pub analysis_version: u32,
    pub part_of: Option<&'a str>,
    pub earliness: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct ValueInsertRow<'a> {
    pub quantity: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub at_us: i64,
    pub value: f64,
}

#[derive(Debug, Row, Serialize)]
pub struct PlannedInsertRow<'a> {
    pub id: &'a str,
    pub due_us: i64,
    pub measurement: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub state: u8,
    pub told: &'a str,
    pub standing: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct EventInsertRow<'a> {
    pub id: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub quantity: &'a str,
    pub state: &'a str,
    pub is_open: u8,
    pub begin_us: i64,
    pub end_us: i64,
    pub event: &'a str,
    pub version: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct SchemaStepRow {
    pub step: u32,
}

/// Larger than any timestamp of our time in microseconds, and smaller than the step between states.
const VERSION_END: u64 = 1 << 60;

/// Returns the microseconds since 1970 by this machine's clock.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_micros());
    u64::try_from(us).unwrap_or(VERSION_END - 1).min(VERSION_END - 1)
}

/// Returns a version that decreases over time, so that a table that keeps the largest version keeps
/// the first row.
pub fn compute_earliness() -> u64 {
    VERSION_END - 1 - now_us()
}

/// Returns the version of a planned run: a later state outranks an earlier one, and within a state
/// the first row wins.
pub fn compute_standing(state: u8) -> u64 {
    combine_standing(state, compute_earliness())
}

fn combine_standing(state: u8, earliness: u64) -> u64 {
    u64::from(state) * VERSION_END + earliness
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_outweighs_any_time_and_the_first_of_a_state_stays() {
        let (first, last) = (VERSION_END - 1, 0);
        assert!(combine_standing(1, last) < combine_standing(1, first));
        assert!(combine_standing(0, first) < combine_standing(1, last));
        assert!(combine_standing(1, first) < combine_standing(2, last));
        assert!(compute_earliness() < VERSION_END && compute_earliness() > VERSION_END / 2);
    }
}
