//! A block on its way: page-aligned, so that it can go past the page cache, with room in front for
//! its head, so that both leave with one write.

use super::BLOCK_BYTES;
use crate::wire::BLOCK_HEAD_BYTES;
use longhaul_sys::region::Region;
use std::io;

/// What direct I/O wants of addresses, offsets and lengths, on every disk of today.
pub(super) const ALIGNED_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct Buffer(Region);

impl Buffer {
    pub fn new() -> io::Result<Buffer> {
        Region::new(ALIGNED_BYTES + BLOCK_BYTES as usize).map(Buffer)
    }

    /// The block; its address is aligned.
    pub fn block(&self) -> &[u8] {
        &self.0.bytes()[ALIGNED_BYTES..]
    }

    pub fn block_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes_mut()[ALIGNED_BYTES..]
    }

    /// Puts a head in front, and gives it with `length` bytes of the block behind it.
    pub fn framed(&mut self, head: &[u8; BLOCK_HEAD_BYTES], length: usize) -> &[u8] {
        let front = ALIGNED_BYTES - BLOCK_HEAD_BYTES;
        let bytes = self.0.bytes_mut();
        bytes[front..ALIGNED_BYTES].copy_from_slice(head);
        &bytes[front..ALIGNED_BYTES + length]
    }
}

/// The least multiple of what direct I/O wants that holds `bytes`.
pub(super) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNED_BYTES)
}
