//! The bench of the fleet archive, on the embedded engine of ClickHouse.

use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use std::time::Duration;
use xtask::program_runner::{capture_stdout, cargo_command};

const LIMIT: Duration = Duration::from_secs(3600);
/// The first cell of a line of the bench's output; title and columns of the table of such lines.
const TABLES: [(&str, &str, &str); 3] = [
    (
        "append",
        "Results appended to ClickHouse",
        "results | batch | bytes of a report | values of a run | results/s",
    ),
    ("step", "How the values came into ClickHouse and went", "step | values | s | MB"),
    (
        "question",
        "Questions to ClickHouse at ten million values",
        "question | rows | median, ms | p95, ms",
    ),
];

/// Runs the bench of `longhaul-clickhouse` and makes tables of its output.
pub fn bench_fleet_archive() -> Result<BenchOutcome, String> {
    xtask::clickhouse::ensure_engine()?;
    let words = "bench --quiet --package longhaul-clickhouse --bench archive";
    let text = capture_stdout(cargo_command().args(words.split(' ')), LIMIT)?;
    let tables = TABLES.map(|(kind, title, columns)| {
        let mut table = MarkdownTable::new(title, columns);
        for line in text.lines().filter_map(|line| line.strip_prefix(kind)) {
            table.row(line.split('\t').skip(1).map(str::to_owned).collect());
        }
        table
    });
    Ok(BenchOutcome::ungated(&tables))
}
