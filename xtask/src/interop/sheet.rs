//! The matrix as a page of Markdown.

use super::pair::Played;
use super::peer::Peer;
use super::rows::ROWS;
use super::{DELAYS, Delay};
use crate::bench::table::Table;
use longhaul_analysis::event;
use std::time::{SystemTime, UNIX_EPOCH};

/// Formats the page: the participants, the cells, and a note for each failure.
pub fn markdown(peers: &[Peer], played: &[Played]) -> String {
    let mut notes = Vec::new();
    let tables: String = DELAYS
        .iter()
        .filter_map(|&delay| table(peers, played, delay, &mut notes))
        .map(|table| table.markdown())
        .collect();
    let notes: Vec<String> = notes
        .iter()
        .enumerate()
        .map(|(at, note)| format!("{}. {note}\n", at + 1))
        .collect();
    let versions: Vec<String> = peers
        .iter()
        .map(|peer| format!("- {}: {}\n", peer.name, peer.version))
        .collect();
    let notes = if notes.is_empty() {
        "None.\n".to_owned()
    } else {
        notes.concat()
    };
    format!(
        "{}\nOn {}, with:\n\n{}\n{tables}## What failed\n\n{notes}\n## Rows\n\n{}",
        include_str!("sheet.md"),
        today(),
        versions.concat(),
        rows(),
    )
}

fn rows() -> String {
    let lines: Vec<String> = ROWS.iter().map(|row| format!("    {row}\n")).collect();
    lines.concat()
}

fn table(
    peers: &[Peer],
    played: &[Played],
    delay: Delay,
    notes: &mut Vec<String>,
) -> Option<Table> {
    let here: Vec<&Played> = played
        .iter()
        .filter(|played| played.unit.delay == delay)
        .collect();
    if here.is_empty() {
        return None;
    }
    let names: Vec<String> = peers
        .iter()
        .map(|peer| format!("server {}", peer.name))
        .collect();
    let columns: Vec<&str> = std::iter::once("client")
        .chain(names.iter().map(String::as_str))
        .collect();
    let mut table = Table::new(format!("{} ms", delay.0), &columns);
    for client in peers {
        let cells = peers.iter().map(|server| {
            let found = here.iter().find(|played| {
                played.unit.client.name == client.name && played.unit.server.name == server.name
            });
            found.map_or_else(|| "–".to_owned(), |played| cell(played, notes))
        });
        let cells: Vec<String> = cells.collect();
        table.row(std::iter::once(client.name.clone()).chain(cells).collect());
    }
    Some(table)
}

/// Formats rows passed of rows tried, with the numbers of the notes.
fn cell(played: &Played, notes: &mut Vec<String>) -> String {
    let mut parts = vec![format!("{}/{}", played.passed(), played.rows.len())];
    let (count, share) = played.dropped();
    if count > 0 {
        parts.push(format!("†{count} ({:.0} %)", 100.0 * share));
    }
    let again = played.again().count();
    if again > 0 {
        parts.push(format!("↻{again}"));
    }
    let title = played.unit.title();
    let numbers: Vec<String> = played
        .failures()
        .map(|(row, why)| {
            notes.push(format!("{title}, `{}`: {why}", row.text));
            notes.len().to_string()
        })
        .collect();
    if !numbers.is_empty() {
        parts.push(format!("[{}]", numbers.join(", ")));
    }
    parts.join(" ")
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    event::date(since.map_or(0, |since| since.as_micros() as i64))
}
