//! The list of archived runs.

use super::figures::{ABSENT, rate};
use super::page::Page;
use super::style::{STRONG, paint};
use longhaul_store::Entry;

/// Renders one line per run, newest first.
pub fn list(entries: &[Entry]) -> String {
    let mut page = Page::default();
    let heads = ["run", "to", "streams", "goodput"];
    let [id, to, streams, goodput] = heads;
    page.line(&paint(
        STRONG,
        format!("{id:<24}{to:<20}{streams:>7}{goodput:>14}  limited by"),
    ));
    for entry in entries {
        let to: String = entry.responder_host.chars().take(19).collect();
        let goodput = entry.goodput_bps.map_or_else(|| ABSENT.to_owned(), rate);
        let streams = entry
            .streams
            .map_or_else(|| ABSENT.to_owned(), |n| n.to_string());
        let limited_by = entry.limited_by.as_deref().unwrap_or(ABSENT);
        let what = match (entry.kind.as_str(), entry.parts) {
            ("throughput", _) => String::new(),
            (kind, 0) => format!(" ({kind})"),
            (kind, parts) => format!(" ({kind} of {parts})"),
        };
        page.line(&format!(
            "{:<24}{to:<20}{streams:>7}{goodput:>14}  {limited_by}{what}",
            entry.id
        ));
    }
    page.finish()
}

/// Renders the shipped lab paths with key and description, then the running ones with key and
/// state.
pub fn paths(
    shipped: impl Iterator<Item = (String, String)>,
    standing: &[(String, String)],
) -> String {
    let mut page = Page::default();
    for (key, name) in shipped {
        page.labelled(&key, &name);
    }
    if !standing.is_empty() {
        page.blank();
    }
    for (key, state) in standing {
        page.labelled(key, state);
    }
    page.finish()
}

/// Renders the commands to use a lab that is running.
pub fn stands(key: &str, name: &str) -> String {
    let mut page = Page::default();
    page.hanging("", &format!("{key} stands: {name}"));
    for command in [
        format!("longhaul lab exec {key} --far -- longhaul serve &"),
        format!("longhaul lab exec {key} -- longhaul test far"),
        format!("longhaul lab down {key}"),
    ] {
        page.command(2, &command);
    }
    page.finish()
}
