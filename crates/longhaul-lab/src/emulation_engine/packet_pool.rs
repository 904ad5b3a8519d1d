//! The memory pool of packets: each is held until its last segment has left the path.
//!
//! Packets are read into blocks of 1 MiB, one after another; a block is free again when all its
//! packets are gone, and the block freed last is reused first, so that a short path stays in the
//! cache and a long one takes what its bytes in flight need. Nothing is allocated per packet once
//! the path is full.

use super::packet_unit::PacketUnit;
use super::pooled_packet::PooledPacket;

/// The space for one packet: virtio_net_hdr, Ethernet header and 64 KiB of IP, rounded up.
pub(super) const RESERVED: usize = 66 * 1024;
const BLOCK: usize = 1 << 20;
/// The maximum number of blocks: 10 Gbit/s at 436 ms and its queues need a quarter of these 4 GiB.
const MAX_BLOCKS: usize = 4096;
/// A cache line, so that no two packets share one.
const ALIGN: usize = 64;

struct PoolBlock {
    bytes: Box<[u8]>,
    packets: u32,
}

#[derive(Default)]
pub(super) struct PacketPool {
    blocks: Vec<PoolBlock>,
    free_blocks: Vec<u32>,
    current: u32,
    used: usize,
    slots: Vec<PooledPacket>,
    free_slots: Vec<u32>,
    max_blocks: usize,
    /// A buffer for packets to be discarded when the pool is full.
    spill: Box<[u8]>,
    /// The last reserved space cannot be committed, so that the packet in it is lost.
    pub is_full: bool,
}

impl PacketPool {
    pub fn new() -> PacketPool {
        PacketPool::with_blocks(MAX_BLOCKS)
    }

    /// Creates a pool that holds at most `most_blocks` MiB of packets.
    pub fn with_blocks(most_blocks: usize) -> PacketPool {
        let spill = vec![0; RESERVED].into_boxed_slice();
        let mut packets = PacketPool { max_blocks: most_blocks, spill, ..PacketPool::default() };
        packets.current = packets.fresh_block();
        packets
    }

    /// Returns a block with one reference, held for being the current block.
    fn fresh_block(&mut self) -> u32 {
        let index = self.free_blocks.pop().unwrap_or_else(|| {
            self.blocks.push(PoolBlock { bytes: vec![0; BLOCK].into_boxed_slice(), packets: 0 });
            self.blocks.len() as u32 - 1
        });
        self.blocks[index as usize].packets = 1;
        index
    }

    pub fn reserve(&mut self) -> &mut [u8] {
        let has_ended = self.used + RESERVED > BLOCK;
        self.is_full =
            has_ended && self.free_blocks.is_empty() && self.blocks.len() >= self.max_blocks;
        if self.is_full {
            return &mut self.spill;
        }
        if has_ended {
            let ended = self.current;
            self.current = self.fresh_block();
            self.used = 0;
            self.release_block(ended);
        }
        let from = self.used;
        &mut self.blocks[self.current as usize].bytes[from..from + RESERVED]
    }

    /// Returns the first `len` bytes of the last reserved space.
    pub fn reserved(&self, len: usize) -> &[u8] {
        let len = len.min(RESERVED);
        if self.is_full {
            return &self.spill[..len];
        }
        let block = &self.blocks[self.current as usize];
        &block.bytes[self.used..(self.used + len).min(BLOCK)]
    }

    /// Keeps the `len` bytes of the reserved space that hold `pooled_packet`, whose offset is relative to
    /// that space. The result represents one reference.
    pub fn commit(&mut self, len: usize, mut packet: PooledPacket) -> u32 {
        packet.block = self.current;
        packet.start += self.used as u32;
        packet.references = 1;
        self.used += len.next_multiple_of(ALIGN);
        self.blocks[self.current as usize].packets += 1;
        if let Some(slot) = self.free_slots.pop() {
            self.slots[slot as usize] = packet;
            return slot;
        }
        self.slots.push(packet);
        self.slots.len() as u32 - 1
    }

    pub fn get(&self, packet: u32) -> &PooledPacket {
        &self.slots[packet as usize]
    }

    /// Returns the IP packet as it was sent.
    pub fn bytes(&self, packet: u32) -> &[u8] {
        let it = self.get(packet);
        let from = it.start as usize;
        &self.blocks[it.block as usize].bytes[from..from + it.len as usize]
    }

    /// Splits off the first `n` segments as a separate unit; `None` for no segments. Both units
    /// then hold a reference, the rest even when it is empty.
    pub fn cut(&mut self, unit: &mut PacketUnit, n: u16) -> Option<PacketUnit> {
        if n == 0 {
            return None;
        }
        let packet = &mut self.slots[unit.packet as usize];
        packet.references += 1;
        Some(unit.take_front(n, &packet.shape))
    }

    /// Releases a unit's reference.
    pub fn release(&mut self, unit: &PacketUnit) {
        let packet = &mut self.slots[unit.packet as usize];
        packet.references -= 1;
        if packet.references == 0 {
            let block = packet.block;
            self.free_slots.push(unit.packet);
            self.release_block(block);
        }
    }

    fn release_block(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.packets -= 1;
        if block.packets == 0 {
            self.free_blocks.push(index);
        }
    }

    /// Returns the number of packets with at least one segment still in flight.
    #[cfg(test)]
    pub fn in_flight_packets(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK + self.slots.capacity() * size_of::<PooledPacket>()) as u64
    }
}
