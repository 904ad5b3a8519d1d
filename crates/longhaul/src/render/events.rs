//! Events: lasting changes of watched paths.

use super::page::Page;
use super::style::STRONG;
use super::verdict::explain_all;
use super::watch::lines;
use longhaul_analysis::event::{span, value};
use longhaul_model::report::v1::event::{Event, Level};
use longhaul_model::report::v1::quantity::Quantity;

/// Renders a list of events, each with the id that selects it.
pub fn list(events: &[Event]) -> String {
    let mut page = Page::default();
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        page.heading(&format!("{}  {}", event.id, span(event.between_us)));
        page.hanging("  ", &lines::event(event));
    }
    page.finish()
}

/// Renders one event with all details.
pub fn page(event: &Event) -> String {
    let mut page = Page::default();
    page.heading(&event.id);
    page.blank();
    page.labelled_in("change", &lines::headline(event), STRONG);
    page.labelled("when", &span(event.between_us));
    page.labelled("before", &level(event.quantity, &event.before));
    page.labelled("after", &level(event.quantity, &event.after));
    page.labelled(
        "evidence",
        &format!("{:.1} times what is enough", event.score),
    );
    if let Some(by) = &event.recovered_by {
        page.labelled("recovered by", by);
    }
    if let Some(scope) = &event.scope {
        page.labelled("other paths", scope);
    }
    if !event.follow_ups.is_empty() {
        page.labelled("measured since", &event.follow_ups.join(", "));
    }
    explain_all(&mut page, &event.causes);
    if !event.unchanged.is_empty() {
        page.blank();
        page.line("  what stayed as it was");
    }
    for sentence in &event.unchanged {
        page.hanging("    - ", sentence);
    }
    page.finish()
}

fn level(quantity: Quantity, level: &Level) -> String {
    format!(
        "{} (middle of {}, half of them within {})",
        value(quantity, level.median),
        super::figures::count_of(u64::from(level.samples), "value"),
        value(quantity, level.deviation)
    )
}
