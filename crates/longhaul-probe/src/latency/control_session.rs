//! The client of TWAMP-Control: asks a server over TCP to reflect the packets of one session.
//!
//! Source: RFC 5357, section 3, and RFC 4656, section 3. A server makes this end read and keep at most
//! 64 bytes at a time. [`TwampControlClient`] has no I/O; [`TwampControlConnection`] runs it on a TCP
//! connection with one deadline.

use super::control_cipher::{
    ConnectionKeys, ControlCipher, TestSessionKey, TokenChallenge, TwampKey,
};
use super::control_messages::{
    ACCEPT_BYTES, ACCEPTED, COMMAND_BYTES, GREETING_BYTES, SETUP_BYTES, START_SESSIONS,
    STOP_SESSIONS, TwampMode, TwampSessionRequest, encode_command, field,
};
use super::{STAMP_PORT, read_wall_clock};
use crate::engine::is_socket_timeout;
use crate::probe_error::ProbeError;
use crate::secure::random_bytes;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// TCP port of TWAMP-Control.
pub const CONTROL_PORT: u16 = STAMP_PORT;
/// The iterations of PBKDF2 that a server may ask for: fewer would make the passphrase easy to guess
/// for who pretends to be the server (RFC 4656, section 3.1), and more would take seconds.
const MIN_PBKDF2_COUNT: u32 = 1024;
const MAX_PBKDF2_COUNT: u32 = 1 << 20;

const SERVER_ADVICE: &str = "check the TCP port of TWAMP-Control (`--twamp-control=PORT`), or try \
                             `--twamp-light`, which needs no server";
const KEY_ADVICE: &str = "check that the server has the KeyID and the passphrase of `--key-file`, and \
                          the TCP port of TWAMP-Control (`--twamp-control=PORT`)";

/// The message that the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TwampControlStep {
    Greeting,
    ServerStart,
    AcceptSession,
    StartAck,
    Started,
}

/// A client that sets up one session.
#[derive(Debug)]
pub struct TwampControlClient {
    request: TwampSessionRequest,
    key: Option<TwampKey>,
    step: TwampControlStep,
    mode: TwampMode,
    /// The keys of the connection, and the IV of this end.
    keys: Option<(ConnectionKeys, [u8; 16])>,
    cipher: Option<ControlCipher>,
    test_key: Option<TestSessionKey>,
}

impl TwampControlClient {
    /// Creates a client that authenticates itself and the packets with `key`, if there is one.
    pub fn new(request: TwampSessionRequest, key: Option<TwampKey>) -> TwampControlClient {
        TwampControlClient {
            request,
            key,
            step: TwampControlStep::Greeting,
            mode: TwampMode::Unauthenticated,
            keys: None,
            cipher: None,
            test_key: None,
        }
    }

    /// Returns the length of the next message of the server; `None` once the session has started.
    pub fn expected_bytes(&self) -> Option<usize> {
        match self.step {
            TwampControlStep::Greeting => Some(GREETING_BYTES),
            TwampControlStep::ServerStart | TwampControlStep::AcceptSession => Some(ACCEPT_BYTES),
            TwampControlStep::StartAck => Some(COMMAND_BYTES),
            TwampControlStep::Started => None,
        }
    }

    /// Returns the UDP port of the reflector.
    pub fn reflector_port(&self) -> u16 {
        self.request.reflector_port
    }

    /// Takes the next message of the server, and returns the answer, which is empty at the end.
    ///
    /// # Errors
    /// The message is cut off or not authentic, or the server refuses, as a sentence.
    pub fn answer_message(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        if self.expected_bytes() != Some(message.len()) {
            return Err("the server ended within a message".to_owned());
        }
        match self.step {
            TwampControlStep::Greeting => {
                self.step = TwampControlStep::ServerStart;
                self.accept_greeting(message)
            }
            TwampControlStep::ServerStart => {
                check_accept(message[15], "the connection")?;
                self.cipher = self.keys.map(|(keys, own_iv)| {
                    let mut cipher = ControlCipher::new(&keys, &own_iv, &field(message, 16));
                    // The start time of the server.
                    cipher.decrypt_part(&mut message[32..].to_vec());
                    cipher
                });
                self.step = TwampControlStep::AcceptSession;
                Ok(self.seal(self.request.encode(self.mode, read_wall_clock())))
            }
            TwampControlStep::AcceptSession => {
                let message = self.open(message)?;
                check_accept(message[0], "the session")?;
                let port = u16::from_be_bytes(field(&message, 2));
                if port == 0 {
                    return Err("the server names no port for the session".to_owned());
                }
                self.request.reflector_port = port;
                let is_encrypted = self.mode == TwampMode::Encrypted;
                let sid = field(&message, 4);
                self.test_key = self.keys.map(|(keys, _)| keys.derive_test_key(&sid, is_encrypted));
                self.step = TwampControlStep::StartAck;
                Ok(self.seal(encode_command(START_SESSIONS)))
            }
            TwampControlStep::StartAck => {
                let message = self.open(message)?;
                check_accept(message[0], "the start of the session")?;
                self.step = TwampControlStep::Started;
                Ok(Vec::new())
            }
            TwampControlStep::Started => Ok(Vec::new()),
        }
    }

    /// Returns the key of the packets.
    pub fn test_key(&self) -> Option<TestSessionKey> {
        self.test_key.clone()
    }

    /// Returns the message that stops the session.
    pub fn stop_message(&mut self) -> Vec<u8> {
        let mut message = encode_command(STOP_SESSIONS);
        // The number of sessions.
        message[7] = 1;
        self.seal(message)
    }

    /// Answers the greeting by Set-Up-Response.
    fn accept_greeting(&mut self, greeting: &[u8]) -> Result<Vec<u8>, String> {
        let modes = u32::from_be_bytes(field(greeting, 12));
        // Encryption between reading the clock and sending would be part of the delay.
        let wanted: &[TwampMode] = match &self.key {
            None => &[TwampMode::Unauthenticated],
            Some(_) => &[TwampMode::Authenticated, TwampMode::Encrypted],
        };
        let Some(mode) = wanted.iter().find(|mode| modes & mode.bit() != 0) else {
            return Err(match (modes, &self.key) {
                (0, _) => "the server accepts no connection from this host".to_owned(),
                (_, None) => format!(
                    "the server has no unauthenticated mode (modes {modes:#x}); give a key (`--key-file`)"
                ),
                (_, Some(_)) => format!("the server has no authenticated mode (modes {modes:#x})"),
            });
        };
        self.mode = *mode;
        let mut response = vec![0; SETUP_BYTES];
        response[..4].copy_from_slice(&mode.bit().to_be_bytes());
        if let Some(key) = &self.key {
            let count = u32::from_be_bytes(field(greeting, 48));
            let count = NonZeroU32::new(count)
                .filter(|it| (MIN_PBKDF2_COUNT..=MAX_PBKDF2_COUNT).contains(&it.get()))
                .ok_or_else(|| format!("the server asks for {count} iterations of PBKDF2"))?;
            let (challenge, salt) = (field(greeting, 16), field(greeting, 32));
            let no_random = || "the kernel provides no random bytes".to_owned();
            let keys = ConnectionKeys {
                aes: random_bytes().ok_or_else(no_random)?,
                hmac: random_bytes().ok_or_else(no_random)?,
            };
            let own_iv = random_bytes::<16>().ok_or_else(no_random)?;
            let token = TokenChallenge { challenge, salt, count }.seal_token(key, &keys);
            response[4..84].copy_from_slice(&key.encode_id());
            response[84..148].copy_from_slice(&token);
            response[148..].copy_from_slice(&own_iv);
            self.keys = Some((keys, own_iv));
        }
        Ok(response)
    }

    fn seal(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        if let Some(cipher) = &mut self.cipher {
            cipher.seal_message(&mut message);
        }
        message
    }

    fn open(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        let mut message = message.to_vec();
        let is_authentic = self.cipher.as_mut().is_none_or(|it| it.open_message(&mut message));
        is_authentic
            .then_some(message)
            .ok_or_else(|| "the server's message is not authentic".to_owned())
    }
}

/// Checks the field Accept (RFC 4656, section 3.3).
fn check_accept(accept: u8, what: &str) -> Result<(), String> {
    let why = match accept {
        ACCEPTED => return Ok(()),
        1 => "for no reason given",
        2 => "because of an internal error",
        3 => "because it does not support what was asked",
        4 => "because its resources never allow this",
        5 => "because its resources do not allow this now",
        _ => "for an unknown reason",
    };
    Err(format!("the server refuses {what}, {why} ({accept})"))
}

/// A control connection. The server ends its session when the connection is closed.
#[derive(Debug)]
pub struct TwampControlConnection {
    stream: TcpStream,
    address: SocketAddr,
}

/// A session that has started.
#[derive(Debug)]
pub struct StartedTwampSession {
    stream: TcpStream,
    client: TwampControlClient,
}

impl TwampControlConnection {
    pub fn new(stream: TcpStream, address: SocketAddr) -> TwampControlConnection {
        TwampControlConnection { stream, address }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets up a session.
    ///
    /// # Errors
    /// The server refuses, ends the connection, or has not started the session within `timeout`.
    pub fn start_session(
        mut self,
        request: TwampSessionRequest,
        key: Option<TwampKey>,
        timeout: Duration,
    ) -> Result<StartedTwampSession, ProbeError> {
        let deadline = Instant::now() + timeout;
        let advice = if key.is_some() { KEY_ADVICE } else { SERVER_ADVICE };
        let mut client = TwampControlClient::new(request, key);
        while let Some(bytes) = client.expected_bytes() {
            let message = read_message(&self.stream, bytes, deadline);
            let message = message.map_err(|error| self.fail(&error.to_string(), advice, true))?;
            let answer =
                client.answer_message(&message).map_err(|why| self.fail(&why, advice, false))?;
            let sent = self.stream.write_all(&answer);
            sent.map_err(|error| self.fail(&error.to_string(), advice, true))?;
        }
        Ok(StartedTwampSession { stream: self.stream, client })
    }

    fn fail(&self, why: &str, advice: &'static str, is_lost: bool) -> ProbeError {
        ProbeError::OtherProtocol {
            address: self.address,
            what: format!("no session of TWAMP: {why}"),
            advice: Some(advice),
            is_lost,
        }
    }
}

impl StartedTwampSession {
    /// Returns the UDP port of the reflector.
    pub fn reflector_port(&self) -> u16 {
        self.client.reflector_port()
    }

    /// Returns the key of the packets.
    pub fn test_key(&self) -> Option<TestSessionKey> {
        self.client.test_key()
    }

    /// Stops the session.
    pub fn stop(mut self) {
        // Closing the connection stops it as well.
        let _ = self.stream.write_all(&self.client.stop_message());
    }
}

/// Reads a message of this length, or what the peer sent of it before it ended.
pub(super) fn read_message(
    mut stream: &TcpStream,
    bytes: usize,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let mut message = vec![0; bytes];
    let mut length = 0;
    while length < bytes {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut message[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            // The deadline decides.
            Err(error) if is_socket_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    message.truncate(length);
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    const REQUEST: TwampSessionRequest = TwampSessionRequest {
        is_ipv6: false,
        sender_port: 40_000,
        reflector_port: 862,
        payload_bytes: 44,
        timeout: Duration::from_millis(1500),
        dscp: Some(46),
    };

    /// The messages of a server that accepts everything and reflects on port 18,760.
    fn honest_messages() -> [Vec<u8>; 4] {
        let mut greeting = vec![0xaa; GREETING_BYTES];
        greeting[12..16].copy_from_slice(&[0, 0, 0, 7]);
        let mut session = vec![0; ACCEPT_BYTES];
        session[2..4].copy_from_slice(&18_760_u16.to_be_bytes());
        [greeting, vec![0; ACCEPT_BYTES], session, vec![0; COMMAND_BYTES]]
    }

    #[test]
    fn a_session_is_asked_for_with_the_fields_of_the_standard() {
        let mut client = TwampControlClient::new(REQUEST, None);
        let answers = honest_messages().map(|message| {
            assert_eq!(client.expected_bytes(), Some(message.len()));
            client.answer_message(&message).expect("accepted")
        });
        assert_eq!(client.expected_bytes(), None);
        assert_eq!(client.reflector_port(), 18_760);
        let [setup, request, start, end] = answers;
        assert_eq!((setup.len(), &setup[..5]), (164, &[0, 0, 0, 1, 0][..]));
        assert_eq!((request.len(), &request[..4]), (112, &[5, 4, 0, 0][..]));
        assert_eq!(request[12..16], [40_000_u16.to_be_bytes(), 862_u16.to_be_bytes()].concat());
        assert_eq!(request[16..64], [0; 48], "the addresses are those of the connection");
        assert_eq!(request[64..68], [0, 0, 0, 30]);
        assert_eq!(request[76..84], [0, 0, 0, 1, 0x80, 0, 0, 0]);
        assert_eq!(request[84..88], [46, 0, 0, 0]);
        assert_eq!((start.len(), start[0]), (32, 2));
        assert!(end.is_empty());
    }

    #[test]
    fn a_refusal_says_what_is_refused_and_why() {
        for (step, at, value, part) in [
            (0, 15, 0, "accepts no connection"),
            (0, 15, 6, "no unauthenticated mode (modes 0x6)"),
            (1, 15, 1, "refuses the connection, for no reason given (1)"),
            (2, 0, 3, "refuses the session, because it does not support"),
            (3, 0, 5, "refuses the start of the session"),
        ] {
            let mut messages = honest_messages();
            messages[step][at] = value;
            let mut client = TwampControlClient::new(REQUEST, None);
            let failed = messages.iter().find_map(|message| client.answer_message(message).err());
            assert!(failed.as_ref().is_some_and(|why| why.contains(part)), "{part} in {failed:?}");
        }
    }

    proptest! {
        #[test]
        fn messages_of_any_content_and_length_are_answered_or_refused(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            honest in 0..4_usize,
        ) {
            let mut client = TwampControlClient::new(REQUEST, None);
            for message in honest_messages().iter().take(honest).chain(&messages) {
                let expected = client.expected_bytes();
                match client.answer_message(message) {
                    Ok(answer) => {
                        prop_assert_eq!(expected, Some(message.len()));
                        prop_assert!(answer.len() <= SETUP_BYTES);
                    }
                    Err(why) => prop_assert!(why.len() < 200),
                }
            }
        }
    }

    /// Runs a client against a server that sends these bytes and then waits or ends.
    fn run_against(sent: &[u8], ends: bool, timeout: Duration) -> Result<u16, ProbeError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stream = TcpStream::connect(address).expect("connected");
        let (mut server, _) = listener.accept().expect("a connection");
        server.write_all(sent).expect("sent");
        if ends {
            server.shutdown(std::net::Shutdown::Write).expect("ended");
        }
        TwampControlConnection::new(stream, address)
            .start_session(REQUEST, None, timeout)
            .map(|it| it.reflector_port())
    }

    #[test]
    fn a_server_that_ends_at_any_byte_is_a_failure_and_one_that_does_not_is_none() {
        let all = honest_messages().concat();
        for length in 0..all.len() {
            let failed = run_against(&all[..length], true, Duration::from_secs(300));
            let why = failed.expect_err("cut off").to_string();
            assert!(why.contains("ended within a message"), "{length}: {why}");
        }
        assert_eq!(run_against(&all, true, Duration::from_secs(300)).ok(), Some(18_760));
    }

    #[test]
    fn a_silent_server_is_left_at_the_deadline() {
        let sent = &honest_messages()[0][..63];
        let why = run_against(sent, false, Duration::from_millis(50)).expect_err("silent");
        assert!(why.to_string().contains("no answer in time"), "{why}");
    }
}
