//! Sends packets with their own TTL, and receives messages with all kernel metadata.

use super::{IpFamily, ProbeSocket};
use crate::tcp_transfer::retry_interrupted;
use socket2::SockAddr;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Buffer size for time, TTL and an error with its sender; aligned for control messages.
const CONTROL_WORDS: usize = 64;
/// `linux/errqueue.h`: the extensions of the error are truncated.
const EXTENSIONS_INVALID: u8 = 1;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeArrival {
    /// Length in the buffer: of the message; for an error, of the quoted packet after its transport
    /// header (for a ping socket from its ICMP header on).
    pub bytes: usize,
    /// True if it was longer than the buffer.
    pub truncated: bool,
    /// Its sender; for an error, the destination of the quoted packet.
    pub from: Option<SocketAddr>,
    /// Kernel receive timestamp, wall clock since 1970.
    pub at: Option<Duration>,
    /// TTL or hop limit on arrival.
    pub ttl: Option<u8>,
    /// Present if it came from the error queue.
    pub queued: Option<ErrorQueueEntry>,
}

/// An entry of the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorQueueEntry {
    /// A router or the destination sent an ICMP error about one of our packets.
    Icmp(QueuedIcmpInfo),
    /// This host rejected the packet; with the MTU if it was too big.
    Local { errno: u32, mtu_bytes: Option<u32> },
    /// The packet of this number was transmitted, at the time of the arrival.
    Sent { number: u32 },
    /// Anything else.
    Other,
}

/// An ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedIcmpInfo {
    /// Type and code, of ICMP or ICMPv6 depending on the socket's family.
    pub kind: u8,
    pub code: u8,
    /// MTU of a "packet too big" error.
    pub info: u32,
    pub reported_by: Option<IpAddr>,
    /// Offset of the RFC 4884 extensions.
    pub extensions_at: Option<usize>,
}

impl ProbeSocket {
    /// Sends one packet, with this TTL or the socket's default. Ignores an older ICMP error that
    /// the kernel returns instead of sending; the error queue contains it as well.
    ///
    /// # Errors
    /// `WouldBlock` if the socket's queue is full; EMSGSIZE for packets that must not be
    /// fragmented.
    pub fn send(&self, packet: &[u8], to: Option<SocketAddr>, ttl: Option<u8>) -> io::Result<()> {
        match self.send_once(packet, to, ttl) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.send_once(packet, to, ttl)
            }
            sent => sent,
        }
    }

    fn send_once(&self, packet: &[u8], to: Option<SocketAddr>, ttl: Option<u8>) -> io::Result<()> {
        let to = to.map(SockAddr::from);
        let mut part =
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: an all-zero msghdr has no buffers.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        if let Some(to) = &to {
            header.msg_name = to.as_ptr().cast_mut().cast();
            header.msg_namelen = to.len();
        }
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if let Some(ttl) = ttl {
            self.attach_ttl(&mut header, &mut control, ttl);
        }
        let raw = self.socket.as_raw_fd();
        // SAFETY: name, part and control of the header outlive the call, which only reads them.
        retry_interrupted(|| unsafe { libc::sendmsg(raw, &raw const header, 0) }).map(drop)
    }

    fn attach_ttl(&self, header: &mut libc::msghdr, control: &mut [u64; CONTROL_WORDS], ttl: u8) {
        let (level, kind) = match self.family {
            IpFamily::V4 => (libc::IPPROTO_IP, libc::IP_TTL),
            IpFamily::V6 => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
        };
        let bytes = size_of::<i32>() as u32;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
        header.msg_controllen = space as _;
        // SAFETY: the control buffer has room for one message of this size, so the first header
        // and its data lie inside.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(header);
            (*first).cmsg_level = level;
            (*first).cmsg_type = kind;
            (*first).cmsg_len = length as _;
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(i32::from(ttl));
        }
    }

    /// Returns the next message, from the error queue first, then from the receive queue; `None` if
    /// there is none.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<ProbeArrival>> {
        if let Some(queued) = self.receive_from(into, libc::MSG_ERRQUEUE)? {
            return Ok(Some(queued));
        }
        match self.receive_from(into, 0) {
            // A pending error is reported here too; only the error queue has its details.
            Err(error) if is_path_error(&error) => self.receive_from(into, libc::MSG_ERRQUEUE),
            arrival => arrival,
        }
    }

    fn receive_from(&self, into: &mut [u8], flags: i32) -> io::Result<Option<ProbeArrival>> {
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        // SAFETY: an all-zero msghdr has no buffers.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of_val(&name) as libc::socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let raw = self.socket.as_raw_fd();
        // SAFETY: name, part (over `into`) and control of the header outlive the call.
        match retry_interrupted(|| unsafe { libc::recvmsg(raw, &raw mut header, flags) }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
            Ok(bytes) => Ok(Some(parse_arrival(&header, &name, bytes))),
        }
    }
}

/// Returns whether an error concerns an earlier packet on the path, not this call.
fn is_path_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    let of_path = [libc::EMSGSIZE, libc::EPROTO, libc::EOPNOTSUPP, libc::ENOPROTOOPT];
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied
    ) || error.raw_os_error().is_some_and(|code| {
        of_path.contains(&code) || code == libc::EHOSTDOWN || code == libc::ENONET
    })
}

fn parse_arrival(
    header: &libc::msghdr,
    name: &libc::sockaddr_storage,
    bytes: usize,
) -> ProbeArrival {
    let mut arrival = ProbeArrival {
        bytes,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
        from: None,
        at: None,
        ttl: None,
        queued: None,
    };
    if header.msg_namelen > 0 {
        arrival.from = parse_sockaddr(storage_bytes(name));
    }
    for_each_control(header, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
            arrival.at = parse_timespec(data).or(arrival.at);
        }
        // Contains three times, the first of which is the kernel's.
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
            arrival.at = arrival.at.or(parse_timespec(data));
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            arrival.ttl = read_structure::<i32>(data).and_then(|ttl| u8::try_from(ttl).ok());
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            arrival.queued = parse_error_queue_entry(data);
        }
        _ => {}
    });
    arrival
}

fn parse_error_queue_entry(data: &[u8]) -> Option<ErrorQueueEntry> {
    let error: libc::sock_extended_err = read_structure(data)?;
    Some(match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => {
            // ee_data holds struct sock_ee_data_rfc4884: a length of 16 bits, flags of 8.
            let [low, high, flags, _] = error.ee_data.to_ne_bytes();
            let length = usize::from(u16::from_ne_bytes([low, high]));
            ErrorQueueEntry::Icmp(QueuedIcmpInfo {
                kind: error.ee_type,
                code: error.ee_code,
                info: error.ee_info,
                reported_by: data
                    .get(size_of::<libc::sock_extended_err>()..)
                    .and_then(parse_sockaddr)
                    .map(|offender| offender.ip()),
                extensions_at: (length > 0 && flags & EXTENSIONS_INVALID == 0).then_some(length),
            })
        }
        libc::SO_EE_ORIGIN_LOCAL => ErrorQueueEntry::Local {
            errno: error.ee_errno,
            mtu_bytes: (error.ee_info > 0).then_some(error.ee_info),
        },
        libc::SO_EE_ORIGIN_TIMESTAMPING => ErrorQueueEntry::Sent { number: error.ee_data },
        _ => ErrorQueueEntry::Other,
    })
}

/// Parses an IP address in the kernel's format.
fn parse_sockaddr(data: &[u8]) -> Option<SocketAddr> {
    let family: libc::sa_family_t = read_structure(data)?;
    match i32::from(family) {
        libc::AF_INET => {
            let found: libc::sockaddr_in = read_structure(data)?;
            let address = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
            let port = u16::from_be(found.sin_port);
            Some(SocketAddrV4::new(address, port).into())
        }
        libc::AF_INET6 => {
            let found: libc::sockaddr_in6 = read_structure(data)?;
            let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
            let port = u16::from_be(found.sin6_port);
            Some(SocketAddrV6::new(address, port, 0, found.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn parse_timespec(data: &[u8]) -> Option<Duration> {
    let time: libc::timespec = read_structure(data)?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (seconds > 0 && nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
}

/// Kernel structures that consist of integers only, so that any bytes are valid.
trait PlainIntegers: Copy {}
impl PlainIntegers for i32 {}
impl PlainIntegers for libc::sa_family_t {}
impl PlainIntegers for libc::timespec {}
impl PlainIntegers for libc::sockaddr_in {}
impl PlainIntegers for libc::sockaddr_in6 {}
impl PlainIntegers for libc::sock_extended_err {}

/// Reads the structure at the start of `bytes`.
fn read_structure<T: PlainIntegers>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: `bytes` is long enough, and for a `PlainIntegers` type all bytes are a valid value.
    Some(unsafe {
        let into = value.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, size_of::<T>());
        value.assume_init()
    })
}

fn storage_bytes(name: &libc::sockaddr_storage) -> &[u8] {
    // SAFETY: the storage was zeroed before the kernel wrote to it, so all of it has a value.
    unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(name).cast(),
            size_of::<libc::sockaddr_storage>(),
        )
    }
}

/// Calls `each` with level, type and data of every control message.
fn for_each_control(header: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the kernel has set the control length of a header that points to a live buffer.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers whose data is whole inside the
        // buffer, as far as their length says.
        let (level, kind, data) = unsafe {
            let whole = (*control).cmsg_len as usize;
            let length = whole.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(control), length);
            ((*control).cmsg_level, (*control).cmsg_type, data)
        };
        each(level, kind, data);
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
}
