//! A case: the changes of paths between two periods.

use super::change_format::{self, METHOD_NOTE};
use super::{add_caveats, route_comparison};
use crate::plot;
use crate::render::document::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument};
use crate::render::number_format::{ABSENT, format_rate, or_absent};
use crate::render::watch_cost::agent_lines;
use longhaul_analysis::throughput::limiter_text::name_limiter;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::case::{CaseReport, PathCase, SettingCase};
use longhaul_model::report::v1::comparison::QuantityChange;
use longhaul_model::report::v1::event::QuantityLevel;
use longhaul_model::report::v1::quantity::PathQuantity;

/// Builds the document; `number_format` adds drawings.
pub fn build_case_document(case: &CaseReport, figures: bool) -> ReportDocument {
    let title = match case.paths.as_slice() {
        [path] => format!(
            "{}: before and after",
            change_format::format_pair(&path.pair)
        ),
        paths => format!("{} paths: before and after", paths.len()),
    };
    let mut document = ReportDocument {
        title,
        foot: format!("longhaul {} from its archive", case.longhaul),
        parts: Vec::new(),
    };
    let mut facts = vec![
        (
            String::from("before"),
            change_format::format_period(case.before),
        ),
        (
            String::from("after"),
            change_format::format_period(case.after),
        ),
    ];
    if let Some(event) = &case.event_id {
        facts.push((String::from("event"), event.clone()));
    }
    document.parts.push(DocumentPart::Facts(facts));
    add_caveats(&mut document, &case.caveats);
    add_summary(&mut document, case);
    for path in &case.paths {
        add_path(&mut document, case, path, figures);
    }
    document
}

/// Adds the throughput of every path, which comes first.
fn add_summary(document: &mut ReportDocument, case: &CaseReport) {
    document.heading(2, "Throughput before and after");
    let mut table = DocumentTable {
        columns: vec![
            ("path", ColumnAlign::Left),
            ("before", ColumnAlign::Right),
            ("after", ColumnAlign::Right),
            ("runs", ColumnAlign::Right),
            ("change", ColumnAlign::Right),
            ("verdict", ColumnAlign::Left),
        ],
        ..DocumentTable::default()
    };
    let goodputs = case.paths.iter().flat_map(|path| {
        let ours = path.changes.iter();
        ours.filter(|change| change.quantity == PathQuantity::Goodput)
    });
    for change in goodputs {
        if change_format::is_significant(change.verdict) {
            table.marked.push(table.rows.len());
        }
        let p = match change.p_adjusted {
            Some(p) => format!(", p {}", change_format::format_probability(Some(p))),
            None => String::new(),
        };
        table.rows.push(vec![
            change_format::format_pair(&change.pair),
            change_format::format_level(change.quantity, change.before.as_ref()),
            change_format::format_level(change.quantity, change.after.as_ref()),
            change_format::format_counts(change),
            change_format::format_change(change),
            format!("{}{p}", change_format::verdict_label(change.verdict)),
        ]);
    }
    if table.rows.is_empty() {
        document.paragraph("No bulk run is in the archive, in neither period.");
    } else {
        document.parts.push(DocumentPart::Table(table));
    }
    document.faint(METHOD_NOTE);
}

fn add_path(document: &mut ReportDocument, case: &CaseReport, path: &PathCase, figures: bool) {
    document.heading(2, change_format::format_pair(&path.pair));
    add_causes(document, path);
    for forward in [true, false] {
        let table = build_changes(path, forward);
        if !table.rows.is_empty() {
            let way = if forward { "forward" } else { "in reverse" };
            document.heading(3, format!("What was measured {way}"));
            document.parts.push(DocumentPart::Table(table));
        }
    }
    if !path.missing.is_empty() {
        document.note(format!("Not in the archive: {}.", path.missing.join("; ")));
    }
    if figures {
        for (svg, caption) in plot::draw_case_figures(case, path) {
            document.parts.push(DocumentPart::Drawing { svg, caption });
        }
    }
    for route in &path.routes {
        route_comparison::add_route_comparison(document, route);
    }
    add_settings(document, path);
    add_events(document, path);
}

fn add_causes(document: &mut ReportDocument, path: &PathCase) {
    document.heading(3, "What happened");
    if path.findings.is_empty() {
        let sure = path
            .changes
            .iter()
            .any(|c| change_format::is_significant(c.verdict));
        document.paragraph(if sure {
            "Something changed, and no cause was found in what was measured."
        } else {
            "No change is seen that chance alone would not make; so none is explained."
        });
    }
    for finding in &path.findings {
        add_cause(document, finding);
    }
    if !path.unchanged.is_empty() {
        document.paragraph("What stayed as it was:");
        document.list(path.unchanged.clone());
    }
}

fn add_cause(document: &mut ReportDocument, finding: &ReportFinding) {
    document.paragraph(format!(
        "{} ({}, {:.2} of 1).",
        finding.summary.trim_end_matches('.'),
        finding.cause.replace('_', " "),
        finding.confidence_ratio
    ));
    let mut lines: Vec<String> = Vec::new();
    lines.extend(finding.supports.iter().map(|line| format!("for: {line}")));
    lines.extend(
        finding
            .contradicts
            .iter()
            .map(|line| format!("against: {line}")),
    );
    for advice in &finding.advice {
        let command = advice.command.as_ref();
        let command = command.map_or_else(String::new, |command| format!(": {command}"));
        lines.push(format!(
            "to do at the {}: {}{command}",
            advice.place, advice.text
        ));
    }
    document.list(lines);
}

fn build_changes(path: &PathCase, forward: bool) -> DocumentTable {
    let mut table = new_change_table();
    let ours = path.changes.iter();
    for change in
        ours.filter(|change| (change.pair == path.pair) == forward && !is_zero_loss(change))
    {
        push_change_row(
            &mut table,
            change_format::quantity_label(change.quantity).to_owned(),
            change,
        );
    }
    table
}

/// Returns true if there is no loss before and after, which needs no row.
fn is_zero_loss(change: &QuantityChange) -> bool {
    let none = |level: Option<&QuantityLevel>| level.is_none_or(|level| level.median <= 0.0);
    let share = change.quantity.unit() == "ratio";
    let both = none(change.before.as_ref()) && none(change.after.as_ref());
    share && both && !change_format::is_significant(change.verdict)
}

/// Returns a table with the columns of changes and their tests.
pub fn new_change_table() -> DocumentTable {
    DocumentTable {
        columns: vec![
            ("quantity", ColumnAlign::Left),
            ("before", ColumnAlign::Right),
            ("after", ColumnAlign::Right),
            ("values", ColumnAlign::Right),
            ("change", ColumnAlign::Right),
            ("95 %", ColumnAlign::Right),
            ("p", ColumnAlign::Right),
        ],
        ..DocumentTable::default()
    }
}

pub fn push_change_row(table: &mut DocumentTable, what: String, change: &QuantityChange) {
    if change_format::is_significant(change.verdict) {
        table.marked.push(table.rows.len());
    }
    table.rows.push(vec![
        what,
        change_format::format_level(change.quantity, change.before.as_ref()),
        change_format::format_level(change.quantity, change.after.as_ref()),
        change_format::format_counts(change),
        change_format::format_change(change),
        change_format::format_change_interval(change),
        change_format::format_probability(change.p_adjusted),
    ]);
}

fn add_settings(document: &mut ReportDocument, path: &PathCase) {
    if path.settings.is_empty() {
        return;
    }
    document.heading(3, "Settings of bulk runs");
    let mut table = DocumentTable {
        columns: vec![
            ("streams x window", ColumnAlign::Left),
            ("runs", ColumnAlign::Right),
            ("before", ColumnAlign::Right),
            ("after", ColumnAlign::Right),
            ("limited by", ColumnAlign::Left),
        ],
        ..DocumentTable::default()
    };
    for case in &path.settings {
        let way = if case.pair == path.pair { "" } else { ", back" };
        table.rows.push(vec![
            format!("{}{way}", change_format::format_setting(&case.setting)),
            format!("{}/{}", case.run_counts[0], case.run_counts[1]),
            or_absent(case.before_bps, format_rate),
            or_absent(case.after_bps, format_rate),
            describe_limiters(case),
        ]);
    }
    document.parts.push(DocumentPart::Table(table));
    let in_both = |case: &SettingCase| case.run_counts.iter().all(|runs| *runs > 0);
    let only_once = path.settings.iter().filter(|case| !in_both(case)).count();
    if only_once > 0 && only_once < path.settings.len() {
        document.faint(
            "Of the throughput of both periods only runs are compared whose setting both periods have.",
        );
    } else if only_once > 0
        && (0..2).all(|side| path.settings.iter().any(|it| it.run_counts[side] > 0))
    {
        document.note(
            "No setting is in both periods: a change of throughput may be that of the settings.",
        );
    }
    if let Some(best) = &path.recommended {
        document.paragraph(format!(
            "A scan in the later period recommends {}, with {} (run {}).",
            change_format::format_setting(&best.setting),
            format_rate(best.goodput_bps),
            best.scan_id.as_deref().unwrap_or(ABSENT)
        ));
    }
}

fn describe_limiters(case: &SettingCase) -> String {
    let short = |limiter| name_limiter(limiter).trim_start_matches("the ");
    let told = [case.before_limited_by, case.after_limited_by].map(|l| l.map(short));
    match told {
        [Some(before), Some(after)] if before == after => before.to_owned(),
        [before, after] => {
            format!("{}; {}", before.unwrap_or(ABSENT), after.unwrap_or(ABSENT))
        }
    }
}

fn add_events(document: &mut ReportDocument, path: &PathCase) {
    if path.events.is_empty() {
        return;
    }
    document.heading(3, "Lasting changes that the agent found");
    let lines = path.events.iter().map(|event| {
        format!(
            "{} ({}, {})",
            agent_lines::format_event_headline(event),
            longhaul_analysis::event::format_time_span(event.between_us),
            event.id
        )
    });
    document.list(lines.collect());
}
