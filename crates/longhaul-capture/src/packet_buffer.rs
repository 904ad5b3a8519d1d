//! A bounded buffer of packets that keeps the first or the last packets of a run.

use crate::pcapng_writer::PcapngWriter;
use crate::{CaptureRecord, LINK_RAW, decode};
use longhaul_model::decoded_packet::DecodedPacket;
use longhaul_model::report::v1::capture::{CaptureInterface, CapturePlan, CaptureResult};
use longhaul_sys::packet_ring::RingPacket;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The maximum memory for the packets of this end, overhead included.
pub const MAX_BUFFER_BYTES: u64 = 128 << 20;
/// The overhead of a packet, in memory and, at most, in the file.
const PACKET_OVERHEAD_BYTES: u64 = 64;
/// The space in the file for everything but packets.
const FILE_OVERHEAD_BYTES: u64 = 16 << 10;
/// The maximum number of interfaces; packets of one run use one or two.
const MAX_INTERFACES: usize = 16;

#[derive(Debug, Clone)]
struct BufferedPacket {
    at_ns: u64,
    original_bytes: u32,
    interface: u32,
    outgoing: bool,
    bytes: Vec<u8>,
}

impl BufferedPacket {
    fn decode(&self) -> Option<DecodedPacket> {
        decode::decode_packet(self.at_ns, LINK_RAW, self.original_bytes, &self.bytes)
    }
}

/// A bounded buffer of captured packets.
#[derive(Debug)]
pub struct PacketBuffer {
    plan: CapturePlan,
    most_bytes: u64,
    packets: VecDeque<BufferedPacket>,
    held_bytes: u64,
    /// The kernel's interface indexes.
    interfaces: Vec<u32>,
    left_out: u64,
}

impl PacketBuffer {
    /// Creates a buffer for the limits of `plan` and at most `most_bytes`.
    pub fn new(plan: CapturePlan, most_bytes: u64) -> PacketBuffer {
        PacketBuffer {
            plan,
            most_bytes: most_bytes.saturating_sub(FILE_OVERHEAD_BYTES),
            packets: VecDeque::new(),
            held_bytes: 0,
            interfaces: Vec::new(),
            left_out: 0,
        }
    }

    /// Stores a packet; false if the buffer is full and no later packet will be stored.
    pub fn push(&mut self, seen: &RingPacket<'_>) -> bool {
        let keep = match self.plan.snap_bytes {
            Some(snap) => seen.bytes.len().min(snap as usize),
            None => decode::count_header_bytes(seen.bytes).min(seen.bytes.len()),
        };
        let cost = keep as u64 + PACKET_OVERHEAD_BYTES;
        let mut room = Vec::new();
        while self.is_full_with(cost) {
            // The oldest packet is dropped and its memory is reused.
            match self.packets.pop_front() {
                Some(oldest) if self.plan.last => {
                    self.held_bytes -= oldest.bytes.len() as u64 + PACKET_OVERHEAD_BYTES;
                    self.left_out += 1;
                    room = oldest.bytes;
                }
                Some(oldest) => {
                    self.packets.push_front(oldest);
                    self.left_out += 1;
                    return false;
                }
                None => return false,
            }
        }
        room.clear();
        room.extend_from_slice(&seen.bytes[..keep]);
        let Some(interface) = self.interface_index(seen.interface) else {
            self.left_out += 1;
            return true;
        };
        self.held_bytes += cost;
        self.packets.push_back(BufferedPacket {
            at_ns: u64::try_from(seen.at.as_nanos()).unwrap_or(u64::MAX),
            original_bytes: seen.original_bytes,
            interface,
            outgoing: seen.outgoing,
            bytes: room,
        });
        true
    }

    fn is_full_with(&self, cost: u64) -> bool {
        self.packets.len() as u64 >= self.plan.packets || self.held_bytes + cost > self.most_bytes
    }

    /// Returns the interface's index in the file.
    fn interface_index(&mut self, index: u32) -> Option<u32> {
        let known = self.interfaces.iter().position(|known| *known == index);
        let place = known.or_else(|| {
            let room = self.interfaces.len() < MAX_INTERFACES;
            room.then(|| {
                self.interfaces.push(index);
                self.interfaces.len() - 1
            })
        })?;
        u32::try_from(place).ok()
    }

    /// The number of captured packets that were not kept.
    pub fn omitted_packets(&self) -> u64 {
        self.left_out
    }

    pub fn interfaces(&self) -> &[u32] {
        &self.interfaces
    }

    /// Closes the buffer and sorts the packets by time.
    pub fn close(self, about: CaptureResult) -> FinishedCapture {
        let mut packets: Vec<BufferedPacket> = self.packets.into();
        // Packets from two cores may arrive out of order.
        packets.sort_by_key(|kept| kept.at_ns);
        FinishedCapture { packets, about }
    }
}

/// A finished capture of one end.
#[derive(Debug, Clone, Default)]
pub struct FinishedCapture {
    packets: Vec<BufferedPacket>,
    about: CaptureResult,
}

impl FinishedCapture {
    /// Discards packets of other runs, which may use the same addresses.
    pub fn retain_ports(&mut self, opener_ports: &BTreeSet<u16>) {
        let own = |kept: &BufferedPacket| {
            let ports = |address: SocketAddr| opener_ports.contains(&address.port());
            kept.decode().is_some_and(|packet| ports(packet.from) || ports(packet.to))
        };
        self.packets.retain(own);
        self.about.packets = self.packets.len() as u64;
    }

    /// Returns the decoded packets of the interface that had most of them: a bridge or a bond shows each
    /// packet twice.
    pub fn decode_packets(&self) -> impl Iterator<Item = DecodedPacket> {
        let count = |index: &u32| self.packets.iter().filter(|it| it.interface == *index).count();
        let interface = (0..self.about.interfaces.len() as u32).max_by_key(count);
        let of_interface = self.packets.iter().filter(move |it| Some(it.interface) == interface);
        of_interface.filter_map(BufferedPacket::decode)
    }

    /// Returns the report entry of the capture, without its file name and size.
    pub fn capture_report(&self) -> &CaptureResult {
        &self.about
    }

    /// Returns a pcapng file; `comments` identify the run.
    pub fn write_file(&mut self, comments: &[String]) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Some(crate::APPLICATION), comments);
        for number in 0..self.about.interfaces.len() {
            writer.interface(&self.describe_interface(number));
        }
        for kept in &self.packets {
            writer.packet(&CaptureRecord {
                interface: kept.interface,
                link_type: LINK_RAW,
                at_ns: kept.at_ns,
                original_bytes: kept.original_bytes,
                outgoing: Some(kept.outgoing),
                bytes: &kept.bytes,
            });
        }
        let until_ns = self.packets.last().map_or(0, |last| last.at_ns);
        for number in 0..self.about.interfaces.len() {
            writer.statistics(number as u32, until_ns, &self.describe_interface(number));
        }
        let file = writer.finish();
        self.about.file_bytes = Some(file.len() as u64);
        file
    }

    fn describe_interface(&self, number: usize) -> CaptureInterface {
        CaptureInterface {
            name: self.about.interfaces.get(number).cloned(),
            link_type_number: LINK_RAW,
            snap_bytes: Some(self.about.snap_bytes.unwrap_or(crate::bpf_filter::HEADER_SNAP_BYTES)),
            filter: Some(self.about.filter.clone()),
            received_packets: None,
            // The kernel counts drops for the socket, not for each interface.
            dropped_packets: self.about.dropped_packets.filter(|_| number == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn take(store: &mut PacketBuffer, number: u64, bytes: usize) -> bool {
        store.push(&RingPacket {
            at: Duration::from_nanos(number),
            bytes: &vec![0x45; bytes],
            original_bytes: 9000,
            interface: 2,
            outgoing: true,
        })
    }

    fn plan(packets: u64, last: bool) -> CapturePlan {
        CapturePlan { snap_bytes: Some(96), packets, last, far: false }
    }

    #[test]
    fn the_first_ones_are_kept_or_the_last_ones() {
        let mut first = PacketBuffer::new(plan(3, false), 1 << 20);
        let taken: Vec<bool> = (0..5).map(|number| take(&mut first, number, 60)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        let mut last = PacketBuffer::new(plan(3, true), 1 << 20);
        assert!((0..5).all(|number| take(&mut last, number, 60)));
        assert_eq!((first.omitted_packets(), last.omitted_packets()), (2, 2));
        let times = |store: PacketBuffer| {
            let captured = store.close(CaptureResult::default());
            let times = captured.packets.iter().map(|kept| kept.at_ns);
            times.collect::<Vec<u64>>()
        };
        assert_eq!((times(first), times(last)), (vec![0, 1, 2], vec![2, 3, 4]));
    }

    #[test]
    fn packets_of_a_bridge_and_its_port_are_decoded_once() {
        let mut store = PacketBuffer::new(plan(10, false), 1 << 20);
        // An IPv4 header and that of TCP, which sends without payload.
        let mut bytes = [0_u8; 40];
        (bytes[0], bytes[3], bytes[9], bytes[32]) = (0x45, 40, 6, 0x50);
        for interface in [2, 3, 3, 2, 3] {
            let at = Duration::from_nanos(1);
            let packet =
                RingPacket { at, bytes: &bytes, original_bytes: 40, interface, outgoing: true };
            assert!(store.push(&packet));
        }
        let interfaces = vec!["br0".to_owned(), "eth0".to_owned()];
        let captured = store.close(CaptureResult { interfaces, ..CaptureResult::default() });
        assert_eq!(captured.decode_packets().count(), 3);
    }

    #[test]
    fn bytes_are_bounded_whatever_the_packets() {
        for last in [false, true] {
            let most_bytes = FILE_OVERHEAD_BYTES + 10_000;
            let mut store = PacketBuffer::new(plan(1_000_000, last), most_bytes);
            for number in 0..1000 {
                take(&mut store, number, (number % 90) as usize);
            }
            assert!(store.held_bytes <= 10_000);
            assert!(store.packets.len() > 50);
            let about = CaptureResult { interfaces: vec!["eth0".to_owned()], ..Default::default() };
            assert!(store.close(about).write_file(&[]).len() as u64 <= most_bytes);
        }
    }
}
