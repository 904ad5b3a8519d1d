//! One flow of a capture as text.

use crate::document::ReportDocument;
use crate::number_format::{
    count_of, format_grouped, format_micros, format_millis, join_parts, non_empty, or_absent,
};
use longhaul_model::report::v1::capture::{
    CapturedFlow, CapturedRtt, FlowDirection, HandshakeOffer, TcpFlowDirection, TcpHandshake,
};
use longhaul_model::units::Bytes;

pub fn write_flow(page: &mut ReportDocument, flow: &CapturedFlow) {
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
