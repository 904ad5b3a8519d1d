//! Extensions of STAMP packets: flags, type, length and value, one after the other (RFC 8972).
//!
//! This program sends the extra padding only. A reflector knows the padding and the HMAC; all others
//! come back with the flag for unrecognized ones.

use super::test_packet::{HMAC_BYTES, PacketKey};

/// Length of flags, type and length of the value.
pub(super) const HEADER_BYTES: usize = 4;

/// The flags: the sender sets the first one, and the reflector clears it if it knows the type.
const UNRECOGNIZED: u8 = 0x80;
const MALFORMED: u8 = 0x40;
const INTEGRITY_FAILED: u8 = 0x20;

const EXTRA_PADDING: u8 = 1;
const HMAC: u8 = 8;

/// The key of authenticated extensions, and the sequence numbers that are signed with them.
pub(super) struct ExtensionKey<'a> {
    pub key: &'a PacketKey,
    pub request: [u8; 4],
    pub reply: [u8; 4],
}

/// An extension in the bytes after the fields of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PacketExtension {
    at: usize,
    kind: u8,
    /// The offset of the next one; beyond the packet if the value is cut off.
    end: usize,
    /// The value is not cut off, and has a valid length.
    is_whole: bool,
}

impl PacketExtension {
    /// Reads the extension at an offset; `None` if the packet ends there.
    fn read(bytes: &[u8], at: usize) -> Option<PacketExtension> {
        let (_, rest) = bytes.split_at_checked(at)?;
        let [_, kind, high, low] = *rest.first_chunk::<HEADER_BYTES>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let end = at + HEADER_BYTES + length;
        let is_whole = end <= bytes.len() && (kind != HMAC || length == HMAC_BYTES);
        Some(PacketExtension { at, kind, end, is_whole })
    }

    fn value_at(&self) -> usize {
        self.at + HEADER_BYTES
    }
}

/// Fills all bytes with an extension of extra padding. There must be room for its header.
pub(super) fn write_padding(bytes: &mut [u8]) {
    let length = (bytes.len() - HEADER_BYTES) as u16;
    let [high, low] = length.to_be_bytes();
    bytes[..HEADER_BYTES].copy_from_slice(&[UNRECOGNIZED, EXTRA_PADDING, high, low]);
}

/// Sets the flags of a reflected packet's extensions, and signs them again. The padding of a sender
/// of TWAMP, which does not set the first flag, stays as it is.
pub(super) fn reflect_extensions(bytes: &mut [u8], key: Option<&ExtensionKey<'_>>) {
    if bytes.first().is_none_or(|flags| flags & UNRECOGNIZED == 0) {
        return;
    }
    let failed = match key {
        Some(key) if !are_authentic(bytes, key) => INTEGRITY_FAILED,
        _ => 0,
    };
    let mut next = PacketExtension::read(bytes, 0);
    while let Some(found) = next {
        let is_known = found.kind == EXTRA_PADDING || found.kind == HMAC && key.is_some();
        let unknown = if is_known { 0 } else { UNRECOGNIZED };
        let malformed = if found.is_whole { 0 } else { MALFORMED };
        bytes[found.at] = unknown | malformed | failed;
        // Extensions that are authentic have one signature at most.
        if let (HMAC, true, 0, Some(key)) = (found.kind, found.is_whole, failed, key) {
            let tag = key.key.sign(&[&key.reply, &bytes[..found.at]]);
            bytes[found.value_at()..found.end].copy_from_slice(&tag);
        }
        next = PacketExtension::read(bytes, found.end);
    }
}

/// Returns whether the extensions are signed, or are a single padding, which needs no signature. Only
/// padding may follow the signature.
fn are_authentic(bytes: &[u8], key: &ExtensionKey<'_>) -> bool {
    let mut next = PacketExtension::read(bytes, 0);
    let all = std::iter::from_fn(|| {
        let found = next?;
        next = PacketExtension::read(bytes, found.end);
        Some(found)
    });
    let all: Vec<PacketExtension> = all.collect();
    let Some(place) = all.iter().position(|it| it.kind == HMAC && it.is_whole) else {
        return all.len() <= 1 && all.iter().all(|it| it.kind == EXTRA_PADDING);
    };
    let signature = all[place];
    key.key.verifies(
        &[&key.request, &bytes[..signature.at]],
        &bytes[signature.value_at()..signature.end],
    ) && all[place + 1..].iter().all(|it| it.kind == EXTRA_PADDING)
}
