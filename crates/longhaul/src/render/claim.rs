//! The result of checking claims, as text.

use super::page::Page;
use super::style::{CAVEAT, ERROR, FAINT, HINT};
use anstyle::Style;
use longhaul_model::report::v1::claim::{Check, Checked, Verdict};

/// Renders all claims, failed checks first.
pub fn text(all: &[Checked]) -> String {
    let mut page = Page::default();
    for (number, checked) in all.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        claim(checked, &mut page);
    }
    if all.len() > 1 {
        page.blank();
        page.line(&total(all));
    }
    page.finish()
}

fn claim(checked: &Checked, page: &mut Page) {
    page.heading(&checked.claim.name);
    let about = [&checked.claim.source, &checked.claim.date];
    let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
    if !about.is_empty() {
        page.hanging_in("  ", &about.join(", "), FAINT);
    }
    let mut checks: Vec<&Check> = checked.checks.iter().collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    for check in checks {
        let style = style(check.verdict);
        let first = format!("  {:<11} ", check.verdict.word());
        page.hanging_in(&first, &check.text, style);
        if let Some(remedy) = &check.remedy {
            page.hanging_in(&" ".repeat(first.len()), remedy, HINT);
        }
    }
    if checked.checks.is_empty() {
        page.line("  nothing to compare: one figure alone agrees with everything");
    }
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Agrees => Style::new(),
        Verdict::Loose => CAVEAT,
        Verdict::Differs | Verdict::Impossible => ERROR,
    }
}

fn total(all: &[Checked]) -> String {
    let wrong = |checked: &&Checked| {
        checked
            .checks
            .iter()
            .any(|it| it.verdict >= Verdict::Differs)
    };
    format!(
        "{} claims, {} of them with figures that differ",
        all.len(),
        all.iter().filter(wrong).count()
    )
}
