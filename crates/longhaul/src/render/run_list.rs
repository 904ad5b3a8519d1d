//! The list of archived runs.

use super::number_format::{ABSENT, format_rate};
use super::style::{STRONG, paint};
use super::text_page::TextPage;
use longhaul_store::RunEntry;

/// Renders one line per run, newest first.
pub fn render_run_list(entries: &[RunEntry]) -> String {
    let mut page = TextPage::default();
    let heads = ["run", "to", "streams", "goodput"];
    let [id, to, streams, goodput] = heads;
    page.line(&paint(
        STRONG,
        format!("{id:<24}{to:<20}{streams:>7}{goodput:>14}  limited by"),
    ));
    for entry in entries {
        let to: String = entry.responder_host.chars().take(19).collect();
        let goodput = entry
            .goodput_bps
            .map_or_else(|| ABSENT.to_owned(), format_rate);
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
pub fn render_lab_paths(
    shipped: impl Iterator<Item = (String, String)>,
    standing: &[(String, String)],
) -> String {
    let mut page = TextPage::default();
    for (key, name) in shipped {
        page.label_line(&key, &name);
    }
    if !standing.is_empty() {
        page.blank();
    }
    for (key, state) in standing {
        page.label_line(key, state);
    }
    page.finish()
}

/// Renders the commands to use a lab that is running.
pub fn render_lab_started(key: &str, name: &str) -> String {
    let mut page = TextPage::default();
    page.hanging_paragraph("", &format!("{key} is up: {name}"));
    for command in [
        format!("longhaul lab exec {key} --far -- longhaul serve &"),
        format!("longhaul lab exec {key} -- longhaul test far"),
        format!("longhaul lab down {key}"),
    ] {
        page.command(2, &command);
    }
    page.finish()
}
