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
    /// The maximum of the median; infinite without a gate.
    gate_ms: f64,
    /// The series of one pair; the grid if there is none.
    series: Option<PairSeriesQuery>,
}

#[derive(Clone, Copy)]
struct PairSeriesQuery {
    quantity: PathQuantity,
    range: TimeRange,
    at_most: u32,
}

const fn grid_query(name: &'static str) -> ArchiveQuery {
    ArchiveQuery { name, gate_ms: 5.0, series: None }
}

const fn year_query(
    name: &'static str,
    gate_ms: f64,
    quantity: PathQuantity,
    at_most: u32,
) -> ArchiveQuery {
    ArchiveQuery { name, gate_ms, series: Some(PairSeriesQuery { quantity, range: YEAR, at_most }) }
}

const HOURLY: PathQuantity = PathQuantity::RttFloor;
const MINUTELY: PathQuantity = PathQuantity::Hops;
const NO_GATE: f64 = f64::INFINITY;
const WEEK: TimeRange = TimeRange { end_us: BEGIN_US + 168 * HOUR_US, ..YEAR };

const QUERIES: [ArchiveQuery; 7] = [
    grid_query("grid of 992 pairs"),
    year_query("a year of one pair, by hours, values", 20.0, HOURLY, 8760),
    year_query("a year of one pair, by minutes, as hours", 20.0, MINUTELY, 8760),
    year_query("a year of one pair, by minutes, in 1000 buckets", NO_GATE, MINUTELY, 1000),
    ArchiveQuery {
        name: "a week of one pair, by minutes, in 1000 buckets",
        gate_ms: NO_GATE,
        series: Some(PairSeriesQuery { quantity: MINUTELY, range: WEEK, at_most: 1000 }),
    },
    year_query("a year of one pair by hours, values removed", 20.0, HOURLY, 8760),
    grid_query("grid of 992 pairs, values removed"),
];

/// The index of the first query that is made after retention.
const AFTER_RETENTION: usize = 5;

impl ArchiveQuery {
    /// Returns the number of rows. Only one pair has values per minute.
    fn count_rows(
        &self,
        archive: &Archive,
        pairs: &[HostPair],
        at: usize,
    ) -> Result<usize, StoreError> {
        let Some(PairSeriesQuery { quantity, range, at_most }) = self.series else {
            return archive.grid(HOURLY).map(|cells| cells.len());
        };
        let pair = if quantity == MINUTELY { &pairs[0] } else { &pairs[at % pairs.len()] };
        let series = archive.series(pair, quantity, range, at_most)?;
        Ok(series.points.len() + series.buckets.len())
    }
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
        let counted = question.count_rows(archive, &pairs, number * 37);
        rows = counted.map_err(|e| format_store_error(&e))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let middle = median(&times).unwrap_or_default();
    if middle >= question.gate_ms {
        missed.push(format!("{}: {middle:.1} ms", question.name));
    }
    Ok(vec![
        question.name.to_owned(),
        rows.to_string(),
        format_number(Some(middle), 2),
        format_number(quantile(&times, 0.95), 2),
        if question.gate_ms.is_infinite() {
            "–".to_owned()
        } else {
            format!("< {}", question.gate_ms)
        },
    ])
}
