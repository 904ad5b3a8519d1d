//! The Internet checksum (RFC 1071) and the pseudo headers of IPv4 and IPv6.

/// Adds `bytes` as big-endian 16-bit words; an odd last byte is padded with zero.
pub(super) fn add_words(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(start, |sum, word| sum + u64::from(u16::from_be_bytes(*word)));
    rest.first().map_or(sum, |last| sum + (u64::from(*last) << 8))
}

pub(super) fn fold_sum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub(super) fn compute_checksum(bytes: &[u8]) -> u16 {
    !fold_sum(add_words(0, bytes))
}

/// Sums the pseudo header; `addresses` are source and destination as in the IP header.
pub(super) fn sum_pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> u64 {
    add_words(u64::from(protocol) + length as u64, addresses)
}

/// Recomputes the checksum of an IPv4 header.
pub(super) fn write_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let value = compute_checksum(header);
    header[10..12].copy_from_slice(&value.to_be_bytes());
}
