//! A record, and the result of verifying a bundle, as text.
//!
//! - [`record_page`]: the record as an HTML page; [`record_evidence`], [`round_trip_lines`]: texts of the bundle

pub mod record_evidence;
pub mod record_page;
pub mod round_trip_lines;

use super::number_format::{format_grouped, format_rate};
use super::style::{CAVEAT, ERROR, FAINT, STRONG};
use super::text_page::TextPage;
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
    if seen.forward {
        (initiator, responder)
    } else {
        (responder, initiator)
    }
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
pub fn replace_underscores(of_data: &str) -> String {
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

pub fn render_record(record: &SpeedRecord, place: &Path, files: usize) -> String {
    let mut page = TextPage::default();
    page.heading(&record_title(record));
    for (label, value) in list_figures(record) {
        let style = match label {
            "Score" => STRONG,
            "Light in fibre" if value.starts_with("impossible") => ERROR,
            _ => anstyle::Style::new(),
        };
        page.label_line_styled(label, &value, style);
    }
    page.blank();
    page.heading(&format!("Rules of {}", record.analysis.rules));
    page.hanging_paragraph_styled("  ", &record.analysis.standing, FAINT);
    for check in &record.analysis.checks {
        write_rule(check, &mut page);
    }
    super::throughput_text::write_caveats(&mut page, &record.caveats);
    page.blank();
    page.label_line("Bundle", &format!("{}, {files} files", place.display()));
    page.finish()
}

fn write_rule(check: &RuleCheck, page: &mut TextPage) {
    let style = match check.verdict {
        RuleVerdict::Holds => anstyle::Style::new(),
        RuleVerdict::Fails => ERROR,
        RuleVerdict::CannotTell | RuleVerdict::Declare => CAVEAT,
    };
    let first = format!("  {:<12} ", check.verdict.label());
    let clause = check.clause.as_ref();
    let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
    let text = format!("{}{clause}: {}", check.rule, check.text);
    page.hanging_paragraph_styled(&first, &text, style);
    let source = format!(
        "{}: {}",
        replace_underscores(&check.confidence),
        check.source
    );
    page.hanging_paragraph_styled(&" ".repeat(15), &source, FAINT);
}

/// Renders the result of `record verify`.
pub fn render_verified(folder: &Path, found: &BundleVerification) -> String {
    let mut page = TextPage::default();
    let sound = found.differs.is_empty();
    let verdict = if sound { "unchanged" } else { "CHANGED" };
    page.heading(&format!("{}: {verdict}", folder.display()));
    for (what, why) in &found.differs {
        // File names in the folder are untrusted.
        let what: String = what.chars().take(100).map(sanitize_char).collect();
        page.hanging_paragraph_styled("  differs   ", &format!("{what}: {why}"), ERROR);
    }
    for text in &found.agrees {
        page.hanging_paragraph("  agrees    ", text);
    }
    if sound {
        let files = super::number_format::count_of(found.files as u64, "file");
        let text =
            format!("{files} with the lengths and SHA-256 sums of the manifest; no file was added");
        page.hanging_paragraph("  agrees    ", &text);
    }
    match &found.signed_by {
        Some(key) => {
            page.hanging_paragraph("  signed    ", &format!("by {key}"));
            let text =
                "this identifies the author only if you trust the key; check it with `--key`";
            page.hanging_paragraph_styled("            ", text, FAINT);
        }
        None => {
            page.hanging_paragraph_styled("  unsigned  ", "the author is not authenticated", FAINT);
        }
    }
    page.finish()
}

fn sanitize_char(c: char) -> char {
    super::html_page::replace_control_char(c, '\u{fffd}')
}
