//! The registry of sessions that expect data streams, by nonce.

use crate::secure::random_bytes;
use crate::wire::{SessionNonce, StreamPreamble};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc;

/// A data stream that has shown the nonce of a session.
#[derive(Debug)]
pub enum StreamClaim {
    Connection(StreamPreamble, TcpStream),
    /// The address of the client's UDP socket.
    Datagram(StreamPreamble, SocketAddr),
}

/// The streams that a session expects.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedStreams {
    /// The address of the control connection's peer; UDP is accepted from no other.
    pub peer: IpAddr,
    pub streams: u32,
    pub forward: bool,
    pub reverse: bool,
    pub udp: bool,
}

#[derive(Debug)]
struct RegisteredStreams {
    expected: ExpectedStreams,
    /// Bounds the claims: each stream is delivered once.
    claimed: HashSet<(u16, bool)>,
    claims: mpsc::Sender<StreamClaim>,
}

#[derive(Debug, Default)]
pub(super) struct StreamRegistry {
    sessions: Mutex<HashMap<SessionNonce, RegisteredStreams>>,
}

/// A session's registration; removed when dropped.
#[derive(Debug)]
pub struct SessionEntry<'a> {
    registry: &'a StreamRegistry,
    pub nonce: SessionNonce,
    pub claims: mpsc::Receiver<StreamClaim>,
}

impl StreamRegistry {
    /// Registers the streams under a random nonce; fails if the kernel provides none.
    pub fn register(&self, expected: ExpectedStreams) -> Result<SessionEntry<'_>, String> {
        let nonce = random_bytes().map(SessionNonce);
        let nonce = nonce.ok_or("the kernel provides no random bytes")?;
        let (sender, claims) = mpsc::channel();
        let entry = RegisteredStreams { expected, claimed: HashSet::new(), claims: sender };
        self.sessions.lock().insert(nonce, entry);
        Ok(SessionEntry { registry: self, nonce, claims })
    }

    /// Delivers a stream to its session; a datagram must come from the control connection's peer.
    /// The error gives the reason for a refusal.
    pub fn claim(&self, claim: StreamClaim) -> Result<(), &'static str> {
        let (preamble, from) = match &claim {
            StreamClaim::Connection(preamble, _) => (*preamble, None),
            StreamClaim::Datagram(preamble, from) => (*preamble, Some(from.ip())),
        };
        let mut sessions = self.sessions.lock();
        let entry = sessions.get_mut(&preamble.nonce).ok_or("no session has this nonce")?;
        let expected = &entry.expected;
        let same = |from: IpAddr| from.to_canonical() == expected.peer.to_canonical();
        if from.is_some_and(|from| !same(from)) {
            return Err("its address differs from that of the session");
        }
        let wanted = if preamble.forward { expected.forward } else { expected.reverse };
        if !wanted
            || from.is_some() != expected.udp
            || u32::from(preamble.index) >= expected.streams
        {
            return Err("the session's plan has no such stream");
        }
        if !entry.claimed.insert((preamble.index, preamble.forward)) {
            return Err("this stream is already open");
        }
        entry.claims.send(claim).map_err(|_| "the session is over")
    }
}

impl Drop for SessionEntry<'_> {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.nonce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_count_only_from_the_sessions_own_peer_and_once() {
        let registry = StreamRegistry::default();
        let expected = ExpectedStreams {
            peer: "::ffff:192.0.2.1".parse().expect("an address"),
            streams: 2,
            forward: true,
            reverse: false,
            udp: true,
        };
        let registered = registry.register(expected).expect("random bytes");
        let nonce = registered.nonce;
        let preamble = |nonce, index, forward| StreamPreamble { nonce, index, forward };
        let peer: SocketAddr = "192.0.2.1:4000".parse().expect("an address");
        let other: SocketAddr = "192.0.2.2:4000".parse().expect("an address");
        let own = preamble(nonce, 1, true);
        let claim_flow = |preamble, from| registry.claim(StreamClaim::Datagram(preamble, from));
        assert!(claim_flow(preamble(SessionNonce([2; 16]), 1, true), peer).is_err());
        assert!(claim_flow(own, other).is_err(), "spoofed or stolen");
        assert!(claim_flow(preamble(nonce, 2, true), peer).is_err());
        assert!(claim_flow(preamble(nonce, 1, false), peer).is_err());
        assert_eq!(claim_flow(own, peer), Ok(()));
        assert!(claim_flow(own, peer).is_err(), "twice");
        assert!(
            matches!(registered.claims.try_recv(), Ok(StreamClaim::Datagram(p, _)) if p == own)
        );
        drop(registered);
        assert_eq!(claim_flow(preamble(nonce, 0, true), peer), Err("no session has this nonce"));
    }
}
