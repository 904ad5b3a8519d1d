//! A connection of a TWAMP-Control client as the server sees it, without I/O (RFC 5357, section 3).
//!
//! A client makes this end read and keep at most 164 bytes at a time. Sessions are between the two
//! addresses of the connection, so that nobody else can be sent answers.

use super::control_cipher::{
    BLOCK_BYTES, ConnectionKeys, ControlCipher, TOKEN_BYTES, TokenChallenge, TwampKey,
};
use super::control_messages::{
    ACCEPT_BYTES, ACCEPTED, COMMAND_BYTES, GREETING_BYTES, INTERNAL_ERROR, NOT_SUPPORTED, REFUSED,
    REQUEST_BYTES, REQUEST_TW_SESSION, SETUP_BYTES, START_SESSIONS, STOP_SESSIONS, TwampMode,
    TwampSessionRequest, field,
};
use super::session_table::TwampSessionTable;
use super::test_packet::PacketCodec;
use super::wire_time::encode_ntp_time;
use crate::secure::random_bytes;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The iterations of PBKDF2, which take less than a millisecond.
const PBKDF2_COUNT: NonZeroU32 = NonZeroU32::new(2048).expect("it is not zero");

/// The options of a server, for all connections.
#[derive(Debug, Clone)]
pub struct ControlServerOptions {
    /// The keys of the clients that are served; empty: clients are served without authentication.
    pub keys: Vec<TwampKey>,
    /// UDP port of the reflector.
    pub reflector_port: u16,
    /// The start of the server by the wall clock, in nanoseconds since 1970.
    pub started_ns: u64,
}

impl ControlServerOptions {
    fn modes(&self) -> &'static [TwampMode] {
        if self.keys.is_empty() {
            &[TwampMode::Unauthenticated]
        } else {
            &[TwampMode::Authenticated, TwampMode::Encrypted]
        }
    }
}

/// The message that the server waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TwampServerStep {
    SetUp,
    /// The first block of a command.
    Command,
    /// The rest of a command after its first block, decrypted.
    CommandRest([u8; BLOCK_BYTES]),
    Closed,
}

/// The server's end of a control connection.
#[derive(Debug)]
pub struct TwampControlServer {
    options: Arc<ControlServerOptions>,
    /// The number of the connection, by which the table of sessions knows it.
    connection: u64,
    client: SocketAddr,
    own: SocketAddr,
    step: TwampServerStep,
    mode: TwampMode,
    challenge: TokenChallenge,
    keys: Option<ConnectionKeys>,
    cipher: Option<ControlCipher>,
    is_running: bool,
}

impl TwampControlServer {
    /// Creates the end of a connection between these addresses; `None` if the kernel provides no random
    /// bytes.
    pub fn new(
        options: Arc<ControlServerOptions>,
        connection: u64,
        client: SocketAddr,
        own: SocketAddr,
    ) -> Option<TwampControlServer> {
        let (challenge, salt) = (random_bytes()?, random_bytes()?);
        Some(TwampControlServer {
            options,
            connection,
            client,
            own,
            step: TwampServerStep::SetUp,
            mode: TwampMode::Unauthenticated,
            challenge: TokenChallenge { challenge, salt, count: PBKDF2_COUNT },
            keys: None,
            cipher: None,
            is_running: false,
        })
    }

    /// Returns the greeting.
    pub fn greeting(&self) -> [u8; GREETING_BYTES] {
        let mut greeting = refuse_connection();
        let modes = self.options.modes().iter().fold(0, |all, mode| all | mode.bit());
        greeting[12..16].copy_from_slice(&modes.to_be_bytes());
        greeting[16..32].copy_from_slice(&self.challenge.challenge);
        greeting[32..48].copy_from_slice(&self.challenge.salt);
        greeting[48..52].copy_from_slice(&PBKDF2_COUNT.get().to_be_bytes());
        greeting
    }

    /// Returns the length of the next part of the client's messages; `None` if the connection is to be
    /// closed.
    pub fn expected_bytes(&self) -> Option<usize> {
        match self.step {
            TwampServerStep::SetUp => Some(SETUP_BYTES),
            TwampServerStep::Command => Some(BLOCK_BYTES),
            TwampServerStep::CommandRest([REQUEST_TW_SESSION, ..]) => {
                Some(REQUEST_BYTES - BLOCK_BYTES)
            }
            TwampServerStep::CommandRest(_) => Some(COMMAND_BYTES - BLOCK_BYTES),
            TwampServerStep::Closed => None,
        }
    }

    /// Returns whether the connection waits for a command, and nothing of it has come.
    pub fn is_idle(&self) -> bool {
        self.step == TwampServerStep::Command
    }

    /// Returns whether sessions have been started and not stopped.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Takes the next part of the client's messages, and returns the answer, which may be empty. A part
    /// of another length than expected ends the connection.
    pub fn answer_message(
        &mut self,
        message: &[u8],
        sessions: &Mutex<TwampSessionTable>,
        now: Duration,
    ) -> Vec<u8> {
        let is_whole = self.expected_bytes() == Some(message.len());
        let step = std::mem::replace(&mut self.step, TwampServerStep::Closed);
        match step {
            _ if !is_whole => Vec::new(),
            TwampServerStep::SetUp => self.set_up(message),
            TwampServerStep::Command => {
                let mut first = field(message, 0);
                if let Some(cipher) = &mut self.cipher {
                    cipher.decrypt_part(&mut first);
                }
                // While sessions run they can only be stopped.
                let is_known = match first[0] {
                    STOP_SESSIONS => self.is_running,
                    START_SESSIONS | REQUEST_TW_SESSION => !self.is_running,
                    _ => false,
                };
                if is_known {
                    self.step = TwampServerStep::CommandRest(first);
                }
                Vec::new()
            }
            TwampServerStep::CommandRest(first) => {
                let mut rest = message.to_vec();
                let is_authentic =
                    self.cipher.as_mut().is_none_or(|cipher| cipher.open_message(&mut rest));
                if !is_authentic {
                    return Vec::new();
                }
                self.step = TwampServerStep::Command;
                self.obey_command(&[&first, rest.as_slice()].concat(), &mut sessions.lock(), now)
            }
            TwampServerStep::Closed => Vec::new(),
        }
    }

    /// Answers Set-Up-Response by Server-Start.
    fn set_up(&mut self, response: &[u8]) -> Vec<u8> {
        let mut start = vec![0; ACCEPT_BYTES];
        let chosen = u32::from_be_bytes(field(response, 0));
        let Some(mode) = self.options.modes().iter().find(|mode| mode.bit() == chosen) else {
            start[15] = REFUSED;
            return start;
        };
        self.mode = *mode;
        let time = encode_ntp_time(self.options.started_ns).to_be_bytes();
        start[32..40].copy_from_slice(&time);
        if self.mode != TwampMode::Unauthenticated {
            let token: [u8; TOKEN_BYTES] = field(response, 84);
            let keys = self.challenge.open_token(&self.options.keys, &response[4..84], &token);
            let (Some(keys), Some(own_iv)) = (keys, random_bytes()) else {
                start.fill(0);
                start[15] = if keys.is_none() { REFUSED } else { INTERNAL_ERROR };
                return start;
            };
            let mut cipher = ControlCipher::new(&keys, &own_iv, &field(response, 148));
            start[16..32].copy_from_slice(&own_iv);
            cipher.encrypt_part(&mut start[32..]);
            (self.keys, self.cipher) = (Some(keys), Some(cipher));
        }
        self.step = TwampServerStep::Command;
        start
    }

    fn obey_command(
        &mut self,
        message: &[u8],
        sessions: &mut TwampSessionTable,
        now: Duration,
    ) -> Vec<u8> {
        match message[0] {
            REQUEST_TW_SESSION => {
                let mut accept = vec![0; ACCEPT_BYTES];
                match self.open_session(message, sessions, now) {
                    Ok(sid) => {
                        accept[2..4].copy_from_slice(&self.options.reflector_port.to_be_bytes());
                        accept[4..20].copy_from_slice(&sid);
                    }
                    Err(refusal) => accept[0] = refusal,
                }
                self.seal(accept)
            }
            START_SESSIONS => {
                self.is_running = sessions.start(self.connection, now);
                let mut ack = vec![0; COMMAND_BYTES];
                ack[0] = if self.is_running { ACCEPTED } else { REFUSED };
                self.seal(ack)
            }
            _ => {
                self.is_running = false;
                sessions.stop(self.connection, now);
                Vec::new()
            }
        }
    }

    /// Opens a session, and returns its identifier. The error is the value of the field Accept.
    fn open_session(
        &self,
        message: &[u8],
        sessions: &mut TwampSessionTable,
        now: Duration,
    ) -> Result<[u8; BLOCK_BYTES], u8> {
        let mut sender = self.client;
        let request = TwampSessionRequest::decode(message, self.mode, sender.ip(), self.own.ip())
            .ok_or(NOT_SUPPORTED)?;
        sender.set_port(request.sender_port);
        let sid = random_bytes().ok_or(INTERNAL_ERROR)?;
        let is_encrypted = self.mode == TwampMode::Encrypted;
        let key = self.keys.map(|keys| keys.derive_test_key(&sid, is_encrypted));
        let codec = PacketCodec::for_session(key);
        sessions.open(self.connection, sender, &request, codec, now)?;
        Ok(sid)
    }

    fn seal(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        if let Some(cipher) = &mut self.cipher {
            cipher.seal_message(&mut message);
        }
        message
    }
}

/// Returns the greeting of a server that accepts no connection: one without modes.
pub fn refuse_connection() -> [u8; GREETING_BYTES] {
    [0; GREETING_BYTES]
}

#[cfg(test)]
mod tests;
