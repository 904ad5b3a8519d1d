//! Captures as text: the captures of a run, the analysis of a file, and its first packets.

use crate::document::ReportDocument;
use crate::number_format::{
    count_of, format_grouped, format_micros, format_millis, format_percent, join_parts, non_empty,
    or_absent,
};
use crate::style::CAVEAT;
use longhaul_model::decoded_packet::{
    DecodedPacket, PacketTransport, TcpFlags, TcpHeader, TcpHeaderOptions,
};
use longhaul_model::report::v1::capture::{
    CaptureInterface, CaptureReading, CaptureResult, CapturedFlow, CapturedRtt, FlowDirection,
    HandshakeOffer, PayloadVariety, TcpFlowDirection, TcpHandshake,
};
use longhaul_model::report::v1::observation::{EndObservation, ThroughputObservation};
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::units::Bytes;
use std::collections::HashMap;
use std::net::SocketAddr;

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
        write_flow(&mut page, flow);
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

/// First sequence number of each direction.
type FirstSequences = HashMap<(SocketAddr, SocketAddr), u32>;

/// Renders the first packets; `None` is a packet that is not TCP or UDP over IP.
pub fn build_packet_document(
    packets: &[Option<DecodedPacket>],
    started: Option<&str>,
    damage: Option<&str>,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    let count = count_of(packets.len() as u64, "packet");
    let from = started.map(|started| format!(", times in seconds from {started}"));
    page.paragraph(format!("{count}{}", from.unwrap_or_default()));
    let first_ns = packets.iter().flatten().map(|packet| packet.at_ns).next();
    let mut firsts = FirstSequences::new();
    for packet in packets {
        match packet {
            Some(packet) => write_packet(&mut page, packet, first_ns.unwrap_or(0), &mut firsts),
            None => page.paragraph("         -  not TCP or UDP over IP"),
        }
    }
    if let Some(damage) = damage {
        let text = format!("the file is damaged: {damage}");
        page.styled_item("caveat: ", &text, CAVEAT);
    }
    page
}

fn write_packet(
    page: &mut ReportDocument,
    packet: &DecodedPacket,
    first_ns: u64,
    firsts: &mut FirstSequences,
) {
    // The packets of a file may be out of time order.
    let (sign, since_ns) = match packet.at_ns.checked_sub(first_ns) {
        Some(since) => ("", since),
        None => ("-", first_ns - packet.at_ns),
    };
    let time = format!("{sign}{}.{:06}", since_ns / 1_000_000_000, since_ns / 1000 % 1_000_000);
    let what = match &packet.transport {
        PacketTransport::Udp => format!("UDP, {} B", packet.payload_bytes),
        PacketTransport::Tcp(segment) => describe_segment(packet, segment, firsts),
    };
    let text = format!("{} > {} {what}", packet.from, packet.to);
    page.item(format!("{time:>10}  "), text);
}

fn describe_segment(
    packet: &DecodedPacket,
    segment: &TcpHeader,
    firsts: &mut FirstSequences,
) -> String {
    let there = (packet.from, packet.to);
    let back = (packet.to, packet.from);
    let own = *firsts.entry(there).or_insert(segment.sequence);
    let mut parts = vec![format_flags(segment.flags)];
    let sequence = segment.sequence.wrapping_sub(own);
    let length = packet.payload_bytes;
    parts.push(match length {
        0 => format!("seq {sequence}"),
        _ => format!("seq {sequence}:{}", sequence.wrapping_add(length)),
    });
    if segment.flags.has(TcpFlags::ACK) {
        // If the other direction was not captured, its numbers start at the first acknowledged one.
        let other = *firsts.entry(back).or_insert(segment.acknowledged);
        parts.push(format!("ack {}", segment.acknowledged.wrapping_sub(other)));
    }
    parts.push(format!("win {}", segment.window));
    parts.push(format!("len {length}"));
    parts.extend((packet.ecn == 3).then(|| "CE".to_owned()));
    parts.extend(list_options(&segment.options));
    parts.join(" ")
}

/// Formats TCP flags with tcpdump's letters.
fn format_flags(flags: TcpFlags) -> String {
    let letters = [
        (TcpFlags::SYN, 'S'),
        (TcpFlags::FIN, 'F'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::ACK, '.'),
    ];
    let set = letters.iter().filter(|(flag, _)| flags.has(*flag));
    format!("[{}]", set.map(|(_, letter)| letter).collect::<String>())
}

fn list_options(options: &TcpHeaderOptions) -> Vec<String> {
    let parts = [
        options.mss_bytes.map(|mss| format!("mss {mss}")),
        options.sack_permitted.then(|| "sackOK".to_owned()),
        options.window_shift.map(|shift| format!("wscale {shift}")),
        options.timestamps.map(|(own, echoed)| format!("ts {own} ecr {echoed}")),
        (options.sack_blocks > 0).then(|| format!("sack {}", options.sack_blocks)),
    ];
    parts.into_iter().flatten().collect()
}

fn write_flow(page: &mut ReportDocument, flow: &CapturedFlow) {
    page.heading(3, format!("{} {} > {}", flow.protocol, flow.opener, flow.listener));
    match &flow.handshake {
        Some(handshake) => self::write_handshake(page, handshake),
        None if flow.protocol == "tcp" => {
            page.fact("handshake", "not captured: the window scale is unknown");
        }
        None => {}
    }
    page.fact("duration", format_micros(flow.duration_us));
    write_flow_direction(page, "to server", &flow.forward);
    write_flow_direction(page, "to client", &flow.reverse);
}

fn write_handshake(page: &mut ReportDocument, handshake: &TcpHandshake) {
    page.fact("client offers", describe_offer(&handshake.opener));
    match &handshake.listener {
        Some(listener) => page.fact("server offers", describe_offer(listener)),
        None => page.fact("server offers", "unknown: its SYN-ACK was not captured"),
    }
    if let Some(agreed) = handshake.agreed {
        let options = [
            (agreed.window_scaling, "window scaling"),
            (agreed.sack, "SACK"),
            (agreed.timestamps, "timestamps"),
            (agreed.ecn, "ECN"),
        ];
        let pick = |wanted: bool| {
            let names = options.iter().filter(|(holds, _)| *holds == wanted);
            names.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        };
        let (with, without) = (pick(true), pick(false));
        let text = match (with.as_str(), without.as_str()) {
            (with, "") => with.to_owned(),
            ("", without) => format!("without {without}"),
            (with, without) => format!("{with}; without {without}"),
        };
        page.fact("negotiated", &text);
    }
    let time =
        |us: Option<u64>, what: &str| us.map(|us| format!("{what} after {} ms", format_millis(us)));
    let times = [time(handshake.answered_us, "SYN-ACK"), time(handshake.acknowledged_us, "ACK")];
    page.facts("handshake", non_empty(join_parts(", ", times)));
}

fn describe_offer(offer: &HandshakeOffer) -> String {
    let mss = offer.mss_bytes.map(|mss| format!("MSS {mss} B"));
    let shift = offer.window_shift.map(|shift| format!("window scale {shift}"));
    let has = |there: bool, name: &str| there.then(|| name.to_owned());
    let parts = [
        mss,
        shift,
        has(offer.sack, "SACK"),
        has(offer.timestamps, "timestamps"),
        has(offer.ecn, "ECN"),
        Some(format!("window {}", Bytes(u64::from(offer.window_bytes)))),
    ];
    join_parts(", ", parts)
}

fn write_flow_direction(page: &mut ReportDocument, label: &str, way: &FlowDirection) {
    let largest = u64::from(way.largest_payload_bytes);
    let each = (largest > 0).then(|| format!(" (up to {} B each)", format_grouped(largest)));
    let marked = way.marked_packets;
    let parts = [
        Some(count_of(way.packets, "packet")),
        Some(format!("{} of payload{}", Bytes(way.payload_bytes), each.unwrap_or_default())),
        (marked > 0).then(|| format!("{} ECN-marked", format_grouped(marked))),
    ];
    page.fact(label, join_parts(", ", parts));
    if let Some(tcp) = &way.tcp {
        page.fact("", describe_retransmits(tcp));
        page.fact("", describe_windows(tcp));
        page.facts("", tcp.rtt.map(|rtt| describe_rtt(&rtt)));
    }
}

fn describe_retransmits(tcp: &TcpFlowDirection) -> String {
    let (again, bytes) = (tcp.retransmitted_packets, Bytes(tcp.retransmitted_bytes));
    let parts = [
        Some(format!("{} retransmitted ({bytes})", count_of(again, "packet"))),
        Some(format!("{} reordered", format_grouped(tcp.reordered_packets))),
        Some(count_of(tcp.duplicate_ack_packets, "duplicate ACK")),
        (tcp.unseen_bytes > 0).then(|| format!("{} not captured", Bytes(tcp.unseen_bytes))),
    ];
    join_parts(", ", parts)
}

fn describe_windows(tcp: &TcpFlowDirection) -> String {
    let bytes = |bytes: Option<u64>| or_absent(bytes, |bytes| Bytes(bytes).to_string());
    let (least, most) = (bytes(tcp.smallest_window_bytes), bytes(tcp.largest_window_bytes));
    let zero = tcp.zero_window_packets;
    let zero = (zero > 0).then(|| format!(", zero windows: {}", format_grouped(zero)));
    format!(
        "max in flight {}; advertised window {least} to {most}{}",
        Bytes(tcp.most_in_flight_bytes),
        zero.unwrap_or_default()
    )
}

fn describe_rtt(rtt: &CapturedRtt) -> String {
    format!(
        "RTT {} / {} / {} ms (min, median, max; n = {})",
        format_millis(rtt.least_us),
        format_millis(rtt.median_us),
        format_millis(rtt.most_us),
        format_grouped(rtt.samples)
    )
}
