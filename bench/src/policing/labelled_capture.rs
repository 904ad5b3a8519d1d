//! The packets that a capture's sender sent, lost and had acknowledged: libpcap files of TCP over
//! IPv4.
//!
//! Source: the classic libpcap format; RFC 791, 9293. A packet counts as lost if its sequence
//! number is sent again. RTTs are taken from packets that were sent once and whose acknowledgement
//! was not delayed by a retransmit. Every connection that carried much is used, because all share
//! the path.

use longhaul_analysis::limit::policer_fit::packet_replay::{PacketRtt, ReplayPacket};
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::path::Path;

/// The maximum size of a decompressed capture.
const MAX_CAPTURE_BYTES: u64 = 256 << 20;
/// The minimum bytes of a connection that counts as a download.
const MIN_DOWNLOAD_BYTES: u64 = 100_000;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const ETHERNET: u32 = 1;
const COOKED: u32 = 113;
const RAW: u32 = 101;
const ACK: u8 = 0x10;

/// All downloads of a capture, in time order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LabelledCapture {
    pub packets: Vec<ReplayPacket>,
    pub round_trips: Vec<PacketRtt>,
}

/// An address and port.
type SegmentEndpoint = ([u8; 4], [u8; 2]);
/// One direction of a connection: from, to.
type SegmentFlow = (SegmentEndpoint, SegmentEndpoint);

/// A TCP segment.
#[derive(Debug, Clone, Copy)]
struct CaptureSegment {
    at_us: u64,
    flow: SegmentFlow,
    sequence: u32,
    acknowledged: Option<u32>,
    payload: u32,
    ip_bytes: u32,
}

impl CaptureSegment {
    fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.payload)
    }

    fn reverse_flow(&self) -> SegmentFlow {
        let (from, to) = self.flow;
        (to, from)
    }
}

pub fn read_capture(file: &Path) -> Result<LabelledCapture, String> {
    let bytes =
        decompress_file(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let segments = parse_segments(&bytes).ok_or("not a libpcap file of Ethernet or IP")?;
    Ok(collect_downloads(&segments))
}

fn decompress_file(file: &Path) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    let packed = std::fs::read(file).map_err(text)?;
    if file.extension().is_none_or(|end| end != "xz") {
        return Ok(packed);
    }
    let mut bytes = BoundedWriter(Vec::new());
    lzma_rs::xz_decompress(&mut Cursor::new(packed), &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes.0)
}

/// A writer that accepts only the maximum size of a capture.
struct BoundedWriter(Vec<u8>);

impl std::io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > MAX_CAPTURE_BYTES {
            return Err(std::io::Error::other("unpacked it is larger than 256 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns `None` for another format.
fn parse_segments(file: &[u8]) -> Option<Vec<CaptureSegment>> {
    let magic: [u8; 4] = file.get(..4)?.try_into().ok()?;
    let (is_little, nanos) = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => (true, false),
        [0x4d, 0x3c, 0xb2, 0xa1] => (true, true),
        [0xa1, 0xb2, 0xc3, 0xd4] => (false, false),
        [0xa1, 0xb2, 0x3c, 0x4d] => (false, true),
        _ => return None,
    };
    let word = |at: usize| {
        let bytes: [u8; 4] = file.get(at..at + 4)?.try_into().ok()?;
        Some(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let before_ip = match word(20)? {
        ETHERNET => 14,
        COOKED => 16,
        RAW => 0,
        _ => return None,
    };
    let (mut at, mut found) = (FILE_HEADER, Vec::new());
    while let (Some(seconds), Some(part), Some(length)) = (word(at), word(at + 4), word(at + 8)) {
        at += RECORD_HEADER;
        // A truncated last record ends the list.
        let Some(frame) = file.get(at..at.saturating_add(length as usize)) else {
            break;
        };
        at += length as usize;
        let micros = u64::from(if nanos { part / 1000 } else { part });
        let at_us = u64::from(seconds) * 1_000_000 + micros;
        found.extend(frame.get(before_ip..).and_then(|ip| parse_segment(ip, at_us)));
    }
    Some(found)
}

fn parse_segment(ip: &[u8], at_us: u64) -> Option<CaptureSegment> {
    let is_tcp = ip.first()? >> 4 == 4 && *ip.get(9)? == 6;
    let header = usize::from(ip.first()? & 15) * 4;
    let tcp = ip.get(header..).filter(|_| is_tcp)?;
    let word = |at: usize| {
        let bytes: [u8; 4] = tcp.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let end = |address: usize, port: usize| {
        let address = ip.get(address..address + 4)?.try_into().ok()?;
        let port = tcp.get(port..port + 2)?.try_into().ok()?;
        Some((address, port))
    };
    let total = u32::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let headers = header as u32 + u32::from(tcp.get(12)? >> 4) * 4;
    let flags = *tcp.get(13)?;
    Some(CaptureSegment {
        at_us,
        flow: (end(12, 0)?, end(16, 2)?),
        sequence: word(4)?,
        acknowledged: (flags & ACK != 0).then_some(word(8)?),
        payload: total.checked_sub(headers)?,
        ip_bytes: total,
    })
}

fn collect_downloads(segments: &[CaptureSegment]) -> LabelledCapture {
    let mut sent: HashMap<SegmentFlow, u64> = HashMap::new();
    for segment in segments {
        *sent.entry(segment.flow).or_default() += u64::from(segment.payload);
    }
    let mut all = LabelledCapture::default();
    for (way, _) in sent.iter().filter(|(_, bytes)| **bytes >= MIN_DOWNLOAD_BYTES) {
        let mut sender = CaptureSender::default();
        for segment in segments {
            if segment.flow == *way && segment.payload > 0 {
                sender.add_sent(segment);
            } else if segment.reverse_flow() == *way {
                sender.add_received(segment);
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
    fn add_sent(&mut self, segment: &CaptureSegment) {
        let index = self.packets.len();
        self.packets.push(ReplayPacket {
            at_us: segment.at_us,
            bytes: segment.ip_bytes,
            lost: false,
        });
        if let Some(earlier) = self.by_sequence.insert(segment.sequence, index) {
            self.packets[earlier].lost = true;
            self.last_again_us = segment.at_us;
            self.retransmitted.insert(segment.end());
        } else {
            self.unacknowledged.insert(segment.end(), segment.at_us);
        }
    }

    fn add_received(&mut self, segment: &CaptureSegment) {
        let Some(end) = segment.acknowledged else {
            return;
        };
        let Some(sent_us) = self.unacknowledged.remove(&end) else {
            return;
        };
        if !self.retransmitted.contains(&end) && self.last_again_us < sent_us {
            self.round_trips
                .push(PacketRtt { sent_us, rtt_us: segment.at_us.saturating_sub(sent_us) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a segment between two hosts, in Ethernet.
    fn record(at_us: u32, back: bool, sequence: u32, acknowledged: u32, payload: u16) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame.extend_from_slice(&[0x45, 0]);
        frame.extend_from_slice(&(40 + payload).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0]);
        let ends = if back { [2, 1] } else { [1, 2] };
        for end in ends {
            frame.extend_from_slice(&[10, 0, 0, end]);
        }
        for end in ends {
            frame.extend_from_slice(&[0, end]);
        }
        frame.extend_from_slice(&sequence.to_be_bytes());
        frame.extend_from_slice(&acknowledged.to_be_bytes());
        frame.extend_from_slice(&[5 << 4, ACK, 0, 0, 0, 0, 0, 0]);
        let mut record = Vec::new();
        for word in [0, at_us, frame.len() as u32, frame.len() as u32] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend(frame);
        record
    }

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1];
        file.extend_from_slice(&[0; 16]);
        file.extend_from_slice(&ETHERNET.to_le_bytes());
        file.extend(records.concat());
        file
    }

    #[test]
    fn what_is_sent_again_was_lost_and_holds_up_no_round_trip() {
        let full = 60_000;
        let bytes = file(&[
            record(10, false, 0, 0, full),
            record(20, false, 60_000, 0, full),
            record(50, true, 0, 60_000, 0),
            record(60, false, 60_000, 0, full),
            record(100, true, 0, 120_000, 0),
        ]);
        let capture = collect_downloads(&parse_segments(&bytes).expect("a capture"));
        let lost: Vec<bool> = capture.packets.iter().map(|packet| packet.lost).collect();
        assert_eq!(lost, [false, true, false]);
        let only = PacketRtt { sent_us: 10, rtt_us: 40 };
        assert_eq!(capture.round_trips, [only]);
    }

    #[test]
    fn a_file_that_is_cut_off_or_no_capture_is_no_harm() {
        let whole = file(&[record(1, false, 0, 0, 9), record(2, false, 9, 0, 9)]);
        for length in 0..whole.len() {
            let read = parse_segments(&whole[..length]);
            assert_eq!(read.is_some(), length >= FILE_HEADER, "{length}");
        }
        assert!(parse_segments(b"GIF89a and more than a header of it").is_none());
    }
}
