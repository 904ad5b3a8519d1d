//! Frames on the control connection: four bytes of length, big-endian, then that many of JSON.
//!
//! The decoder takes bytes as they come, in any pieces. It holds one frame at most, and memory
//! grows only with bytes that really arrived: a length alone allocates nothing.

use super::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes in the body of a frame that is not a result.
pub const MOST_FRAME_BYTES: usize = 64 << 10;
/// The most bytes in the body of a result frame (`stream`, `end`).
pub const MOST_RESULT_BYTES: usize = 4 << 20;

const LENGTH_BYTES: usize = 4;
const FIRST_ROOM_BYTES: usize = 512;

/// What came is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length in front is over the limit.
    #[error("a frame of {length} bytes, where {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    /// The body is not JSON of a known message.
    #[error("no message of this protocol: {why}")]
    Malformed { why: String },
}

/// Frames a message; an error when it is over `limit` (a result that must be thinned).
pub fn encode(message: &Message, limit: usize) -> Result<Vec<u8>, WireError> {
    frame_json(message, limit)
}

/// The same for whatever becomes JSON: iperf3 frames alike.
pub(crate) fn frame_json(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message).map_err(|error| malformed(&error))?;
    let length = frame.len() - LENGTH_BYTES;
    if length > limit {
        return Err(WireError::TooLong { length, limit });
    }
    // Cannot fail: every limit in use is far below 4 GiB.
    let prefix = u32::try_from(length).map_err(|_| WireError::TooLong { length, limit })?;
    frame[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(frame)
}

pub(crate) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    serde_json::from_slice(body).map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> WireError {
    // The text may quote what the peer sent: bounded, and without control characters.
    let why = error.to_string().escape_debug().take(200).collect();
    WireError::Malformed { why }
}

/// Turns bytes into messages, incrementally.
#[derive(Debug)]
pub struct Decoder {
    bodies: Bodies,
}

impl Decoder {
    /// A decoder that refuses bodies over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder {
            bodies: Bodies::new(limit),
        }
    }

    /// Changes the limit, for the states in which results may come.
    pub fn set_limit(&mut self, limit: usize) {
        self.bodies.set_limit(limit);
    }

    /// Bytes of memory held for the frame under way.
    pub fn held_bytes(&self) -> usize {
        self.bodies.held_bytes()
    }

    /// Takes from the front of `bytes` as much as the next message needs. `None`: all was taken
    /// and more is needed. After an error the stream has no frames any more: close it.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Message>, WireError> {
        let body = self.bodies.next(bytes)?;
        body.map(|body| read_json(&body)).transpose()
    }
}

/// Turns bytes into the bodies of frames, incrementally.
#[derive(Debug)]
pub struct Bodies {
    limit: usize,
    /// Length and body of the frame under way.
    held: Vec<u8>,
}

impl Bodies {
    /// Refuses bodies over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Bodies {
            limit,
            held: Vec::new(),
        }
    }

    /// From the next frame on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes of memory held for the frame under way.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Takes from the front of `bytes` what the next body needs, and not a byte more. `None`: all
    /// was taken and more is needed. After an error there are no frames any more.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        self.take(bytes, LENGTH_BYTES);
        let Some(prefix) = self.held.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > self.limit {
            let limit = self.limit;
            return Err(WireError::TooLong { length, limit });
        }
        self.take(bytes, LENGTH_BYTES + length);
        if self.held.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        // A large result was an exception: its memory goes with it.
        let mut body = std::mem::take(&mut self.held);
        body.drain(..LENGTH_BYTES);
        Ok(Some(body))
    }

    /// Moves bytes over until `wanted` are held.
    fn take(&mut self, bytes: &mut &[u8], wanted: usize) {
        let missing = wanted.saturating_sub(self.held.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        if self.held.len() + missing > self.held.capacity() {
            // Doubling, but never past the frame itself, so that the limit bounds the memory.
            let room = self.held.len().max(missing).max(FIRST_ROOM_BYTES);
            self.held.reserve_exact(room.min(wanted - self.held.len()));
        }
        self.held.extend_from_slice(taken);
        *bytes = rest;
    }
}
