//! Probes: whole IP packets that routers treat as one flow, each with its own number.
//!
//! The fields that balancers hash are the same for all probes of a flow (Augustin et al., Paris
//! traceroute, IMC 2006). The probe's number is in fields that they do not hash, and within the
//! eight bytes of transport header that every router quotes:
//!
//! | | constant | number |
//! | --- | --- | --- |
//! | ICMP | identifier and checksum | sequence number; a word of payload keeps the checksum |
//! | UDP | both ports | checksum, by a word of payload; IPv4 identification; payload |
//! | TCP | both ports | low half of the sequence number of a SYN; IPv4 identification |
//!
//! With IPv6 the flow label is constant as well. A tag of 32 random bits in the payload (16 bits in
//! a TCP sequence number) distinguishes a flow's probes from forgeries.

use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::netlink::address_octets;
use std::net::IpAddr;

/// Payload size of ICMP and UDP probes.
const PAYLOAD_BYTES: usize = 32;
/// Start of a probe's payload: the compensating word, the tag, the number.
pub(super) const MARK_BYTES: usize = 8;
const SYN: u8 = 0x02;
/// MSS that SYN probes offer: that of Ethernet.
const MSS_V4: u16 = 1460;
const MSS_V6: u16 = 1440;
/// A scale for windows of 16 MiB; any value works.
const WINDOW_SCALE: u8 = 7;

/// The fields that balancers see of a probe, and the tag against forgeries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeFlow {
    pub protocol: ProbeProtocol,
    pub source: IpAddr,
    /// Same address family as `source`.
    pub destination: IpAddr,
    /// Source port, or the identifier of ICMP echoes.
    pub source_id: u16,
    /// Destination port, or the checksum of ICMP echoes.
    pub destination_id: u16,
    /// Random bits.
    pub tag: u32,
}

/// The number of keys, which exclude 0 and 65535: checksums and IPv4 identifications treat those
/// specially.
pub const KEYS: u16 = 0xfffe;

/// Returns the key of the `index`th probe of a series.
pub fn probe_key(index: u32) -> u16 {
    (index % u32::from(KEYS)) as u16 + 1
}

impl ProbeFlow {
    /// Describes the flow for reports.
    pub fn describe(&self) -> String {
        let ProbeFlow { source_id: near, destination_id: far, .. } = self;
        match self.protocol {
            ProbeProtocol::Icmp => format!("ICMP identifier {near}, checksum {far:#06x}"),
            ProbeProtocol::Udp => format!("UDP source port {near}, destination port {far}"),
            ProbeProtocol::Tcp => format!("TCP source port {near}, destination port {far}"),
        }
    }

    /// Returns another flow on the same path, with another source port or checksum.
    #[must_use]
    pub fn sibling_flow(&self, number: u16) -> ProbeFlow {
        let mut flow = *self;
        match self.protocol {
            // Avoids zero and all ones, which are equivalent in a checksum.
            ProbeProtocol::Icmp => {
                flow.destination_id = (u32::from(self.destination_id) + u32::from(number) * 257)
                    .rem_euclid(0xfffe) as u16;
                flow.destination_id = flow.destination_id.max(1);
            }
            ProbeProtocol::Udp | ProbeProtocol::Tcp => {
                flow.source_id = self.source_id.wrapping_add(number);
            }
        }
        flow
    }

    /// Returns the IPv6 flow label, one for each flow.
    pub(super) fn flow_label(&self) -> u32 {
        let ports = u32::from(self.source_id) << 16 | u32::from(self.destination_id);
        (self.tag ^ ports.rotate_left(9)).wrapping_mul(0x9e37_79b1) >> 12
    }

    pub(super) fn protocol_number(&self) -> u8 {
        match (self.protocol, self.destination) {
            (ProbeProtocol::Icmp, IpAddr::V4(_)) => 1,
            (ProbeProtocol::Icmp, IpAddr::V6(_)) => 58,
            (ProbeProtocol::Udp, _) => 17,
            (ProbeProtocol::Tcp, _) => 6,
        }
    }

    /// Returns the TCP sequence number of a probe.
    pub(super) fn sequence(&self, key: u16) -> u32 {
        self.tag << 16 | u32::from(key)
    }

    /// Builds the whole packet, with its IP header.
    pub fn packet(&self, ttl: u8, key: u16) -> Vec<u8> {
        let transport = self.transport(key);
        let mut packet = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = (20 + transport.len()) as u16;
                let mut head = vec![0x45, 0];
                head.extend(total.to_be_bytes());
                head.extend(key.to_be_bytes());
                // Don't fragment.
                head.extend([0x40, 0, ttl, self.protocol_number(), 0, 0]);
                head.extend(source.octets());
                head.extend(destination.octets());
                let checksum = !fold_checksum(sum_words(&head));
                head[10..12].copy_from_slice(&checksum.to_be_bytes());
                head
            }
            (source, destination) => {
                let mut head = (6 << 28 | self.flow_label()).to_be_bytes().to_vec();
                head.extend((transport.len() as u16).to_be_bytes());
                head.extend([self.protocol_number(), ttl]);
                head.extend(address_octets(source));
                head.extend(address_octets(destination));
                head
            }
        };
        packet.extend(transport);
        packet
    }

    /// Builds the packet without its IP header.
    pub fn transport(&self, key: u16) -> Vec<u8> {
        match self.protocol {
            ProbeProtocol::Icmp => self.echo(key),
            ProbeProtocol::Udp => self.datagram(key),
            ProbeProtocol::Tcp => self.syn(key),
        }
    }

    /// Returns the compensating word (still zero), tag, number and padding.
    fn payload(&self, key: u16) -> Vec<u8> {
        let mut payload = vec![0, 0];
        payload.extend(self.tag.to_be_bytes());
        payload.extend(key.to_be_bytes());
        payload.resize(PAYLOAD_BYTES, 0);
        payload
    }

    fn echo(&self, key: u16) -> Vec<u8> {
        let request = if self.destination.is_ipv4() { 8 } else { 128 };
        let mut message = vec![request, 0];
        message.extend(self.destination_id.to_be_bytes());
        message.extend(self.source_id.to_be_bytes());
        message.extend(key.to_be_bytes());
        message.extend(self.payload(key));
        // ICMPv4 has no pseudo-header.
        let before = match self.destination {
            IpAddr::V4(_) => 0,
            IpAddr::V6(_) => self.pseudo_header(message.len()),
        };
        set_compensating_word(&mut message, 8, before);
        message
    }

    fn datagram(&self, key: u16) -> Vec<u8> {
        let length = (8 + PAYLOAD_BYTES) as u16;
        let mut message = self.source_id.to_be_bytes().to_vec();
        message.extend(self.destination_id.to_be_bytes());
        message.extend(length.to_be_bytes());
        message.extend(key.to_be_bytes());
        message.extend(self.payload(key));
        let before = self.pseudo_header(message.len());
        set_compensating_word(&mut message, 8, before);
        message
    }

    fn syn(&self, key: u16) -> Vec<u8> {
        let options = self.syn_options();
        let words = (20 + options.len()) / 4;
        let mut segment = self.source_id.to_be_bytes().to_vec();
        segment.extend(self.destination_id.to_be_bytes());
        segment.extend(self.sequence(key).to_be_bytes());
        segment.extend([0; 4]);
        segment.extend([(words as u8) << 4, SYN]);
        segment.extend([0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(options);
        let checksum = !fold_checksum(self.pseudo_header(segment.len()) + sum_words(&segment));
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        segment
    }

    /// Returns MSS, SACK permitted, timestamps, NOP and window scale in the order of Linux, so that
    /// middleboxes treat the probe like an ordinary connection.
    pub(super) fn syn_options(&self) -> Vec<u8> {
        let mss = if self.destination.is_ipv4() { MSS_V4 } else { MSS_V6 };
        let mut options = vec![2, 4];
        options.extend(mss.to_be_bytes());
        options.extend([4, 2, 8, 10]);
        options.extend(self.tag.to_be_bytes());
        options.extend([0; 4]);
        options.extend([1, 3, 3, WINDOW_SCALE]);
        options
    }

    fn pseudo_header(&self, transport_bytes: usize) -> u32 {
        sum_words(&address_octets(self.source))
            + sum_words(&address_octets(self.destination))
            + u32::from(self.protocol_number())
            + transport_bytes as u32
    }
}

/// Sets the word at `at` so that the checksum already present in `message` is correct.
fn set_compensating_word(message: &mut [u8], at: usize, before: u32) {
    let word = !fold_checksum(before + sum_words(message));
    message[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// Returns the sum of 16-bit words (RFC 1071), of at most 64 KiB.
pub(super) fn sum_words(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([word[0], low]))
    });
    words.fold(0, u32::wrapping_add)
}

pub(super) fn fold_checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn flow(protocol: ProbeProtocol, v6: bool, ends: (u16, u16), tag: u32) -> ProbeFlow {
        let address = |last: u8| {
            if v6 {
                IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)])
            } else {
                IpAddr::from([192, 0, 2, last])
            }
        };
        ProbeFlow {
            protocol,
            source: address(1),
            destination: address(9),
            source_id: ends.0,
            destination_id: ends.1,
            tag,
        }
    }

    const PROTOCOLS: [ProbeProtocol; 3] =
        [ProbeProtocol::Icmp, ProbeProtocol::Udp, ProbeProtocol::Tcp];

    proptest! {
        #[test]
        fn checksums_are_right_and_what_balancers_hash_is_constant(
            which in 0_usize..3, v6: bool, near: u16, far in 1_u16..0xffff, tag: u32,
            one in 0_u32..100_000, two in 0_u32..100_000,
        ) {
            let flow = flow(PROTOCOLS[which], v6, (near, far), tag);
            let head = if v6 { 40 } else { 20 };
            let packets = [one, two].map(|index| flow.packet(7, probe_key(index)));
            for packet in &packets {
                let transport = &packet[head..];
                let pseudo = match (flow.protocol, v6) {
                    (ProbeProtocol::Icmp, false) => 0,
                    _ => flow.pseudo_header(transport.len()),
                };
                prop_assert_eq!(fold_checksum(pseudo + sum_words(transport)), 0xffff);
                if !v6 {
                    prop_assert_eq!(fold_checksum(sum_words(&packet[..20])), 0xffff);
                }
            }
            // First four bytes of the transport header: ports, or type, code and checksum.
            prop_assert_eq!(&packets[0][head..head + 4], &packets[1][head..head + 4]);
            if v6 {
                prop_assert_eq!(&packets[0][..4], &packets[1][..4]);
            }
            prop_assert_eq!(probe_key(one) == probe_key(two), packets[0] == packets[1]);
        }

        #[test]
        fn other_flows_differ_where_balancers_look(
            which in 0_usize..3, v6: bool, near: u16, far in 1_u16..0xffff, tag: u32,
            numbers in prop::collection::hash_set(0_u16..255, 2),
        ) {
            let flow = flow(PROTOCOLS[which], v6, (near, far), tag);
            let numbers: Vec<u16> = numbers.into_iter().collect();
            let others = [flow.sibling_flow(numbers[0]), flow.sibling_flow(numbers[1])];
            prop_assert_ne!((others[0].source_id, others[0].destination_id), (others[1].source_id, others[1].destination_id));
        }
    }
}
