//! Captures as text: the captures of a run, the analysis of a file, and its first packets.
//!
//! - [`flow_text`]: one flow, in both directions; [`packet_lines`]: the first packets

mod flow_text;
mod packet_lines;

use crate::document::ReportDocument;
use crate::number_format::{count_of, format_grouped, format_micros, format_percent, join_parts};
use crate::style::CAVEAT;
use longhaul_model::sanitize::sanitize_line;
pub use packet_lines::build_packet_document;

use longhaul_model::report::v1::capture::{
    CaptureInterface, CaptureReading, CaptureResult, PayloadVariety,
};
use longhaul_model::report::v1::observation::{EndObservation, ThroughputObservation};
use longhaul_model::units::Bytes;

/// The maximum number of flows shown; `--json` has all.
const MAX_FLOWS: usize = 32;

/// Sanitizes untrusted text for a terminal and limits its length.
pub fn sanitize_shown(text: &str) -> String {
    sanitize_line(text, 500)
}

/// Writes the captures of a run into its report.
pub fn write_captures(page: &mut ReportDocument, observation: &ThroughputObservation) {
    let [near, far] = observation.initiator_and_responder();
    let line = |end: &EndObservation, whose: &str| {
        end.capture.as_ref().map(|it| describe_capture(it, whose))
    };
    let lines = [line(near, "client"), line(far, "server")];
    page.gap();
    page.facts("captures", lines.into_iter().flatten());
}

fn describe_capture(capture: &CaptureResult, whose: &str) -> String {
    let file = capture.file.as_deref().map_or("no file".to_owned(), sanitize_shown);
    let limit = if capture.limited { " (the limit)" } else { "" };
    let dropped = capture.dropped_packets.filter(|dropped| *dropped > 0);
    let cpu = capture.cpu_us.zip(capture.duration_us.filter(|us| *us > 0));
    let parts = [
        Some(format!("{file}: {}{limit}", count_of(capture.packets, "packet"))),
        dropped.map(|dropped| format!("{} dropped", format_grouped(dropped))),
        cpu.map(|(cpu, us)| format!("{} of a core", format_percent(cpu as f64 / us as f64))),
        Some(whose.to_owned()),
    ];
    join_parts(", ", parts)
}

/// Renders the analysis of a capture file.
pub fn build_capture_document(name: &str, reading: &CaptureReading) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(3, name);
    page.fact("format", describe_format(reading));
    for interface in &reading.interfaces {
        page.fact("interface", describe_interface(interface));
    }
    for comment in &reading.comments {
        page.fact("comment", sanitize_shown(comment));
    }
    page.fact("packets", describe_packets(reading));
    page.fact("payload", describe_payload(reading.payload));
    if let Some(damage) = &reading.damage {
        let text = format!("{damage}; everything before it is shown");
        page.styled_fact("damaged", &text, CAVEAT);
    }
    for flow in reading.flows.iter().take(MAX_FLOWS) {
        page.gap();
        flow_text::write_flow(&mut page, flow);
    }
    let more = reading.flows.len().saturating_sub(MAX_FLOWS);
    if more > 0 {
        page.gap();
        page.paragraph(format!("{more} more flows; --json lists all"));
    }
    page
}

fn describe_format(reading: &CaptureReading) -> String {
    let by = reading.application.as_deref().map(sanitize_shown);
    let by = by.map(|by| format!(", written by {by}"));
    format!("{}{}", reading.format, by.unwrap_or_default())
}

fn describe_interface(interface: &CaptureInterface) -> String {
    let name = interface.name.as_deref().map_or("unnamed".to_owned(), sanitize_shown);
    let filter = interface.filter.as_deref().map(sanitize_shown);
    let parts = [
        Some(name),
        interface.snap_bytes.map(|snap| format!("snap length {}", Bytes(snap.into()))),
        interface.dropped_packets.map(|count| format!("{} dropped", format_grouped(count))),
        filter.map(|filter| format!("filter: {filter}")),
    ];
    join_parts(", ", parts)
}

fn describe_packets(reading: &CaptureReading) -> String {
    let started = reading.started_at.as_ref().map(|started| format!(", from {started}"));
    let some =
        |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", format_grouped(count)));
    let parts = [
        Some(format!(
            "{} in {}, {}{}",
            format_grouped(reading.packets),
            format_micros(reading.duration_us),
            count_of(reading.flows.len() as u64, "flow"),
            started.unwrap_or_default()
        )),
        some(reading.other_packets, "not TCP or UDP over IP"),
        some(reading.left_out_packets, "in flows beyond the limit"),
    ];
    join_parts("; ", parts)
}

/// Describes the variety of the payload (rule 6 of the Land Speed Record: identical packets would
/// be easy to send).
fn describe_payload(variety: Option<PayloadVariety>) -> String {
    let Some(variety) = variety else {
        return "unknown whether it differs between packets: too few bytes were captured \
                (use `--capture-bytes 200`)"
            .to_owned();
    };
    let of = format!(
        "the first {} of {}",
        Bytes(u64::from(variety.compared_bytes)),
        count_of(variety.packets, "packet")
    );
    match variety.distinct_packets {
        1 => format!("the same in every packet ({of} compared)"),
        distinct => format!(
            "differs between packets: {of} have {} distinct values, the most frequent {} times",
            format_grouped(distinct),
            format_grouped(variety.most_repeated_packets)
        ),
    }
}
