//! A packet socket on one device: whole frames of up to 64 KiB, each with a virtio header.
//!
//! Requires `CAP_NET_RAW` in the user namespace that owns the network namespace, so no real root.
//! Source: packet(7), `linux/if_packet.h`.

use crate::sockopt::{OptionValue, get_option, set_option};
use crate::syscall::{ControlSpace, check_status};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

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
