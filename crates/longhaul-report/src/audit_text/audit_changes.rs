//! The changes of an audit: written and reverted settings, and their effect.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{RateUnit, count_of, or_absent};
use longhaul_model::report::v1::host::{
    AuditObservation, ChangeEffect, ChangeProof, SettingChange,
};
use longhaul_model::units::capitalize_first;

pub fn write_changes(
    page: &mut ReportDocument,
    observation: &AuditObservation,
    proof: Option<&ChangeProof>,
) {
    if observation.changes.is_empty() {
        return;
    }
    page.gap();
    page.heading(3, "CHANGES");
    let kept = observation.changes.iter().filter(|change| is_in_force(change)).count();
    for change in &observation.changes {
        write_change(page, change);
    }
    if let Some(proof) = proof {
        page.gap();
        page.heading(3, "EVIDENCE: alternating runs before and after");
        write_effects(page, &proof.directions);
        page.paragraph(capitalize_first(&proof.text));
    }
    if kept > 0 {
        let settings = count_of(kept as u64, "setting");
        page.gap();
        page.paragraph(format!("{settings} in force until the next boot; to revert:"));
        page.command("longhaul host --revert");
    }
}

/// Returns true if the change is in force.
fn is_in_force(change: &SettingChange) -> bool {
    change.after.is_some() && change.error.is_none() && !change.reverted
}

fn write_change(page: &mut ReportDocument, change: &SettingChange) {
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let outcome = match (&change.error, &change.after) {
        (Some(why), _) => format!("NOT WRITTEN: {why}"),
        (None, None) => String::from("NOT WRITTEN"),
        (None, Some(_)) if change.reverted => String::from("reverted"),
        (None, Some(after)) if spaced(after) != spaced(&change.wanted) => {
            format!("written, but reads back as `{}`", spaced(after))
        }
        (None, Some(_)) => String::from("in force"),
    };
    page.paragraph(&change.name);
    let values = format!("{} -> {}", spaced(&change.before), spaced(&change.wanted));
    page.item("   ", format!("{values}: {outcome}"));
}

fn write_effects(page: &mut ReportDocument, directions: &[ChangeEffect]) {
    if directions.is_empty() {
        return;
    }
    let greatest = directions.iter().map(|d| d.before_bps.max(d.after_bps)).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let gain = |effect: &ChangeEffect| {
        format!("{:.2}×", effect.after_bps as f64 / effect.before_bps.max(1) as f64)
    };
    let way = |effect: &ChangeEffect| if effect.forward { "sends" } else { "receives" };
    page.table(
        DocumentTable::from_rows(directions)
            .text("this host", |it| way(it).to_owned())
            .number(format!("before {}", unit.name), |it| unit.number(it.before_bps))
            .number("after", |it| unit.number(it.after_bps))
            .number("gain", gain)
            .text("95 % interval", |it| {
                or_absent(it.gain_interval_ratio, |[low, high]| format!("{low:.2} to {high:.2}"))
            })
            .text("limited by", |it| format!("{} -> {}", it.limited_by_before, it.limited_by_after))
            .finish(),
    );
}

/// Renders the result of `--revert`.
pub fn build_reverted_document(changes: &[SettingChange]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if changes.is_empty() {
        page.paragraph("nothing to revert: no change made by longhaul is in force");
        return page;
    }
    for change in changes {
        let value = change.before.split_whitespace().collect::<Vec<_>>().join(" ");
        let outcome = if change.reverted { "reverted" } else { "NOT REVERTED" };
        page.paragraph(format!("{}: {value}: {outcome}", change.name));
        if let Some(why) = &change.error {
            page.item("   ", why);
        }
    }
    page
}
