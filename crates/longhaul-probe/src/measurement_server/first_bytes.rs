//! The protocol of a connection, as its first bytes tell.
//!
//! `0x16` begins a TLS handshake: control, unless a handler recognizes the whole ClientHello. `LHD1`
//! begins the preamble of a data stream. Others are offered to the handlers.

use super::{ConnectionKind, ProtocolHandler};
use crate::wire::{DATA_STREAM, PREAMBLE_BYTES};
use std::net::IpAddr;
use std::sync::Arc;

/// The maximum length of first bytes: a ClientHello of this program has a few hundred.
pub(super) const MAX_FIRST_BYTES: usize = 4096;
/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1), and the length of the
/// head of a record.
const TLS_HANDSHAKE: u8 = 0x16;
const TLS_HEAD_BYTES: usize = 5;

/// The meaning of the first bytes.
pub(super) enum FirstBytes<'a> {
    /// They may become complete.
    Incomplete,
    /// They belong to no protocol, for this reason.
    Unknown(&'static str),
    /// A stream of a session in progress, of this protocol or of a handler's.
    Stream(Option<&'a dyn ProtocolHandler>),
    /// A new session.
    Session(SessionProtocol<'a>),
}

/// The protocol of a session.
#[derive(Clone, Copy)]
pub(super) enum SessionProtocol<'a> {
    Longhaul,
    Other(&'a dyn ProtocolHandler),
}

/// Recognizes a connection by its first bytes, at least one.
pub(super) fn recognize_first_bytes<'a>(
    handlers: &'a [Arc<dyn ProtocolHandler>],
    bytes: &[u8],
    peer: IpAddr,
) -> FirstBytes<'a> {
    if bytes[0] == TLS_HANDSHAKE {
        return recognize_record(handlers, bytes, peer);
    }
    if bytes.len() < DATA_STREAM.len() {
        return FirstBytes::Incomplete;
    }
    if bytes.starts_with(&DATA_STREAM) {
        let is_complete = bytes.len() >= PREAMBLE_BYTES;
        return if is_complete { FirstBytes::Stream(None) } else { FirstBytes::Incomplete };
    }
    ask_handlers(handlers, bytes, peer)
        .unwrap_or(FirstBytes::Unknown("it uses an unknown protocol"))
}

/// Returns the answer of the first handler that knows these bytes.
fn ask_handlers<'a>(
    handlers: &'a [Arc<dyn ProtocolHandler>],
    bytes: &[u8],
    peer: IpAddr,
) -> Option<FirstBytes<'a>> {
    handlers.iter().find_map(|handler| match handler.recognize_connection(bytes, peer) {
        ConnectionKind::Unknown => None,
        ConnectionKind::Incomplete => Some(FirstBytes::Incomplete),
        ConnectionKind::Stream => Some(FirstBytes::Stream(Some(handler.as_ref()))),
        ConnectionKind::Session => {
            Some(FirstBytes::Session(SessionProtocol::Other(handler.as_ref())))
        }
    })
}

/// Recognizes a whole TLS record.
fn recognize_record<'a>(
    handlers: &'a [Arc<dyn ProtocolHandler>],
    bytes: &[u8],
    peer: IpAddr,
) -> FirstBytes<'a> {
    let Some(length) = bytes.get(3..TLS_HEAD_BYTES) else {
        return FirstBytes::Incomplete;
    };
    let length = TLS_HEAD_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
    if length > MAX_FIRST_BYTES {
        FirstBytes::Unknown("its first TLS record is too long")
    } else if bytes.len() < length {
        FirstBytes::Incomplete
    } else {
        let own = FirstBytes::Session(SessionProtocol::Longhaul);
        ask_handlers(handlers, bytes, peer).unwrap_or(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn only_whole_first_bytes_begin_a_session_or_a_stream() {
        let hello = [&[TLS_HANDSHAKE, 3, 1, 0, 200][..], &[7; 200]].concat();
        let preamble = [&DATA_STREAM[..], &[7; 20]].concat();
        for whole in [&hello, &preamble] {
            for length in 1..whole.len() {
                let part = recognize_first_bytes(&[], &whole[..length], PEER);
                assert!(matches!(part, FirstBytes::Incomplete), "{length} bytes");
            }
        }
        let session = recognize_first_bytes(&[], &hello, PEER);
        assert!(matches!(session, FirstBytes::Session(SessionProtocol::Longhaul)));
        assert!(matches!(recognize_first_bytes(&[], &preamble, PEER), FirstBytes::Stream(None)));
        let long = [TLS_HANDSHAKE, 3, 1, 0xff, 0xff];
        for unknown in [&long[..], b"GET /", &[0; 4]] {
            let unknown = recognize_first_bytes(&[], unknown, PEER);
            assert!(matches!(unknown, FirstBytes::Unknown(_)));
        }
    }
}
