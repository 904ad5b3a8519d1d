//! The changes of an audit: written and reverted settings, and their effect.

use crate::render::number_format::{ABSENT, RateUnit, count_of};
use crate::render::style::{FAINT, paint};
use crate::render::text_page::TextPage;
use longhaul_model::report::v1::host::{
    AuditObservation, ChangeEffect, ChangeProof, SettingChange,
};

pub fn write_changes(
    page: &mut TextPage,
    observation: &AuditObservation,
    proof: Option<&ChangeProof>,
) {
    if observation.changes.is_empty() {
        return;
    }
    page.blank();
    page.heading("CHANGES");
    let kept = observation
        .changes
        .iter()
        .filter(|change| is_in_force(change))
        .count();
    for change in &observation.changes {
        write_change(page, change);
    }
    if let Some(proof) = proof {
        page.blank();
        page.heading("EVIDENCE: alternating runs before and after");
        write_effects(page, &proof.directions);
        page.hanging_paragraph("", &capitalize_first(&proof.text));
    }
    if kept > 0 {
        let settings = count_of(kept as u64, "setting");
        page.blank();
        page.line(&format!(
            "{settings} in force until the next boot; to revert:"
        ));
        page.command(3, "longhaul host --revert");
    }
}

/// Returns true if the change is in force.
fn is_in_force(change: &SettingChange) -> bool {
    change.after.is_some() && change.error.is_none() && !change.reverted
}

fn write_change(page: &mut TextPage, change: &SettingChange) {
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
    page.line(&change.name);
    let values = format!("{} -> {}", spaced(&change.before), spaced(&change.wanted));
    page.hanging_paragraph("   ", &format!("{values}: {outcome}"));
}

fn write_effects(page: &mut TextPage, directions: &[ChangeEffect]) {
    if directions.is_empty() {
        return;
    }
    let greatest = directions
        .iter()
        .map(|d| d.before_bps.max(d.after_bps))
        .max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let head = format!(
        "{:<11}{:>12}{:>12}{:>8}  {:<14}limited by",
        "this host", "before", "after", "gain", "95 % interval"
    );
    page.line(&paint(FAINT, head));
    for effect in directions {
        let way = if effect.forward { "sends" } else { "receives" };
        let gain = effect.after_bps as f64 / effect.before_bps.max(1) as f64;
        let interval = effect.gain_interval_ratio.map_or_else(
            || ABSENT.to_owned(),
            |[low, high]| format!("{low:.2} to {high:.2}"),
        );
        page.line(&format!(
            "{way:<11}{:>12}{:>12}{gain:>7.2}×  {interval:<14}{} ->",
            unit.number(effect.before_bps),
            unit.number(effect.after_bps),
            effect.limited_by_before,
        ));
        page.line(&format!("{:60}{}", "", effect.limited_by_after));
    }
    page.line(&paint(FAINT, format!("rates in {}", unit.name)));
}

fn capitalize_first(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// Renders the result of `--revert`.
pub fn render_reverted(changes: &[SettingChange]) -> String {
    let mut page = TextPage::default();
    if changes.is_empty() {
        page.line("nothing to revert: no change made by longhaul is in force");
        return page.finish();
    }
    for change in changes {
        let value = change
            .before
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let outcome = if change.reverted {
            "reverted"
        } else {
            "NOT REVERTED"
        };
        page.hanging_paragraph("", &format!("{}: {value}: {outcome}", change.name));
        if let Some(why) = &change.error {
            page.hanging_paragraph("   ", why);
        }
    }
    page.finish()
}
