//! Page-aligned memory whose addresses are passed to the kernel: payload to send, and a buffer for
//! received bytes.
//!
//! [`MemoryRegion`] is filled once and then only read, by write, vmsplice and the network card.
//! [`GatherVector`] sends it repeatedly: byte k of a stream is byte k modulo the region's length.
//! [`ReceiveSink`] is only written by the kernel and never read, so several threads may receive into it.

use nix::unistd::{SysconfVar, sysconf};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// `UIO_MAXIOV`, linux/uio.h.
const MAX_PIECES: usize = 1024;

/// Anonymous memory, initially zero.
#[derive(Debug)]
pub struct MemoryRegion {
    base: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: the memory belongs to the value alone; shared references only read it.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above; writing needs `&mut`.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Allocates memory of ordinary pages.
    ///
    /// # Errors
    /// `OutOfMemory`, or `InvalidInput` for zero bytes.
    pub fn new(bytes: usize) -> io::Result<MemoryRegion> {
        let mapping = map_memory(bytes)?;
        Ok(MemoryRegion { base: mapping, bytes, mapping, mapping_bytes: bytes })
    }

    /// Allocates memory on a huge page if the system provides one: consecutive pages are then sent
    /// as one fragment. Otherwise the pages are ordinary, with no other difference.
    pub fn huge(bytes: usize) -> io::Result<MemoryRegion> {
        let whole = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapping_bytes = whole + HUGE_PAGE_BYTES;
        let mapping = map_memory(mapping_bytes)?;
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, so the sum stays inside the mapping.
        let base = unsafe { mapping.add(skip) };
        // SAFETY: the range is inside the mapping; the advice changes no contents. Failure only
        // means ordinary pages.
        unsafe { libc::madvise(base.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        Ok(MemoryRegion { base, bytes, mapping, mapping_bytes })
    }

    /// Returns the memory, to be filled before it is shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `base` is valid for `bytes`, initialised (zero pages), and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `base` is valid for `bytes`, initialised, and nobody writes while borrowed.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map_memory` with this length and is used by nobody else.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }
}

fn map_memory(bytes: usize) -> io::Result<NonNull<u8>> {
    map_pages(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Maps readable and writable memory; a descriptor of -1 maps no file.
pub(crate) fn map_pages(bytes: usize, flags: i32, descriptor: i32) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping touches no existing memory.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Size of a sink: it stays in the core's L1 cache while received bytes pass through.
const SINK_BYTES: usize = 16 << 10;

/// Memory for received bytes that are never read: a small buffer, written repeatedly.
#[derive(Debug, Clone)]
pub struct ReceiveSink(Arc<SinkMemory>);

#[derive(Debug)]
struct SinkMemory {
    /// The same memory repeated, as long as one receive call.
    pieces: Vec<libc::iovec>,
    _memory: MemoryRegion,
}

// SAFETY: the pointers are into the region beside them. No Rust reference to its contents is ever
// made, so that several threads may let the kernel write there at once.
unsafe impl Send for SinkMemory {}
// SAFETY: as above.
unsafe impl Sync for SinkMemory {}

impl ReceiveSink {
    /// Creates a sink for receives of up to `bytes`, or 1024 times the buffer.
    pub fn new(bytes: usize) -> io::Result<ReceiveSink> {
        let memory = MemoryRegion::new(bytes.min(SINK_BYTES))?;
        let bytes = bytes.min(MAX_PIECES * SINK_BYTES);
        let piece = |from: usize| libc::iovec {
            iov_base: memory.base.as_ptr().cast(),
            iov_len: (bytes - from).min(SINK_BYTES),
        };
        Ok(ReceiveSink(Arc::new(SinkMemory {
            pieces: (0..bytes).step_by(SINK_BYTES).map(piece).collect(),
            _memory: memory,
        })))
    }

    /// Returns the vectors that the kernel writes to.
    pub(crate) fn pieces(&self) -> &[libc::iovec] {
        &self.0.pieces
    }
}

/// An endless repetition of a region as I/O vectors, without copying.
#[derive(Debug)]
pub struct GatherVector {
    region: Arc<MemoryRegion>,
    pieces: Vec<libc::iovec>,
}

// SAFETY: the pointers in `pieces` are into `region`, which the value keeps alive.
unsafe impl Send for GatherVector {}

impl GatherVector {
    /// Allocates vectors for calls of up to `most_bytes`; nothing is allocated afterwards. Longer
    /// calls, and calls of more than 1024 repetitions, transfer less than requested.
    pub fn new(region: Arc<MemoryRegion>, most_bytes: usize) -> GatherVector {
        let length = region.bytes.max(1);
        let room = (most_bytes.div_ceil(length) + 1).min(MAX_PIECES);
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        GatherVector { region, pieces: vec![none; room] }
    }

    /// Returns the I/O vector for `bytes` starting at byte `position` of the endless repetition.
    pub(crate) fn vectors_for(&mut self, position: u64, bytes: usize) -> (*mut libc::iovec, usize) {
        let mut from = (position % self.region.bytes as u64) as usize;
        let (mut left, mut count) = (bytes, 0);
        for piece in &mut self.pieces {
            let length = left.min(self.region.bytes - from);
            if length == 0 {
                break;
            }
            // SAFETY: `from` is below the region's length.
            piece.iov_base = unsafe { self.region.base.as_ptr().add(from) }.cast();
            piece.iov_len = length;
            count += 1;
            left -= length;
            from = 0;
        }
        (self.pieces.as_mut_ptr(), count)
    }
}

/// Returns the page size, in which pipe capacity is counted.
pub(crate) fn page_bytes() -> usize {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.map_or(4096, |bytes| bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_region_is_aligned_and_as_long_as_asked() {
        let mut region = MemoryRegion::huge(100_000).expect("memory");
        region.bytes_mut().fill(9);
        assert_eq!(region.bytes().len(), 100_000);
        assert_eq!(region.bytes().as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
    }

    #[test]
    fn a_gather_describes_the_repetition_from_any_position() {
        let region = Arc::new(MemoryRegion::new(1000).expect("memory"));
        let base = region.bytes().as_ptr() as usize;
        let mut gather = GatherVector::new(Arc::clone(&region), 5000);
        for (position, bytes, expect) in [
            (0, 1000, vec![(0, 1000)]),
            (0, 2500, vec![(0, 1000), (0, 1000), (0, 500)]),
            (999, 3, vec![(999, 1), (0, 2)]),
            (12_345_678_900, 200, vec![(900, 100), (0, 100)]),
            (5, 0, vec![]),
        ] {
            let (pieces, count) = gather.vectors_for(position, bytes);
            let seen: Vec<_> = (0..count)
                // SAFETY: `vectors_for` says that `count` pieces are set.
                .map(|index| unsafe { *pieces.add(index) })
                .map(|piece| (piece.iov_base as usize - base, piece.iov_len))
                .collect();
            assert_eq!(seen, expect, "{bytes} from {position}");
        }
    }
}
