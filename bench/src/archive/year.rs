//! A year of a mesh of 32 hosts with ten million values, the data of both database benches.
//!
//! The bench of the fleet archive is in its own crate and includes this file by its path.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_store::StoreError;
use longhaul_store::history_store::time_buckets::HOUR_US;
use longhaul_store::history_store::{HistoryStore, IncomingRun, SeriesReading, TimeRange};

pub const REPORT: &str = include_str!("../../../fixtures/reports/path-balanced-v6.json");

/// The hosts of the full mesh.
const HOSTS: usize = 32;
/// 2026-01-01T00:00:00Z.
pub const BEGIN_US: i64 = 1_767_225_600_000_000;
pub const MINUTE_US: i64 = 60_000_000;
/// A year of hourly values for every pair of the mesh, and of values per minute for some of them.
const HOURS: i64 = 365 * 24;
const PAIRS_BY_MINUTE: usize = 3;
/// The number of hours in one batch.
const BATCH_HOURS: i64 = 24;

pub const YEAR: TimeRange = TimeRange { begin_us: BEGIN_US, end_us: BEGIN_US + HOURS * HOUR_US };

/// Inserts a year in time order, like an agent's results; returns the number of values.
pub fn fill_year(archive: &mut dyn HistoryStore) -> Result<u64, StoreError> {
    let pairs = list_mesh_pairs();
    let pattern = IncomingRun::from_json(REPORT.replace('\n', ""), 0)?;
    let mut values = 0;
    for first in (0..HOURS).step_by(BATCH_HOURS as usize) {
        let mut batch = Vec::new();
        for hour in first..(first + BATCH_HOURS).min(HOURS) {
            let mut run = pattern.clone();
            run.run.id = format!("20260101T000000Z-{hour:08x}");
            run.at_us = BEGIN_US + hour * HOUR_US;
            run.readings = generate_hour(&pairs, hour);
            values += run.readings.len() as u64;
            batch.push(run);
        }
        archive.append_runs(&batch)?;
    }
    Ok(values)
}

/// Returns the readings of one hour: a value of every pair, and one per minute of some.
fn generate_hour(pairs: &[HostPair], hour: i64) -> Vec<SeriesReading> {
    let at_us = BEGIN_US + hour * HOUR_US;
    let hourly = pairs.iter().enumerate().map(|(place, pair)| {
        let value = generate_noisy_value(80_000.0, (hour * 1000) as u64 + place as u64);
        make_reading(pair, PathQuantity::RttFloor, at_us, value)
    });
    let by_minute = pairs[..PAIRS_BY_MINUTE].iter().flat_map(|pair| {
        (0..60).map(move |minute| {
            let value = generate_noisy_value(17.0, (hour * 60 + minute) as u64);
            make_reading(pair, PathQuantity::Hops, at_us + minute * MINUTE_US, value)
        })
    });
    hourly.chain(by_minute).collect()
}

pub fn list_mesh_pairs() -> Vec<HostPair> {
    let host = |number: usize| format!("host{number:02}.example.net");
    let of = |from: usize| {
        let others = (0..HOSTS).filter(move |&to| to != from);
        others.map(move |to| HostPair { from: host(from), to: host(to) })
    };
    (0..HOSTS).flat_map(of).collect()
}

pub fn make_reading(
    pair: &HostPair,
    quantity: PathQuantity,
    at_us: i64,
    value: f64,
) -> SeriesReading {
    SeriesReading { pair: pair.clone(), quantity, point: SeriesPoint { at_us, value } }
}

/// Returns a value that looks measured: spread over a fifth of `level`, the same for the same
/// number.
pub fn generate_noisy_value(level: f64, number: u64) -> f64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    level * (0.9 + 0.2 * mixed as f64 / f64::from(1 << 24))
}
