//! Devices, addresses and routes of the calling thread's network namespace, over rtnetlink.
//!
//! One request, one acknowledgement. Source: rtnetlink(7), `linux/if_link.h`, `linux/veth.h`.
//!
//! # Netlink query
//!
//! Queries of the kernel's routing tables, and parsing of the answers.
//!
//! Source: netlink(7), rtnetlink(7). Answers are limited in messages and in time.

use crate::poll;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

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
        NetlinkSocket::open_protocol(libc::NETLINK_ROUTE)
    }

    pub(crate) fn open_protocol(protocol: i32) -> io::Result<NetlinkSocket> {
        let domain = Domain::from(libc::AF_NETLINK);
        let protocol = Protocol::from(protocol);
        Ok(NetlinkSocket { socket: Socket::new(domain, Type::RAW, Some(protocol))? })
    }

    /// Requests all objects of a kind, and passes the body of each message of the answer to `visit`.
    pub(crate) fn visit_objects(
        &self,
        kind: u16,
        fixed: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.socket.send(&NetlinkRequest::new(kind, NLM_F_DUMP, fixed).finish())?;
        visit_answers(&self.socket, visit)
    }

    /// Requests one object; otherwise as [`NetlinkSocket::visit_objects`].
    pub(crate) fn visit_object(
        &self,
        kind: u16,
        fixed: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.socket.send(&NetlinkRequest::new(kind, 0, fixed).finish())?;
        visit_answers(&self.socket, visit)
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
        collect_answers(&self.socket)
    }

    fn request(&self, message: NetlinkRequest) -> io::Result<()> {
        self.exchange(message).map(drop)
    }
}

const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
const ANSWER_BYTES: usize = 1 << 16;
/// Hosts with more queues, or more routes in the main tables, are listed incompletely.
const MAX_MESSAGES: usize = 1 << 16;
const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
/// Bits of an attribute's type that describe its encoding.
const TYPE_FLAGS: u16 = 0xc000;

/// Queries one object by an attribute; returns the messages of the answer, without their headers.
///
/// # Errors
/// The kernel's error, `TimedOut`, or `InvalidData`.
pub(crate) fn query_object(
    kind: u16,
    fixed: &[u8],
    attribute: u16,
    value: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let mut message = NetlinkRequest::new(kind, 0, fixed);
    message.attribute(attribute, value);
    NetlinkSocket::open()?.exchange(message)
}

/// Queries all objects of a kind; otherwise as [`query_object`].
pub(crate) fn list_objects(kind: u16, fixed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    NetlinkSocket::open()?.exchange(NetlinkRequest::new(kind, NLM_F_DUMP, fixed))
}

/// Collects the messages up to the end of an answer or its acknowledgement.
fn collect_answers(socket: &Socket) -> io::Result<Vec<Vec<u8>>> {
    let mut answers = Vec::new();
    visit_answers(socket, &mut |body| {
        if answers.len() <= MAX_MESSAGES {
            answers.push(body.to_vec());
        }
    })?;
    Ok(answers)
}

/// Visits the messages up to the end of an answer or its acknowledgement.
fn visit_answers(socket: &Socket, visit: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_DEADLINE;
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let [answered] = poll::wait_readable([socket.as_fd()], Some(left))?;
        if !answered {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let length = poll::read_descriptor(socket, &mut buffer)?;
        if parse_messages(&buffer[..length], visit)? {
            return Ok(());
        }
    }
}

/// Visits the messages of one datagram; returns true at the end of the answer.
fn parse_messages(mut datagram: &[u8], visit: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    while let Some(header) = datagram.first_chunk::<HEADER_BYTES>() {
        let [a, b, c, d, kind_low, kind_high, ..] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let kind = u16::from_ne_bytes([kind_low, kind_high]);
        let Some(message) = datagram.get(..length).filter(|_| length >= HEADER_BYTES) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            // Carries a negated errno after its header; zero acknowledges.
            libc::NLMSG_ERROR => match read_u32(message, HEADER_BYTES) {
                Some(0) => return Ok(true),
                Some(code) => {
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg() as i32));
                }
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
            _ => visit(&message[HEADER_BYTES..]),
        }
        let next = length.next_multiple_of(4).min(datagram.len());
        datagram = &datagram[next..];
    }
    Ok(false)
}

/// Iterates over the attributes after a fixed part, up to the first truncated one.
pub(crate) fn iter_attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[a, b, c, d] = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = bytes.get(4..length)?;
        let next = length.next_multiple_of(4).min(bytes.len());
        bytes = &bytes[next..];
        Some((u16::from_ne_bytes([c, d]) & !TYPE_FLAGS, value))
    })
}

/// Returns the value of one attribute.
pub(crate) fn find_attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    iter_attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// Reads a 32-bit number at an offset.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*four))
}

/// Parses a text with or without a terminating zero.
pub(crate) fn parse_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_to_four_bytes() {
        let mut message = NetlinkRequest::new(0, 0, &[]);
        message.text_attribute(1, "fq");
        message.attribute(7, &8_u32.to_ne_bytes());
        let bytes = message.finish();
        let body = &bytes[HEADER_BYTES..];
        assert_eq!(find_attribute(body, 1).map(parse_text).as_deref(), Some("fq"));
        let rate = find_attribute(body, 7).and_then(|value| read_u32(value, 0));
        assert_eq!(rate, Some(8));
        assert_eq!(find_attribute(body, 2), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            // An error is acceptable here; only a panic or an endless loop is not.
            let _ = parse_messages(&bytes, &mut |body| assert!(body.len() < 80));
            prop_assert!(iter_attributes(&bytes).count() <= 20);
        }
    }
}
