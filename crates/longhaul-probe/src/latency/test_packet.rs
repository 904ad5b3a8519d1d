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
//!
//! A sender of authenticated or encrypted TWAMP has its HMAC (HMAC-SHA-1) at 32, and padding from 48. Its
//! fields are encrypted ([`TestSessionKey`]), as are those of the answer.

use super::control_cipher::TestSessionKey;
use super::packet_extension::{self, ExtensionKey};
use super::wire_time::ErrorEstimate;
use crate::secure::{decode_hex, equal_in_constant_time};
use longhaul_model::report::v1::latency::LatencyProtocol;
use ring::hmac;
use std::fmt;

/// The maximum payload of a test packet.
pub const MAX_PACKET_BYTES: usize = 9000;
/// The lengths of packets of TWAMP without padding and without a key.
const TWAMP_REQUEST_BYTES: usize = 14;
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
/// Offset of the HMAC of a sender of TWAMP.
const TWAMP_HMAC_AT: usize = 32;
/// The length of the longest fields, with the HMAC.
const MAX_FIELD_BYTES: usize = AUTHENTICATED.base_bytes;

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
        parse_key_text(line).map(|bytes| Self::new(&bytes))
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
        equal_in_constant_time(&self.sign(pieces), tag)
    }
}

/// Returns the bytes of a key: those of the text, or hexadecimal ones after `0x`. The error says what
/// is wrong with it.
pub(super) fn parse_key_text(text: &str) -> Result<Vec<u8>, &'static str> {
    let Some(digits) = text.strip_prefix("0x") else {
        return if text.is_empty() { Err("is empty") } else { Ok(text.as_bytes().to_vec()) };
    };
    decode_hex(digits)
        .filter(|bytes| !bytes.is_empty())
        .ok_or("has no even number of hexadecimal digits after 0x")
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

/// Returns the length of a packet without extensions and padding.
pub fn packet_bytes(is_authenticated: bool) -> usize {
    layout(is_authenticated).base_bytes
}

/// Returns whether a sender's packet can have this length: beyond the fields there is no extension, or
/// room for its header.
pub fn accepts_packet_bytes(bytes: usize, is_authenticated: bool) -> bool {
    let base = packet_bytes(is_authenticated);
    bytes == base || (base + packet_extension::HEADER_BYTES..=MAX_PACKET_BYTES).contains(&bytes)
}

fn layout(is_authenticated: bool) -> &'static PacketLayout {
    if is_authenticated { &AUTHENTICATED } else { &PLAIN }
}

/// The authentication of the packets of a session.
#[derive(Debug, Clone)]
enum PacketProtection {
    Stamp(PacketKey),
    Twamp(TestSessionKey),
}

/// Encodes and decodes the packets of sessions with one key, or without authentication.
#[derive(Debug, Clone)]
pub struct PacketCodec {
    protection: Option<PacketProtection>,
    /// The packets are those of a session of TWAMP, which may be shorter than their answers.
    is_session: bool,
}

impl PacketCodec {
    /// Returns the codec of STAMP, and of TWAMP without authentication.
    pub fn new(key: Option<PacketKey>) -> PacketCodec {
        PacketCodec { protection: key.map(PacketProtection::Stamp), is_session: false }
    }

    /// Returns the codec of a session of TWAMP.
    pub fn for_session(key: Option<TestSessionKey>) -> PacketCodec {
        PacketCodec { protection: key.map(PacketProtection::Twamp), is_session: true }
    }

    fn layout(&self) -> &'static PacketLayout {
        layout(self.protection.is_some())
    }

    /// Returns the length of the answer to a packet. It is not longer, except in a session of TWAMP (RFC
    /// 5357, section 4.2.1), whose client has shown by its connection that the answers are for it.
    pub(super) fn reply_bytes(&self, packet_bytes: usize) -> usize {
        packet_bytes.max(self.least_bytes(HMAC_AT))
    }

    /// Returns the least length of a packet: of the sender or of the reflector, whose HMACs in TWAMP are
    /// at different offsets.
    fn least_bytes(&self, twamp_hmac_at: usize) -> usize {
        match &self.protection {
            None if self.is_session && twamp_hmac_at == TWAMP_HMAC_AT => TWAMP_REQUEST_BYTES,
            None => TWAMP_REPLY_BYTES,
            Some(PacketProtection::Stamp(_)) => AUTHENTICATED.base_bytes,
            Some(PacketProtection::Twamp(_)) => twamp_hmac_at + HMAC_BYTES,
        }
    }

    /// Writes a packet of the sender, whose length is that of `packet`
    /// ([`accepts_packet_bytes`]). The padding of TWAMP Light is zeros.
    pub fn encode_request(
        &self,
        request: &TestRequest,
        protocol: LatencyProtocol,
        packet: &mut [u8],
    ) {
        packet.fill(0);
        let base = self.layout().base_bytes;
        if protocol == LatencyProtocol::Stamp && packet.len() > base {
            packet_extension::write_padding(&mut packet[base..]);
        }
        self.write_own_fields(request, packet);
        self.seal(packet, TWAMP_HMAC_AT);
    }

    /// Returns the fields of a packet of the sender; `None` if it is too short or not authentic.
    pub fn decode_request(&self, packet: &[u8]) -> Option<TestRequest> {
        let fields = self.open(packet, TWAMP_HMAC_AT)?;
        Some(self.read_own_fields(&fields))
    }

    /// Returns whether a packet is one of a reflector: its two timestamps are within seconds. A
    /// reflector that answers these would exchange them with another one for ever. Those of a session
    /// of TWAMP with a key are not authentic as a sender's.
    pub fn is_reflected(&self, packet: &[u8]) -> bool {
        const MAX_DWELL_S: u64 = 10;
        let has_key = matches!(self.protection, Some(PacketProtection::Twamp(_)));
        if has_key || packet.len() < TWAMP_REPLY_BYTES {
            return false;
        }
        let layout = self.layout();
        let seconds = |at: usize| u64::from(u32::from_be_bytes(read(packet, at)));
        // Senders leave it empty.
        let is_received = read(packet, layout.received) != [0; 8];
        is_received && seconds(layout.timestamp).abs_diff(seconds(layout.received)) <= MAX_DWELL_S
    }

    /// Turns a packet of the sender, of the length of the answer, into the answer: writes the fields, and
    /// marks the extensions that this reflector does not know.
    pub fn encode_reply(&self, reply: &TestReply, packet: &mut [u8]) {
        let base = self.layout().base_bytes.min(packet.len());
        let (fields, extensions) = packet.split_at_mut(base);
        fields.fill(0);
        let [own, sender] = [reply.sequence, reply.request.sequence].map(u32::to_be_bytes);
        let key = match &self.protection {
            Some(PacketProtection::Stamp(key)) => {
                Some(ExtensionKey { key, request: sender, reply: own })
            }
            _ => None,
        };
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
        self.seal(packet, HMAC_AT);
    }

    /// Returns the fields of a packet of the reflector; `None` if it is too short or not authentic.
    pub fn decode_reply(&self, packet: &[u8]) -> Option<TestReply> {
        let fields = self.open(packet, HMAC_AT)?;
        let own = self.read_own_fields(&fields);
        let layout = self.layout();
        Some(TestReply {
            sequence: own.sequence,
            timestamp: own.timestamp,
            error: ErrorEstimate::decode(own.error),
            received: u64::from_be_bytes(read(&fields, layout.received)),
            request: TestRequest {
                sequence: u32::from_be_bytes(read(&fields, layout.sender_sequence)),
                timestamp: u64::from_be_bytes(read(&fields, layout.sender_timestamp)),
                error: u16::from_be_bytes(read(&fields, layout.sender_error)),
                session: own.session,
            },
            request_ttl: fields[layout.sender_ttl],
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

    /// Signs a packet; one of TWAMP is also encrypted, and has its HMAC at `twamp_hmac_at`.
    fn seal(&self, packet: &mut [u8], twamp_hmac_at: usize) {
        match &self.protection {
            None => {}
            Some(PacketProtection::Stamp(key)) => {
                let tag = key.sign(&[&packet[..HMAC_AT]]);
                write(packet, HMAC_AT, tag);
            }
            Some(PacketProtection::Twamp(key)) => key.seal_packet(packet, twamp_hmac_at),
        }
    }

    /// Returns the fields of a packet, decrypted; `None` if it is too short or not authentic.
    fn open(&self, packet: &[u8], twamp_hmac_at: usize) -> Option<[u8; MAX_FIELD_BYTES]> {
        if packet.len() < self.least_bytes(twamp_hmac_at) {
            return None;
        }
        let mut fields = [0; MAX_FIELD_BYTES];
        let length = packet.len().min(MAX_FIELD_BYTES);
        fields[..length].copy_from_slice(&packet[..length]);
        let is_authentic = match &self.protection {
            None => true,
            Some(PacketProtection::Stamp(key)) => {
                key.verifies(&[&fields[..HMAC_AT]], &fields[HMAC_AT..][..HMAC_BYTES])
            }
            Some(PacketProtection::Twamp(key)) => key.open_packet(&mut fields, twamp_hmac_at),
        };
        is_authentic.then_some(fields)
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
