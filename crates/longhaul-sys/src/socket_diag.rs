//! TCP sockets of all processes in a network namespace, over sock_diag.
//!
//! The kernel describes each socket without touching it. Without privilege it does so for the sockets
//! of all users; only the congestion control's private state is reserved to `CAP_NET_ADMIN`.
//!
//! Source: sock_diag(7), `linux/inet_diag.h`, `linux/sock_diag.h` (Linux 3.3 and later).
//! Units: those of [`crate::tcp_info`]; memory in bytes, with the kernel's overhead.
//! Error: a dump is not a snapshot of one moment; the sockets are read one after the other.

use crate::netlink::{NetlinkSocket, iter_attributes, parse_text, read_u32};
use crate::tcp_info::{TcpInfo, parse_tcp_info};
use longhaul_model::report::v1::flows::flow_grouping::FlowMemory;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `SOCK_DIAG_BY_FAMILY`.
const DIAG_BY_FAMILY: u16 = 20;
const ATTRIBUTE_INFO: u16 = 2;
const ATTRIBUTE_CONGESTION: u16 = 4;
const ATTRIBUTE_MEMORY: u16 = 7;
/// The attributes to add: bit n - 1 requests attribute n.
const EXTENSIONS: u8 =
    1 << (ATTRIBUTE_INFO - 1) | 1 << (ATTRIBUTE_CONGESTION - 1) | 1 << (ATTRIBUTE_MEMORY - 1);
/// `struct inet_diag_sockid`.
const SOCKET_ID_BYTES: usize = 48;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// Words of `SK_MEMINFO`.
const MEMORY_RECEIVE_BUFFER: usize = 1;
const MEMORY_SEND_BUFFER: usize = 3;
const MEMORY_WRITE_QUEUE: usize = 5;

/// The kernel's identification of a socket: its addresses and a cookie that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketIdentity {
    bytes: [u8; SOCKET_ID_BYTES],
    family: u8,
}

/// An established TCP connection, seen from this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosedSocket {
    pub identity: SocketIdentity,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// The inode, by which a process refers to the socket; 0 if no process holds it.
    pub inode: u32,
    pub user_id: u32,
    /// Bytes that the application has not read.
    pub unread_bytes: u64,
    /// Bytes that the peer has not acknowledged, sent or not.
    pub unacknowledged_bytes: u64,
    pub congestion_control: Option<String>,
    pub memory: Option<FlowMemory>,
    pub info: TcpInfo,
}

/// A socket of the diagnosis interface, for the namespace in which it was opened.
#[derive(Debug)]
pub struct DiagnosisSocket {
    netlink: NetlinkSocket,
}

impl DiagnosisSocket {
    /// Opens the interface in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's error; `EPROTONOSUPPORT` if it lacks sock_diag.
    pub fn open() -> io::Result<DiagnosisSocket> {
        Ok(DiagnosisSocket { netlink: NetlinkSocket::open_protocol(libc::NETLINK_SOCK_DIAG)? })
    }

    /// Passes every established TCP connection to `visit`.
    pub fn visit_connections(&self, visit: &mut dyn FnMut(DiagnosedSocket)) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let any = SocketIdentity { bytes: [0; SOCKET_ID_BYTES], family: family as u8 };
            self.netlink.visit_objects(DIAG_BY_FAMILY, &any.build_request(), &mut |body| {
                if let Some(socket) = parse_socket(body) {
                    visit(socket);
                }
            })?;
        }
        Ok(())
    }

    /// Reads one connection again; `None` if it has ended.
    pub fn read_connection(
        &self,
        identity: &SocketIdentity,
    ) -> io::Result<Option<DiagnosedSocket>> {
        let mut found = None;
        let request = identity.build_request();
        let answer = self.netlink.visit_object(DIAG_BY_FAMILY, &request, &mut |body| {
            found = parse_socket(body);
        });
        match answer {
            // A cookie of another socket on the same ports is stale.
            Err(error) if is_gone(&error) => Ok(None),
            answer => answer.map(|()| found.filter(|it| it.identity == *identity)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE))
}

impl SocketIdentity {
    /// Builds `struct inet_diag_req_v2`.
    fn build_request(&self) -> Vec<u8> {
        /// `TCP_ESTABLISHED`, as a bit.
        const ESTABLISHED: u32 = 1 << 1;
        let mut request = vec![self.family, libc::IPPROTO_TCP as u8, EXTENSIONS, 0];
        request.extend_from_slice(&ESTABLISHED.to_ne_bytes());
        request.extend_from_slice(&self.bytes);
        request
    }

    /// Returns the local address or that of the peer.
    fn address(&self, port_at: usize, address_at: usize) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(*self.bytes.get(port_at..)?.first_chunk()?);
        let octets: [u8; 16] = *self.bytes.get(address_at..)?.first_chunk()?;
        let address = if i32::from(self.family) == libc::AF_INET {
            let [a, b, c, d, ..] = octets;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        } else {
            Ipv6Addr::from(octets).to_canonical()
        };
        Some(SocketAddr::new(address, port))
    }
}

/// Parses `struct inet_diag_msg` with its attributes; `None` if it lacks TCP_INFO.
fn parse_socket(body: &[u8]) -> Option<DiagnosedSocket> {
    let identity = SocketIdentity { bytes: *body.get(4..)?.first_chunk()?, family: *body.first()? };
    let attributes = body.get(MESSAGE_BYTES..)?;
    let (mut info, mut memory, mut congestion_control) = (None, None, None);
    for (kind, value) in iter_attributes(attributes) {
        match kind {
            ATTRIBUTE_INFO => info = parse_tcp_info(value),
            ATTRIBUTE_MEMORY => memory = parse_memory(value),
            ATTRIBUTE_CONGESTION => congestion_control = Some(parse_text(value)),
            _ => {}
        }
    }
    Some(DiagnosedSocket {
        identity,
        local: identity.address(0, 4)?,
        peer: identity.address(2, 20)?,
        unread_bytes: read_u32(body, 56)?.into(),
        unacknowledged_bytes: read_u32(body, 60)?.into(),
        user_id: read_u32(body, 64)?,
        inode: read_u32(body, 68)?,
        congestion_control,
        memory,
        info: info?,
    })
}

fn parse_memory(words: &[u8]) -> Option<FlowMemory> {
    let word = |index: usize| read_u32(words, 4 * index).map(u64::from);
    Some(FlowMemory {
        receive_buffer_bytes: word(MEMORY_RECEIVE_BUFFER)?,
        send_buffer_bytes: word(MEMORY_SEND_BUFFER)?,
        send_queue_bytes: word(MEMORY_WRITE_QUEUE)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp_info::read_tcp_info;
    use proptest::prelude::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn connected_pair(listen: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (far, _) = listener.accept().expect("accept");
        (near, far)
    }

    fn find_socket(diagnosis: &DiagnosisSocket, stream: &TcpStream) -> Option<DiagnosedSocket> {
        let local = stream.local_addr().expect("local address");
        let peer = stream.peer_addr().expect("peer address");
        let mut found = None;
        let visit = &mut |socket: DiagnosedSocket| {
            if (socket.local, socket.peer) == (local, peer) {
                found = Some(socket);
            }
        };
        diagnosis.visit_connections(visit).expect("sock_diag");
        found
    }

    #[test]
    fn a_connection_has_the_counters_that_its_own_process_reads() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let (mut near, far) = connected_pair(listen);
            near.write_all(&[7; 5000]).expect("write");
            let diagnosis = DiagnosisSocket::open().expect("sock_diag");
            // The acknowledgement of the bytes arrives within the write, on loopback.
            let seen = find_socket(&diagnosis, &near).expect("the connection");
            let own = read_tcp_info(&near).expect("TCP_INFO");
            assert_eq!(seen.info.reading.bytes_acked, own.reading.bytes_acked);
            assert_eq!(seen.info.reading.segments_out, own.reading.segments_out);
            assert!(seen.memory.is_some() && seen.inode > 0 && seen.congestion_control.is_some());
            let received = find_socket(&diagnosis, &far).expect("its other end");
            assert_eq!(received.unread_bytes, 5000);
            let again = diagnosis.read_connection(&received.identity).expect("sock_diag");
            assert_eq!(again.map(|it| it.inode), Some(received.inode));
        }
    }

    #[test]
    fn a_connection_that_has_ended_is_absent() {
        let (near, far) = connected_pair("127.0.0.1:0");
        let diagnosis = DiagnosisSocket::open().expect("sock_diag");
        let seen = find_socket(&diagnosis, &near).expect("the connection");
        drop((near, far));
        assert_eq!(diagnosis.read_connection(&seen.identity).expect("sock_diag"), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_parser_fail(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let parsed = parse_socket(&bytes);
            prop_assert!(parsed.is_none() || bytes.len() >= MESSAGE_BYTES);
        }
    }
}
