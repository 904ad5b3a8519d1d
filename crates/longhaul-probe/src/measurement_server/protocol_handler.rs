//! The interface through which a program adds protocols to the measurement server.

use super::ServerContext;
use super::accept::NewConnection;
use crate::session::SessionInput;
use crate::wire::{AnonymousLimits, SessionRequest};
use std::fmt;
use std::net::SocketAddr;

/// A protocol that is served on the measurement server's port.
///
/// The server recognises its own connections and datagrams first, then asks each handler. A
/// handler implements the methods for what its protocol uses.
pub trait ProtocolHandler: fmt::Debug + Send + Sync {
    /// Returns whether a connection that begins with these bytes, at least one, may be one of this
    /// protocol.
    fn accepts_connection(&self, _first_bytes: &[u8]) -> bool {
        false
    }

    /// Handles a connection until it is closed, on a thread of its own. Nothing has been read from
    /// it. It must end soon after [`ServerContext::is_stopping`].
    fn handle_connection<'a>(
        &'a self,
        _server: &'a ServerContext<'a>,
        _connection: NewConnection<'a>,
    ) {
    }

    /// Handles a datagram; returns whether it is one of this protocol. Must not block.
    fn handle_datagram(&self, _from: SocketAddr, _bytes: &[u8]) -> bool {
        false
    }

    /// Returns a handler of this protocol's requests within one probe session.
    fn open_session<'a>(
        &'a self,
        _server: &'a ServerContext<'a>,
        _peer: SessionPeer,
    ) -> Option<Box<dyn RequestHandler + 'a>> {
        None
    }
}

/// The client of an admitted probe session.
#[derive(Debug, Clone, Copy)]
pub struct SessionPeer {
    pub address: SocketAddr,
    /// The limits of a client without the token; `None` for a client with it.
    pub anonymous: Option<AnonymousLimits>,
}

/// A handler of requests within one probe session. Its methods must not block.
pub trait RequestHandler {
    /// Returns whether the request is one of this protocol.
    fn accepts_request(&self, request: &SessionRequest) -> bool;

    /// Starts a request; returns the answer if it is available at once.
    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput>;

    /// Returns the answer to a started request, if it is available.
    fn poll(&mut self) -> Option<SessionInput>;

    /// Returns whether an answer is pending.
    fn is_pending(&self) -> bool;

    /// Returns the payload that this end has moved.
    fn moved_bytes(&self) -> u64;
}
