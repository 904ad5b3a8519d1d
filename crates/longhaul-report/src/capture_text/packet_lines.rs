//! The first packets of a capture as text: time, addresses, flags, relative sequence numbers,
//! window, payload, options.

use crate::document::ReportDocument;
use crate::number_format::count_of;
use crate::style::CAVEAT;
use longhaul_model::decoded_packet::{
    DecodedPacket, PacketTransport, TcpFlags, TcpHeader, TcpHeaderOptions,
};
use std::collections::HashMap;
use std::net::SocketAddr;

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
