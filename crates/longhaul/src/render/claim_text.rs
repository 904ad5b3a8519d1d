//! The result of checking claims, as text.

use super::style::{CAVEAT, ERROR, FAINT, HINT};
use super::text_page::TextPage;
use anstyle::Style;
use longhaul_record::published_claim::{CheckedClaim, ClaimCheck, ClaimVerdict};

/// Renders all claims, failed checks first.
pub fn render_claims(all: &[CheckedClaim]) -> String {
    let mut page = TextPage::default();
    for (number, checked) in all.iter().enumerate() {
        if number > 0 {
            page.blank();
        }
        write_claim(checked, &mut page);
    }
    if all.len() > 1 {
        page.blank();
        page.line(&summarize_claims(all));
    }
    page.finish()
}

fn write_claim(checked: &CheckedClaim, page: &mut TextPage) {
    page.heading(&checked.claim.name);
    let about = [&checked.claim.source, &checked.claim.date];
    let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
    if !about.is_empty() {
        page.hanging_paragraph_styled("  ", &about.join(", "), FAINT);
    }
    let mut checks: Vec<&ClaimCheck> = checked.checks.iter().collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    for check in checks {
        let style = verdict_style(check.verdict);
        let first = format!("  {:<11} ", check.verdict.word());
        page.hanging_paragraph_styled(&first, &check.text, style);
        if let Some(remedy) = &check.remedy {
            page.hanging_paragraph_styled(&" ".repeat(first.len()), remedy, HINT);
        }
    }
    if checked.checks.is_empty() {
        page.line("  nothing to compare: at least two related figures are needed");
    }
}

fn verdict_style(verdict: ClaimVerdict) -> Style {
    match verdict {
        ClaimVerdict::Agrees => Style::new(),
        ClaimVerdict::Loose => CAVEAT,
        ClaimVerdict::Differs | ClaimVerdict::Impossible => ERROR,
    }
}

fn summarize_claims(all: &[CheckedClaim]) -> String {
    format!(
        "{} claims, {} with inconsistent figures",
        all.len(),
        all.iter().filter(|it| it.has_wrong_figure()).count()
    )
}
