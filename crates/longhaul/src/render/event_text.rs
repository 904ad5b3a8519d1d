//! Events: lasting changes of watched paths.

use super::style::STRONG;
use super::text_page::TextPage;
use super::verdict_text::write_findings;
use super::watch_cost::agent_lines;
use longhaul_history::event::{format_quantity, format_time_span};
use longhaul_model::report::v1::event::{ChangeEvent, QuantityLevel};
use longhaul_model::report::v1::quantity::PathQuantity;

/// Renders a list of events, each with the id that selects it.
pub fn render_event_list(events: &[ChangeEvent]) -> String {
    let mut page = TextPage::default();
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        page.heading(&format!(
            "{}  {}",
            event.id,
            format_time_span(event.between_us)
        ));
        page.hanging_paragraph("  ", &agent_lines::describe_event(event));
    }
    page.finish()
}

/// Renders one event with all details.
pub fn render_event(event: &ChangeEvent) -> String {
    let mut page = TextPage::default();
    page.heading(&event.id);
    page.blank();
    page.label_line_styled("change", &agent_lines::format_event_headline(event), STRONG);
    page.label_line("when", &format_time_span(event.between_us));
    page.label_line("before", &describe_level(event.quantity, &event.before));
    page.label_line("after", &describe_level(event.quantity, &event.after));
    page.label_line("score", &format!("{:.1} (threshold 1)", event.score));
    if let Some(by) = &event.recovered_by {
        page.label_line("recovered by", by);
    }
    if let Some(scope) = &event.scope {
        page.label_line("other paths", scope);
    }
    if !event.follow_ups.is_empty() {
        page.label_line("follow-up runs", &event.follow_ups.join(", "));
    }
    write_findings(&mut page, &event.causes);
    if !event.unchanged.is_empty() {
        page.blank();
        page.line("  unchanged");
    }
    for sentence in &event.unchanged {
        page.hanging_paragraph("    - ", sentence);
    }
    page.finish()
}

fn describe_level(quantity: PathQuantity, level: &QuantityLevel) -> String {
    format!(
        "median {0}, MAD {2}, {1}",
        format_quantity(quantity, level.median),
        super::number_format::count_of(u64::from(level.samples), "value"),
        format_quantity(quantity, level.deviation)
    )
}
