//! The client of TWAMP-Control: asks a server over TCP to reflect the packets of one session.
//!
//! Source: RFC 5357, section 3, and RFC 4656, section 3; unauthenticated mode. All messages have fixed
//! lengths, so that a server makes this end read and keep at most 64 bytes at a time. [`TwampControlClient`]
//! has no I/O; [`TwampControlConnection`] runs it on a TCP connection with one deadline.

use super::wire_time::encode_ntp_time;
use super::{STAMP_PORT, read_wall_clock};
use crate::probe_error::ProbeError;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// TCP port of TWAMP-Control.
pub const CONTROL_PORT: u16 = STAMP_PORT;
/// The mode without authentication and encryption, as a bit of the greeting.
const UNAUTHENTICATED_MODE: u32 = 1;
/// The bytes of a packet of TWAMP-Test before its padding.
const TEST_HEADER_BYTES: u32 = 14;
const GREETING_BYTES: usize = 64;
const SETUP_BYTES: usize = 164;
/// The length of Server-Start and Accept-Session.
const ACCEPT_BYTES: usize = 48;
const REQUEST_BYTES: usize = 112;
/// The length of Start-Sessions, Start-Ack and Stop-Sessions.
const COMMAND_BYTES: usize = 32;
const START_SESSIONS: u8 = 2;
const STOP_SESSIONS: u8 = 3;
const REQUEST_TW_SESSION: u8 = 5;

/// The session that a server is asked for. The addresses are those of the control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwampSessionRequest {
    pub is_ipv6: bool,
    pub sender_port: u16,
    /// The UDP port that the server should reflect on; it may choose another one.
    pub reflector_port: u16,
    /// UDP payload of a packet of the sender.
    pub payload_bytes: u32,
    /// The time for which the reflector answers after the session was stopped.
    pub timeout: Duration,
    pub dscp: Option<u8>,
}

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
    step: TwampControlStep,
}

impl TwampControlClient {
    pub fn new(request: TwampSessionRequest) -> TwampControlClient {
        TwampControlClient { request, step: TwampControlStep::Greeting }
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
    /// The message is cut off, or the server refuses, as a sentence.
    pub fn answer_message(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        if self.expected_bytes() != Some(message.len()) {
            return Err("the server ended within a message".to_owned());
        }
        match self.step {
            TwampControlStep::Greeting => {
                self.step = TwampControlStep::ServerStart;
                accept_greeting(message)
            }
            TwampControlStep::ServerStart => {
                check_accept(message[15], "the connection")?;
                self.step = TwampControlStep::AcceptSession;
                Ok(encode_session_request(&self.request, read_wall_clock()))
            }
            TwampControlStep::AcceptSession => {
                check_accept(message[0], "the session")?;
                let port = u16::from_be_bytes([message[2], message[3]]);
                if port == 0 {
                    return Err("the server names no port for the session".to_owned());
                }
                self.request.reflector_port = port;
                self.step = TwampControlStep::StartAck;
                Ok(encode_command(START_SESSIONS))
            }
            TwampControlStep::StartAck => {
                check_accept(message[0], "the start of the session")?;
                self.step = TwampControlStep::Started;
                Ok(Vec::new())
            }
            TwampControlStep::Started => Ok(Vec::new()),
        }
    }
}

/// Answers the greeting by Set-Up-Response.
fn accept_greeting(greeting: &[u8]) -> Result<Vec<u8>, String> {
    let modes = u32::from_be_bytes([greeting[12], greeting[13], greeting[14], greeting[15]]);
    if modes & UNAUTHENTICATED_MODE == 0 {
        return Err(match modes {
            0 => "the server accepts no connection from this host".to_owned(),
            _ => format!("the server has no unauthenticated mode (modes {modes:#x})"),
        });
    }
    let mut response = vec![0; SETUP_BYTES];
    response[..4].copy_from_slice(&UNAUTHENTICATED_MODE.to_be_bytes());
    Ok(response)
}

/// Checks the field Accept (RFC 4656, section 3.3).
fn check_accept(accept: u8, what: &str) -> Result<(), String> {
    let why = match accept {
        0 => return Ok(()),
        1 => "for no reason given",
        2 => "because of an internal error",
        3 => "because it does not support what was asked",
        4 => "because its resources never allow this",
        5 => "because its resources do not allow this now",
        _ => "for an unknown reason",
    };
    Err(format!("the server refuses {what}, {why} ({accept})"))
}

fn encode_session_request(request: &TwampSessionRequest, now_ns: u64) -> Vec<u8> {
    let mut message = vec![0; REQUEST_BYTES];
    let mut write = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    write(0, &[REQUEST_TW_SESSION, if request.is_ipv6 { 6 } else { 4 }]);
    write(12, &request.sender_port.to_be_bytes());
    write(14, &request.reflector_port.to_be_bytes());
    write(64, &request.payload_bytes.saturating_sub(TEST_HEADER_BYTES).to_be_bytes());
    write(68, &encode_ntp_time(now_ns).to_be_bytes());
    // A duration in the format of timestamps: seconds, and a fraction of them.
    let fraction = (u64::from(request.timeout.subsec_nanos()) << 32) / 1_000_000_000;
    write(76, &(request.timeout.as_secs() << 32 | fraction).to_be_bytes());
    // The DSCP as Type-P descriptor.
    write(84, &[request.dscp.unwrap_or(0)]);
    message
}

/// Encodes a command without fields.
fn encode_command(command: u8) -> Vec<u8> {
    let mut message = vec![0; COMMAND_BYTES];
    message[0] = command;
    message
}

/// A control connection. The server ends its session when the connection is closed.
#[derive(Debug)]
pub struct TwampControlConnection {
    stream: TcpStream,
    address: SocketAddr,
}

impl TwampControlConnection {
    pub fn new(stream: TcpStream, address: SocketAddr) -> TwampControlConnection {
        TwampControlConnection { stream, address }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets up a session, and returns the UDP port of the reflector.
    ///
    /// # Errors
    /// The server refuses, ends the connection, or has not started the session within `timeout`.
    pub fn start_session(
        &mut self,
        request: TwampSessionRequest,
        timeout: Duration,
    ) -> Result<u16, ProbeError> {
        let deadline = Instant::now() + timeout;
        let mut client = TwampControlClient::new(request);
        while let Some(bytes) = client.expected_bytes() {
            let message = self.read_message(bytes, deadline);
            let message = message.map_err(|error| self.fail(&error.to_string(), true))?;
            let answer = client.answer_message(&message).map_err(|why| self.fail(&why, false))?;
            let sent = self.stream.write_all(&answer);
            sent.map_err(|error| self.fail(&error.to_string(), true))?;
        }
        Ok(client.reflector_port())
    }

    /// Reads a message of this length, or what the server sent of it.
    fn read_message(&mut self, bytes: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut message = vec![0; bytes];
        let mut length = 0;
        while length < bytes {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut message[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                // The deadline decides.
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        message.truncate(length);
        Ok(message)
    }

    fn fail(&self, why: &str, is_lost: bool) -> ProbeError {
        ProbeError::OtherProtocol {
            address: self.address,
            what: format!("no session of TWAMP: {why}"),
            advice: Some(
                "check the TCP port of TWAMP-Control (`--twamp-control=PORT`), or try \
                 `--twamp-light`, which needs no server",
            ),
            is_lost,
        }
    }

    /// Stops the session.
    pub fn stop_session(mut self) {
        let mut message = encode_command(STOP_SESSIONS);
        // The number of sessions.
        message[7] = 1;
        // Closing the connection stops it as well.
        let _ = self.stream.write_all(&message);
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
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
        let mut client = TwampControlClient::new(REQUEST);
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
            let mut client = TwampControlClient::new(REQUEST);
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
            let mut client = TwampControlClient::new(REQUEST);
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
        TwampControlConnection::new(stream, address).start_session(REQUEST, timeout)
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
