//! The verdicts of an audit, the worst first.

use crate::render::figures::count_of;
use crate::render::page::{Page, wrap};
use crate::render::style::{CAVEAT, ERROR, FAINT, STRONG, paint};
use anstyle::Style;
use longhaul_analysis::audit::rules;
use longhaul_model::report::v1::host::{Grade, Remedy, Verdict};

/// Width of the grade at the left.
const MARK: usize = 8;

/// Writes the verdicts, with every rule in full if `all`, and with the deciding path if there are
/// several.
pub fn block(page: &mut Page, verdicts: &[Verdict], (all, several): (bool, bool)) {
    let of = |grade: Grade| verdicts.iter().filter(move |v| v.grade == grade);
    for verdict in of(Grade::Limits).chain(of(Grade::Advice)) {
        full(page, verdict, several);
    }
    if all {
        of(Grade::Unknown)
            .chain(of(Grade::Good))
            .for_each(|verdict| full(page, verdict, several));
        return;
    }
    folded(
        page,
        Grade::Unknown,
        "not to be told",
        &of(Grade::Unknown).collect::<Vec<_>>(),
    );
    folded(
        page,
        Grade::Good,
        "good",
        &of(Grade::Good).collect::<Vec<_>>(),
    );
}

fn mark(grade: Grade) -> (&'static str, Style) {
    match grade {
        Grade::Limits => ("LIMITS", ERROR),
        Grade::Advice => ("advice", CAVEAT),
        Grade::Good => ("ok", FAINT),
        Grade::Unknown => ("?", FAINT),
    }
}

fn full(page: &mut Page, verdict: &Verdict, several: bool) {
    let (word, style) = mark(verdict.grade);
    let rule = rules().find(|rule| rule.name == verdict.rule);
    // A report of a later version may contain rules that this program does not know.
    let title = rule.map_or("", |rule| rule.title);
    let head = paint(style, format!("{word:<MARK$}"));
    let name = paint(STRONG, &verdict.rule);
    let gap = if title.is_empty() { "" } else { ": " };
    page.line(&format!("{head}{name}{gap}{title}"));
    let path = verdict.path.as_ref().filter(|_| several);
    let on = path.map_or_else(String::new, |path| format!(" [{path}]"));
    indented(page, MARK, &format!("{}{on}", verdict.text));
    if matches!(verdict.grade, Grade::Limits | Grade::Advice) {
        for remedy in &verdict.remedies {
            mend(page, remedy);
        }
    }
    if verdict.grade == Grade::Limits {
        indented(page, MARK, &format!("source: {}", verdict.source));
    }
}

fn mend(page: &mut Page, remedy: &Remedy) {
    let by = if remedy.name.is_some() {
        " (--apply writes it)"
    } else {
        ""
    };
    indented(page, MARK, &format!("-> {}{by}", remedy.text));
    if let Some(command) = &remedy.command {
        page.command(MARK + 3, command);
    }
}

fn indented(page: &mut Page, columns: usize, text: &str) {
    for line in wrap(text, crate::render::page::WIDTH - columns) {
        page.line(&format!("{:columns$}{line}", ""));
    }
}

fn folded(page: &mut Page, grade: Grade, meaning: &str, verdicts: &[&Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    let (word, style) = mark(grade);
    let names: Vec<&str> = verdicts.iter().map(|v| v.rule.as_str()).collect();
    let count = count_of(names.len() as u64, "rule");
    let text = format!("{count} {meaning}: {}", names.join(", "));
    page.hanging_in(&format!("{word:<MARK$}"), &text, style);
}
