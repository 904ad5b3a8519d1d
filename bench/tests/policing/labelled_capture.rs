//! The packets that a capture's sender sent, lost and had acknowledged.
//!
//! A packet counts as lost if its sequence number is sent again. RTTs are taken from packets that were
//! sent once and whose acknowledgement was not delayed by a retransmit. Every connection that carried
//! much is used, because all share the path.

use crate::packet_replay::{PacketRtt, ReplayPacket};
use longhaul_capture::capture_reader::CaptureReader;
use longhaul_model::decoded_packet::{
    DecodedPacket, PacketTransport, TcpFlags, TcpHeader, TcpHeaderOptions,
};
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::Path;

/// The minimum bytes of a connection that counts as a download.
const MIN_DOWNLOAD_BYTES: u64 = 100_000;

/// All downloads of a capture, in time order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LabelledCapture {
    pub packets: Vec<ReplayPacket>,
    pub round_trips: Vec<PacketRtt>,
}

pub fn read_capture(file: &Path) -> Result<LabelledCapture, String> {
    let failed = |e: String| format!("cannot read {}: {e}", file.display());
    let packed = std::fs::read(file).map_err(|e| failed(e.to_string()))?;
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut Cursor::new(packed), &mut bytes)
        .map_err(|e| failed(e.to_string()))?;
    let mut reader = CaptureReader::open(&bytes[..]).map_err(|e| failed(e.to_string()))?;
    let mut packets = Vec::new();
    while let Some(record) = reader.next_packet() {
        packets.extend(record.decode());
    }
    Ok(collect_downloads(&packets))
}

fn collect_downloads(packets: &[DecodedPacket]) -> LabelledCapture {
    let mut sent: HashMap<(SocketAddr, SocketAddr), u64> = HashMap::new();
    for packet in packets {
        *sent.entry((packet.from, packet.to)).or_default() += u64::from(packet.payload_bytes);
    }
    let mut all = LabelledCapture::default();
    for (flow, _) in sent.iter().filter(|(_, bytes)| **bytes >= MIN_DOWNLOAD_BYTES) {
        let mut sender = CaptureSender::default();
        for packet in packets {
            let PacketTransport::Tcp(header) = &packet.transport else {
                continue;
            };
            if (packet.from, packet.to) == *flow && packet.payload_bytes > 0 {
                sender.add_sent(packet, header);
            } else if (packet.to, packet.from) == *flow && header.flags.has(TcpFlags::ACK) {
                sender.add_received(packet.at_ns / 1000, header.acknowledged);
            }
        }
        all.packets.extend(sender.packets);
        all.round_trips.extend(sender.round_trips);
    }
    all.packets.sort_by_key(|packet| packet.at_us);
    all.round_trips.sort_by_key(|it| it.sent_us);
    all
}

/// One connection in progress.
#[derive(Default)]
struct CaptureSender {
    packets: Vec<ReplayPacket>,
    round_trips: Vec<PacketRtt>,
    /// The last packet with each sequence number.
    by_sequence: HashMap<u32, usize>,
    /// Packets sent once, by the acknowledgement expected for them.
    unacknowledged: HashMap<u32, u64>,
    /// Retransmitted packets, whose acknowledgements are ambiguous.
    retransmitted: HashSet<u32>,
    last_again_us: u64,
}

impl CaptureSender {
    fn add_sent(&mut self, packet: &DecodedPacket, header: &TcpHeader) {
        let (at_us, index) = (packet.at_ns / 1000, self.packets.len());
        let end = header.sequence.wrapping_add(packet.payload_bytes);
        self.packets.push(ReplayPacket { at_us, bytes: packet.wire_bytes, lost: false });
        if let Some(earlier) = self.by_sequence.insert(header.sequence, index) {
            self.packets[earlier].lost = true;
            self.last_again_us = at_us;
            self.retransmitted.insert(end);
        } else {
            self.unacknowledged.insert(end, at_us);
        }
    }

    fn add_received(&mut self, at_us: u64, end: u32) {
        let Some(sent_us) = self.unacknowledged.remove(&end) else {
            return;
        };
        if !self.retransmitted.contains(&end) && self.last_again_us < sent_us {
            self.round_trips.push(PacketRtt { sent_us, rtt_us: at_us.saturating_sub(sent_us) });
        }
    }
}

/// Returns a packet between two hosts.
fn packet(
    at_us: u64,
    back: bool,
    sequence: u32,
    acknowledged: u32,
    payload_bytes: u32,
) -> DecodedPacket {
    let [near, far] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 5001)));
    let (from, to) = if back { (far, near) } else { (near, far) };
    DecodedPacket {
        at_ns: at_us * 1000,
        from,
        to,
        wire_bytes: payload_bytes + 40,
        payload_bytes,
        payload: None,
        ecn: 0,
        transport: PacketTransport::Tcp(TcpHeader {
            sequence,
            acknowledged,
            flags: TcpFlags(TcpFlags::ACK),
            window: 0,
            options: TcpHeaderOptions::default(),
        }),
    }
}

#[test]
fn what_is_sent_again_was_lost_and_holds_up_no_round_trip() {
    let full = 60_000;
    let capture = collect_downloads(&[
        packet(10, false, 0, 0, full),
        packet(20, false, 60_000, 0, full),
        packet(50, true, 0, 60_000, 0),
        packet(60, false, 60_000, 0, full),
        packet(100, true, 0, 120_000, 0),
    ]);
    let lost: Vec<bool> = capture.packets.iter().map(|packet| packet.lost).collect();
    assert_eq!(lost, [false, true, false]);
    let only = PacketRtt { sent_us: 10, rtt_us: 40 };
    assert_eq!(capture.round_trips, [only]);
}
