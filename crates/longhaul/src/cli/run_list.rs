//! The list of archived runs.

use longhaul_report::document::{DocumentTable, ReportDocument, left, right};
use longhaul_report::number_format::{ABSENT, format_rate, or_absent};
use longhaul_store::RunEntry;

/// Renders one line per run, newest first.
pub fn build_run_list(entries: &[RunEntry]) -> ReportDocument {
    let mut table = DocumentTable::new([
        left("run"),
        left("to"),
        right("streams"),
        right("goodput"),
        left("limited by"),
    ]);
    for entry in entries {
        let limited_by = entry.limited_by.as_deref().unwrap_or(ABSENT);
        let what = match (entry.kind.as_str(), entry.parts) {
            ("throughput", _) => String::new(),
            (kind, 0) => format!(" ({kind})"),
            (kind, parts) => format!(" ({kind} of {parts})"),
        };
        table.row([
            entry.id.clone(),
            entry.responder_host.clone(),
            or_absent(entry.streams, |n| n.to_string()),
            or_absent(entry.goodput_bps, format_rate),
            format!("{limited_by}{what}"),
        ]);
    }
    let mut page = ReportDocument::default();
    page.table(table);
    page
}

/// Renders the shipped lab paths with key and description, then the running ones with key and
/// state.
pub fn build_lab_list(
    shipped: impl Iterator<Item = (String, String)>,
    standing: &[(String, String)],
) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (key, name) in shipped {
        page.fact(&key, &name);
    }
    if !standing.is_empty() {
        page.gap();
    }
    for (key, state) in standing {
        page.fact(key, state);
    }
    page
}

/// Renders the commands to use a lab that is running.
pub fn build_lab_started_document(key: &str, name: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.paragraph(format!("{key} is up: {name}"));
    for command in [
        format!("longhaul lab exec {key} --far -- longhaul serve &"),
        format!("longhaul lab exec {key} -- longhaul test far"),
        format!("longhaul lab down {key}"),
    ] {
        page.command(&command);
    }
    page
}
