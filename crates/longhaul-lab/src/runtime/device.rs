//! The devices of the hosts, and the descriptors through which the engine reads and writes them.

use super::host::{DEVICE, on_thread};
use super::sysctl;
use crate::engine::Host;
use crate::error::{LabError, Tried};
use longhaul_sys::netlink::{self, Netlink, VethPair};
use longhaul_sys::netns::{self, Kind};
use longhaul_sys::{packet_socket, poll, tun};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

/// Locally administered, never on a wire.
pub(super) const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The buffer for packets that arrive while the engine sleeps; the kernel doubles it.
const SOCKET_BYTES: i32 = 1 << 29;
/// The maximum age of a timestamp; an older one means that the clock was stepped.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The device of one host, as the engine sees it.
#[derive(Debug)]
pub(super) enum Port {
    Tun(OwnedFd),
    Packet(OwnedFd),
}

/// A packet that was read: its length, and the time since the host sent it.
pub(super) struct Read {
    pub bytes: usize,
    pub age: Duration,
}

impl Port {
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<Read> {
        match self {
            Port::Tun(device) => Ok(Read {
                bytes: poll::read(device, into)?,
                age: Duration::ZERO,
            }),
            Port::Packet(socket) => {
                let received = packet_socket::receive(socket, into)?;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let age = received
                    .at
                    .zip(now.ok())
                    .and_then(|(at, now)| now.checked_sub(at));
                Ok(Read {
                    bytes: received.bytes,
                    age: age.filter(|age| *age < AGE_MAX).unwrap_or_default(),
                })
            }
        }
    }

    pub(super) fn write(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        poll::write_packet(self, &[IoSlice::new(header), IoSlice::new(payload)]).map(drop)
    }

    /// Returns the packets lost to a full buffer since the last call, for devices that count them.
    pub(super) fn drops(&self) -> u64 {
        match self {
            Port::Tun(_) => 0,
            Port::Packet(socket) => packet_socket::drops(socket).unwrap_or_default(),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Port::Tun(descriptor) | Port::Packet(descriptor) => descriptor.as_fd(),
        }
    }
}

/// Reports whether this process may open the TUN driver; some machines allow it only to root.
pub(super) fn tun_is_open() -> bool {
    let device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    device.is_ok()
}

pub(super) fn open_tun() -> Result<Port, LabError> {
    let tun = tun::open(DEVICE)
        .tried(|| format!("cannot make TUN device {DEVICE}"))
        .map_err(|error| error.hint("run as root, or set LONGHAUL_LAB_BACKEND=packet"))?;
    Ok(Port::Tun(tun.descriptor))
}

/// Creates the namespace that holds the engine's ends of the veth pairs.
pub(super) fn middle_namespace() -> Result<OwnedFd, LabError> {
    let make = || {
        netns::unshare(Kind::Net)?;
        // The engine's ends need no addresses.
        let _ = sysctl::write("net.ipv6.conf.default.disable_ipv6", "1");
        netns::own(Kind::Net)
    };
    on_thread(make)
        .and_then(|made| made)
        .tried(|| "cannot make a network namespace".into())
        .map_err(|error| error.hint("run as root, or where user namespaces are permitted"))
}

fn peer(host: Host) -> &'static str {
    match host {
        Host::Near => "near0",
        Host::Far => "far0",
    }
}

pub(super) fn add_veth(host: Host, mtu: u32, middle: &OwnedFd) -> Result<(), LabError> {
    let pair = VethPair {
        name: DEVICE,
        address: if host == Host::Near {
            NEAR_MAC
        } else {
            FAR_MAC
        },
        peer_name: peer(host),
        peer_address: [2, 0, 0, 0, 1, if host == Host::Near { 1 } else { 2 }],
        mtu,
    };
    Netlink::open()
        .and_then(|netlink| netlink.add_veth(&pair, middle))
        .tried(|| format!("cannot make veth pair {DEVICE}"))
        .map_err(|error| error.hint("the kernel needs CONFIG_VETH"))
}

/// Opens the engine's ends of the veth pairs.
pub(super) fn packet_ports(
    middle: &OwnedFd,
    caveats: &mut Vec<String>,
) -> Result<[Port; 2], LabError> {
    let open = |host| -> io::Result<(Port, bool)> {
        let netlink = Netlink::open()?;
        let index = netlink::index_of(peer(host))?;
        netlink.set_up(index)?;
        let socket = packet_socket::open(index)?;
        let forced = packet_socket::set_buffers(&socket, SOCKET_BYTES)?;
        Ok((Port::Packet(socket), forced))
    };
    let open_both = || -> io::Result<_> {
        netns::enter(middle, Kind::Net)?;
        Ok((open(Host::Near)?, open(Host::Far)?))
    };
    let ((near, forced), (far, _)) = on_thread(open_both)
        .and_then(|opened| opened)
        .tried(|| "cannot open packet sockets".into())?;
    if !forced {
        caveats.push(
            "packet sockets have only the room that net.core.rmem_max allows: packets may be lost \
             before the path begins on a busy machine"
                .to_owned(),
        );
    }
    Ok([near, far])
}
