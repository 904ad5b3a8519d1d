//! Packets built octet by octet from the figures of RFC 8762, RFC 5357 and RFC 8972.

use super::*;
use crate::latency::wire_time::TimestampFormat;
use proptest::prelude::*;
use std::time::Duration;

const KEY: &[u8] = b"a key of both ends";

fn plain() -> PacketCodec {
    PacketCodec::new(None)
}

fn authenticated() -> PacketCodec {
    PacketCodec::new(Some(PacketKey::new(KEY)))
}

fn request() -> TestRequest {
    TestRequest {
        sequence: 0x0102_0304,
        timestamp: 0x1112_1314_1516_1718,
        error: 0x8a01,
        session: 0x2122,
    }
}

fn reply() -> TestReply {
    let error = ErrorEstimate {
        synchronized: true,
        format: TimestampFormat::Ntp,
        error: Duration::from_secs(1),
    };
    TestReply {
        sequence: 0x3132_3334,
        timestamp: 0x4142_4344_4546_4748,
        error,
        received: 0x5152_5354_5556_5758,
        request: request(),
        request_ttl: 61,
    }
}

/// RFC 2104 with the hash of `ring`, as its only independent part.
fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    use ring::digest::{SHA256, digest};
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
        block
    };
    let inner = digest(&SHA256, &[&pad(0x36), text].concat());
    digest(&SHA256, &[&pad(0x5c), inner.as_ref()].concat()).as_ref().to_vec()
}

#[test]
fn a_plain_packet_of_the_sender_has_44_octets() {
    let mut packet = [0xff; 44];
    plain().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    let fields: &[&[u8]] = &[
        &[1, 2, 3, 4],
        &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x8a, 1],
        &[0x21, 0x22],
        &[0; 28],
    ];
    assert_eq!(packet.as_slice(), fields.concat());
    assert_eq!(plain().decode_request(&packet), Some(request()));
}

#[test]
fn an_authenticated_packet_of_the_sender_is_signed_after_96_octets() {
    let mut packet = [0xff; 112];
    authenticated().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    let fields: &[&[u8]] = &[
        &[1, 2, 3, 4],
        &[0; 12],
        &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x8a, 1],
        &[0x21, 0x22],
        &[0; 68],
    ];
    let fields = fields.concat();
    assert_eq!(packet[..96], fields);
    assert_eq!(packet[96..], hmac_sha256(KEY, &fields)[..16]);
    assert_eq!(authenticated().decode_request(&packet), Some(request()));
}

#[test]
fn a_plain_answer_repeats_the_request_after_24_octets() {
    let mut packet = [0xff; 44];
    plain().encode_reply(&reply(), &mut packet);
    let fields: &[&[u8]] = &[
        &[0x31, 0x32, 0x33, 0x34],
        &[0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48],
        // Synchronized, 128 × 2^(25 - 32) s.
        &[0x99, 128],
        &[0x21, 0x22],
        &[0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58],
        &[1, 2, 3, 4],
        &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x8a, 1],
        &[0, 0],
        &[61],
        &[0; 3],
    ];
    assert_eq!(packet.as_slice(), fields.concat());
    assert_eq!(plain().decode_reply(&packet), Some(reply()));
}

#[test]
fn an_authenticated_answer_repeats_the_request_after_48_octets() {
    let mut packet = [0xff; 112];
    authenticated().encode_reply(&reply(), &mut packet);
    let fields: &[&[u8]] = &[
        &[0x31, 0x32, 0x33, 0x34],
        &[0; 12],
        &[0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48],
        &[0x99, 128],
        &[0x21, 0x22],
        &[0; 4],
        &[0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58],
        &[0; 8],
        &[1, 2, 3, 4],
        &[0; 12],
        &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x8a, 1],
        &[0; 6],
        &[61],
        &[0; 15],
    ];
    let fields = fields.concat();
    assert_eq!(packet[..96], fields);
    assert_eq!(packet[96..], hmac_sha256(KEY, &fields)[..16]);
    assert_eq!(authenticated().decode_reply(&packet), Some(reply()));
}

#[test]
fn a_changed_octet_or_another_key_is_not_authentic() {
    let mut packet = [0; 112];
    authenticated().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    let other = PacketCodec::new(Some(PacketKey::new(b"another key")));
    assert_eq!(other.decode_request(&packet), None);
    for at in 0..packet.len() {
        let mut changed = packet;
        changed[at] ^= 1;
        assert_eq!(authenticated().decode_request(&changed), None, "octet {at}");
        assert_eq!(authenticated().decode_request(&packet[..at]), None, "{at} octets");
    }
}

#[test]
fn twamp_light_has_padding_of_zeros_and_answers_of_41_octets() {
    let mut packet = [0xff; 60];
    plain().encode_request(&request(), LatencyProtocol::TwampLight, &mut packet);
    assert_eq!(packet[16..], [0; 44]);
    let mut shortest = [0; 41];
    plain().encode_reply(&reply(), &mut shortest);
    assert_eq!(plain().decode_reply(&shortest), Some(reply()));
    // An answer would be longer.
    assert_eq!(plain().decode_request(&[0; 40]), None);
}

#[test]
fn the_padding_of_a_sender_of_twamp_comes_back_unchanged() {
    let mut packet: Vec<u8> = (0..100).collect();
    plain().encode_reply(&reply(), &mut packet);
    assert_eq!(packet[44..], (44..100).collect::<Vec<u8>>());
}

#[test]
fn extra_padding_is_known_and_other_extensions_are_flagged_and_returned() {
    let mut packet = vec![0; 52];
    plain().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    assert_eq!(packet[44..], [0x80, 1, 0, 4, 0, 0, 0, 0]);
    // A location, an empty one of a type for experiments, and one that is cut off.
    packet.extend([0x80, 2, 0, 2, 7, 7, 0x80, 251, 0, 0, 0x80, 4, 0, 9, 1, 2]);
    plain().encode_reply(&reply(), &mut packet);
    assert_eq!(packet[44..52], [0, 1, 0, 4, 0, 0, 0, 0]);
    let others = [0x80, 2, 0, 2, 7, 7, 0x80, 251, 0, 0, 0x80 | 0x40, 4, 0, 9, 1, 2];
    assert_eq!(packet[52..], others);
}

/// Returns an authenticated packet with a location of two octets and its signature.
fn signed_extensions() -> Vec<u8> {
    let mut packet = vec![0; 112];
    authenticated().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    let location = [0x80, 2, 0, 2, 7, 7];
    let tag = hmac_sha256(KEY, &[&[1, 2, 3, 4], location.as_slice()].concat());
    packet.extend(location);
    packet.extend([0x80, 8, 0, 16]);
    packet.extend(&tag[..16]);
    packet
}

#[test]
fn signed_extensions_are_signed_again_with_the_sequence_number_of_the_answer() {
    let mut packet = signed_extensions();
    authenticated().encode_reply(&reply(), &mut packet);
    let location = [0x80, 2, 0, 2, 7, 7];
    assert_eq!(packet[112..118], location);
    assert_eq!(packet[118..122], [0, 8, 0, 16]);
    let tag = hmac_sha256(KEY, &[&[0x31, 0x32, 0x33, 0x34], location.as_slice()].concat());
    assert_eq!(packet[122..], tag[..16]);
}

#[test]
fn extensions_that_are_not_authentic_are_flagged() {
    let mut packet = signed_extensions();
    packet[117] ^= 1;
    authenticated().encode_reply(&reply(), &mut packet);
    assert_eq!((packet[112], packet[118]), (0x80 | 0x20, 0x20));
    // A single padding needs no signature.
    let mut packet = vec![0; 120];
    authenticated().encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
    authenticated().encode_reply(&reply(), &mut packet);
    assert_eq!(packet[112..116], [0, 1, 0, 4]);
}

#[test]
fn keys_are_text_or_hexadecimal() {
    let tag = |text: &str| PacketKey::parse(text).map(|key| key.sign(&[b"text"]));
    assert_eq!(tag("ab\nmore"), tag("0x6162"));
    for text in ["", "\n", "0x", "0x616", "0xgg"] {
        assert!(tag(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_reflected_packet_is_recognised_and_one_of_a_sender_is_not() {
    let near = |timestamp: u64| TestReply { received: timestamp - (1 << 32), ..reply() };
    for codec in [plain(), authenticated()] {
        let mut packet = vec![0; codec.layout().base_bytes];
        codec.encode_request(&request(), LatencyProtocol::Stamp, &mut packet);
        assert!(!codec.is_reflected(&packet));
        codec.encode_reply(&near(reply().timestamp), &mut packet);
        assert!(codec.is_reflected(&packet));
    }
}

proptest! {
    /// No bytes of a sender stop a reflector, and an answer has their length.
    #[test]
    fn any_packet_can_be_reflected(
        bytes in proptest::collection::vec(any::<u8>(), 41..300),
        with_key in any::<bool>(),
    ) {
        let codec = if with_key { authenticated() } else { plain() };
        let mut packet = bytes.clone();
        if packet.len() >= codec.layout().base_bytes || !with_key {
            codec.encode_reply(&reply(), &mut packet);
            prop_assert_eq!(packet.len(), bytes.len());
            prop_assert_eq!(codec.decode_reply(&packet), Some(reply()));
        }
    }
}
