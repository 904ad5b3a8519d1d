//! The devices of the hosts, and the descriptors through which the engine reads and writes them.

use super::host_namespace::{DEVICE, run_on_thread};
use super::namespace_sysctl;
use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext};
use longhaul_sys::netlink::{self, NetlinkSocket, VethPair};
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::{packet_socket, poll, tun};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

/// The addresses of host near and host far: locally administered, never on a wire.
pub(super) const HOST_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// The buffer for packets that arrive while the engine sleeps; the kernel doubles it.
const SOCKET_BYTES: i32 = 1 << 29;
/// The maximum age of a timestamp; an older one means that the clock was stepped.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The device of one host, as the engine sees it.
#[derive(Debug)]
pub(super) enum EnginePort {
    Tun(OwnedFd),
    Packet(OwnedFd),
}

/// A packet that was read: its length, and the time since the host sent it.
pub(super) struct PortRead {
    pub bytes: usize,
    pub age: Duration,
}

impl EnginePort {
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<PortRead> {
        match self {
            EnginePort::Tun(device) => {
                Ok(PortRead { bytes: poll::read_descriptor(device, into)?, age: Duration::ZERO })
            }
            EnginePort::Packet(socket) => {
                let received = packet_socket::receive_frame(socket, into)?;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let age = received.at.zip(now.ok()).and_then(|(at, now)| now.checked_sub(at));
                Ok(PortRead {
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
            EnginePort::Tun(_) => 0,
            EnginePort::Packet(socket) => packet_socket::take_drops(socket).unwrap_or_default(),
        }
    }
}

impl AsFd for EnginePort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            EnginePort::Tun(descriptor) | EnginePort::Packet(descriptor) => descriptor.as_fd(),
        }
    }
}

/// Reports whether this process may open the TUN driver; some machines allow it only to root.
pub(super) fn can_open_tun() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    device.is_ok()
}

pub(super) fn open_tun() -> Result<EnginePort, LabError> {
    let tun = tun::open_tun_device(DEVICE)
        .with_context(format!("cannot create TUN device {DEVICE}"))
        .map_err(|error| error.hint("run as root, or use the option --backend packet"))?;
    Ok(EnginePort::Tun(tun.descriptor))
}

/// Creates the namespace that holds the engine's ends of the veth pairs.
pub(super) fn create_middle_namespace() -> Result<OwnedFd, LabError> {
    let make = || {
        netns::unshare_namespace(NamespaceKind::Net)?;
        // The engine's ends need no addresses.
        let _ = namespace_sysctl::write_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
        netns::open_own_namespace(NamespaceKind::Net)
    };
    run_on_thread(make)
        .flatten()
        .with_context("cannot create a network namespace")
        .map_err(|error| error.hint("run as root, or permit user namespaces"))
}

fn peer_name(host: LabHost) -> &'static str {
    match host {
        LabHost::Near => "near0",
        LabHost::Far => "far0",
    }
}

pub(super) fn add_veth(host: LabHost, mtu: u32, middle: &OwnedFd) -> Result<(), LabError> {
    let pair = VethPair {
        name: DEVICE,
        address: HOST_MACS[host as usize],
        peer_name: peer_name(host),
        peer_address: [2, 0, 0, 0, 1, host as u8 + 1],
        mtu,
    };
    NetlinkSocket::open()
        .and_then(|netlink| netlink.add_veth(&pair, middle))
        .with_context(format!("cannot create veth pair {DEVICE}"))
        .map_err(|error| error.hint("use a kernel with CONFIG_VETH"))
}

/// Opens the engine's end of the veth pair of `host`.
pub(super) fn open_packet_port(
    host: LabHost,
    middle: &OwnedFd,
    caveats: &mut Vec<String>,
) -> Result<EnginePort, LabError> {
    let open = || -> io::Result<(OwnedFd, bool)> {
        netns::enter_namespace(middle, NamespaceKind::Net)?;
        let netlink = NetlinkSocket::open()?;
        let index = netlink::interface_index(peer_name(host))?;
        netlink.set_up(index)?;
        let socket = packet_socket::open_packet_socket(index)?;
        let forced = packet_socket::set_buffers(&socket, SOCKET_BYTES)?;
        Ok((socket, forced))
    };
    let (socket, forced) =
        run_on_thread(open).flatten().with_context("cannot open a packet socket")?;
    if !forced && host == LabHost::Near {
        caveats.push(
            "packet sockets have only the buffers that net.core.rmem_max allows: packets may be \
             lost before they enter the path on a busy machine"
                .to_owned(),
        );
    }
    Ok(EnginePort::Packet(socket))
}
