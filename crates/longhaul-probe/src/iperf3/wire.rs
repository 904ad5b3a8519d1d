//! The messages on iperf3's connections, as versions 3.1 to 3.22 send them.
//!
//! - [`Cookie`]: the first 37 bytes of every TCP connection
//! - [`State`]: one byte per step; after [`State::ServerError`] come 8 bytes of [`Refusal`]
//! - [`Bodies`] and [`encode`]: JSON after a length of four bytes, big-endian
//! - [`Parameters`]: the client's request as received; [`Test`]: the validated request
//! - [`Results`]: the results of either end
//! - [`Packet`], [`Greeting`]: the header of a datagram, and the messages that open a UDP stream
//!
//! Reading is lenient where versions differ (absent keys, unknown keys, numbers as 3.1 and 3.12
//! write them) and strict about types and sizes; [`Test::of`] is strict about ranges.

mod cookie;
mod datagram;
mod number;
mod parameters;
mod refusal;
mod results;
mod state;
mod test;

pub use crate::wire::{Bodies, WireError};
pub use cookie::{COOKIE_BYTES, Cookie};
pub use datagram::{Counters, Greeting, Packet};
pub use parameters::Parameters;
pub use refusal::{REFUSAL_BYTES, Refusal, Trouble};
pub use results::{Results, ResultsFault, StreamResults};
pub use state::State;
pub use test::{Direction, Limit, Test, Transport};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum size of a parameter object, as in iperf3 since 3.18.
pub const MOST_PARAMETER_BYTES: usize = 8 << 10;
/// The maximum size of a client's results: 256 streams of about 250 bytes, and a margin.
pub const MOST_CLIENT_RESULT_BYTES: usize = 256 << 10;
/// The maximum size of a server's results, which contain its whole output on request.
pub const MOST_SERVER_RESULT_BYTES: usize = 32 << 20;

/// Returns the id of the stream that was opened at `index`, from 0: 1, 3, 4, 5 and so on.
pub fn stream_id(index: usize) -> i64 {
    match index {
        0 => 1,
        more => more as i64 + 2,
    }
}

/// Frames a message; fails if its body exceeds `limit`.
pub fn encode(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    crate::wire::frame_json(message, limit)
}

/// Reads the body of a frame.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    // serde would read a list as the fields of a struct in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        let why = "no JSON object".to_owned();
        return Err(WireError::Malformed { why });
    }
    crate::wire::read_json(body)
}
