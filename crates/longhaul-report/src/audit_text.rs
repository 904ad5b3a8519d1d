//! An audit as text: limits, advice, changes and their effect.

mod audit_changes;
mod audit_verdicts;

use crate::document::ReportDocument;
use crate::number_format::{count_of, format_micros, format_rate, join_parts, non_empty};
pub use audit_changes::build_reverted_document;

use longhaul_model::report::v1::HostReport;
use longhaul_model::report::v1::host::{AuditObservation, AuditPath, EffectiveSetting};
use longhaul_model::units::Bytes;

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
    write_setup(&mut page, &report.observation);
    write_paths(&mut page, &report.plan.paths);
    page.gap();
    let several = report.plan.paths.len() > 1;
    audit_verdicts::write_verdicts(&mut page, &report.analysis.verdicts, (all, several));
    write_effective_settings(&mut page, &report.observation.effective);
    audit_changes::write_changes(&mut page, &report.observation, report.analysis.proof.as_ref());
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
