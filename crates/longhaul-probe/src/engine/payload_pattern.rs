//! The payload: pseudo-random bytes, which no device on the path can compress.
//!
//! Byte k of every stream is [`payload_byte`] of k modulo the region's length, so that a receiver
//! that checks it can detect lost or repeated bytes.

use longhaul_model::splitmix;
use longhaul_sys::memory_region::MemoryRegion;
use std::io;
use std::sync::Arc;

/// Returns byte `index` of the payload (SplitMix64, one word per eight bytes).
pub fn payload_byte(index: u64) -> u8 {
    payload_word(index / 8).to_le_bytes()[(index % 8) as usize]
}

fn payload_word(index: u64) -> u64 {
    splitmix::mix_bits(index.wrapping_mul(splitmix::INCREMENT))
}

/// Fills `bytes` with the payload from its beginning.
pub(super) fn fill_payload(bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&payload_word(index as u64).to_le_bytes()[..chunk.len()]);
    }
}

/// Returns a payload region, on a huge page if `huge` is set and the system has one.
pub(super) fn new_payload_region(bytes: usize, huge: bool) -> io::Result<Arc<MemoryRegion>> {
    let mut region = if huge { MemoryRegion::huge(bytes)? } else { MemoryRegion::new(bytes)? };
    fill_payload(region.bytes_mut());
    Ok(Arc::new(region))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filled_bytes_are_the_stated_ones() {
        let mut bytes = [0; 1003];
        fill_payload(&mut bytes);
        for (index, &byte) in bytes.iter().enumerate() {
            assert_eq!(byte, payload_byte(index as u64), "byte {index}");
        }
    }
}
