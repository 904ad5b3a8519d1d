//! An audit as text: limits, advice, changes and their effect.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    RateUnit, count_of, format_micros, format_rate, join_parts, non_empty, or_absent,
};
use crate::run_answer;
use crate::style::{CAVEAT, ERROR, FAINT};
use anstyle::Style;
use longhaul_analysis::audit::list_rules;
use longhaul_model::report::v1::HostReport;
use longhaul_model::report::v1::host::{
    AuditGrade, AuditObservation, AuditPath, AuditRemedy, AuditVerdict, ChangeEffect, ChangeProof,
    EffectiveSetting, SettingChange,
};
use longhaul_model::units::{Bytes, capitalize_first};

/// The maximum number of paths listed.
const MAX_PATHS: usize = 5;

pub fn build_host_document(report: &HostReport) -> ReportDocument {
    build_audit_document(report, false)
}

/// Renders an audit, either with every rule in full or with good and unknown rules summarized.
pub fn build_audit_document(report: &HostReport, all: bool) -> ReportDocument {
    let mut page = ReportDocument {
        title: format!("audit of {}", report.run.initiator.host),
        ..ReportDocument::for_run(&report.run)
    };
    run_answer::answer_audit(&mut page, report);
    write_setup(&mut page, &report.observation);
    write_paths(&mut page, &report.plan.paths);
    page.gap();
    let several = report.plan.paths.len() > 1;
    write_verdicts(&mut page, &report.analysis.verdicts, (all, several));
    page.details(|page| write_effective_settings(page, &report.observation.effective));
    write_changes(&mut page, &report.observation, report.analysis.proof.as_ref());
    page.caveats(&report.caveats);
    page
}

fn write_setup(page: &mut ReportDocument, observation: &AuditObservation) {
    let host = &observation.host;
    let reading = |name: &str| observation.readings.get(name);
    let speed = reading("interface.speed_bps").and_then(|text| text.parse().ok());
    let parts = [
        Some(host.kernel.clone()),
        Some(count_of(u64::from(host.cores), "core")),
        reading("interface.name").map(|name| format!("interface {name}")),
        speed.map(format_rate),
        reading("interface.mtu").map(|mtu| format!("MTU {mtu} bytes")),
    ];
    page.fact("host", join_parts(", ", parts));
}

fn write_paths(page: &mut ReportDocument, paths: &[AuditPath]) {
    let describe = |path: &AuditPath| {
        let from =
            if path.origin == "asked" { String::new() } else { format!(" ({})", path.origin) };
        let (rate, rtt) = (format_rate(path.rate_bps), format_micros(path.rtt_us));
        format!("{}: {rate} × {rtt}{from}", path.name)
    };
    page.facts("checked for", paths.iter().take(MAX_PATHS).map(describe));
    let more = paths.len().saturating_sub(MAX_PATHS);
    if more > 0 {
        let text = format!("and {}; --json lists all", count_of(more as u64, "more path"));
        page.fact("", &text);
    }
}

/// Writes the requested and actual settings of a live socket.
fn write_effective_settings(page: &mut ReportDocument, effective: &[EffectiveSetting]) {
    if effective.is_empty() {
        return;
    }
    page.gap();
    let (controls, others): (Vec<_>, Vec<_>) =
        effective.iter().partition(|entry| entry.what == "congestion_control");
    let describe = |entry: &&EffectiveSetting| {
        let verdict = if entry.granted { "" } else { ": NOT as requested" };
        let [asked, got] = [&entry.asked, &entry.got].map(|it| format_socket_value(entry, it));
        format!("{}: requested {asked}, got {got}{verdict}", entry.what.replace('_', " "))
    };
    page.facts("live socket", others.iter().map(describe));
    let names = |granted: bool| {
        let names = controls.iter().filter(|it| it.granted == granted).map(|it| it.asked.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let refused = non_empty(names(false)).map(|names| format!("refused: {names}"));
    let given = Some(format!("congestion controls: {}", names(true)));
    if !controls.is_empty() {
        page.fact("", join_parts("; ", [given, refused]));
    }
}

/// Formats a value of a live socket in its unit; text stays unchanged.
fn format_socket_value(entry: &EffectiveSetting, value: &str) -> String {
    let number: Option<u64> = value.parse().ok();
    match (entry.what.as_str(), number) {
        ("pacing", Some(bps)) => format_rate(bps),
        (_, Some(bytes)) => Bytes(bytes).to_string(),
        (_, None) => value.to_owned(),
    }
}

/// Width of the grade at the left.
const MARK: usize = 8;
const INDENT: &str = "        ";

/// Writes the verdicts, with every rule in full if `all`, and with the deciding path if there are
/// several.
fn write_verdicts(
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
    page.details(|page| {
        page.item(INDENT, format!("{}{on}", verdict.text));
        if matches!(verdict.grade, AuditGrade::Limits | AuditGrade::Advice) {
            for remedy in &verdict.remedies {
                write_remedy(page, remedy);
            }
        }
        if verdict.grade == AuditGrade::Limits {
            page.item(INDENT, format!("source: {}", verdict.source));
        }
    });
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
    page.details(|page| page.styled_item(format!("{word:<MARK$}"), &text, style));
}

fn write_changes(
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
