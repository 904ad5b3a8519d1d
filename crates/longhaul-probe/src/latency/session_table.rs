//! The sessions that clients of TWAMP-Control have set up, without I/O. The connection of the client
//! opens, starts and stops them; the reflector answers their packets.

use super::control_messages::{RESOURCES_NEVER, RESOURCES_NOW, TwampSessionRequest};
use super::reflector_state::MAX_SESSIONS;
use super::test_packet::{MAX_PACKET_BYTES, PacketCodec};
use crate::measurement_server::SourcePrefix;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of sessions of one source.
const MAX_SOURCE_SESSIONS: usize = 64;
/// The maximum time for which packets of a stopped session are answered.
const MAX_STOPPED_TIME: Duration = Duration::from_secs(30);

/// The sessions that the control connections and the reflector share.
pub type SharedTwampSessions = Arc<Mutex<TwampSessionTable>>;

/// The sessions, by the address and port of the sender.
#[derive(Debug, Default)]
pub struct TwampSessionTable {
    sessions: HashMap<SocketAddr, TwampSession>,
}

/// A session that is set up.
#[derive(Debug)]
pub(super) struct TwampSession {
    pub codec: PacketCodec,
    /// The number of the control connection.
    connection: u64,
    timeout: Duration,
    is_started: bool,
    answered: u32,
    /// The start of the session, or its last packet.
    last: Duration,
    /// The end of a session that was stopped.
    until: Option<Duration>,
}

impl TwampSession {
    /// Counts an answer, and returns its number.
    pub fn next_sequence(&mut self, now: Duration) -> u32 {
        let sequence = self.answered;
        self.answered = sequence.wrapping_add(1);
        self.last = now;
        sequence
    }

    fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl TwampSessionTable {
    /// Returns the number of sessions, with stopped ones that still answer.
    pub fn count_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Adds a session of a control connection. The error is the value of the field Accept.
    pub(super) fn open(
        &mut self,
        connection: u64,
        sender: SocketAddr,
        request: &TwampSessionRequest,
        codec: PacketCodec,
        now: Duration,
    ) -> Result<(), u8> {
        if request.payload_bytes as usize > MAX_PACKET_BYTES {
            return Err(RESOURCES_NEVER);
        }
        self.sessions.retain(|_, session| !session.is_over(now));
        let source = |address: &SocketAddr| SourcePrefix::from(address.ip()).host;
        let of_source = self.sessions.keys().filter(|it| source(it) == source(&sender)).count();
        let is_full = self.sessions.len() >= MAX_SESSIONS || of_source >= MAX_SOURCE_SESSIONS;
        if is_full || self.sessions.contains_key(&sender) {
            return Err(RESOURCES_NOW);
        }
        let timeout = request.timeout.min(MAX_STOPPED_TIME);
        let session = TwampSession {
            codec,
            connection,
            timeout,
            is_started: false,
            answered: 0,
            last: now,
            until: None,
        };
        self.sessions.insert(sender, session);
        Ok(())
    }

    /// Starts the sessions of a connection that are not stopped; returns whether there are any.
    pub(super) fn start(&mut self, connection: u64, now: Duration) -> bool {
        let mut is_any = false;
        for session in self.of_connection(connection) {
            session.is_started = true;
            session.last = now;
            is_any = true;
        }
        is_any
    }

    /// Stops the sessions of a connection. Each answers for the timeout that its client asked for.
    pub(super) fn stop(&mut self, connection: u64, now: Duration) {
        for session in self.of_connection(connection) {
            session.until = Some(now + session.timeout);
        }
    }

    /// Removes the sessions of a connection that are not stopped.
    pub(super) fn close(&mut self, connection: u64) {
        self.sessions.retain(|_, it| it.connection != connection || it.until.is_some());
    }

    /// Returns the last packet of any session of a connection, or its start.
    pub(super) fn last_packet(&mut self, connection: u64) -> Option<Duration> {
        self.of_connection(connection).map(|session| session.last).max()
    }

    /// Returns the session that has started of the sender at this address.
    pub(super) fn find(&mut self, sender: SocketAddr, now: Duration) -> Option<&mut TwampSession> {
        self.sessions.get_mut(&sender).filter(|it| it.is_started && !it.is_over(now))
    }

    fn of_connection(&mut self, connection: u64) -> impl Iterator<Item = &mut TwampSession> {
        let is_own =
            move |it: &&mut TwampSession| it.connection == connection && it.until.is_none();
        self.sessions.values_mut().filter(is_own)
    }
}
