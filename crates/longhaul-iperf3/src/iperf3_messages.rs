//! The messages on iperf3's connections, as versions 3.1 to 3.22 send them.
//!
//! - [`TestCookie`]: the first 37 bytes of every TCP connection
//! - [`TestState`]: one byte per step; after [`TestState::ServerError`] come 8 bytes of [`ServerRefusal`]
//! - [`FrameSplitter`] and [`encode_message`]: JSON after a length of four bytes, big-endian
//! - [`TestParameters`]: the client's request as received; [`RequestedTest`]: the validated request
//! - [`TestResults`]: the results of either end
//! - [`UdpGreeting`]: the messages that open a UDP stream
//!
//! Reading is lenient where versions differ (absent keys, unknown keys, numbers as 3.1 and 3.12
//! write them) and strict about types and sizes; [`RequestedTest::validate`] is strict about ranges.
//!
//! # Lenient numbers
//!
//! Numbers and flags as different versions write them.
//!
//! Version 3.1 writes every number with six significant digits, for example a byte count as
//! `1.23457e+09`; 3.12 writes -1 as 18446744073709551615. Flags are `true` or 1.

mod refusal;
mod requested_test;
mod test_results;

pub use longhaul_probe::engine::CounterWidth;
pub use longhaul_probe::wire::{FrameSplitter, WireError};
pub use refusal::{Iperf3Error, REFUSAL_BYTES, ServerRefusal};
pub use requested_test::RequestedTest;
pub use test_results::{ResultsFault, StreamResults, TestResults};

use ring::rand::{SecureRandom, SystemRandom};
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_with_macros::skip_serializing_none;
use std::{fmt, io};

/// The maximum size of a parameter object, as in iperf3 since 3.18.
pub const MAX_PARAMETER_BYTES: usize = 8 << 10;
/// The maximum size of a client's results: 256 streams of about 250 bytes, and a margin.
pub const MAX_CLIENT_RESULT_BYTES: usize = 256 << 10;
/// The maximum size of a server's results, which contain its whole output on request.
pub const MAX_SERVER_RESULT_BYTES: usize = 32 << 20;

/// Returns the id of the stream that was opened at `index`, from 0: 1, 3, 4, 5 and so on.
pub fn stream_id(index: usize) -> i64 {
    match index {
        0 => 1,
        more => more as i64 + 2,
    }
}

/// Frames a message; fails if its body exceeds `limit`.
pub fn encode_message(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    longhaul_probe::wire::encode_frame(message, limit)
}

/// Reads the body of a frame.
pub fn decode_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    // serde would read a list as the fields of a struct in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        let why = "not a JSON object".to_owned();
        return Err(WireError::Malformed { why });
    }
    longhaul_probe::wire::parse_json_body(body)
}

/// The length of a cookie, including its zero byte.
pub const COOKIE_BYTES: usize = 37;
/// The alphabet of cookies since 3.2: 32 letters, so that a random byte selects each evenly.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A test's cookie: random since 3.2; before, host name, time and digits. Any 37 bytes are valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TestCookie(pub [u8; COOKIE_BYTES]);

impl TestCookie {
    /// Returns a new random cookie.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn random() -> io::Result<TestCookie> {
        let mut bytes = [0; COOKIE_BYTES];
        let (text, _) = bytes.split_at_mut(COOKIE_BYTES - 1);
        SystemRandom::new()
            .fill(text)
            .map_err(|_| io::Error::other("the kernel provides no random bytes"))?;
        for byte in text {
            *byte = LETTERS[usize::from(*byte % 32)];
        }
        Ok(TestCookie(bytes))
    }

    /// Returns whether a connection's first bytes may begin a cookie: random letters since 3.2, a
    /// host name before.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        let text = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        bytes.iter().take(COOKIE_BYTES - 1).all(text)
    }
}

impl fmt::Debug for TestCookie {
    /// Shows only the beginning, because a cookie allows joining its test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let front: String = self.0.iter().take(4).map(|byte| *byte as char).collect();
        write!(f, "Cookie({}…)", front.escape_debug())
    }
}

/// The step of a test, as announced by the server; three of them come from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TestState {
    TestStart = 1,
    TestRunning = 2,
    /// The client has sent or received everything requested.
    TestEnd = 4,
    /// The client may send its parameters.
    ParameterExchange = 9,
    /// The client may open its data connections.
    CreateStreams = 10,
    ServerTerminate = 11,
    /// The client has ended the test early.
    ClientTerminate = 12,
    /// The client sends its results, then the server sends its own.
    ExchangeResults = 13,
    DisplayResults = 14,
    /// The client has completed the test.
    Done = 16,
    /// The client prints that the server is busy.
    AccessDenied = 0xff,
    /// Eight bytes of [`Iperf3Error`] follow.
    ServerError = 0xfe,
}

impl TestState {
    pub const ALL: [TestState; 12] = [
        TestState::TestStart,
        TestState::TestRunning,
        TestState::TestEnd,
        TestState::ParameterExchange,
        TestState::CreateStreams,
        TestState::ServerTerminate,
        TestState::ClientTerminate,
        TestState::ExchangeResults,
        TestState::DisplayResults,
        TestState::Done,
        TestState::AccessDenied,
        TestState::ServerError,
    ];

    /// Returns the byte, which is the same from 3.0 to 3.22.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Returns `None` for a byte that no version sends.
    pub fn from_byte(byte: u8) -> Option<TestState> {
        TestState::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

/// The client's first datagram of a stream, which the server answers from a connected socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpGreeting {
    /// Since 3.11 or 3.12: text.
    Text,
    /// Text from a client of the other byte order.
    TextSwapped,
    /// Before: the numbers 123456789 and 987654321, in the client's byte order.
    NumberLittle,
    NumberBig,
}

/// The answer of uiperf3 0.1.2 to any first datagram.
const UIPERF3_ANSWER: [u8; 4] = 0x1234_5678_u32.to_be_bytes();

impl UdpGreeting {
    pub const ALL: [UdpGreeting; 4] = [
        UdpGreeting::Text,
        UdpGreeting::TextSwapped,
        UdpGreeting::NumberLittle,
        UdpGreeting::NumberBig,
    ];

    /// Returns the client's message.
    pub fn hello(self) -> [u8; 4] {
        match self {
            UdpGreeting::Text => *b"9876",
            UdpGreeting::TextSwapped => *b"6789",
            UdpGreeting::NumberLittle => 123_456_789_u32.to_le_bytes(),
            UdpGreeting::NumberBig => 123_456_789_u32.to_be_bytes(),
        }
    }

    /// Returns the server's answer.
    pub fn answer(self) -> [u8; 4] {
        match self {
            UdpGreeting::Text => *b"6789",
            UdpGreeting::TextSwapped => *b"9876",
            UdpGreeting::NumberLittle => 987_654_321_u32.to_le_bytes(),
            UdpGreeting::NumberBig => 987_654_321_u32.to_be_bytes(),
        }
    }

    /// Returns the greeting that a datagram contains; `None` if it opens no stream.
    pub fn from_hello(datagram: &[u8]) -> Option<UdpGreeting> {
        UdpGreeting::ALL.into_iter().find(|greeting| datagram == greeting.hello())
    }

    /// Returns whether this is a known server's answer to any hello. A client must accept all of
    /// them: old servers answer in their own byte order, and uiperf3 with a number of its own.
    pub fn is_answer(datagram: &[u8]) -> bool {
        let known = UdpGreeting::ALL.iter().map(|greeting| greeting.answer());
        known.chain([UIPERF3_ANSWER]).any(|it| datagram == it)
    }
}

/// 2^63: larger floats do not fit into an `i64`.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// A number or a flag as it was written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, true or false")]
enum LenientNumber {
    Flag(bool),
    Signed(i64),
    /// Larger values were negative numbers written without a sign.
    Unsigned(u64),
    Float(f64),
}

fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    match LenientNumber::deserialize(from)? {
        LenientNumber::Flag(_) => Err(D::Error::custom("expected a whole number, not a flag")),
        LenientNumber::Signed(value) => Ok(value),
        LenientNumber::Unsigned(value) => Ok(value as i64),
        LenientNumber::Float(value) if value == 2.0 * TWO_POW_63 => Ok(-1),
        LenientNumber::Float(value) if value.abs() < TWO_POW_63 => Ok(value.round() as i64),
        LenientNumber::Float(value) => {
            Err(D::Error::custom(format!("{value} is not a whole number of 64 bits")))
        }
    }
}

fn whole_if<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    whole(from).map(Some)
}

fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(match LenientNumber::deserialize(from)? {
        LenientNumber::Flag(flag) => flag,
        LenientNumber::Signed(value) => value != 0,
        LenientNumber::Unsigned(value) => value != 0,
        LenientNumber::Float(value) => value != 0.0,
    })
}

/// Serializes a flag that iperf3 writes as a number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn one<S: Serializer>(flag: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(u8::from(*flag))
}

/// Returns whether a flag is unset and need not be sent.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn unset(flag: &bool) -> bool {
    !*flag
}

/// The keys of 3.1 to 3.22 that are used here; all others are ignored.
///
/// Only types are checked; see [`RequestedTest::validate`](RequestedTest::validate). Written as iperf3 writes them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TestParameters {
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub tcp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub udp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub sctp: bool,
    /// Seconds that are not counted.
    #[serde(deserialize_with = "whole_if")]
    pub omit: Option<i64>,
    #[serde(deserialize_with = "whole_if")]
    pub server_affinity: Option<i64>,
    /// Seconds.
    #[serde(deserialize_with = "whole_if")]
    pub time: Option<i64>,
    /// Bytes of all streams.
    #[serde(deserialize_with = "whole_if")]
    pub num: Option<i64>,
    /// Blocks of all streams.
    #[serde(deserialize_with = "whole_if")]
    pub blockcount: Option<i64>,
    #[serde(rename = "MSS", deserialize_with = "whole_if")]
    pub mss: Option<i64>,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub nodelay: bool,
    #[serde(deserialize_with = "whole_if")]
    pub parallel: Option<i64>,
    /// The server sends.
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub reverse: bool,
    /// Both ends send; since 3.7.
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub bidirectional: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub mptcp: bool,
    /// Size of both buffers in bytes.
    #[serde(deserialize_with = "whole_if")]
    pub window: Option<i64>,
    /// Size of a block or datagram in bytes.
    #[serde(deserialize_with = "whole_if")]
    pub len: Option<i64>,
    /// bit/s of each stream, limited by the program.
    #[serde(deserialize_with = "whole_if")]
    pub bandwidth: Option<i64>,
    /// bit/s of each stream, limited by the kernel.
    #[serde(deserialize_with = "whole_if")]
    pub fqrate: Option<i64>,
    /// Microseconds.
    #[serde(deserialize_with = "whole_if")]
    pub pacing_timer: Option<i64>,
    /// Blocks sent at once under `bandwidth`.
    #[serde(deserialize_with = "whole_if")]
    pub burst: Option<i64>,
    #[serde(rename = "TOS", deserialize_with = "whole_if")]
    pub tos: Option<i64>,
    /// The requested congestion control.
    pub congestion: Option<String>,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub get_server_output: bool,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub udp_counters_64bit: bool,
    /// Datagrams over IPv4 are sent with the DF bit; since 3.10.
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub dont_fragment: bool,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub zerocopy: bool,
    pub authtoken: Option<String>,
    /// The receiver discards data in its kernel; since 3.19.
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub skip_rx_copy: bool,
    pub client_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cookie_is_36_letters_and_a_zero_and_no_other_one() {
        let cookie = TestCookie::random().expect("randomness");
        assert!(cookie.0[..36].iter().all(|byte| LETTERS.contains(byte)));
        assert_eq!(cookie.0[36], 0);
        assert!(TestCookie::may_begin_with(&cookie.0));
        assert_ne!(TestCookie::random().expect("randomness"), cookie);
        assert!(TestCookie::may_begin_with(b"my-host.example.1443"));
        assert!(!TestCookie::may_begin_with(b"GET /"));
        assert!(!TestCookie::may_begin_with(&[0x16, 3, 1]));
    }
}

#[cfg(test)]
mod test_state_tests {
    use super::*;

    #[test]
    fn every_byte_is_its_own_state_or_none() {
        let known: Vec<u8> =
            (0..=255).filter(|byte| TestState::from_byte(*byte).is_some()).collect();
        assert_eq!(known, [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xfe, 0xff]);
        for state in TestState::ALL {
            assert_eq!(TestState::from_byte(state.byte()), Some(state));
        }
    }
}

#[cfg(test)]
mod iperf3_datagram_tests {
    use super::*;

    #[test]
    fn hellos_of_all_versions_are_told_apart() {
        for greeting in UdpGreeting::ALL {
            assert_eq!(UdpGreeting::from_hello(&greeting.hello()), Some(greeting));
            assert!(UdpGreeting::is_answer(&greeting.answer()));
        }
        assert_eq!(UdpGreeting::from_hello(b"98765"), None);
        assert_eq!(UdpGreeting::from_hello(b""), None);
        assert!(UdpGreeting::is_answer(b"\x12\x34\x56\x78"));
        assert!(!UdpGreeting::is_answer(b"LHU2"));
    }
}
