//! A case: the changes of paths between two periods.

use super::words::{self, METHOD};
use super::{caveats, routes};
use crate::plot;
use crate::render::document::{Align, Document, Part, Table};
use crate::render::figures::{ABSENT, or_absent, rate};
use crate::render::watch::lines;
use longhaul_analysis::throughput::words::name;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::case::{Case, PathCase, SettingCase};
use longhaul_model::report::v1::comparison::Change;
use longhaul_model::report::v1::event::Level;
use longhaul_model::report::v1::quantity::Quantity;

/// Builds the document; `figures` adds drawings.
pub fn document(case: &Case, figures: bool) -> Document {
    let title = match case.paths.as_slice() {
        [path] => format!("{}: before and after", words::pair(&path.pair)),
        paths => format!("{} paths: before and after", paths.len()),
    };
    let mut document = Document {
        title,
        foot: format!("longhaul {} from its archive", case.longhaul),
        parts: Vec::new(),
    };
    let mut facts = vec![
        (String::from("before"), words::period(case.before)),
        (String::from("after"), words::period(case.after)),
    ];
    if let Some(event) = &case.event_id {
        facts.push((String::from("event"), event.clone()));
    }
    document.parts.push(Part::Facts(facts));
    caveats(&mut document, &case.caveats);
    summary(&mut document, case);
    for path in &case.paths {
        one(&mut document, case, path, figures);
    }
    document
}

/// Adds the throughput of every path, which comes first.
fn summary(document: &mut Document, case: &Case) {
    document.heading(2, "Throughput before and after");
    let mut table = Table {
        columns: vec![
            ("path", Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("runs", Align::Right),
            ("change", Align::Right),
            ("verdict", Align::Left),
        ],
        ..Table::default()
    };
    let goodputs = case.paths.iter().flat_map(|path| {
        let ours = path.changes.iter();
        ours.filter(|change| change.quantity == Quantity::Goodput)
    });
    for change in goodputs {
        if words::is_sure(change.verdict) {
            table.marked.push(table.rows.len());
        }
        let p = match change.p_adjusted {
            Some(p) => format!(", p {}", words::probability(Some(p))),
            None => String::new(),
        };
        table.rows.push(vec![
            words::pair(&change.pair),
            words::level(change.quantity, change.before.as_ref()),
            words::level(change.quantity, change.after.as_ref()),
            words::counts(change),
            words::size(change),
            format!("{}{p}", words::verdict(change.verdict)),
        ]);
    }
    if table.rows.is_empty() {
        document.paragraph("No bulk run is in the archive, in neither period.");
    } else {
        document.parts.push(Part::Table(table));
    }
    document.faint(METHOD);
}

fn one(document: &mut Document, case: &Case, path: &PathCase, figures: bool) {
    document.heading(2, words::pair(&path.pair));
    causes(document, path);
    for forward in [true, false] {
        let table = changes(path, forward);
        if !table.rows.is_empty() {
            let way = if forward { "forward" } else { "in reverse" };
            document.heading(3, format!("What was measured {way}"));
            document.parts.push(Part::Table(table));
        }
    }
    if !path.missing.is_empty() {
        document.note(format!("Not in the archive: {}.", path.missing.join("; ")));
    }
    if figures {
        for (svg, caption) in plot::case_figures(case, path) {
            document.parts.push(Part::Drawing { svg, caption });
        }
    }
    for route in &path.routes {
        routes::write(document, route);
    }
    settings(document, path);
    events(document, path);
}

fn causes(document: &mut Document, path: &PathCase) {
    document.heading(3, "What happened");
    if path.findings.is_empty() {
        let sure = path.changes.iter().any(|c| words::is_sure(c.verdict));
        document.paragraph(if sure {
            "Something changed, and no cause was found in what was measured."
        } else {
            "No change is seen that chance alone would not make; so none is explained."
        });
    }
    for finding in &path.findings {
        cause(document, finding);
    }
    if !path.unchanged.is_empty() {
        document.paragraph("What stayed as it was:");
        document.list(path.unchanged.clone());
    }
}

fn cause(document: &mut Document, finding: &Finding) {
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

fn changes(path: &PathCase, forward: bool) -> Table {
    let mut table = change_table();
    let ours = path.changes.iter();
    for change in ours.filter(|change| (change.pair == path.pair) == forward && !is_nothing(change))
    {
        row(
            &mut table,
            words::quantity(change.quantity).to_owned(),
            change,
        );
    }
    table
}

/// Returns true if there is no loss before and after, which needs no row.
fn is_nothing(change: &Change) -> bool {
    let none = |level: Option<&Level>| level.is_none_or(|level| level.median <= 0.0);
    let share = change.quantity.unit() == "ratio";
    let both = none(change.before.as_ref()) && none(change.after.as_ref());
    share && both && !words::is_sure(change.verdict)
}

/// Returns a table with the columns of changes and their tests.
pub fn change_table() -> Table {
    Table {
        columns: vec![
            ("quantity", Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("values", Align::Right),
            ("change", Align::Right),
            ("95 %", Align::Right),
            ("p", Align::Right),
        ],
        ..Table::default()
    }
}

pub fn row(table: &mut Table, what: String, change: &Change) {
    if words::is_sure(change.verdict) {
        table.marked.push(table.rows.len());
    }
    table.rows.push(vec![
        what,
        words::level(change.quantity, change.before.as_ref()),
        words::level(change.quantity, change.after.as_ref()),
        words::counts(change),
        words::size(change),
        words::interval(change),
        words::probability(change.p_adjusted),
    ]);
}

fn settings(document: &mut Document, path: &PathCase) {
    if path.settings.is_empty() {
        return;
    }
    document.heading(3, "Settings of bulk runs");
    let mut table = Table {
        columns: vec![
            ("streams x window", Align::Left),
            ("runs", Align::Right),
            ("before", Align::Right),
            ("after", Align::Right),
            ("limited by", Align::Left),
        ],
        ..Table::default()
    };
    for case in &path.settings {
        let way = if case.pair == path.pair { "" } else { ", back" };
        table.rows.push(vec![
            format!("{}{way}", words::setting(&case.setting)),
            format!("{}/{}", case.run_counts[0], case.run_counts[1]),
            or_absent(case.before_bps, rate),
            or_absent(case.after_bps, rate),
            limits(case),
        ]);
    }
    document.parts.push(Part::Table(table));
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
            words::setting(&best.setting),
            rate(best.goodput_bps),
            best.scan_id.as_deref().unwrap_or(ABSENT)
        ));
    }
}

fn limits(case: &SettingCase) -> String {
    let short = |limiter| name(limiter).trim_start_matches("the ");
    let told = [case.before_limited_by, case.after_limited_by].map(|l| l.map(short));
    match told {
        [Some(before), Some(after)] if before == after => before.to_owned(),
        [before, after] => {
            format!("{}; {}", before.unwrap_or(ABSENT), after.unwrap_or(ABSENT))
        }
    }
}

fn events(document: &mut Document, path: &PathCase) {
    if path.events.is_empty() {
        return;
    }
    document.heading(3, "Lasting changes that the agent found");
    let lines = path.events.iter().map(|event| {
        format!(
            "{} ({}, {})",
            lines::headline(event),
            longhaul_analysis::event::span(event.between_us),
            event.id
        )
    });
    document.list(lines.collect());
}
