//! Frames on the control connection: four bytes of length, big-endian, then that many bytes of
//! JSON.
//!
//! The decoder accepts bytes in pieces of any size. It holds at most one frame, and memory grows
//! only with bytes that really arrived: a length alone allocates nothing.

use super::ControlMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum body size of a frame that is not a result.
pub const MAX_FRAME_BYTES: usize = 64 << 10;
/// The maximum body size of a result frame (`stream`, `end`).
pub const MAX_RESULT_BYTES: usize = 4 << 20;

const LENGTH_BYTES: usize = 4;
const FIRST_ROOM_BYTES: usize = 512;

/// Error of an invalid frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The announced length exceeds the limit.
    #[error("a frame of {length} bytes; at most {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    /// The body is not a known message in JSON.
    #[error("not a message of this protocol: {why}")]
    Malformed { why: String },
}

/// Encodes a message as a frame; fails if it exceeds `limit` (a result must then be thinned).
///
/// iperf3 uses the same framing.
pub fn encode_frame(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message).map_err(|error| malformed_error(&error))?;
    let length = frame.len() - LENGTH_BYTES;
    if length > limit {
        return Err(WireError::TooLong { length, limit });
    }
    // Cannot fail: every limit in use is far below 4 GiB.
    let prefix = u32::try_from(length).map_err(|_| WireError::TooLong { length, limit })?;
    frame[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(frame)
}

pub fn parse_json_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    serde_json::from_slice(body).map_err(|error| malformed_error(&error))
}

fn malformed_error(error: &serde_json::Error) -> WireError {
    // The text may quote the peer: limit it and escape control characters.
    let why = error.to_string().escape_debug().take(200).collect();
    WireError::Malformed { why }
}

/// Splits bytes into the bodies of frames, incrementally.
#[derive(Debug)]
pub struct FrameSplitter {
    limit: usize,
    /// Length and body of the current frame.
    held: Vec<u8>,
}

impl FrameSplitter {
    /// Creates a splitter that rejects bodies over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        FrameSplitter { limit, held: Vec::new() }
    }

    /// Changes the limit, starting with the next frame.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the memory allocated for the current frame.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Consumes exactly what the next body needs from `bytes`. Returns `None` if all was consumed
    /// and more is needed. After an error the framing is lost: close the connection.
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
        // Release the memory of a large result with its body.
        let mut body = std::mem::take(&mut self.held);
        body.drain(..LENGTH_BYTES);
        Ok(Some(body))
    }

    /// Consumes the part of `bytes` that the next message needs; otherwise as [`FrameSplitter::next`].
    pub fn next_message(&mut self, bytes: &mut &[u8]) -> Result<Option<ControlMessage>, WireError> {
        self.next(bytes)?.map(|body| parse_json_body(&body)).transpose()
    }

    /// Moves bytes until `wanted` are held.
    fn take(&mut self, bytes: &mut &[u8], wanted: usize) {
        let missing = wanted.saturating_sub(self.held.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        if self.held.len() + missing > self.held.capacity() {
            // Double, but never beyond the frame itself, so that the limit bounds the memory.
            let room = self.held.len().max(missing).max(FIRST_ROOM_BYTES);
            self.held.reserve_exact(room.min(wanted - self.held.len()));
        }
        self.held.extend_from_slice(taken);
        *bytes = rest;
    }
}
