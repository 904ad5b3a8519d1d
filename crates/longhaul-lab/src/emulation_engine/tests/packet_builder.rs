//! Builds packets as a host's kernel would give them to its device.

use crate::emulation_engine::pooled_packet::{
    GSO_TCP4, GSO_TCP6, GSO_UDP, NEEDS_CHECKSUM, TCP, UDP, VNET_BYTES,
};
use std::net::IpAddr;

/// A packet to build; `source` and `destination` must be of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketDraft {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
    pub transport: DraftTransport,
    pub source_port: u16,
    pub destination_port: u16,
    /// The payload bytes of each segment; `None` for a packet that must not be segmented.
    pub segment_bytes: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftTransport {
    Tcp { sequence: u32, flags: u8 },
    Udp,
}

impl PacketDraft {
    /// Returns a UDP packet with TTL 64.
    pub fn udp(source: IpAddr, destination: IpAddr) -> PacketDraft {
        PacketDraft {
            source,
            destination,
            ttl: 64,
            transport: DraftTransport::Udp,
            source_port: 40_000,
            destination_port: 5201,
            segment_bytes: None,
        }
    }

    /// Returns a TCP packet with TTL 64, ACK set, no options.
    pub fn tcp(source: IpAddr, destination: IpAddr, sequence: u32) -> PacketDraft {
        let transport = DraftTransport::Tcp { sequence, flags: 0x10 };
        PacketDraft { transport, ..PacketDraft::udp(source, destination) }
    }

    /// Returns the length of the IP and transport headers.
    pub fn header_bytes(&self) -> usize {
        self.network_bytes() + self.transport_bytes()
    }

    fn network_bytes(&self) -> usize {
        if self.source.is_ipv4() { 20 } else { 40 }
    }

    fn transport_bytes(&self) -> usize {
        if matches!(self.transport, DraftTransport::Udp) { 8 } else { 20 }
    }

    fn protocol(&self) -> u8 {
        if matches!(self.transport, DraftTransport::Udp) { UDP } else { TCP }
    }

    /// Writes `virtio_net_hdr`, headers and `payload` to the front of `out`, with the transport
    /// checksum left to the device; returns the length. At most 65 535 bytes of IP.
    pub fn write(&self, out: &mut [u8], payload: &[u8]) -> usize {
        let end = VNET_BYTES + self.header_bytes();
        out[..end].fill(0);
        out[end..end + payload.len()].copy_from_slice(payload);
        self.write_vnet(&mut out[..VNET_BYTES], payload.len());
        let header = &mut out[VNET_BYTES..end];
        let addresses = self.write_network(header, payload.len());
        let length = self.transport_bytes() + payload.len();
        let pseudo = super::super::sum_pseudo_header(&header[addresses], self.protocol(), length);
        let transport = &mut header[self.network_bytes()..];
        transport[..2].copy_from_slice(&self.source_port.to_be_bytes());
        transport[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        let field = match self.transport {
            DraftTransport::Udp => {
                transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
                6
            }
            DraftTransport::Tcp { sequence, flags } => {
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                transport[12..14].copy_from_slice(&[5 << 4, flags]);
                16
            }
        };
        transport[field..field + 2].copy_from_slice(&super::super::fold_sum(pseudo).to_be_bytes());
        end + payload.len()
    }

    fn write_vnet(&self, out: &mut [u8], payload: usize) {
        out[0] = NEEDS_CHECKSUM;
        if let Some(size) = self.segment_bytes.filter(|size| payload > usize::from(*size)) {
            out[1] = match (self.transport, self.source) {
                (DraftTransport::Udp, _) => GSO_UDP,
                (DraftTransport::Tcp { .. }, IpAddr::V4(_)) => GSO_TCP4,
                (DraftTransport::Tcp { .. }, IpAddr::V6(_)) => GSO_TCP6,
            };
            out[2..4].copy_from_slice(&(self.header_bytes() as u16).to_le_bytes());
            out[4..6].copy_from_slice(&size.to_le_bytes());
        }
        out[6..8].copy_from_slice(&(self.network_bytes() as u16).to_le_bytes());
        let field: u16 = if self.protocol() == UDP { 6 } else { 16 };
        out[8..10].copy_from_slice(&field.to_le_bytes());
    }

    /// Writes the IP header and returns the range of the addresses in it.
    fn write_network(&self, out: &mut [u8], payload: usize) -> std::ops::Range<usize> {
        let length = (self.transport_bytes() + payload) as u16;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out[0] = 0x45;
                out[2..4].copy_from_slice(&(20 + length).to_be_bytes());
                out[6] = 0x40;
                out[8..10].copy_from_slice(&[self.ttl, self.protocol()]);
                out[12..16].copy_from_slice(&source.octets());
                out[16..20].copy_from_slice(&destination.octets());
                super::super::write_ipv4_checksum(&mut out[..20]);
                12..20
            }
            (source, destination) => {
                out[0] = 0x60;
                out[4..6].copy_from_slice(&length.to_be_bytes());
                out[6..8].copy_from_slice(&[self.protocol(), self.ttl]);
                for (at, address) in [(8, source), (24, destination)] {
                    if let IpAddr::V6(address) = address {
                        out[at..at + 16].copy_from_slice(&address.octets());
                    }
                }
                8..40
            }
        }
    }
}
