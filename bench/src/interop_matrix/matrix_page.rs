//! The matrix as a page of Markdown.

use super::RTTS_MS;
use super::interop_peer::InteropPeer;
use super::option_rows::list_rows;
use super::pair_runs::PairResult;
use crate::markdown_table::MarkdownTable;
use longhaul_history::event;
use std::time::{SystemTime, UNIX_EPOCH};

/// Formats the page: the participants, the cells, and a note for each failure.
pub fn format_page(peers: &[InteropPeer], results: &[PairResult]) -> String {
    let mut notes = Vec::new();
    let tables: String = RTTS_MS
        .iter()
        .filter_map(|&rtt_ms| format_table(peers, results, rtt_ms, &mut notes))
        .map(|table| table.markdown())
        .collect();
    let notes: Vec<String> =
        notes.iter().enumerate().map(|(at, note)| format!("{}. {note}\n", at + 1)).collect();
    let versions: Vec<String> =
        peers.iter().map(|peer| format!("- {}: {}\n", peer.name, peer.version)).collect();
    let notes = if notes.is_empty() { "None.\n".to_owned() } else { notes.concat() };
    format!(
        "{}\nOn {}, with:\n\n{}\n{tables}## What failed\n\n{notes}\n## Rows\n\n    {}\n",
        include_str!("sheet.md"),
        format_today(),
        versions.concat(),
        list_rows().join("\n    "),
    )
}

fn format_table(
    peers: &[InteropPeer],
    results: &[PairResult],
    rtt_ms: u32,
    notes: &mut Vec<String>,
) -> Option<MarkdownTable> {
    let here: Vec<&PairResult> =
        results.iter().filter(|result| result.pair.rtt_ms == rtt_ms).collect();
    if here.is_empty() {
        return None;
    }
    let servers = peers.iter().map(|peer| format!(" | server {}", peer.name));
    let columns = format!("client{}", servers.collect::<String>());
    let mut table = MarkdownTable::new(format!("{rtt_ms} ms"), &columns);
    for client in peers {
        let cells = peers.iter().map(|server| {
            let found = here.iter().find(|result| {
                result.pair.client.name == client.name && result.pair.server.name == server.name
            });
            found.map_or_else(|| "–".to_owned(), |result| format_cell(result, notes))
        });
        let cells: Vec<String> = cells.collect();
        table.row(std::iter::once(client.name.clone()).chain(cells).collect());
    }
    Some(table)
}

/// Formats rows passed of rows tried, with the numbers of the notes.
fn format_cell(result: &PairResult, notes: &mut Vec<String>) -> String {
    let mut parts = vec![format!("{}/{}", result.passed().count(), result.rows.len())];
    let shares = result.passed().map(|row| row.dropped_share).filter(|share| *share > 0.0);
    let shares: Vec<f64> = shares.collect();
    if let Some(most) = shares.iter().copied().reduce(f64::max) {
        parts.push(format!("†{} ({:.0} %)", shares.len(), 100.0 * most));
    }
    let again = result.passed().filter(|row| row.is_repeated).count();
    if again > 0 {
        parts.push(format!("↻{again}"));
    }
    let failures = result.describe_failures();
    let numbers: Vec<String> =
        (notes.len() + 1..).take(failures.len()).map(|number| number.to_string()).collect();
    notes.extend(failures);
    if !numbers.is_empty() {
        parts.push(format!("[{}]", numbers.join(", ")));
    }
    parts.join(" ")
}

fn format_today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    event::format_date(since.map_or(0, |since| since.as_micros() as i64))
}
