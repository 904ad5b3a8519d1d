//! UDP on the server's port: only datagrams that belong to a session are answered.
//!
//! The client's hello must carry the nonce that it received over TLS, and come from the address of
//! the control connection. Only then does this host send UDP there, beginning with the answer,
//! which is no longer than the hello. Other datagrams are offered to the handlers.

use super::serve_event::ServeEvent;
use super::stream_registry::StreamClaim;
use super::{ListeningPort, ServerContext};
use crate::wire::{DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, StreamPreamble};
use longhaul_sys::listening_socket::{self, ListenSocketConfig};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The pause after a socket error, so that a permanent one does not keep a core busy.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

/// Reads one datagram, which may be a hello.
pub(super) fn receive_hello(service: &ServerContext<'_>, port: &ListeningPort) {
    // One byte more than a hello, to recognise longer datagrams.
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    match port.datagrams.recv_from(&mut bytes) {
        Ok((count, from)) => {
            let bytes = &bytes[..count];
            let Some(preamble) = StreamPreamble::decode(bytes, DATAGRAM_HELLO) else {
                let mut handlers = service.options.handlers.iter();
                handlers.any(|handler| handler.handle_datagram(from, bytes));
                return;
            };
            if let Err(why) = service.registry.claim(StreamClaim::Datagram(preamble, from)) {
                (service.log)(ServeEvent::StreamRefused { peer: from, why });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => thread::sleep(ERROR_PAUSE),
    }
}

/// Opens a flow's own socket: the same port, connected to its peer.
pub fn open_flow(
    local: SocketAddr,
    device: Option<&str>,
    peer: SocketAddr,
) -> io::Result<UdpSocket> {
    let place = ListenSocketConfig {
        // The address that the client uses, so that answers come from it.
        address: crate::canonical_address(local),
        both_families: false,
        device,
    };
    let socket = listening_socket::bind_shared_udp(&place)?;
    socket.connect(crate::canonical_address(peer))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Tells the client that the flow is open. If the answer is lost, the client repeats its hello.
pub(super) fn acknowledge_hello(socket: &UdpSocket, preamble: &StreamPreamble) {
    let _ = socket.send(&preamble.encode(DATAGRAM_ACKNOWLEDGED));
}

/// Answers hellos that were repeated because the answer was lost.
pub(super) fn answer_repeated_hellos(socket: &UdpSocket, preamble: &StreamPreamble) {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    while let Ok(count) = socket.recv(&mut bytes) {
        if StreamPreamble::decode(&bytes[..count], DATAGRAM_HELLO) == Some(*preamble) {
            acknowledge_hello(socket, preamble);
        }
    }
}
