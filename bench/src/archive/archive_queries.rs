//! The page's queries of an archive of ten million values.

use super::super::markdown_table::{MarkdownTable, format_number, median, quantile};
use super::super::scratch_folder::ScratchFolder;
use super::year::{BEGIN_US, YEAR, fill_year, list_mesh_pairs};
use super::{format_store_error, open_archive};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::time_buckets::HOUR_US;
use longhaul_store::history_store::{HistoryStore, RetentionPolicy, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::time::{Duration, Instant};

const REPEATS: usize = 301;

struct ArchiveQuery {
    name: &'static str,
    gate_ms: Option<f64>,
    ask: fn(&Archive, &HostPair) -> Result<usize, StoreError>,
}

const QUERIES: [ArchiveQuery; 7] = [
    ArchiveQuery {
        name: "grid of 992 pairs",
        gate_ms: Some(5.0),
        ask: |archive, _| archive.grid(PathQuantity::RttFloor).map(|cells| cells.len()),
    },
    ArchiveQuery {
        name: "a year of one pair, by hours, values",
        gate_ms: Some(20.0),
        ask: |archive, pair| query_year(archive, pair, PathQuantity::RttFloor, 8760),
    },
    ArchiveQuery {
        name: "a year of one pair, by minutes, as hours",
        gate_ms: Some(20.0),
        ask: |archive, _| query_year(archive, &list_mesh_pairs()[0], PathQuantity::Hops, 8760),
    },
    ArchiveQuery {
        name: "a year of one pair, by minutes, in 1000 buckets",
        gate_ms: None,
        ask: |archive, _| query_year(archive, &list_mesh_pairs()[0], PathQuantity::Hops, 1000),
    },
    ArchiveQuery {
        name: "a week of one pair, by minutes, in 1000 buckets",
        gate_ms: None,
        ask: |archive, _| {
            let range = TimeRange { end_us: BEGIN_US + 168 * HOUR_US, ..YEAR };
            count_values(archive, &list_mesh_pairs()[0], PathQuantity::Hops, range, 1000)
        },
    },
    ArchiveQuery {
        name: "a year of one pair by hours, values removed",
        gate_ms: Some(20.0),
        ask: |archive, pair| query_year(archive, pair, PathQuantity::RttFloor, 8760),
    },
    ArchiveQuery {
        name: "grid of 992 pairs, values removed",
        gate_ms: Some(5.0),
        ask: |archive, _| archive.grid(PathQuantity::RttFloor).map(|cells| cells.len()),
    },
];

/// The index of the first query that is made after retention.
const AFTER_RETENTION: usize = 5;

fn query_year(
    archive: &Archive,
    pair: &HostPair,
    quantity: PathQuantity,
    at_most: u32,
) -> Result<usize, StoreError> {
    count_values(archive, pair, quantity, YEAR, at_most)
}

fn count_values(
    archive: &Archive,
    pair: &HostPair,
    quantity: PathQuantity,
    range: TimeRange,
    at_most: u32,
) -> Result<usize, StoreError> {
    let series = archive.series(pair, quantity, range, at_most)?;
    Ok(series.points.len() + series.buckets.len())
}

pub fn measure_queries(
    scratch: &ScratchFolder,
    missed: &mut Vec<String>,
) -> Result<Vec<MarkdownTable>, String> {
    let mut archive = open_archive(scratch, "ask")?;
    let mut made = MarkdownTable::new("How the values came and went", "step | values | s | MB");
    let begin = Instant::now();
    let values = fill_year(&mut archive).map_err(|e| format_store_error(&e))?;
    let step = |name: &str, values: u64, begin: Instant, archive: &Archive| {
        let bytes = archive.about().map_err(|e| format_store_error(&e))?.bytes.unwrap_or_default();
        Ok::<_, String>(vec![
            name.to_owned(),
            values.to_string(),
            format_number(Some(begin.elapsed().as_secs_f64()), 1),
            format_number(Some(bytes as f64 / 1e6), 0),
        ])
    };
    made.row(step("appended, a day in a batch", values, begin, &archive)?);
    let mut answers = MarkdownTable::new(
        format!("Questions at {values} values"),
        "question | rows | median, ms | p95, ms | gate, ms",
    );
    for question in &QUERIES[..AFTER_RETENTION] {
        answers.row(time_query(&archive, question, missed)?);
    }
    let begin = Instant::now();
    let keep =
        RetentionPolicy { values: Duration::from_secs(30 * 86_400), ..RetentionPolicy::FOR_EVER };
    let removed = archive.retain(YEAR.end_us, &keep).map_err(|e| format_store_error(&e))?;
    made.row(step("removed, all but 30 days", removed.values, begin, &archive)?);
    for question in &QUERIES[AFTER_RETENTION..] {
        answers.row(time_query(&archive, question, missed)?);
    }
    Ok(vec![made, answers])
}

/// Queries another pair each time, so that no answer is cached.
fn time_query(
    archive: &Archive,
    question: &ArchiveQuery,
    missed: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    let pairs = list_mesh_pairs();
    let mut times = Vec::with_capacity(REPEATS);
    let mut rows = 0;
    for number in 0..REPEATS {
        let begin = Instant::now();
        rows = (question.ask)(archive, &pairs[number * 37 % pairs.len()])
            .map_err(|e| format_store_error(&e))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let middle = median(&times).unwrap_or_default();
    if question.gate_ms.is_some_and(|gate| middle >= gate) {
        missed.push(format!("{}: {middle:.1} ms", question.name));
    }
    Ok(vec![
        question.name.to_owned(),
        rows.to_string(),
        format_number(Some(middle), 2),
        format_number(quantile(&times, 0.95), 2),
        question.gate_ms.map_or("–".to_owned(), |gate| format!("< {gate:.0}")),
    ])
}
