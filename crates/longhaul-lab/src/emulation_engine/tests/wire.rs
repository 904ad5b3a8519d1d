//! Parses what arrives as the receiving kernel would: checks every header and divides super-packets
//! into segments. Independent of the engine, so that both cannot have the same error.

use super::bench::Arrival;

/// One segment as TCP or UDP receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub id: u16,
    pub ttl: u8,
    pub sequence: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
}

pub fn ones_sum(bytes: &[u8]) -> u32 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns header length, protocol, TTL and identification of a valid IP header that fills its
/// packet.
fn network(ip: &[u8]) -> (usize, u8, u8, u16) {
    if ip[0] >> 4 == 4 {
        assert_eq!(usize::from(be16(ip, 2)), ip.len(), "IPv4 total length");
        assert_eq!(ones_sum(&ip[..20]), 0xffff, "IPv4 header checksum");
        (20, ip[9], ip[8], be16(ip, 4))
    } else {
        assert_eq!(usize::from(be16(ip, 4)) + 40, ip.len(), "IPv6 payload length");
        (40, ip[6], ip[7], 0)
    }
}

fn pseudo_sum(ip: &[u8], header: usize, protocol: u8) -> u32 {
    let addresses = if header == 20 { &ip[12..20] } else { &ip[8..40] };
    let length = (ip.len() - header) as u16;
    let mut bytes = addresses.to_vec();
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&[0, protocol]);
    ones_sum(&bytes)
}

/// FIN and PSH belong to the last segment, CWR to the first.
fn segment_flags(flags: u8, index: usize, last: usize) -> u8 {
    let flags = if index == last { flags } else { flags & !0x09 };
    if index == 0 { flags } else { flags & !0x80 }
}

/// Returns the segments of an arrived packet whose transport checksum was left to the device.
pub fn segments(arrival: &Arrival) -> Vec<Segment> {
    let ip = arrival.ip();
    let (header, protocol, ttl, id) = network(ip);
    let transport = &ip[header..];
    let (bytes, field) = match protocol {
        6 => (usize::from(transport[12] >> 4) * 4, 16),
        17 => {
            assert_eq!(usize::from(be16(transport, 4)), transport.len(), "UDP length");
            (8, 6)
        }
        other => panic!("protocol {other}"),
    };
    let frame = &arrival.frame;
    assert_eq!(frame[0], 1, "the checksum is still to be made");
    assert_eq!(usize::from(frame[6]), header, "checksum start");
    assert_eq!(usize::from(frame[8]), field, "checksum offset");
    let partial = u32::from(be16(transport, field));
    assert_eq!(partial, pseudo_sum(ip, header, protocol), "pseudo-header sum");
    let size = arrival.gso_size();
    if size > 0 {
        assert_eq!(usize::from(frame[2]), header + bytes, "header length of a super-packet");
    }
    let payload = &transport[bytes..];
    let chunks: Vec<&[u8]> = if size == 0 { vec![payload] } else { payload.chunks(size).collect() };
    let sequence = if protocol == 6 {
        u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]])
    } else {
        0
    };
    let last = chunks.len() - 1;
    let segment = |(index, payload): (usize, &&[u8])| Segment {
        id: if header == 20 { id.wrapping_add(index as u16) } else { 0 },
        ttl,
        sequence: if protocol == 6 { sequence.wrapping_add((index * size) as u32) } else { 0 },
        flags: if protocol == 17 { 0 } else { segment_flags(transport[13], index, last) },
        payload: payload.to_vec(),
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// An ICMP or ICMPv6 message: sender, TTL, type, code, rest. Checks both checksums.
pub struct Icmp {
    pub from: Vec<u8>,
    pub ttl: u8,
    pub kind: u8,
    pub code: u8,
    pub word: u32,
    pub body: Vec<u8>,
}

pub fn icmp(arrival: &Arrival) -> Icmp {
    let ip = arrival.ip();
    let (header, protocol, ttl, _) = network(ip);
    let message = &ip[header..];
    let from = if header == 20 { &ip[12..16] } else { &ip[8..24] };
    let sum = if protocol == 58 { pseudo_sum(ip, header, 58) } else { 0 };
    assert!(matches!(protocol, 1 | 58), "protocol {protocol}");
    let total = ones_sum(message) + sum;
    assert_eq!((total & 0xffff) + (total >> 16), 0xffff, "ICMP checksum");
    assert_eq!(arrival.frame[..10], [0; 10], "nothing is left to the device");
    Icmp {
        from: from.to_vec(),
        ttl,
        kind: message[0],
        code: message[1],
        word: u32::from_be_bytes([message[4], message[5], message[6], message[7]]),
        body: message[8..].to_vec(),
    }
}
