//! ICMP extensions (RFC 4884) and the MPLS label stack in them (RFC 4950).

use super::quote::{array_at, u16_at, u32_at};
use crate::path::packet::{folded, sum};
use longhaul_model::report::v1::path::MplsLabel;

/// Offset of the extensions of routers older than RFC 4884, which do not state it.
const OLD_PLACE: usize = 128;
/// The maximum number of parsed labels; deeper stacks are not in use.
const MOST_LABELS: usize = 16;
const MPLS: u8 = 1;
const INCOMING_STACK: u8 = 1;

/// Splits an ICMP error into the quoted packet and its extensions.
pub(super) fn split(message: &[u8], v4: bool) -> Option<(&[u8], Option<&[u8]>)> {
    let [kind] = array_at(message, 0)?;
    let body = message.get(8..)?;
    let [len_v6, len_v4] = array_at(message, 4)?;
    let quoted_bytes = match (v4, kind) {
        (true, 3 | 11 | 12) => usize::from(len_v4) * 4,
        (false, 1 | 3) => usize::from(len_v6) * 8,
        _ => return Some((body, None)),
    };
    let at = if quoted_bytes == 0 {
        OLD_PLACE
    } else {
        quoted_bytes
    };
    match body.get(at..) {
        Some(extensions) if whole(extensions, quoted_bytes == 0) => {
            Some((&body[..at], Some(extensions)))
        }
        _ => Some((body, None)),
    }
}

/// Returns whether the extensions have version 2 and a valid checksum. A checksum of zero means
/// none, and is accepted if the offset is known.
fn whole(extensions: &[u8], guessed: bool) -> bool {
    let Some([version, _]) = array_at(extensions, 0) else {
        return false;
    };
    let unchecked = !guessed && u16_at(extensions, 2) == Some(0);
    version >> 4 == 2 && extensions.len() >= 4 && (unchecked || folded(sum(extensions)) == 0xffff)
}

/// Returns the labels that the packet arrived with.
pub(super) fn labels(extensions: &[u8]) -> Vec<MplsLabel> {
    let mut rest = extensions.get(4..).unwrap_or_default();
    while let (Some(bytes), Some([class, kind])) = (u16_at(rest, 0), array_at(rest, 2)) {
        let bytes = usize::from(bytes);
        let Some(object) = rest.get(4..bytes) else {
            break;
        };
        if (class, kind) == (MPLS, INCOMING_STACK) {
            let entries = object.chunks_exact(4).take(MOST_LABELS);
            return entries
                .filter_map(|entry| u32_at(entry, 0))
                .map(label)
                .collect();
        }
        rest = &rest[bytes..];
    }
    Vec::new()
}

/// Parses a label (RFC 3032): 20 bits of label, 3 of traffic class, the bottom bit, 8 of TTL.
fn label(entry: u32) -> MplsLabel {
    MplsLabel {
        label: entry >> 12,
        traffic_class: (entry >> 9 & 7) as u8,
        ttl: entry as u8,
    }
}
