//! Captures filtered packets through a memory-mapped ring (`TPACKET_V3`), without a system call per
//! packet, with kernel timestamps.
//!
//! Packets start at their network header on every link type. Requires `CAP_NET_RAW` in the user
//! namespace that owns the network namespace, so no real root. Source: packet(7), the kernel's
//! packet_mmap document, `linux/if_packet.h`, `linux/filter.h`.
//!
//! # Packet socket
//!
//! A packet socket on one device: whole frames of up to 64 KiB, each with a virtio header.
//!
//! Requires `CAP_NET_RAW` in the user namespace that owns the network namespace, so no real root.
//! Source: packet(7), `linux/if_packet.h`.

use crate::memory_region::map_pages;
use crate::netlink::read_u32;
use crate::poll;
use crate::sockopt::{OptionValue, get_option, set_option};
use crate::syscall::{ControlSpace, check_status};
use nix::net::if_::if_indextoname;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use socket2::{Domain, SockFilter, Socket, Type};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS: usize = 64;
/// Time after which the kernel hands over a partly filled block.
const HAND_OVER_MS: u32 = 20;
/// The address follows this header.
const HEADER_BYTES: usize = size_of::<libc::tpacket3_hdr>();
/// Offsets of the used fields of `struct tpacket_block_desc`.
const STATUS_AT: usize = 8;
const COUNT_AT: usize = 12;
const FIRST_AT: usize = 16;
/// An instruction of a classic BPF program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfInstruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// A captured packet; its bytes are valid until the next one.
#[derive(Debug, Clone, Copy)]
pub struct RingPacket<'a> {
    /// Time since 1970, in nanosecond resolution.
    pub at: Duration,
    /// The bytes from the network header on, limited by the filter's result.
    pub bytes: &'a [u8],
    /// Length before truncation.
    pub original_bytes: u32,
    /// Interface index.
    pub interface: u32,
    /// True if this host sent it.
    pub outgoing: bool,
}

/// A packet socket with its ring buffer.
#[derive(Debug)]
pub struct PacketRing {
    socket: Socket,
    base: NonNull<u8>,
    next: usize,
}

// SAFETY: the mapping belongs to the value alone; `base` is only read through `&mut self`.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Captures on every interface of the calling thread's namespace. `filter` returns the number
    /// of bytes to keep.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn open(filter: &[BpfInstruction]) -> io::Result<PacketRing> {
        // Protocol 0: nothing is heard before the socket is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), None)?;
        let program = filter.iter().map(|it| SockFilter::new(it.code, it.jt, it.jf, it.k));
        socket.attach_filter(&program.collect::<Vec<SockFilter>>())?;
        // Timestamps are then taken on arrival, not when the packet is copied.
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32)?;
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V3,
        )?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, ring_request())?;
        let base = map_pages(BLOCK_BYTES * BLOCKS, libc::MAP_SHARED, socket.as_raw_fd())?;
        let ring = PacketRing { socket, base, next: 0 };
        bind_packet_socket(&ring.socket, 0)?;
        Ok(ring)
    }

    /// Waits until packets are available, at most `time`.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let [ready] = poll::wait_readable([self.socket.as_fd()], Some(time))?;
        Ok(ready)
    }

    /// Passes the available packets to `each`, block by block, until it returns false. The
    /// remaining packets of that block are lost.
    pub fn drain(&mut self, each: &mut dyn FnMut(&RingPacket<'_>) -> bool) {
        // At most one round, so that a flood cannot block the caller.
        for _ in 0..BLOCKS {
            // SAFETY: `next` is below BLOCKS, so the block is inside the mapping.
            let block = unsafe { self.base.add(self.next * BLOCK_BYTES) };
            // SAFETY: the status is an aligned u32 inside the block, shared with the kernel, which
            // changes it as an atomic does.
            let status = unsafe { AtomicU32::from_ptr(block.as_ptr().add(STATUS_AT).cast()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the block is ours until its status is cleared: the kernel does not write.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK_BYTES) };
            let more = walk_block(bytes, each);
            status.store(0, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
            if !more {
                return;
            }
        }
    }

    /// Returns the packets dropped since the last call because the ring was full.
    pub fn take_drops(&self) -> io::Result<u64> {
        take_drops(&self.socket)
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK_BYTES * BLOCKS) };
    }
}

/// Returns the name of an existing interface.
pub fn interface_name(index: u32) -> Option<String> {
    // For an unknown index, nix 0.31 returns an empty name and no error.
    let name = if_indextoname(index).ok().filter(|name| !name.is_empty())?;
    Some(name.to_string_lossy().into_owned())
}

fn ring_request() -> libc::tpacket_req3 {
    // Version 3 ignores the frame size, but frames must fill the blocks.
    const FRAME_BYTES: usize = 2048;
    libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: (BLOCK_BYTES / FRAME_BYTES * BLOCKS) as u32,
        tp_retire_blk_tov: HAND_OVER_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    }
}

/// Passes every packet of a block to `each`; returns false once that does.
fn walk_block(block: &[u8], each: &mut dyn FnMut(&RingPacket<'_>) -> bool) -> bool {
    let (Some(count), Some(first)) = (read_u32(block, COUNT_AT), read_u32(block, FIRST_AT)) else {
        return true;
    };
    let mut at = first as usize;
    for _ in 0..count {
        let Some(header) = block.get(at..) else {
            return true;
        };
        if let Some(seen) = parse_packet(header)
            && !each(&seen)
        {
            return false;
        }
        match read_u32(header, 0) {
            Some(step) if step > 0 => at = at.saturating_add(step as usize),
            _ => return true,
        }
    }
    true
}

/// Parses a packet after its `tpacket3_hdr`. Loopback packets appear when sent and when received;
/// only the latter count.
fn parse_packet(header: &[u8]) -> Option<RingPacket<'_>> {
    let field = |at| read_u32(header, at);
    let at = Duration::new(u64::from(field(4)?), field(8)?.min(999_999_999));
    let (length, original_bytes) = (field(12)? as usize, field(16)?);
    let start = usize::from(u16_at(header, 26)?);
    let address = header.get(HEADER_BYTES..)?;
    let outgoing = *address.get(10)? == libc::PACKET_OUTGOING;
    if outgoing && u16_at(address, 8)? == libc::ARPHRD_LOOPBACK {
        return None;
    }
    Some(RingPacket {
        at,
        bytes: header.get(start..start.checked_add(length)?)?,
        original_bytes,
        interface: read_u32(address, 4)?,
        outgoing,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_ne_bytes(*field))
}

/// `struct tpacket_stats_v3`; other versions fill in only the first two counts.
#[repr(C)]
#[derive(Default)]
struct PacketStatistics {
    packets: u32,
    drops: u32,
    freezes: u32,
}

impl OptionValue for PacketStatistics {}

/// Opens a non-blocking socket on the device with this index, in the calling thread's namespace.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW`.
pub fn open_packet_socket(index: u32) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1_i32)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1_i32)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1_i32)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32)?;
    bind_packet_socket(&socket, index)?;
    Ok(socket.into())
}

/// Hears every protocol on the device with this index; 0 is all devices.
pub(crate) fn bind_packet_socket(socket: &Socket, index: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` lives for the call and its length is passed with it.
    check_status(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Sets both buffers to `bytes`; exceeding the machine's limits requires `CAP_NET_ADMIN` in the
/// initial namespace. Returns whether the limits were bypassed.
pub fn set_buffers(socket: impl AsFd, bytes: i32) -> io::Result<bool> {
    let socket = socket.as_fd();
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_ok() {
        set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes)?;
        return Ok(true);
    }
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)?;
    Ok(false)
}

/// Returns the frames dropped for lack of buffer since the last call; the kernel resets the count.
pub fn take_drops(socket: impl AsFd) -> io::Result<u64> {
    let counts: PacketStatistics = get_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(counts.drops.into())
}

/// A received frame: its length, and the kernel's timestamp since 1970.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame {
    pub bytes: usize,
    pub at: Option<Duration>,
}

/// Receives one frame with its virtio header.
pub fn receive_frame(socket: impl AsFd, into: &mut [u8]) -> io::Result<ReceivedFrame> {
    let (raw, mut part) = (socket.as_fd().as_raw_fd(), [IoSliceMut::new(into)]);
    let mut control = ControlSpace([0; 64]);
    let message = recvmsg::<()>(raw, &mut part, Some(&mut control.0), MsgFlags::empty())?;
    let at = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(time) => Some(time.into()),
        _ => None,
    });
    Ok(ReceivedFrame { bytes: message.bytes, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_lies_about_its_packets_is_read_within_its_bounds() {
        let mut block = vec![0; 256];
        block[COUNT_AT] = 200;
        for first in [0, 48, 255, 256, u32::MAX] {
            block[FIRST_AT..FIRST_AT + 4].copy_from_slice(&first.to_ne_bytes());
            walk_block(&block, &mut |_| true);
        }
    }

    #[test]
    fn the_loopback_interface_has_a_name_and_nobody_else_has_index_zero() {
        assert_eq!(interface_name(1).as_deref(), Some("lo"));
        assert_eq!(interface_name(0), None);
    }
}
