//! What goes over iperf3's connections, as versions 3.1 to 3.22 have it.
//!
//! - [`Cookie`]: the first 37 bytes of every TCP connection
//! - [`State`]: one byte per step; after [`State::ServerError`] come 8 bytes of [`Refusal`]
//! - [`Bodies`] and [`encode`]: JSON behind four bytes of length, big-endian
//! - [`Parameters`]: what a client asks, as it came; [`Test`]: the same, held to its ranges
//! - [`Results`]: what either end says afterwards
//! - [`Packet`], [`Greeting`]: the head of a datagram, and the words that open a UDP stream
//!
//! Reading is lenient where versions differ (absent keys, unknown keys, numbers as 3.1 and 3.12
//! write them) and strict in types and sizes; [`Test::of`] is strict in ranges.

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

/// The most bytes of a parameter object; the same as in iperf3 since 3.18.
pub const MOST_PARAMETER_BYTES: usize = 8 << 10;
/// The most bytes of results that a client may send: 256 streams of about 250 bytes, and room.
pub const MOST_CLIENT_RESULT_BYTES: usize = 256 << 10;
/// The most bytes of results that a server may send: its whole output is in it when asked for.
pub const MOST_SERVER_RESULT_BYTES: usize = 32 << 20;

/// The id of the stream that was opened as number `index`, from 0: 1, 3, 4, 5 and so on.
pub fn stream_id(index: usize) -> i64 {
    match index {
        0 => 1,
        more => more as i64 + 2,
    }
}

/// Frames a message; an error when its body is over `limit`.
pub fn encode(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    crate::wire::frame_json(message, limit)
}

/// Reads the body of a frame.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    // A list would be read as the fields of a struct in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        let why = "no JSON object".to_owned();
        return Err(WireError::Malformed { why });
    }
    crate::wire::read_json(body)
}
