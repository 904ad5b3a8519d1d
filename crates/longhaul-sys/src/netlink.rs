//! Devices, addresses and routes of the calling thread's network namespace, over rtnetlink.
//!
//! One request, one acknowledgement. Source: rtnetlink(7), `linux/if_link.h`, `linux/veth.h`.

pub(crate) mod netlink_query;

use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

const VETH_INFO_PEER: u16 = 1;
const NLM_F_REQUEST_ACK: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
const NLM_F_CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
/// struct nlmsghdr: length, type, flags, sequence, port.
const HEADER_BYTES: usize = 16;

/// Settings of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSettings {
    pub mtu: u32,
    /// Transmit queue length in packets.
    pub queue_packets: u32,
    /// Disables neighbour resolution, for a device with a single peer.
    pub no_arp: bool,
}

/// A pair of connected virtual Ethernet devices.
#[derive(Debug, Clone, Copy)]
pub struct VethPair<'a> {
    pub name: &'a str,
    pub address: [u8; 6],
    pub peer_name: &'a str,
    pub peer_address: [u8; 6],
    pub mtu: u32,
}

/// Returns the index of a device in the thread's namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    Ok(if_nametoindex(name)?)
}

/// A request under construction.
struct NetlinkRequest {
    bytes: Vec<u8>,
}

impl NetlinkRequest {
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> NetlinkRequest {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST_ACK | flags).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        NetlinkRequest { bytes }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let at = self.open_nested(kind);
        self.bytes.extend_from_slice(value);
        self.close_nested(at);
    }

    fn text_attribute(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// Starts a nested attribute, which [`NetlinkRequest::close_nested`] ends.
    fn open_nested(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    fn close_nested(&mut self, at: usize) {
        let length = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

/// struct ifinfomsg.
fn link_header(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    header.extend_from_slice(&index.to_ne_bytes());
    header.extend_from_slice(&flags.to_ne_bytes());
    header.extend_from_slice(&change.to_ne_bytes());
    header
}

pub(crate) fn address_family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// Returns the octets of an address in network byte order.
pub fn address_octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An rtnetlink socket of the namespace in which it was opened.
#[derive(Debug)]
pub struct NetlinkSocket {
    socket: Socket,
}

impl NetlinkSocket {
    pub fn open() -> io::Result<NetlinkSocket> {
        let domain = Domain::from(libc::AF_NETLINK);
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        Ok(NetlinkSocket { socket: Socket::new(domain, Type::RAW, Some(protocol))? })
    }

    /// Brings a device up without other changes.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        self.request(NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_header(index, up, up)))
    }

    /// Configures a device and brings it up.
    pub fn set_device(&self, index: u32, device: &DeviceSettings) -> io::Result<()> {
        let mut flags = libc::IFF_UP as u32;
        if device.no_arp {
            flags |= libc::IFF_NOARP as u32;
        }
        let mut message =
            NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_header(index, flags, flags));
        message.attribute(libc::IFLA_MTU, &device.mtu.to_ne_bytes());
        message.attribute(libc::IFLA_TXQLEN, &device.queue_packets.to_ne_bytes());
        self.request(message)
    }

    /// Sets the transmit queue length of a device. (The corresponding ioctl requires privileges on
    /// the whole machine.)
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_ADMIN`.
    pub fn set_queue_packets(&self, index: u32, packets: u32) -> io::Result<()> {
        self.set_number(index, libc::IFLA_TXQLEN, packets)
    }

    pub(crate) fn set_number(&self, index: u32, attribute: u16, value: u32) -> io::Result<()> {
        let header = link_header(index, 0, 0);
        let mut message = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &header);
        message.attribute(attribute, &value.to_ne_bytes());
        self.request(message)
    }

    /// Creates a pair: one end here, the peer in the network namespace `peer_namespace`.
    pub fn add_veth(&self, pair: &VethPair<'_>, peer_namespace: impl AsFd) -> io::Result<()> {
        let mut message =
            NetlinkRequest::new(libc::RTM_NEWLINK, NLM_F_CREATE, &link_header(0, 0, 0));
        message.text_attribute(libc::IFLA_IFNAME, pair.name);
        message.attribute(libc::IFLA_ADDRESS, &pair.address);
        message.attribute(libc::IFLA_MTU, &pair.mtu.to_ne_bytes());
        let info = message.open_nested(libc::IFLA_LINKINFO);
        message.text_attribute(libc::IFLA_INFO_KIND, "veth");
        let data = message.open_nested(libc::IFLA_INFO_DATA);
        let peer = message.open_nested(VETH_INFO_PEER);
        message.bytes.extend_from_slice(&link_header(0, 0, 0));
        message.text_attribute(libc::IFLA_IFNAME, pair.peer_name);
        message.attribute(libc::IFLA_ADDRESS, &pair.peer_address);
        message.attribute(libc::IFLA_MTU, &pair.mtu.to_ne_bytes());
        let namespace = peer_namespace.as_fd().as_raw_fd();
        message.attribute(libc::IFLA_NET_NS_FD, &namespace.to_ne_bytes());
        message.close_nested(peer);
        message.close_nested(data);
        message.close_nested(info);
        self.request(message)
    }

    /// Adds a host address without a network prefix, usable at once.
    pub fn add_host_address(&self, index: u32, address: IpAddr) -> io::Result<()> {
        let octets = address_octets(address);
        let prefix = 8 * octets.len() as u8;
        // struct ifaddrmsg: family, prefix, flags, scope, index.
        let mut fixed = vec![address_family(address), prefix, libc::IFA_F_NODAD as u8, 0];
        fixed.extend_from_slice(&index.to_ne_bytes());
        let mut message = NetlinkRequest::new(libc::RTM_NEWADDR, NLM_F_CREATE, &fixed);
        message.attribute(libc::IFA_LOCAL, &octets);
        message.attribute(libc::IFA_ADDRESS, &octets);
        self.request(message)
    }

    /// Routes all traffic of the address's family through the device, with that source address.
    pub fn add_default_route(&self, index: u32, from: IpAddr) -> io::Result<()> {
        // struct rtmsg: family, lengths, TOS, table, protocol, scope, type, flags.
        let mut fixed = vec![address_family(from), 0, 0, 0, libc::RT_TABLE_MAIN];
        fixed.extend_from_slice(&[libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST]);
        fixed.extend_from_slice(&0_u32.to_ne_bytes());
        let mut message = NetlinkRequest::new(libc::RTM_NEWROUTE, NLM_F_CREATE, &fixed);
        message.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        message.attribute(libc::RTA_PREFSRC, &address_octets(from));
        self.request(message)
    }

    /// Sends a message and returns the bodies of the answers up to the acknowledgement.
    fn exchange(&self, message: NetlinkRequest) -> io::Result<Vec<Vec<u8>>> {
        self.socket.send(&message.finish())?;
        netlink_query::collect_answers(&self.socket)
    }

    fn request(&self, message: NetlinkRequest) -> io::Result<()> {
        self.exchange(message).map(drop)
    }
}
