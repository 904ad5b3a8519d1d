//! The verdicts of an audit, the worst first.

use crate::document::ReportDocument;
use crate::number_format::count_of;
use crate::style::{CAVEAT, ERROR, FAINT};
use anstyle::Style;
use longhaul_analysis::audit::list_rules;
use longhaul_model::report::v1::host::{AuditGrade, AuditRemedy, AuditVerdict};

/// Width of the grade at the left.
const MARK: usize = 8;
const INDENT: &str = "        ";

/// Writes the verdicts, with every rule in full if `all`, and with the deciding path if there are
/// several.
pub fn write_verdicts(
    page: &mut ReportDocument,
    verdicts: &[AuditVerdict],
    (all, several): (bool, bool),
) {
    let of = |grade: AuditGrade| verdicts.iter().filter(move |v| v.grade == grade);
    for verdict in of(AuditGrade::Limits).chain(of(AuditGrade::Advice)) {
        write_verdict(page, verdict, several);
    }
    for (grade, meaning) in
        [(AuditGrade::Unknown, "could not be checked"), (AuditGrade::Good, "passed")]
    {
        if all {
            of(grade).for_each(|verdict| write_verdict(page, verdict, several));
        } else {
            write_folded(page, grade, meaning, &of(grade).collect::<Vec<_>>());
        }
    }
}

fn grade_mark(grade: AuditGrade) -> (&'static str, Style) {
    match grade {
        AuditGrade::Limits => ("LIMITS", ERROR),
        AuditGrade::Advice => ("advice", CAVEAT),
        AuditGrade::Good => ("ok", FAINT),
        AuditGrade::Unknown => ("?", FAINT),
    }
}

fn write_verdict(page: &mut ReportDocument, verdict: &AuditVerdict, several: bool) {
    let (word, style) = grade_mark(verdict.grade);
    let rule = list_rules().find(|rule| rule.name == verdict.rule);
    // A report of a later version may contain rules that this program does not know.
    let title = rule.map_or("", |rule| rule.title);
    let gap = if title.is_empty() { "" } else { ": " };
    let head = format!("{}{gap}{title}", verdict.rule);
    page.styled_item(format!("{word:<MARK$}"), head, style);
    let path = verdict.path.as_ref().filter(|_| several);
    let on = path.map_or_else(String::new, |path| format!(" [{path}]"));
    page.item(INDENT, format!("{}{on}", verdict.text));
    if matches!(verdict.grade, AuditGrade::Limits | AuditGrade::Advice) {
        for remedy in &verdict.remedies {
            write_remedy(page, remedy);
        }
    }
    if verdict.grade == AuditGrade::Limits {
        page.item(INDENT, format!("source: {}", verdict.source));
    }
}

fn write_remedy(page: &mut ReportDocument, remedy: &AuditRemedy) {
    let by = if remedy.name.is_some() { " (--apply sets it)" } else { "" };
    page.item("        -> ", format!("{}{by}", remedy.text));
    if let Some(command) = &remedy.command {
        page.command(command);
    }
}

fn write_folded(
    page: &mut ReportDocument,
    grade: AuditGrade,
    meaning: &str,
    verdicts: &[&AuditVerdict],
) {
    if verdicts.is_empty() {
        return;
    }
    let (word, style) = grade_mark(grade);
    let names: Vec<&str> = verdicts.iter().map(|v| v.rule.as_str()).collect();
    let count = count_of(names.len() as u64, "rule");
    let text = format!("{count} {meaning}: {}", names.join(", "));
    page.styled_item(format!("{word:<MARK$}"), &text, style);
}
