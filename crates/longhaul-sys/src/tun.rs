//! A TUN device with segmentation offload: packets of up to 64 KiB, each with a virtio header.
//!
//! Each read or write transfers one IP packet preceded by its 10-byte `virtio_net_hdr`. The device
//! exists as long as the descriptor. Source: `linux/if_tun.h`, Documentation/networking/tuntap.rst.

use crate::syscall::check_status;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const OFFLOAD_TCP: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x08;
const OFFLOAD_UDP: libc::c_ulong = 0x20 | 0x40;

/// `struct ifreq` as TUNSETIFF reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    unused: [u8; 22],
}
const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// An open device, non-blocking.
#[derive(Debug)]
pub struct TunDevice {
    pub descriptor: OwnedFd,
    /// True if the kernel delivers unsegmented UDP packets (since 6.2).
    pub udp_offload: bool,
}

/// Creates the device `name` in the network namespace of the calling thread.
///
/// # Errors
/// `NotFound` or `PermissionDenied` if `/dev/net/tun` cannot be opened or the namespace is not
/// ours; `ResourceBusy` if the name is in use.
pub fn open_tun_device(name: &str) -> io::Result<TunDevice> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let device = options.open("/dev/net/tun")?;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16,
        unused: [0; 22],
    };
    if name.len() >= request.name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let raw = device.as_raw_fd();
    // SAFETY: `request` has the layout of struct ifreq (asserted above) and outlives the call.
    check_status(unsafe { libc::ioctl(raw, TUNSETIFF, &raw mut request) })?;
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    let udp_offload = unsafe { libc::ioctl(raw, TUNSETOFFLOAD, OFFLOAD_TCP | OFFLOAD_UDP) } == 0;
    if !udp_offload {
        // SAFETY: as above.
        check_status(unsafe { libc::ioctl(raw, TUNSETOFFLOAD, OFFLOAD_TCP) })?;
    }
    Ok(TunDevice { descriptor: device.into(), udp_offload })
}
