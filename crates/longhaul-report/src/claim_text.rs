//! The result of checking claims, as text.

use crate::document::ReportDocument;
use crate::style::{CAVEAT, ERROR, FAINT, HINT};
use anstyle::Style;
use longhaul_record::published_claim::{CheckedClaim, ClaimCheck, ClaimVerdict};

/// Renders all claims, failed checks first.
pub fn build_claims_document(all: &[CheckedClaim]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (number, checked) in all.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        write_claim(checked, &mut page);
    }
    if all.len() > 1 {
        page.gap();
        page.paragraph(summarize_claims(all));
    }
    page
}

fn write_claim(checked: &CheckedClaim, page: &mut ReportDocument) {
    page.heading(3, &checked.claim.name);
    let about = [&checked.claim.source, &checked.claim.date];
    let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
    if !about.is_empty() {
        page.styled_item("  ", about.join(", "), FAINT);
    }
    let mut checks: Vec<&ClaimCheck> = checked.checks.iter().collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    for check in checks {
        let style = verdict_style(check.verdict);
        let first = format!("  {:<11} ", check.verdict.word());
        page.styled_item(&first, &check.text, style);
        if let Some(remedy) = &check.remedy {
            page.styled_item(" ".repeat(first.len()), remedy, HINT);
        }
    }
    if checked.checks.is_empty() {
        page.paragraph("  nothing to compare: at least two related figures are needed");
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
