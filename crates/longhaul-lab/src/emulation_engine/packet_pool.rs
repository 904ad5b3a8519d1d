//! The memory pool of packets: each is held until its last segment has left the path.
//!
//! A packet is read into the reserved space. A long one keeps that space, and the next one gets
//! another, if possible one whose packet is gone; a short one is moved to memory of its own length,
//! so that a path full of acknowledgements takes no more than its bytes.

use super::packet_unit::PacketUnit;
use super::pooled_packet::PooledPacket;

/// The space for one packet: virtio_net_hdr, Ethernet header and 64 KiB of IP, rounded up.
pub(super) const RESERVED: usize = 66 * 1024;
/// A packet that is not longer is moved out of the space into which it was read.
const SHORT_BYTES: usize = 16 * 1024;
/// The limit of the memory: 10 Gbit/s at 436 ms and its queues need a quarter of it.
const MAX_BYTES: u64 = 4 << 30;

struct PoolSlot {
    packet: PooledPacket,
    bytes: Vec<u8>,
    references: u32,
}

pub(super) struct PacketPool {
    slots: Vec<PoolSlot>,
    free_slots: Vec<u32>,
    reserved: Vec<u8>,
    /// Spaces to be reserved again.
    spaces: Vec<Vec<u8>>,
    held_bytes: u64,
    max_bytes: u64,
    /// The last reserved space cannot be committed, so that the packet in it is lost.
    pub is_full: bool,
}

impl PacketPool {
    pub fn new() -> PacketPool {
        PacketPool::with_limit(MAX_BYTES)
    }

    /// Creates a pool that holds at most `max_bytes` of packets.
    pub fn with_limit(max_bytes: u64) -> PacketPool {
        PacketPool {
            slots: Vec::new(),
            free_slots: Vec::new(),
            reserved: vec![0; RESERVED],
            spaces: Vec::new(),
            held_bytes: 0,
            max_bytes,
            is_full: false,
        }
    }

    pub fn reserve(&mut self) -> &mut [u8] {
        self.is_full = self.held_bytes >= self.max_bytes;
        &mut self.reserved
    }

    /// Returns the first `len` bytes of the last reserved space.
    pub fn reserved(&self, len: usize) -> &[u8] {
        &self.reserved[..len.min(RESERVED)]
    }

    /// Keeps the `len` bytes of the reserved space that hold `packet`. The result represents one
    /// reference.
    pub fn commit(&mut self, len: usize, packet: PooledPacket) -> u32 {
        let bytes = if len > SHORT_BYTES {
            let next = self.spaces.pop().unwrap_or_else(|| vec![0; RESERVED]);
            std::mem::replace(&mut self.reserved, next)
        } else {
            self.reserved[..len].to_vec()
        };
        self.held_bytes += bytes.len() as u64;
        let slot = PoolSlot { packet, bytes, references: 1 };
        let Some(index) = self.free_slots.pop() else {
            self.slots.push(slot);
            return self.slots.len() as u32 - 1;
        };
        let gone = std::mem::replace(&mut self.slots[index as usize], slot);
        if gone.bytes.len() == RESERVED {
            self.spaces.push(gone.bytes);
        }
        index
    }

    pub fn get(&self, packet: u32) -> &PooledPacket {
        &self.slots[packet as usize].packet
    }

    /// Returns the IP packet as it was sent.
    pub fn bytes(&self, packet: u32) -> &[u8] {
        let slot = &self.slots[packet as usize];
        let from = slot.packet.start as usize;
        &slot.bytes[from..from + slot.packet.len as usize]
    }

    /// Splits off the first `n` segments as a separate unit; `None` for no segments. Both units
    /// then hold a reference, the rest even when it is empty.
    pub fn cut(&mut self, unit: &mut PacketUnit, n: u16) -> Option<PacketUnit> {
        if n == 0 {
            return None;
        }
        let slot = &mut self.slots[unit.packet as usize];
        slot.references += 1;
        Some(unit.take_front(n, &slot.packet.shape))
    }

    /// Releases a unit's reference. The bytes stay readable until the next packet is committed.
    pub fn release(&mut self, unit: &PacketUnit) {
        let slot = &mut self.slots[unit.packet as usize];
        slot.references -= 1;
        if slot.references == 0 {
            self.held_bytes -= slot.bytes.len() as u64;
            self.free_slots.push(unit.packet);
        }
    }

    /// Returns the number of packets with at least one segment still in flight.
    #[cfg(test)]
    pub fn in_flight_packets(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        let bytes: usize = self.slots.iter().map(|slot| slot.bytes.len()).sum();
        let spaces = (1 + self.spaces.len()) * RESERVED;
        (bytes + spaces + self.slots.capacity() * size_of::<PoolSlot>()) as u64
    }
}
