//! A record, and the result of verifying a bundle, as text.
//!
//! - [`record_page`]: the record as an HTML page; [`record_evidence`]: texts of the bundle

pub mod record_evidence;
pub mod record_page;

use crate::document::ReportDocument;
use crate::number_format::{format_grouped, format_rate};
use crate::style::{CAVEAT, ERROR, FAINT, STRONG};
use longhaul_record::bundle_verification::BundleVerification;
use longhaul_record::speed_record::{
    RecordAnalysis, RecordObservation, RuleCheck, RuleVerdict, SpeedRecord, format_kilometres,
    format_mark,
};
use std::path::Path;

/// Returns the title: `San Jose to Lulea`, or the hosts.
pub fn record_title(record: &SpeedRecord) -> String {
    if let Some(name) = &record.about.name {
        return name.clone();
    }
    let seen = &record.observation;
    if let (Some(first), Some(last)) = (seen.stops.first(), seen.stops.last()) {
        return format!("{} to {}", first.city, last.city);
    }
    let (from, to) = sender_and_receiver(seen);
    format!("{from} to {to}")
}

/// Returns sender and receiver.
pub fn sender_and_receiver(seen: &RecordObservation) -> (&str, &str) {
    let (initiator, responder) = (&seen.initiator.host, &seen.responder.host);
    if seen.forward { (initiator, responder) } else { (responder, initiator) }
}

/// Describes the class.
pub fn describe_class(found: &RecordAnalysis) -> String {
    match &found.class {
        Some(class) => class.replace("ipv", "IPv").replace('_', " "),
        None => "none: classes exist only for TCP over a known IP version".to_owned(),
    }
}

/// Returns the label and value of each figure.
pub fn list_figures(record: &SpeedRecord) -> Vec<(&'static str, String)> {
    let (seen, found) = (&record.observation, &record.analysis);
    let (from, to) = sender_and_receiver(seen);
    let mut figures = Vec::new();
    if let Some(made) = found.mark_bit_m_per_s {
        let exact = format!("{} ({made:.0} bit·m/s)", format_mark(made));
        figures.push(("Score", exact));
    }
    figures.push(("Class", describe_class(found)));
    figures.push(("Data", format!("{from} to {to}, {}", seen.started_at)));
    let seconds = seen.elapsed_us as f64 / 1e6;
    figures.push((
        "Transfer",
        format!(
            "{} bytes in {seconds:.6} s over {}: {}",
            format_grouped(seen.received_bytes),
            super::number_format::count_of(u64::from(seen.streams), "stream"),
            format_rate(found.goodput_bps),
        ),
    ));
    if let (Some(mm), Some(sphere)) = (found.distance_mm, found.distance_sphere_mm) {
        let legs = super::number_format::count_of(found.legs.len() as u64, "leg");
        let text = format!(
            "{} in {legs} on WGS84, by the legs file; {} on the sphere",
            format_kilometres(mm),
            format_kilometres(sphere)
        );
        figures.push(("Distance", text));
    }
    figures.extend(describe_light(seen, found).map(|text| ("Light in fibre", text)));
    if let Some(beside) = &found.beside {
        let text = format!(
            "{:+.1} % compared with {} of {} ({}, {})",
            100.0 * beside.gain_ratio,
            format_mark(beside.mark_bit_m_per_s),
            beside.name,
            beside.source,
            replace_underscores(&beside.confidence),
        );
        figures.push(("Best known", text));
    }
    figures
}

/// Replaces underscores in words of the data.
fn replace_underscores(of_data: &str) -> String {
    of_data.replace('_', " ")
}

fn describe_light(seen: &RecordObservation, found: &RecordAnalysis) -> Option<String> {
    let (light, rtt_ns) = (found.light?, seen.rtt_min_ns?);
    let (least, rtt) = (light.least_rtt_ns as f64 / 1e6, rtt_ns as f64 / 1e6);
    let by = seen.rtt_by.as_deref().unwrap_or("measured");
    Some(if light.possible {
        format!(
            "round trip {least:.3} ms; the RTT is {rtt:.3} ms, {:.2} times that ({by})",
            light.stretch_ratio
        )
    } else {
        format!("impossible: a round trip takes {least:.3} ms, but the RTT is {rtt:.3} ms ({by})")
    })
}

pub fn build_record_document(record: &SpeedRecord, place: &Path, files: usize) -> ReportDocument {
    let mut page = ReportDocument { title: record_title(record), ..ReportDocument::default() };
    for (label, value) in list_figures(record) {
        let style = match label {
            "Score" => STRONG,
            "Light in fibre" if value.starts_with("impossible") => ERROR,
            _ => anstyle::Style::new(),
        };
        page.styled_fact(label, &value, style);
    }
    page.gap();
    page.heading(3, format!("Rules of {}", record.analysis.rules));
    page.styled_item("  ", &record.analysis.standing, FAINT);
    for check in &record.analysis.checks {
        write_rule(check, &mut page);
    }
    page.caveats(&record.caveats);
    page.gap();
    page.fact("Bundle", format!("{}, {files} files", place.display()));
    page
}

pub fn write_rule(check: &RuleCheck, page: &mut ReportDocument) {
    let style = match check.verdict {
        RuleVerdict::Holds => anstyle::Style::new(),
        RuleVerdict::Fails => ERROR,
        RuleVerdict::CannotTell | RuleVerdict::Declare => CAVEAT,
    };
    let first = format!("  {:<12} ", check.verdict.label());
    let clause = check.clause.as_ref();
    let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
    let text = format!("{}{clause}: {}", check.rule, check.text);
    page.styled_item(&first, &text, style);
    let source = format!("{}: {}", replace_underscores(&check.confidence), check.source);
    page.styled_item(" ".repeat(15), &source, FAINT);
}

/// Renders the result of `record verify`.
pub fn build_verification_document(folder: &Path, found: &BundleVerification) -> ReportDocument {
    let mut page = ReportDocument::default();
    let sound = found.differs.is_empty();
    let verdict = if sound { "unchanged" } else { "CHANGED" };
    page.heading(3, format!("{}: {verdict}", folder.display()));
    for (what, why) in &found.differs {
        let what: String = what.chars().take(100).collect();
        page.styled_item("  differs   ", format!("{what}: {why}"), ERROR);
    }
    for text in &found.agrees {
        page.item("  agrees    ", text);
    }
    if sound {
        let files = super::number_format::count_of(found.files as u64, "file");
        let text =
            format!("{files} with the lengths and SHA-256 sums of the manifest; no file was added");
        page.item("  agrees    ", &text);
    }
    match &found.signed_by {
        Some(key) => {
            page.item("  signed    ", format!("by {key}"));
            let text =
                "this identifies the author only if you trust the key; check it with `--key`";
            page.styled_item("            ", text, FAINT);
        }
        None => {
            page.styled_item("  unsigned  ", "the author is not authenticated", FAINT);
        }
    }
    page
}
