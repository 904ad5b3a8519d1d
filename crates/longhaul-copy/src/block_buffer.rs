//! A block buffer: page-aligned for direct I/O, with space for the header, so that header and block
//! can be sent with one write.

use super::BLOCK_BYTES;
use crate::block_header::BLOCK_HEADER_BYTES;
use longhaul_sys::memory_region::MemoryRegion;
use std::io;

/// Alignment of addresses, offsets and lengths that direct I/O requires on current disks.
pub(super) const ALIGNED_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct BlockBuffer(MemoryRegion);

impl BlockBuffer {
    pub fn new() -> io::Result<BlockBuffer> {
        MemoryRegion::new(ALIGNED_BYTES + BLOCK_BYTES as usize).map(BlockBuffer)
    }

    /// Returns the block; its address is aligned.
    pub fn block(&self) -> &[u8] {
        &self.0.bytes()[ALIGNED_BYTES..]
    }

    pub fn block_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes_mut()[ALIGNED_BYTES..]
    }

    /// Writes a header in front of the block; returns it with the first `length` bytes of the
    /// block.
    pub fn with_header(&mut self, head: &[u8; BLOCK_HEADER_BYTES], length: usize) -> &[u8] {
        let front = ALIGNED_BYTES - BLOCK_HEADER_BYTES;
        let bytes = self.0.bytes_mut();
        bytes[front..ALIGNED_BYTES].copy_from_slice(head);
        &bytes[front..ALIGNED_BYTES + length]
    }
}

/// Rounds up to a multiple of the direct I/O alignment.
pub(super) fn align_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNED_BYTES)
}
