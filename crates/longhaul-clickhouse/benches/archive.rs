//! What `cargo xtask bench archive` asks of SQLite, asked of the embedded engine of ClickHouse: a
//! year of ten million values. Prints lines of cells, separated by tabs; `cargo xtask bench fleet`
//! makes tables of them.

#[path = "../tests/embedded/mod.rs"]
mod embedded;
#[path = "../../../bench/src/archive/year.rs"]
mod year;

use longhaul_clickhouse::{ClickHouseOptions, open_history_store};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{IncomingRun, RetentionPolicy};
use longhaul_store::{HistoryStore, StoreError};
use std::time::{Duration, Instant};
use year::{
    BEGIN_US, MINUTE_US, REPORT, YEAR, fill_year, generate_noisy_value, list_mesh_pairs,
    make_reading,
};

/// Runs of the mesh in one batch, and batches.
const MESH: usize = 992;
const BATCHES: usize = 20;
const ASKED: usize = 31;

/// Not packed: the shim is slow at unpacking, which no server is.
fn fresh() -> Result<Box<dyn HistoryStore>, StoreError> {
    open_history_store(ClickHouseOptions { compressed: false, ..embedded::options() })
}

fn main() {
    if let Err(error) = measure() {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        eprintln!("{error}: {}", cause.unwrap_or_default());
        std::process::exit(1);
    }
}

fn measure() -> Result<(), StoreError> {
    for (name, real) in [("short reports", false), ("path reports", true)] {
        append(name, real)?;
    }
    let mut archive = fresh()?;
    let begin = Instant::now();
    let values = fill_year(archive.as_mut())?;
    step("appended, a day in a batch", values, begin, archive.as_ref())?;
    question("grid of 992 pairs", |pair| grid(archive.as_ref(), pair))?;
    for (name, pair, quantity, at_most) in [
        ("a year of one pair, by hours, values", None, PathQuantity::RttFloor, 8760),
        ("a year of one pair, by minutes, as hours", Some(0), PathQuantity::Hops, 8760),
        ("a year of one pair, by minutes, in 1000 buckets", Some(0), PathQuantity::Hops, 1000),
    ] {
        question(name, |asked| {
            let pair = pair.unwrap_or(asked);
            year(archive.as_ref(), &list_mesh_pairs()[pair], quantity, at_most)
        })?;
    }
    let begin = Instant::now();
    let keep =
        RetentionPolicy { values: Duration::from_secs(30 * 86_400), ..RetentionPolicy::FOR_EVER };
    let removed = archive.retain(YEAR.end_us, &keep)?;
    step("removed, all but 30 days", removed.values, begin, archive.as_ref())?;
    question("a year of one pair by hours, values removed", |pair| {
        year(archive.as_ref(), &list_mesh_pairs()[pair], PathQuantity::RttFloor, 8760)
    })?;
    question("grid of 992 pairs, values removed", |pair| grid(archive.as_ref(), pair))
}

fn grid(archive: &dyn HistoryStore, _: usize) -> Result<usize, StoreError> {
    archive.grid(PathQuantity::RttFloor).map(|cells| cells.len())
}

fn year(
    archive: &dyn HistoryStore,
    pair: &HostPair,
    quantity: PathQuantity,
    at_most: u32,
) -> Result<usize, StoreError> {
    let series = archive.series(pair, quantity, YEAR, at_most)?;
    Ok(series.points.len() + series.buckets.len())
}

/// The mesh's results of a minute, batch after batch.
fn append(name: &str, real: bool) -> Result<(), StoreError> {
    let mut archive = fresh()?;
    let pattern = IncomingRun::from_json(REPORT.replace('\n', ""), 0)?;
    let pairs = list_mesh_pairs();
    let run = |place: usize| {
        let at_us = BEGIN_US + (place / MESH) as i64 * MINUTE_US;
        let mut run = pattern.clone();
        run.run.id = format!("20260101T000000Z-{place:08x}");
        run.report = run.report.replace(&pattern.run.id, &run.run.id);
        if !real {
            run.report.truncate(1000);
        }
        run.at_us = at_us;
        let levels = [
            (PathQuantity::RttFloor, 80_000.0),
            (PathQuantity::Loss, 0.001),
            (PathQuantity::Hops, 17.0),
        ];
        let reading = |(quantity, level)| {
            make_reading(
                &pairs[place % MESH],
                quantity,
                at_us,
                generate_noisy_value(level, place as u64),
            )
        };
        run.readings = levels.map(reading).to_vec();
        run
    };
    let runs: Vec<IncomingRun> = (0..MESH * BATCHES).map(run).collect();
    let begin = Instant::now();
    for batch in runs.chunks(MESH) {
        archive.append_runs(batch)?;
    }
    let rate = runs.len() as f64 / begin.elapsed().as_secs_f64();
    let bytes = runs[0].report.len();
    println!("append\tthe mesh, minute by minute, {name}\t{MESH}\t{bytes}\t3\t{rate:.0}");
    Ok(())
}

fn step(
    name: &str,
    values: u64,
    begin: Instant,
    archive: &dyn HistoryStore,
) -> Result<(), StoreError> {
    let seconds = begin.elapsed().as_secs_f64();
    let megabytes = archive.about()?.bytes.unwrap_or_default() as f64 / 1e6;
    println!("step\t{name}\t{values}\t{seconds:.1}\t{megabytes:.0}");
    Ok(())
}

/// Each time of another pair, so that no answer is at hand from the last.
fn question(
    name: &str,
    ask: impl Fn(usize) -> Result<usize, StoreError>,
) -> Result<(), StoreError> {
    let mut times = Vec::with_capacity(ASKED);
    let mut rows = 0;
    for number in 0..ASKED {
        let begin = Instant::now();
        rows = ask(number * 37 % MESH)?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (middle, high) = (times[ASKED / 2], times[ASKED * 95 / 100]);
    println!("question\t{name}\t{rows}\t{middle:.1}\t{high:.1}");
    Ok(())
}
