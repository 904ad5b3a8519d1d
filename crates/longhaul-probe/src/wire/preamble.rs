//! The 24 bytes in front of a data connection, and in the datagrams that open a UDP flow.
//!
//! ```text
//!  0      4                                   20      22         23        24
//! +------+-----------------------------------+-------+----------+---------+
//! | magic| session nonce (16)                | index | direction| zero    |
//! +------+-----------------------------------+-------+----------+---------+
//! ```
//!
//! Magic: `LHD1` in front of a TCP data connection, `LHU1` in the initiator's first datagram,
//! `LHU2` in the responder's answer. Index is big-endian. Direction: 0 the initiator sends, 1 the
//! responder sends.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Magic of a TCP data connection.
pub const DATA_STREAM: [u8; 4] = *b"LHD1";
/// Magic of the datagram by which the initiator opens a UDP flow.
pub const DATAGRAM_HELLO: [u8; 4] = *b"LHU1";
/// Magic of the responder's answer to it, through the connected socket.
pub const DATAGRAM_ACKNOWLEDGED: [u8; 4] = *b"LHU2";
/// Length of a preamble.
pub const PREAMBLE_BYTES: usize = 24;

/// The unguessable name of a session: whoever shows it may join data streams to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Nonce(pub [u8; 16]);

impl fmt::Debug for Nonce {
    /// A secret: logs show a quarter of it, enough to tell sessions apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({}…)", crate::secure::hex(&self.0[..4]))
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> String {
        crate::secure::hex(&nonce.0)
    }
}

impl TryFrom<String> for Nonce {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = crate::secure::unhex(&text).ok_or("a nonce is hexadecimal")?;
        let bytes = bytes.try_into().map_err(|_| "a nonce has 16 bytes")?;
        Ok(Nonce(bytes))
    }
}

/// Which stream of which session a connection or datagram belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Preamble {
    pub nonce: Nonce,
    pub index: u16,
    /// The initiator sends on it.
    pub forward: bool,
}

impl Preamble {
    pub fn encode(&self, magic: [u8; 4]) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..4].copy_from_slice(&magic);
        bytes[4..20].copy_from_slice(&self.nonce.0);
        bytes[20..22].copy_from_slice(&self.index.to_be_bytes());
        bytes[22] = u8::from(!self.forward);
        bytes
    }

    /// `None`: other magic, other length, or a value that no version knows.
    pub fn decode(bytes: &[u8], magic: [u8; 4]) -> Option<Preamble> {
        let bytes: &[u8; PREAMBLE_BYTES] = bytes.try_into().ok()?;
        let (front, rest) = bytes.split_first_chunk::<4>()?;
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let &[high, low, direction, zero] = rest else {
            return None;
        };
        let fine = *front == magic && direction <= 1 && zero == 0;
        fine.then_some(Preamble {
            nonce: Nonce(*nonce),
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
        let preamble = Preamble {
            nonce: Nonce([0xab; 16]),
            index: 0x0102,
            forward: false,
        };
        let bytes = preamble.encode(DATA_STREAM);
        let mut drawn = b"LHD1".to_vec();
        drawn.extend([0xab; 16]);
        drawn.extend([1, 2, 1, 0]);
        assert_eq!(bytes.as_slice(), drawn);
        assert_eq!(Preamble::decode(&bytes, DATA_STREAM), Some(preamble));
        assert_eq!(Preamble::decode(&bytes, DATAGRAM_HELLO), None);
        assert_eq!(Preamble::decode(&bytes[..23], DATA_STREAM), None);
    }

    #[test]
    fn unknown_directions_and_reserved_bytes_are_refused() {
        let preamble = Preamble {
            nonce: Nonce([0; 16]),
            index: 0,
            forward: true,
        };
        for place in [22, 23] {
            let mut bytes = preamble.encode(DATA_STREAM);
            bytes[place] = 2;
            assert_eq!(Preamble::decode(&bytes, DATA_STREAM), None);
        }
    }
}
