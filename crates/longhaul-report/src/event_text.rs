//! Events: lasting changes of watched paths.

use crate::document::ReportDocument;
use crate::summary_lines;
use longhaul_history::event::{
    OperatorReport, OperatorReportKind, format_quantity, format_time_span,
};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, HostPair, QuantityLevel, SharedScope};

/// Renders a list of events, each with the id that selects it.
pub fn build_event_list(events: &[ChangeEvent]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        page.heading(3, format!("{}  {}", event.id, format_time_span(event.between_us)));
        page.item("  ", summary_lines::describe_event(event));
    }
    page
}

/// Renders one event with all details.
pub fn build_event_document(event: &ChangeEvent) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(3, &event.id);
    page.gap();
    page.strong_fact("change", summary_lines::format_event_headline(event));
    page.fact("when", format_time_span(event.between_us));
    page.fact("before", describe_level(event.quantity, &event.before));
    page.fact("after", describe_level(event.quantity, &event.after));
    page.fact("score", format!("{:.1} (threshold 1)", event.score));
    page.facts("recovered by", &event.recovered_by);
    if let Some(scope) = &event.scope {
        page.fact("other paths", scope);
    }
    page.facts("part of", &event.part_of);
    if let Some(scope) = &event.shared {
        add_scope(&mut page, scope);
    }
    if !event.follow_ups.is_empty() {
        page.fact("follow-up runs", event.follow_ups.join(", "));
    }
    page.findings(&event.causes);
    if !event.unchanged.is_empty() {
        page.gap();
        page.paragraph("  unchanged");
    }
    for sentence in &event.unchanged {
        page.item("    - ", sentence);
    }
    page
}

/// Adds the affected paths, and those that pass the same element and did not change.
fn add_scope(page: &mut ReportDocument, scope: &SharedScope) {
    let name = |pair: &HostPair| format!("{} > {}", pair.from, pair.to);
    let affected = scope.affected.iter();
    page.facts(
        "affected",
        affected.map(|it| format!("{} {} {}", it.quantity.title(), name(&it.pair), it.event)),
    );
    page.facts("not affected", scope.unaffected.iter().map(name));
}

/// Renders the text for the operator of a path, for a file that is sent to them.
pub fn build_case_document(case: &OperatorReport, longhaul: &str) -> ReportDocument {
    let mut page = ReportDocument::from_archive("", longhaul);
    let mut rows = Vec::new();
    for (kind, text) in &case.parts {
        if *kind == OperatorReportKind::Row {
            rows.push(text.as_str());
            continue;
        }
        add_rows(&mut page, &mut rows);
        match kind {
            OperatorReportKind::Title => text.clone_into(&mut page.title),
            OperatorReportKind::Section => page.heading(2, text),
            OperatorReportKind::Paragraph => page.paragraph(text),
            OperatorReportKind::Item | OperatorReportKind::Row => page.item("- ", text),
        }
    }
    add_rows(&mut page, &mut rows);
    page
}

fn add_rows(page: &mut ReportDocument, rows: &mut Vec<&str>) {
    if !rows.is_empty() {
        page.verbatim(rows.join("\n"));
        rows.clear();
    }
}

fn describe_level(quantity: PathQuantity, level: &QuantityLevel) -> String {
    format!(
        "median {0}, MAD {2}, {1}",
        format_quantity(quantity, level.median),
        super::number_format::count_of(u64::from(level.samples), "value"),
        format_quantity(quantity, level.deviation)
    )
}
