//! UDP on the service's port: nothing is answered that does not know a session.
//!
//! The initiator's hello must carry the nonce it was given over TLS and come from the address of
//! the control connection. Only then does this host send UDP there, first the answer, which is
//! no longer than the hello. iperf3's hello names no session: it counts when one of its address
//! expects it.

use super::event::ServeEvent;
use super::{Port, Service};
use crate::iperf3::wire::Greeting;
use crate::wire::{DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, Preamble};
use longhaul_sys::listen::{self, Place};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// After an error of the socket, so that a lasting one does not keep a core busy.
const BREATH: Duration = Duration::from_millis(50);

/// Reads one datagram, which may be a hello.
pub(super) fn greet(service: &Service<'_>, port: &Port) {
    // One byte more than a hello, so that longer datagrams are told from it.
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    match port.datagrams.recv_from(&mut bytes) {
        Ok((count, from)) => {
            if let Some(greeting) = Greeting::of_hello(&bytes[..count]) {
                // Which names no session: only an address that one expects is answered.
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

/// The flow's own socket: same port, connected to its one peer.
pub(super) fn open_flow(
    local: SocketAddr,
    device: Option<&str>,
    peer: SocketAddr,
) -> io::Result<UdpSocket> {
    let place = Place {
        // The address that the initiator speaks to, so that answers come from there.
        address: canonical(local),
        both_families: false,
        device,
    };
    let socket = listen::udp_for_peer(&place, canonical(peer))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// An IPv4 address inside an IPv6 one as what it is; a scope is kept.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// Tells the initiator that the flow is open. What is lost is asked for again.
pub(super) fn acknowledge(socket: &UdpSocket, preamble: &Preamble) {
    let _ = socket.send(&preamble.encode(DATAGRAM_ACKNOWLEDGED));
}

/// Answers hellos that were sent again because the answer was lost.
pub(super) fn acknowledge_again(socket: &UdpSocket, preamble: &Preamble) {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    while let Ok(count) = socket.recv(&mut bytes) {
        if Preamble::decode(&bytes[..count], DATAGRAM_HELLO) == Some(*preamble) {
            acknowledge(socket, preamble);
        }
    }
}
