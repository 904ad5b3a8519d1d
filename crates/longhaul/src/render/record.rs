//! A record, and the result of verifying a bundle, as text.
//!
//! - [`mod@page`]: the record as an HTML page; [`evidence`], [`series`]: texts of the bundle

pub mod evidence;
pub mod page;
pub mod series;

use super::figures::{grouped, rate};
use super::page::Page;
use super::style::{CAVEAT, ERROR, FAINT, STRONG};
use crate::cli::record::verify::Verified;
use longhaul_model::report::v1::record::{Analysis, Observation, Record, RuleCheck, RuleVerdict};
use std::path::Path;

/// Formats a mark in the unit of the contest's later years, with as many digits as the claims have.
pub fn mark(bit_m_per_s: f64) -> String {
    let tera = bit_m_per_s / 1e12;
    if tera >= 1e5 {
        format!("{:.3} Pb·m/s", tera / 1e3)
    } else {
        format!("{tera:.3} Tb·m/s")
    }
}

pub fn kilometres(mm: u64) -> String {
    format!("{:.3} km", mm as f64 / 1e6)
}

/// Returns the title: `San Jose to Lulea`, or the hosts.
pub fn title(record: &Record) -> String {
    if let Some(name) = &record.about.name {
        return name.clone();
    }
    let seen = &record.observation;
    if let (Some(first), Some(last)) = (seen.stops.first(), seen.stops.last()) {
        return format!("{} to {}", first.city, last.city);
    }
    let (from, to) = hosts(seen);
    format!("{from} to {to}")
}

/// Returns sender and receiver.
pub fn hosts(seen: &Observation) -> (&str, &str) {
    let (initiator, responder) = (&seen.initiator.host, &seen.responder.host);
    if seen.forward {
        (initiator, responder)
    } else {
        (responder, initiator)
    }
}

/// Describes the class.
pub fn class(found: &Analysis) -> String {
    match &found.class {
        Some(class) => class.replace("ipv", "IPv").replace('_', " "),
        None => "none: only TCP over a known IP version has one".to_owned(),
    }
}

/// Returns the label and value of each figure.
pub fn figures(record: &Record) -> Vec<(&'static str, String)> {
    let (seen, found) = (&record.observation, &record.analysis);
    let (from, to) = hosts(seen);
    let mut figures = Vec::new();
    if let Some(made) = found.mark_bit_m_per_s {
        let exact = format!("{} ({made:.0} bit·m/s)", mark(made));
        figures.push(("Mark", exact));
    }
    figures.push(("Class", class(found)));
    figures.push(("Data", format!("{from} to {to}, {}", seen.started_at)));
    let seconds = seen.elapsed_us as f64 / 1e6;
    figures.push((
        "Transfer",
        format!(
            "{} bytes in {seconds:.6} s by {}: {}",
            grouped(seen.received_bytes),
            super::figures::count_of(u64::from(seen.streams), "stream"),
            rate(found.goodput_bps),
        ),
    ));
    if let (Some(mm), Some(sphere)) = (found.distance_mm, found.distance_sphere_mm) {
        let legs = super::figures::count_of(found.legs.len() as u64, "leg");
        let by = seen.distance_by.as_deref().unwrap_or_default();
        let by = by.replace('_', " ").replace('+', " and ");
        let text = format!(
            "{} in {legs} on WGS84, by the {by}; {} on the sphere",
            kilometres(mm),
            kilometres(sphere)
        );
        figures.push(("Distance", text));
    }
    figures.extend(light(seen, found).map(|text| ("Light in fibre", text)));
    if let Some(beside) = &found.beside {
        let text = format!(
            "{:+.1} % beside {} of {} ({}, {})",
            100.0 * beside.gain_ratio,
            mark(beside.mark_bit_m_per_s),
            beside.name,
            beside.source,
            words(&beside.confidence),
        );
        figures.push(("Best known", text));
    }
    figures
}

/// Replaces underscores in words of the data.
pub fn words(of_data: &str) -> String {
    of_data.replace('_', " ")
}

fn light(seen: &Observation, found: &Analysis) -> Option<String> {
    let (light, rtt_ns) = (found.light?, seen.rtt_min_ns?);
    let (least, rtt) = (light.least_rtt_ns as f64 / 1e6, rtt_ns as f64 / 1e6);
    let by = seen.rtt_by.as_deref().unwrap_or("measured");
    Some(if light.possible {
        format!(
            "there and back {least:.3} ms; the round trip is {rtt:.3} ms, {:.2} times that ({by})",
            light.stretch_ratio
        )
    } else {
        format!(
            "impossible: there and back take {least:.3} ms, and the round trip is {rtt:.3} ms ({by})"
        )
    })
}

pub fn text(record: &Record, place: &Path, files: usize) -> String {
    let mut page = Page::default();
    page.heading(&title(record));
    for (label, value) in figures(record) {
        let style = match label {
            "Mark" => STRONG,
            "Light in fibre" if value.starts_with("impossible") => ERROR,
            _ => anstyle::Style::new(),
        };
        page.labelled_in(label, &value, style);
    }
    left_out(record, &mut page);
    page.blank();
    page.heading(&format!("Rules of {}", record.analysis.rules));
    page.hanging_in("  ", &record.analysis.standing, FAINT);
    for check in &record.analysis.checks {
        rule(check, &mut page);
    }
    super::text::caveats(&mut page, &record.caveats);
    page.blank();
    page.labelled("Bundle", &format!("{}, {files} files", place.display()));
    page.finish()
}

fn left_out(record: &Record, page: &mut Page) {
    for out in &record.analysis.left_out {
        let text = format!(
            "{} (hop {}, by {}) is no stop; by way of it the distance is {} longer",
            out.city,
            out.ttl,
            words(&out.known_by),
            kilometres(out.detour_mm)
        );
        page.labelled_in("Left out", &text, CAVEAT);
    }
}

fn rule(check: &RuleCheck, page: &mut Page) {
    let style = match check.verdict {
        RuleVerdict::Holds => anstyle::Style::new(),
        RuleVerdict::Fails => ERROR,
        RuleVerdict::CannotTell | RuleVerdict::Declare => CAVEAT,
    };
    let first = format!("  {:<12} ", check.verdict.words());
    let clause = check.clause.as_ref();
    let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
    let text = format!("{}{clause}: {}", check.rule, check.text);
    page.hanging_in(&first, &text, style);
    let source = format!("{}: {}", words(&check.confidence), check.source);
    page.hanging_in(&" ".repeat(15), &source, FAINT);
}

/// Renders the result of `record verify`.
pub fn verified(folder: &Path, found: &Verified) -> String {
    let mut page = Page::default();
    let sound = found.differs.is_empty();
    let verdict = if sound {
        "as it was made"
    } else {
        "NOT as it was made"
    };
    page.heading(&format!("{}: {verdict}", folder.display()));
    for (what, why) in &found.differs {
        // File names in the folder are untrusted.
        let what: String = what.chars().take(100).map(seen).collect();
        page.hanging_in("  differs   ", &format!("{what}: {why}"), ERROR);
    }
    for text in &found.agrees {
        page.hanging("  agrees    ", text);
    }
    if sound {
        let files = super::figures::count_of(found.files as u64, "file");
        let text = format!("{files} with the lengths and SHA-256 of the manifest; none is added");
        page.hanging("  agrees    ", &text);
    }
    match &found.signed_by {
        Some(key) => {
            page.hanging("  signed    ", &format!("by {key}"));
            let text = "this says who made it only if you know whose key that is (`--key`)";
            page.hanging_in("            ", text, FAINT);
        }
        None => page.hanging_in("  unsigned  ", "who made it is not shown", FAINT),
    }
    page.finish()
}

fn seen(c: char) -> char {
    super::html::still(c, '\u{fffd}')
}
