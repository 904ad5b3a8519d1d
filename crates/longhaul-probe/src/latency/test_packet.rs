//! The test packets of STAMP (RFC 8762, sections 4.2 and 4.3) and TWAMP Light.
//!
//! Without authentication, TWAMP-Test (RFC 5357, section 4) has the same layout with other padding:
//! offsets in octets, lengths in parentheses.
//!
//! | field | plain | authenticated |
//! | --- | --- | --- |
//! | sequence number (4) | 0 | 0 |
//! | timestamp (8) | 4 | 16 |
//! | error estimate (2) | 12 | 24 |
//! | session identifier of RFC 8972 (2) | 14 | 26 |
//! | reflector: receive timestamp (8) | 16 | 32 |
//! | reflector: sequence number of the sender (4) | 24 | 48 |
//! | reflector: timestamp of the sender (8) | 28 | 64 |
//! | reflector: error estimate of the sender (2) | 36 | 72 |
//! | reflector: TTL at the reflector (1) | 40 | 80 |
//! | HMAC-SHA-256, truncated (16) | – | 96 |
//! | extensions | 44 | 112 |
//!
//! All other octets are zero. The HMAC covers the 96 octets before it.

use super::packet_extension::{self, ExtensionKey};
use super::wire_time::ErrorEstimate;
use longhaul_model::report::v1::latency::LatencyProtocol;
use ring::hmac;
use std::fmt;

/// The maximum payload of a test packet.
pub const MAX_PACKET_BYTES: usize = 9000;
/// The length of a reflected packet of TWAMP without padding.
const TWAMP_REPLY_BYTES: usize = 41;
/// The length of an HMAC.
pub(super) const HMAC_BYTES: usize = 16;

/// Offsets of the fields.
struct PacketLayout {
    timestamp: usize,
    error: usize,
    session: usize,
    received: usize,
    sender_sequence: usize,
    sender_timestamp: usize,
    sender_error: usize,
    sender_ttl: usize,
    /// Length without extensions.
    base_bytes: usize,
}

const PLAIN: PacketLayout = PacketLayout {
    timestamp: 4,
    error: 12,
    session: 14,
    received: 16,
    sender_sequence: 24,
    sender_timestamp: 28,
    sender_error: 36,
    sender_ttl: 40,
    base_bytes: 44,
};

const AUTHENTICATED: PacketLayout = PacketLayout {
    timestamp: 16,
    error: 24,
    session: 26,
    received: 32,
    sender_sequence: 48,
    sender_timestamp: 64,
    sender_error: 72,
    sender_ttl: 80,
    base_bytes: 112,
};

/// Offset of the HMAC of authenticated packets.
const HMAC_AT: usize = 96;

/// The key that both ends of an authenticated session share.
#[derive(Clone)]
pub struct PacketKey(hmac::Key);

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey")
    }
}

impl PacketKey {
    /// Returns the key with these bytes.
    pub fn new(bytes: &[u8]) -> PacketKey {
        PacketKey(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the key in the first line of a text; one that begins with `0x` is hexadecimal. The
    /// error says what is wrong with it.
    pub fn parse(text: &str) -> Result<PacketKey, &'static str> {
        let line = text.lines().next().unwrap_or_default().trim_end();
        let Some(digits) = line.strip_prefix("0x") else {
            return if line.is_empty() { Err("is empty") } else { Ok(Self::new(line.as_bytes())) };
        };
        let pairs = digits.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| match pair {
                [_, _] => u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok(),
                _ => None,
            })
            .collect();
        match bytes {
            Some(bytes) if !bytes.is_empty() => Ok(Self::new(&bytes)),
            _ => Err("has no even number of hexadecimal digits after 0x"),
        }
    }

    /// Returns the truncated HMAC of several pieces.
    pub(super) fn sign(&self, pieces: &[&[u8]]) -> [u8; HMAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        for piece in pieces {
            context.update(piece);
        }
        let mut tag = [0; HMAC_BYTES];
        tag.copy_from_slice(&context.sign().as_ref()[..HMAC_BYTES]);
        tag
    }

    /// Returns whether `tag` is the truncated HMAC of the pieces, in constant time.
    pub(super) fn verifies(&self, pieces: &[&[u8]], tag: &[u8]) -> bool {
        let right = self.sign(pieces);
        tag.len() == HMAC_BYTES && right.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// The fields of a packet of the sender. Timestamps are as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRequest {
    pub sequence: u32,
    pub timestamp: u64,
    pub error: u16,
    /// Session identifier; zero: none.
    pub session: u16,
}

/// The fields of a packet of the reflector. Timestamps are as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestReply {
    pub sequence: u32,
    pub timestamp: u64,
    pub error: ErrorEstimate,
    /// When the packet of the sender came.
    pub received: u64,
    pub request: TestRequest,
    /// TTL of the sender's packet at the reflector.
    pub request_ttl: u8,
}

/// Encodes and decodes the packets of sessions with one key, or without authentication.
#[derive(Debug, Clone)]
pub struct PacketCodec {
    key: Option<PacketKey>,
}

impl PacketCodec {
    pub fn new(key: Option<PacketKey>) -> PacketCodec {
        PacketCodec { key }
    }

    fn layout(&self) -> &'static PacketLayout {
        if self.key.is_some() { &AUTHENTICATED } else { &PLAIN }
    }

    /// Returns the length of a packet without extensions.
    pub fn base_bytes(&self) -> usize {
        self.layout().base_bytes
    }

    /// Returns whether a packet can have this length: beyond the fields there is no extension, or
    /// room for its header.
    pub fn accepts_length(&self, bytes: usize) -> bool {
        let base = self.base_bytes();
        bytes == base || (base + packet_extension::HEADER_BYTES..=MAX_PACKET_BYTES).contains(&bytes)
    }

    /// Writes a packet of the sender, whose length is that of `packet`
    /// ([`PacketCodec::accepts_length`]). The padding of TWAMP Light is zeros.
    pub fn encode_request(
        &self,
        request: &TestRequest,
        protocol: LatencyProtocol,
        packet: &mut [u8],
    ) {
        packet.fill(0);
        let base = self.base_bytes();
        if protocol == LatencyProtocol::Stamp && packet.len() > base {
            packet_extension::write_padding(&mut packet[base..]);
        }
        self.write_own_fields(request, packet);
        self.sign(packet);
    }

    /// Returns the fields of a packet of the sender; `None` if it is too short or not authentic.
    pub fn decode_request(&self, packet: &[u8]) -> Option<TestRequest> {
        // Otherwise the answer would be longer.
        let least = if self.key.is_some() { self.base_bytes() } else { TWAMP_REPLY_BYTES };
        if packet.len() < least || !self.is_authentic(packet) {
            return None;
        }
        Some(self.read_own_fields(packet))
    }

    /// Returns whether a packet is one of a reflector: its two timestamps are within seconds. A
    /// reflector that answers these would exchange them with another one for ever.
    pub fn is_reflected(&self, packet: &[u8]) -> bool {
        const MAX_DWELL_S: u64 = 10;
        let layout = self.layout();
        let seconds = |at: usize| u64::from(u32::from_be_bytes(read(packet, at)));
        // Senders leave it empty.
        let is_received = read(packet, layout.received) != [0; 8];
        is_received && seconds(layout.timestamp).abs_diff(seconds(layout.received)) <= MAX_DWELL_S
    }

    /// Turns a packet of the sender into the answer, of the same length: writes the fields, and
    /// marks the extensions that this reflector does not know.
    pub fn encode_reply(&self, reply: &TestReply, packet: &mut [u8]) {
        let base = self.base_bytes().min(packet.len());
        let (fields, extensions) = packet.split_at_mut(base);
        fields.fill(0);
        let [own, sender] = [reply.sequence, reply.request.sequence].map(u32::to_be_bytes);
        let key = self.key.as_ref().map(|key| ExtensionKey { key, request: sender, reply: own });
        packet_extension::reflect_extensions(extensions, key.as_ref());
        let layout = self.layout();
        let own = TestRequest {
            sequence: reply.sequence,
            timestamp: reply.timestamp,
            error: reply.error.encode(),
            session: reply.request.session,
        };
        self.write_own_fields(&own, packet);
        write(packet, layout.received, reply.received.to_be_bytes());
        write(packet, layout.sender_sequence, sender);
        write(packet, layout.sender_timestamp, reply.request.timestamp.to_be_bytes());
        write(packet, layout.sender_error, reply.request.error.to_be_bytes());
        write(packet, layout.sender_ttl, [reply.request_ttl]);
        self.sign(packet);
    }

    /// Returns the fields of a packet of the reflector; `None` if it is too short or not authentic.
    pub fn decode_reply(&self, packet: &[u8]) -> Option<TestReply> {
        // The shortest packet is the same.
        let own = self.decode_request(packet)?;
        let layout = self.layout();
        Some(TestReply {
            sequence: own.sequence,
            timestamp: own.timestamp,
            error: ErrorEstimate::decode(own.error),
            received: u64::from_be_bytes(read(packet, layout.received)),
            request: TestRequest {
                sequence: u32::from_be_bytes(read(packet, layout.sender_sequence)),
                timestamp: u64::from_be_bytes(read(packet, layout.sender_timestamp)),
                error: u16::from_be_bytes(read(packet, layout.sender_error)),
                session: own.session,
            },
            request_ttl: packet[layout.sender_ttl],
        })
    }

    fn write_own_fields(&self, own: &TestRequest, packet: &mut [u8]) {
        let layout = self.layout();
        write(packet, 0, own.sequence.to_be_bytes());
        write(packet, layout.timestamp, own.timestamp.to_be_bytes());
        write(packet, layout.error, own.error.to_be_bytes());
        write(packet, layout.session, own.session.to_be_bytes());
    }

    fn read_own_fields(&self, packet: &[u8]) -> TestRequest {
        let layout = self.layout();
        TestRequest {
            sequence: u32::from_be_bytes(read(packet, 0)),
            timestamp: u64::from_be_bytes(read(packet, layout.timestamp)),
            error: u16::from_be_bytes(read(packet, layout.error)),
            session: u16::from_be_bytes(read(packet, layout.session)),
        }
    }

    fn sign(&self, packet: &mut [u8]) {
        if let Some(key) = &self.key {
            let tag = key.sign(&[&packet[..HMAC_AT]]);
            write(packet, HMAC_AT, tag);
        }
    }

    fn is_authentic(&self, packet: &[u8]) -> bool {
        self.key
            .as_ref()
            .is_none_or(|key| key.verifies(&[&packet[..HMAC_AT]], &packet[HMAC_AT..][..HMAC_BYTES]))
    }
}

fn write<const N: usize>(packet: &mut [u8], at: usize, field: [u8; N]) {
    packet[at..at + N].copy_from_slice(&field);
}

fn read<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&packet[at..at + N]);
    field
}

#[cfg(test)]
mod tests;
