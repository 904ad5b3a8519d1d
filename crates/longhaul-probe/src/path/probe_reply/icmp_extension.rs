//! ICMP extensions (RFC 4884) and the MPLS label stack in them (RFC 4950).

use super::quoted_packet::{read_array_at, read_u16_at, read_u32_at};
use crate::path::probe_packet::{fold_checksum, sum_words};
use longhaul_model::report::v1::path::MplsLabel;

/// Offset of the extensions of routers older than RFC 4884, which do not state it.
const PRE_RFC4884_OFFSET: usize = 128;
/// The maximum number of parsed labels; deeper stacks are not in use.
const MAX_LABELS: usize = 16;
const MPLS: u8 = 1;
const INCOMING_STACK: u8 = 1;

/// Splits an ICMP error into the quoted packet and its extensions.
pub(super) fn split_extensions(message: &[u8], v4: bool) -> Option<(&[u8], Option<&[u8]>)> {
    let [kind] = read_array_at(message, 0)?;
    let body = message.get(8..)?;
    let [len_v6, len_v4] = read_array_at(message, 4)?;
    let quoted_bytes = match (v4, kind) {
        (true, 3 | 11 | 12) => usize::from(len_v4) * 4,
        (false, 1 | 3) => usize::from(len_v6) * 8,
        _ => return Some((body, None)),
    };
    let at = if quoted_bytes == 0 { PRE_RFC4884_OFFSET } else { quoted_bytes };
    match body.get(at..) {
        Some(extensions) if is_valid_extension(extensions, quoted_bytes == 0) => {
            Some((&body[..at], Some(extensions)))
        }
        _ => Some((body, None)),
    }
}

/// Returns whether the extensions have version 2 and a valid checksum. A checksum of zero means
/// none, and is accepted if the offset is known.
fn is_valid_extension(extensions: &[u8], guessed: bool) -> bool {
    let Some([version, _]) = read_array_at(extensions, 0) else {
        return false;
    };
    let unchecked = !guessed && read_u16_at(extensions, 2) == Some(0);
    version >> 4 == 2
        && extensions.len() >= 4
        && (unchecked || fold_checksum(sum_words(extensions)) == 0xffff)
}

/// Returns the labels that the packet arrived with.
pub(super) fn parse_mpls_stack(extensions: &[u8]) -> Vec<MplsLabel> {
    let mut rest = extensions.get(4..).unwrap_or_default();
    while let (Some(bytes), Some([class, kind])) = (read_u16_at(rest, 0), read_array_at(rest, 2)) {
        let bytes = usize::from(bytes);
        let Some(object) = rest.get(4..bytes) else {
            break;
        };
        if (class, kind) == (MPLS, INCOMING_STACK) {
            let entries = object.chunks_exact(4).take(MAX_LABELS);
            return entries
                .filter_map(|entry| read_u32_at(entry, 0))
                .map(parse_mpls_label)
                .collect();
        }
        rest = &rest[bytes..];
    }
    Vec::new()
}

/// Parses a label (RFC 3032): 20 bits of label, 3 of traffic class, the bottom bit, 8 of TTL.
fn parse_mpls_label(entry: u32) -> MplsLabel {
    MplsLabel { label: entry >> 12, traffic_class: (entry >> 9 & 7) as u8, ttl: entry as u8 }
}
