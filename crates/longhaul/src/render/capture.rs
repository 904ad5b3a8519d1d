//! Captures as text: the captures of a run, the analysis of a file, and its first packets.
//!
//! - [`flows`]: one flow, in both directions; [`packets`]: the first packets

mod flows;
mod packets;

pub use packets::extract;

use super::figures::{count_of, duration, grouped};
use super::html::still;
use super::page::Page;
use super::style::CAVEAT;
use longhaul_model::report::v1::capture::{Capture, CapturedOn, Reading, Variety};
use longhaul_model::report::v1::observation::{End, Observation};
use longhaul_model::units::Bytes;
use longhaul_probe::capture::anonymise::Anonymised;
use std::fmt::Write;

/// The maximum number of flows shown; `--json` has all.
const MOST_FLOWS: usize = 32;

/// Sanitizes untrusted text for a terminal and limits its length.
pub fn shown(text: &str) -> String {
    let start = text.chars().take(500);
    start.map(|c| still(c, '\u{fffd}')).collect()
}

/// Writes the captures of a run into its report.
pub fn of_run(page: &mut Page, observation: &Observation) {
    let ends = &observation.ends;
    let (near, far) = if observation.forward {
        (&ends.sender, &ends.receiver)
    } else {
        (&ends.receiver, &ends.sender)
    };
    let line = |end: &End, whose: &str| end.capture.as_ref().map(|it| one(it, whose));
    let lines = [line(near, "this end"), line(far, "far end")];
    for (number, line) in lines.into_iter().flatten().enumerate() {
        if number == 0 {
            page.blank();
        }
        page.labelled(if number == 0 { "captures" } else { "" }, &line);
    }
}

fn one(capture: &Capture, whose: &str) -> String {
    let file = capture.file.as_deref().map(shown);
    let mut text = format!(
        "{}: {}",
        file.as_deref().unwrap_or("no file"),
        count_of(capture.packets, "packet")
    );
    if capture.limited {
        text.push_str(" (the limit)");
    }
    if let Some(dropped) = capture.dropped_packets.filter(|dropped| *dropped > 0) {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {} dropped", grouped(dropped));
    }
    if let (Some(cpu), Some(time)) = (capture.cpu_us, capture.duration_us.filter(|us| *us > 0)) {
        let share = super::figures::percent(cpu as f64 / time as f64);
        let _ = write!(text, ", {share} of a core");
    }
    format!("{text}, {whose}")
}

/// Renders the analysis of a capture file.
pub fn reading(name: &str, reading: &Reading) -> String {
    let mut page = Page::default();
    page.heading(name);
    page.labelled("format", &head(reading));
    for interface in &reading.interfaces {
        page.labelled("interface", &on(interface));
    }
    for comment in &reading.comments {
        page.labelled("comment", &shown(comment));
    }
    page.labelled("packets", &total(reading));
    page.labelled("payload", &variety(reading.payload));
    if let Some(damage) = &reading.damage {
        let text = format!("{damage}; all before that is shown");
        page.labelled_in("damaged", &text, CAVEAT);
    }
    for flow in reading.flows.iter().take(MOST_FLOWS) {
        page.blank();
        flows::flow(&mut page, flow);
    }
    let more = reading.flows.len().saturating_sub(MOST_FLOWS);
    if more > 0 {
        page.blank();
        page.line(&format!("{more} more flows; --json has every one"));
    }
    page.finish()
}

fn head(reading: &Reading) -> String {
    let by = reading.application.as_deref().map(shown);
    let by = by.map(|by| format!(", written by {by}"));
    format!("{}{}", reading.format, by.unwrap_or_default())
}

fn on(interface: &CapturedOn) -> String {
    let name = interface
        .name
        .as_deref()
        .map_or("without a name".to_owned(), shown);
    let mut parts = vec![name];
    let snap = interface.snap_bytes;
    parts.extend(snap.map(|snap| format!("{} of each packet at most", Bytes(u64::from(snap)))));
    let dropped = interface.dropped_packets;
    parts.extend(dropped.map(|dropped| format!("{} dropped", grouped(dropped))));
    let filter = interface.filter.as_deref().map(shown);
    parts.extend(filter.map(|filter| format!("filter: {filter}")));
    parts.join(", ")
}

fn total(reading: &Reading) -> String {
    let mut text = format!(
        "{} in {}, {}",
        grouped(reading.packets),
        duration(reading.duration_us),
        count_of(reading.flows.len() as u64, "flow")
    );
    if let Some(started) = &reading.started_at {
        let _ = write!(text, ", from {started}");
    }
    for (count, what) in [
        (reading.other_packets, "are no TCP or UDP over IP"),
        (reading.left_out_packets, "belong to flows beyond the limit"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {} {what}", grouped(count));
        }
    }
    text
}

/// Describes the variety of the payload (rule 6 of the Land Speed Record: identical packets would
/// be easy to send).
fn variety(variety: Option<Variety>) -> String {
    let Some(variety) = variety else {
        return "cannot tell whether it differs from packet to packet: too little of it was \
                captured (`--capture-bytes 200` captures enough)"
            .to_owned();
    };
    let of = format!(
        "the first {} of {}",
        Bytes(u64::from(variety.compared_bytes)),
        count_of(variety.packets, "packet")
    );
    match variety.distinct_packets {
        1 => format!("the same in every packet, as far as {of} tell"),
        distinct => format!(
            "differs from packet to packet: {of} begin in {} ways, the most frequent {} times",
            grouped(distinct),
            grouped(variety.most_repeated_packets)
        ),
    }
}

/// Renders the result of an anonymised copy.
pub fn anonymised(name: &str, done: Anonymised, damage: Option<&str>) -> String {
    let mut page = Page::default();
    let left_out = match done.left_out {
        0 => String::new(),
        count => format!("; {} left out, no plain TCP or UDP over IP", grouped(count)),
    };
    let text = format!(
        "{} of headers alone{left_out}",
        count_of(done.packets, "packet")
    );
    page.hanging(&format!("{name}: "), &text);
    page.hanging(
        "",
        "addresses replaced one to one, prefixes kept, by a key that nobody has any more; times, \
         sizes, ports and TCP options are those of the original",
    );
    if let Some(damage) = damage {
        let text = format!("the original is damaged: {damage}; all before that is copied");
        page.hanging_in("caveat: ", &text, CAVEAT);
    }
    page.finish()
}
