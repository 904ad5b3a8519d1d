//! A case: the changes of paths between two periods.

use super::change_format::{self, METHOD_NOTE};
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{ABSENT, count_of, format_rate, join_parts, or_absent};
use crate::scan_text::setting_format::format_setting;
use crate::{plot, summary_lines};
use longhaul_analysis::path::path_format::format_hop_change;
use longhaul_analysis::throughput::name_limiter;
use longhaul_history::event::pair_hops;
use longhaul_model::report::v1::case::{CaseReport, PathCase, RouteCase, SettingCase, TracedRoute};
use longhaul_model::report::v1::path::{ObservedHop, RouteChangeKind, RouteDifference};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeVerdict, QuantityChange, QuantityLevel};
use longhaul_model::units::capitalize_first;

/// Builds the document.
pub fn build_case_document(case: &CaseReport) -> ReportDocument {
    let title = match case.paths.as_slice() {
        [path] => format!("{}: before and after", change_format::format_pair(&path.pair)),
        paths => format!("{} paths: before and after", paths.len()),
    };
    let mut document = ReportDocument::from_archive(title, &case.longhaul);
    document.fact("before", change_format::format_period(case.before));
    document.fact("after", change_format::format_period(case.after));
    document.facts("event", &case.event_id);
    document.caveats(&case.caveats);
    add_summary(&mut document, case);
    for path in &case.paths {
        add_path(&mut document, case, path);
    }
    document.heading(2, "Method");
    document.faint(METHOD_NOTE);
    document
}

/// Adds the throughput of every path, which comes first.
fn add_summary(document: &mut ReportDocument, case: &CaseReport) {
    document.heading(2, "Throughput before and after");
    let goodputs = case.paths.iter().flat_map(|path| {
        let ours = path.changes.iter();
        ours.filter(|change| change.quantity == PathQuantity::Goodput)
    });
    let verdict = |change: &QuantityChange| {
        let p = |p| format!("p {}", change_format::format_probability(Some(p)));
        let label = change_format::verdict_label(change.verdict).to_owned();
        join_parts(", ", [Some(label), change.p_adjusted.map(p)])
    };
    let table = DocumentTable::from_rows(goodputs)
        .text("path", |change| change_format::format_pair(&change.pair))
        .number("before", |it| change_format::format_level(it.quantity, it.before.as_ref()))
        .number("after", |it| change_format::format_level(it.quantity, it.after.as_ref()))
        .number("runs", change_format::format_counts)
        .number("change", change_format::format_tested_change)
        .text("verdict", verdict)
        .mark_rows(|it| change_format::is_significant(it.verdict))
        .details(change_format::describe_few_values)
        .finish();
    if table.rows.is_empty() {
        document.paragraph("The archive has no bulk run in either period.");
    } else {
        document.table(table);
    }
}

fn add_path(document: &mut ReportDocument, case: &CaseReport, path: &PathCase) {
    document.heading(2, change_format::format_pair(&path.pair));
    add_causes(document, path);
    for forward in [true, false] {
        let table = build_changes(path, forward);
        if !table.rows.is_empty() {
            let way = if forward { "forward" } else { "reverse" };
            document.heading(3, format!("Measurements, {way}"));
            document.table(table);
        }
    }
    if !path.missing.is_empty() {
        document.note(format!("Not in the archive: {}.", path.missing.join("; ")));
    }
    document.drawings(plot::draw_case_figures(case, path));
    for route in &path.routes {
        add_route_comparison(document, route);
    }
    add_settings(document, path);
    add_events(document, path);
}

fn add_causes(document: &mut ReportDocument, path: &PathCase) {
    document.heading(3, "Findings");
    if path.findings.is_empty() {
        document.paragraph(explain_missing_cause(path));
    }
    document.findings(&path.findings);
    if !path.unchanged.is_empty() {
        document.paragraph("Unchanged:");
        document.list(path.unchanged.clone());
    }
}

/// Returns why a path has no cause.
fn explain_missing_cause(path: &PathCase) -> String {
    let verdicts = || path.changes.iter().map(|change| change.verdict);
    if verdicts().any(change_format::is_significant) {
        return String::from("Significant change; the measurements show no cause.");
    }
    let tested = verdicts().any(|verdict| verdict == ChangeVerdict::NoChangeSeen);
    match path.changes.iter().find_map(change_format::describe_few_values) {
        Some(text) if !tested => format!("{}.", capitalize_first(&text)),
        _ => String::from("No significant change; no cause is reported."),
    }
}

fn build_changes(path: &PathCase, forward: bool) -> DocumentTable {
    let ours = path.changes.iter();
    build_change_table(
        ours.filter(|change| (change.pair == path.pair) == forward && !is_zero_loss(change)),
        change_format::format_tested_change,
    )
}

/// Returns true if there is no loss before and after, which needs no row.
fn is_zero_loss(change: &QuantityChange) -> bool {
    let none = |level: Option<&QuantityLevel>| level.is_none_or(|level| level.median <= 0.0);
    let share = change.quantity.unit() == "ratio";
    let both = none(change.before.as_ref()) && none(change.after.as_ref());
    share && both && !change_format::is_significant(change.verdict)
}

/// Returns a table of changes and their tests.
pub fn build_change_table<'c>(
    changes: impl Iterator<Item = &'c QuantityChange>,
    format_change: fn(&QuantityChange) -> String,
) -> DocumentTable {
    let quantity =
        |change: &QuantityChange| change_format::quantity_label(change.quantity).to_owned();
    DocumentTable::from_rows(changes)
        .text("quantity", quantity)
        .number("before", |it| change_format::format_level(it.quantity, it.before.as_ref()))
        .number("after", |it| change_format::format_level(it.quantity, it.after.as_ref()))
        .number("values", change_format::format_counts)
        .number("change", format_change)
        .number("95 %", change_format::format_change_interval)
        .number("p", |it| change_format::format_probability(it.p_adjusted))
        .mark_rows(|it| change_format::is_significant(it.verdict))
        .finish()
}

fn add_settings(document: &mut ReportDocument, path: &PathCase) {
    if path.settings.is_empty() {
        return;
    }
    document.heading(3, "Settings of bulk runs");
    let setting = |case: &SettingCase| {
        let way = if case.pair == path.pair { "" } else { ", reverse" };
        format!("{}{way}", format_setting(&case.setting))
    };
    document.table(
        DocumentTable::from_rows(&path.settings)
            .text("streams x window", setting)
            .number("runs", |it| format!("{}/{}", it.run_counts[0], it.run_counts[1]))
            .number("before", |it| or_absent(it.before_bps, format_rate))
            .number("after", |it| or_absent(it.after_bps, format_rate))
            .text("limited by", describe_limiters)
            .finish(),
    );
    let in_both = |case: &SettingCase| case.run_counts.iter().all(|runs| *runs > 0);
    let only_once = path.settings.iter().filter(|case| !in_both(case)).count();
    if only_once > 0 && only_once < path.settings.len() {
        document.faint(
            "Throughput is compared only between runs with settings that occur in both periods.",
        );
    } else if only_once > 0
        && (0..2).all(|side| path.settings.iter().any(|it| it.run_counts[side] > 0))
    {
        document.note(
            "No setting occurs in both periods: the settings may have changed the throughput.",
        );
    }
    if let Some(best) = &path.recommended {
        document.paragraph(format!(
            "A scan in the later period recommends {}, with {} (run {}).",
            format_setting(&best.setting),
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
    document.heading(3, "Lasting changes detected by the agent");
    let lines = path.events.iter().map(|event| {
        format!(
            "{} ({}, {})",
            summary_lines::format_event_headline(event),
            longhaul_history::event::format_time_span(event.between_us),
            event.id
        )
    });
    document.list(lines);
}

pub fn add_route_comparison(document: &mut ReportDocument, case: &RouteCase) {
    document.heading(3, format!("Route {}", change_format::format_pair(&case.pair)));
    let seen = |route: Option<&TracedRoute>| {
        route.map_or_else(|| String::from("not traced"), describe_traced_route)
    };
    document.fact("before", seen(case.before.as_ref()));
    document.fact("after", seen(case.after.as_ref()));
    match (&case.before, &case.after, &case.change) {
        (Some(before), Some(after), Some(change)) => {
            document.paragraph(describe_difference(change));
            if change.kind > RouteChangeKind::SilentHop {
                document.table(build_route_table(before, after, change));
            }
        }
        (Some(one), None, _) | (None, Some(one), _) => {
            let lines = one.route.hops.iter().map(|hop| format_hop(Some(hop)));
            document.verbatim(lines.collect::<Vec<_>>().join("\n"));
        }
        _ => {}
    }
}

fn describe_traced_route(traced: &TracedRoute) -> String {
    let route = &traced.route;
    let [of_it, all] = traced.run_counts;
    let end = if route.reached { "" } else { ", destination not reached" };
    format!(
        "{}{end}; seen in {of_it} of {}, shown as of {}",
        count_of(route.hops.len() as u64, "hop"),
        count_of(u64::from(all), "trace"),
        change_format::format_moment(traced.at_us)
    )
}

fn describe_difference(change: &RouteDifference) -> String {
    if change.kind <= RouteChangeKind::SilentHop {
        return String::from("Same route before and after, as far as hops answered.");
    }
    let parts: Vec<String> = change.ranges.iter().map(format_hop_change).collect();
    if parts.is_empty() {
        return String::from("Only the answers of one router differ.");
    }
    format!("Differences: {}.", parts.join(", "))
}

fn build_route_table(
    before: &TracedRoute,
    after: &TracedRoute,
    change: &RouteDifference,
) -> DocumentTable {
    DocumentTable::from_rows(pair_hops(&before.route, &after.route, &change.ranges))
        .text("", |(differs, _, _)| if differs { "*" } else { "" }.to_owned())
        .text("before", |(_, old, _)| format_hop(old))
        .text("after", |(_, _, new)| format_hop(new))
        .mark_rows(|(differs, _, _)| differs)
        .finish()
}

/// Formats a hop: `4 router.example.net`.
fn format_hop(hop: Option<&ObservedHop>) -> String {
    let Some(hop) = hop else {
        return String::new();
    };
    let name = hop
        .answers
        .first()
        .map_or("(silent)", |answer| answer.name.as_deref().unwrap_or(&answer.address));
    format!("{:>2} {name}", hop.ttl)
}
