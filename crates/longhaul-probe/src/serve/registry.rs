//! The registry of sessions that expect data streams, by nonce.

use crate::wire::{Nonce, Preamble};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

/// A data stream that has shown the nonce of a session.
#[derive(Debug)]
pub(super) enum Claim {
    Connection(Preamble, TcpStream),
    /// The address of the client's UDP socket.
    Datagram(Preamble, SocketAddr),
}

/// The streams that a session expects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// The address of the control connection's peer; UDP is accepted from no other.
    pub peer: IpAddr,
    pub streams: u32,
    pub forward: bool,
    pub reverse: bool,
    pub udp: bool,
}

#[derive(Debug)]
struct Entry {
    expected: Expected,
    claimed: HashSet<(u16, bool)>,
    claims: SyncSender<Claim>,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    sessions: Mutex<HashMap<Nonce, Entry>>,
}

/// A session's registration; removed when dropped.
#[derive(Debug)]
pub(super) struct Registered<'a> {
    registry: &'a Registry,
    nonce: Nonce,
    pub claims: mpsc::Receiver<Claim>,
}

impl Registry {
    pub fn register(&self, nonce: Nonce, expected: Expected) -> Registered<'_> {
        let most = 2 * expected.streams as usize;
        let (sender, claims) = sync_channel(most);
        let entry = Entry {
            expected,
            claimed: HashSet::new(),
            claims: sender,
        };
        self.lock().insert(nonce, entry);
        Registered {
            registry: self,
            nonce,
            claims,
        }
    }

    /// Delivers a connection to its session. The error gives the reason for a refusal.
    pub fn claim(&self, preamble: Preamble, stream: TcpStream) -> Result<(), &'static str> {
        self.hand_over(preamble, false, None, Claim::Connection(preamble, stream))
    }

    /// Delivers a datagram's source to its session, if it is the control connection's peer.
    pub fn claim_flow(&self, preamble: Preamble, from: SocketAddr) -> Result<(), &'static str> {
        self.hand_over(
            preamble,
            true,
            Some(from.ip()),
            Claim::Datagram(preamble, from),
        )
    }

    fn hand_over(
        &self,
        preamble: Preamble,
        udp: bool,
        from: Option<IpAddr>,
        claim: Claim,
    ) -> Result<(), &'static str> {
        let mut sessions = self.lock();
        let entry = sessions
            .get_mut(&preamble.nonce)
            .ok_or("no session has this nonce")?;
        let expected = &entry.expected;
        let same = |from: IpAddr| from.to_canonical() == expected.peer.to_canonical();
        if from.is_some_and(|from| !same(from)) {
            return Err("it comes from another address than the session");
        }
        let wanted = if preamble.forward {
            expected.forward
        } else {
            expected.reverse
        };
        if !wanted || udp != expected.udp || u32::from(preamble.index) >= expected.streams {
            return Err("the session's plan has no such stream");
        }
        if !entry.claimed.insert((preamble.index, preamble.forward)) {
            return Err("this stream is open already");
        }
        entry.claims.try_send(claim).map_err(|error| match error {
            TrySendError::Full(_) => "the session has all its streams",
            TrySendError::Disconnected(_) => "the session is over",
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Nonce, Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.nonce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_count_only_from_the_sessions_own_peer_and_once() {
        let registry = Registry::default();
        let nonce = Nonce([1; 16]);
        let expected = Expected {
            peer: "::ffff:192.0.2.1".parse().expect("an address"),
            streams: 2,
            forward: true,
            reverse: false,
            udp: true,
        };
        let registered = registry.register(nonce, expected);
        let preamble = |nonce, index, forward| Preamble {
            nonce,
            index,
            forward,
        };
        let peer: SocketAddr = "192.0.2.1:4000".parse().expect("an address");
        let other: SocketAddr = "192.0.2.2:4000".parse().expect("an address");
        let own = preamble(nonce, 1, true);
        assert!(
            registry
                .claim_flow(preamble(Nonce([2; 16]), 1, true), peer)
                .is_err()
        );
        assert!(
            registry.claim_flow(own, other).is_err(),
            "spoofed or stolen"
        );
        assert!(registry.claim_flow(preamble(nonce, 2, true), peer).is_err());
        assert!(
            registry
                .claim_flow(preamble(nonce, 1, false), peer)
                .is_err()
        );
        assert_eq!(registry.claim_flow(own, peer), Ok(()));
        assert!(registry.claim_flow(own, peer).is_err(), "twice");
        assert!(matches!(registered.claims.try_recv(), Ok(Claim::Datagram(p, _)) if p == own));
        drop(registered);
        assert_eq!(
            registry.claim_flow(preamble(nonce, 0, true), peer),
            Err("no session has this nonce")
        );
    }
}
