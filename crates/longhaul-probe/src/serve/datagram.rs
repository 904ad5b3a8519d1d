//! UDP on the server's port: only datagrams that belong to a session are answered.
//!
//! The client's hello must carry the nonce that it received over TLS, and come from the address of
//! the control connection. Only then does this host send UDP there, beginning with the answer,
//! which is no longer than the hello. iperf3's hello names no session: it is accepted if one
//! expects it from that address.

use super::event::ServeEvent;
use super::{Port, Service};
use crate::iperf3::wire::Greeting;
use crate::wire::{DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, Preamble};
use longhaul_sys::listen::{self, Place};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The pause after a socket error, so that a permanent one does not keep a core busy.
const BREATH: Duration = Duration::from_millis(50);

/// Reads one datagram, which may be a hello.
pub(super) fn greet(service: &Service<'_>, port: &Port) {
    // One byte more than a hello, to recognise longer datagrams.
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    match port.datagrams.recv_from(&mut bytes) {
        Ok((count, from)) => {
            if let Some(greeting) = Greeting::of_hello(&bytes[..count]) {
                // An iperf3 hello names no session: only an expected address is answered.
                service.book.greet(from, greeting);
                return;
            }
            let Some(preamble) = Preamble::decode(&bytes[..count], DATAGRAM_HELLO) else {
                return;
            };
            if let Err(why) = service.registry.claim_flow(preamble, from) {
                (service.log)(ServeEvent::StreamRefused { peer: from, why });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => thread::sleep(BREATH),
    }
}

/// Opens a flow's own socket: the same port, connected to its peer.
pub(super) fn open_flow(
    local: SocketAddr,
    device: Option<&str>,
    peer: SocketAddr,
) -> io::Result<UdpSocket> {
    let place = Place {
        // The address that the client uses, so that answers come from it.
        address: canonical(local),
        both_families: false,
        device,
    };
    let socket = listen::udp_for_peer(&place, canonical(peer))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Converts an IPv4-mapped IPv6 address to IPv4; keeps a scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// Tells the client that the flow is open. If the answer is lost, the client repeats its hello.
pub(super) fn acknowledge(socket: &UdpSocket, preamble: &Preamble) {
    let _ = socket.send(&preamble.encode(DATAGRAM_ACKNOWLEDGED));
}

/// Answers hellos that were repeated because the answer was lost.
pub(super) fn acknowledge_again(socket: &UdpSocket, preamble: &Preamble) {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    while let Ok(count) = socket.recv(&mut bytes) {
        if Preamble::decode(&bytes[..count], DATAGRAM_HELLO) == Some(*preamble) {
            acknowledge(socket, preamble);
        }
    }
}
