//! The page's queries of an archive of ten million values.

use super::super::scratch::Scratch;
use super::super::table::{Table, median, number, quantile};
use super::year::{BEGIN_US, YEAR, fill, pairs};
use super::{open, told};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::buckets::HOUR_US;
use longhaul_store::watched::{Range, Retention, Watched};
use longhaul_store::{Archive, StoreError};
use std::time::{Duration, Instant};

const ASKED: usize = 301;

struct Question {
    name: &'static str,
    gate_ms: Option<f64>,
    ask: fn(&Archive, &Pair) -> Result<usize, StoreError>,
}

const QUESTIONS: [Question; 7] = [
    Question {
        name: "grid of 992 pairs",
        gate_ms: Some(5.0),
        ask: |archive, _| archive.grid(Quantity::RttFloor).map(|cells| cells.len()),
    },
    Question {
        name: "a year of one pair, by hours, values",
        gate_ms: Some(20.0),
        ask: |archive, pair| year(archive, pair, Quantity::RttFloor, 8760),
    },
    Question {
        name: "a year of one pair, by minutes, as hours",
        gate_ms: Some(20.0),
        ask: |archive, _| year(archive, &pairs()[0], Quantity::Hops, 8760),
    },
    Question {
        name: "a year of one pair, by minutes, in 1000 buckets",
        gate_ms: None,
        ask: |archive, _| year(archive, &pairs()[0], Quantity::Hops, 1000),
    },
    Question {
        name: "a week of one pair, by minutes, in 1000 buckets",
        gate_ms: None,
        ask: |archive, _| {
            let range = Range {
                end_us: BEGIN_US + 168 * HOUR_US,
                ..YEAR
            };
            count(archive, &pairs()[0], Quantity::Hops, range, 1000)
        },
    },
    Question {
        name: "a year of one pair by hours, values removed",
        gate_ms: Some(20.0),
        ask: |archive, pair| year(archive, pair, Quantity::RttFloor, 8760),
    },
    Question {
        name: "grid of 992 pairs, values removed",
        gate_ms: Some(5.0),
        ask: |archive, _| archive.grid(Quantity::RttFloor).map(|cells| cells.len()),
    },
];

/// The index of the first query that is made after retention.
const AFTER_RETENTION: usize = 5;

fn year(
    archive: &Archive,
    pair: &Pair,
    quantity: Quantity,
    at_most: u32,
) -> Result<usize, StoreError> {
    count(archive, pair, quantity, YEAR, at_most)
}

fn count(
    archive: &Archive,
    pair: &Pair,
    quantity: Quantity,
    range: Range,
    at_most: u32,
) -> Result<usize, StoreError> {
    let series = archive.series(pair, quantity, range, at_most)?;
    Ok(series.points.len() + series.buckets.len())
}

pub fn tables(scratch: &Scratch, missed: &mut Vec<String>) -> Result<Vec<Table>, String> {
    let mut archive = open(scratch, "ask")?;
    let mut made = Table::new(
        "How the values came and went",
        &["step", "values", "s", "MB"],
    );
    let begin = Instant::now();
    let values = fill(&mut archive).map_err(|e| told(&e))?;
    let step = |name: &str, values: u64, begin: Instant, archive: &Archive| {
        let bytes = archive
            .about()
            .map_err(|e| told(&e))?
            .bytes
            .unwrap_or_default();
        Ok::<_, String>(vec![
            name.to_owned(),
            values.to_string(),
            number(Some(begin.elapsed().as_secs_f64()), 1),
            number(Some(bytes as f64 / 1e6), 0),
        ])
    };
    made.row(step("appended, a day in a batch", values, begin, &archive)?);
    let mut answers = Table::new(
        format!("Questions at {values} values"),
        &["question", "rows", "median, ms", "p95, ms", "gate, ms"],
    );
    for question in &QUESTIONS[..AFTER_RETENTION] {
        answers.row(asked(&archive, question, missed)?);
    }
    let begin = Instant::now();
    let keep = Retention {
        values: Duration::from_secs(30 * 86_400),
        ..Retention::FOR_EVER
    };
    let removed = archive.retain(YEAR.end_us, &keep).map_err(|e| told(&e))?;
    made.row(step(
        "removed, all but 30 days",
        removed.values,
        begin,
        &archive,
    )?);
    for question in &QUESTIONS[AFTER_RETENTION..] {
        answers.row(asked(&archive, question, missed)?);
    }
    Ok(vec![made, answers])
}

/// Queries another pair each time, so that no answer is cached.
fn asked(
    archive: &Archive,
    question: &Question,
    missed: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    let pairs = pairs();
    let mut times = Vec::with_capacity(ASKED);
    let mut rows = 0;
    for number in 0..ASKED {
        let begin = Instant::now();
        rows = (question.ask)(archive, &pairs[number * 37 % pairs.len()]).map_err(|e| told(&e))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let middle = median(&times).unwrap_or_default();
    if question.gate_ms.is_some_and(|gate| middle >= gate) {
        missed.push(format!("{}: {middle:.1} ms", question.name));
    }
    Ok(vec![
        question.name.to_owned(),
        rows.to_string(),
        number(Some(middle), 2),
        number(quantile(&times, 0.95), 2),
        question
            .gate_ms
            .map_or("–".to_owned(), |gate| format!("< {gate:.0}")),
    ])
}
