//! The 24 bytes at the start of a data connection, and in the datagrams that open a UDP flow.
//!
//! ```text
//!  0      4                                   20      22         23        24
//! +------+-----------------------------------+-------+----------+---------+
//! | magic| session nonce (16)                | index | direction| zero    |
//! +------+-----------------------------------+-------+----------+---------+
//! ```
//!
//! Magic: `LHD1` on a TCP data connection, `LHU1` in the client's first datagram, `LHU2` in the
//! server's answer. Index is big-endian. Direction: 0 the client sends, 1 the server sends.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Magic of a TCP data connection.
pub const DATA_STREAM: [u8; 4] = *b"LHD1";
/// Magic of the datagram with which the client opens a UDP flow.
pub const DATAGRAM_HELLO: [u8; 4] = *b"LHU1";
/// Magic of the server's answer to it, through the connected socket.
pub const DATAGRAM_ACKNOWLEDGED: [u8; 4] = *b"LHU2";
/// Length of a preamble.
pub const PREAMBLE_BYTES: usize = 24;

/// The unguessable name of a session, which authorizes data streams to join it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SessionNonce(pub [u8; 16]);

impl fmt::Debug for SessionNonce {
    /// Prints a quarter of the secret, enough to distinguish sessions in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({}…)", crate::secure::encode_hex(&self.0[..4]))
    }
}

impl From<SessionNonce> for String {
    fn from(nonce: SessionNonce) -> String {
        crate::secure::encode_hex(&nonce.0)
    }
}

impl TryFrom<String> for SessionNonce {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = crate::secure::decode_hex(&text).ok_or("a nonce is hexadecimal")?;
        let bytes = bytes.try_into().map_err(|_| "a nonce has 16 bytes")?;
        Ok(SessionNonce(bytes))
    }
}

/// Session and stream of a connection or datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamPreamble {
    pub nonce: SessionNonce,
    pub index: u16,
    /// True if the client sends on it.
    pub forward: bool,
}

impl StreamPreamble {
    pub fn encode(&self, magic: [u8; 4]) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..4].copy_from_slice(&magic);
        bytes[4..20].copy_from_slice(&self.nonce.0);
        bytes[20..22].copy_from_slice(&self.index.to_be_bytes());
        bytes[22] = u8::from(!self.forward);
        bytes
    }

    /// Decodes a preamble; `None` for another magic or length, or an unknown value.
    pub fn decode(bytes: &[u8], magic: [u8; 4]) -> Option<StreamPreamble> {
        let bytes: &[u8; PREAMBLE_BYTES] = bytes.try_into().ok()?;
        let (front, rest) = bytes.split_first_chunk::<4>()?;
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let &[high, low, direction, zero] = rest else {
            return None;
        };
        let fine = *front == magic && direction <= 1 && zero == 0;
        fine.then_some(StreamPreamble {
            nonce: SessionNonce(*nonce),
            index: u16::from_be_bytes([high, low]),
            forward: direction == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let preamble =
            StreamPreamble { nonce: SessionNonce([0xab; 16]), index: 0x0102, forward: false };
        let bytes = preamble.encode(DATA_STREAM);
        let mut drawn = b"LHD1".to_vec();
        drawn.extend([0xab; 16]);
        drawn.extend([1, 2, 1, 0]);
        assert_eq!(bytes.as_slice(), drawn);
        assert_eq!(StreamPreamble::decode(&bytes, DATA_STREAM), Some(preamble));
        assert_eq!(StreamPreamble::decode(&bytes, DATAGRAM_HELLO), None);
        assert_eq!(StreamPreamble::decode(&bytes[..23], DATA_STREAM), None);
    }

    #[test]
    fn unknown_directions_and_reserved_bytes_are_refused() {
        let preamble = StreamPreamble { nonce: SessionNonce([0; 16]), index: 0, forward: true };
        for place in [22, 23] {
            let mut bytes = preamble.encode(DATA_STREAM);
            bytes[place] = 2;
            assert_eq!(StreamPreamble::decode(&bytes, DATA_STREAM), None);
        }
    }
}
