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

mod cookie;
mod iperf3_datagram;
mod lenient_numbers;
mod parameters;
mod refusal;
mod requested_test;
mod test_results;
mod test_state;

pub use cookie::{COOKIE_BYTES, TestCookie};
pub use iperf3_datagram::UdpGreeting;
pub use longhaul_probe::engine::CounterWidth;
pub use longhaul_probe::wire::{FrameSplitter, WireError};
pub use parameters::TestParameters;
pub use refusal::{Iperf3Error, REFUSAL_BYTES, ServerRefusal};
pub use requested_test::RequestedTest;
pub use test_results::{ResultsFault, StreamResults, TestResults};
pub use test_state::TestState;

use serde::Serialize;
use serde::de::DeserializeOwned;

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
