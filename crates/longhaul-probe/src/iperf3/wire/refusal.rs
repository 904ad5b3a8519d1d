//! The server's refusal: eight bytes after its error state.

use std::fmt;

/// The length of a refusal after its state byte.
pub const REFUSAL_BYTES: usize = 8;

/// An iperf3 error with iperf3's own number, which clients print as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    Duration,
    Streams,
    BlockSize,
    Window,
    Mss,
    Omit,
    Unimplemented,
    Burst,
    EndConditions,
    DatagramSize,
    Tos,
    ReverseAndBidirectional,
    TotalRate,
    /// Since 3.17; older clients print the number.
    DurationAboveLimit,
    Connection,
    Message,
    Parameters,
    Results,
    ServerTerminated,
    Congestion,
    Pacing,
    Authentication,
    /// No payload arrived for a long time.
    Silence,
    Stream,
}

impl Trouble {
    pub const ALL: [Trouble; 24] = [
        Trouble::Duration,
        Trouble::Streams,
        Trouble::BlockSize,
        Trouble::Window,
        Trouble::Mss,
        Trouble::Omit,
        Trouble::Unimplemented,
        Trouble::Burst,
        Trouble::EndConditions,
        Trouble::DatagramSize,
        Trouble::Tos,
        Trouble::ReverseAndBidirectional,
        Trouble::TotalRate,
        Trouble::DurationAboveLimit,
        Trouble::Connection,
        Trouble::Message,
        Trouble::Parameters,
        Trouble::Results,
        Trouble::ServerTerminated,
        Trouble::Congestion,
        Trouble::Pacing,
        Trouble::Authentication,
        Trouble::Silence,
        Trouble::Stream,
    ];

    /// Returns iperf3's number of the error.
    pub fn code(self) -> i32 {
        match self {
            Trouble::Duration => 5,
            Trouble::Streams => 6,
            Trouble::BlockSize => 7,
            Trouble::Window => 8,
            Trouble::Mss => 10,
            Trouble::Omit => 12,
            Trouble::Unimplemented => 13,
            Trouble::Burst => 15,
            Trouble::EndConditions => 16,
            Trouble::DatagramSize => 20,
            Trouble::Tos => 21,
            Trouble::ReverseAndBidirectional => 25,
            Trouble::TotalRate => 27,
            Trouble::DurationAboveLimit => 37,
            Trouble::Connection => 103,
            Trouble::Message => 110,
            Trouble::Parameters => 114,
            Trouble::Results => 117,
            Trouble::ServerTerminated => 120,
            Trouble::Congestion => 134,
            Trouble::Pacing => 140,
            Trouble::Authentication => 142,
            Trouble::Silence => 144,
            Trouble::Stream => 203,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Trouble::Duration => "the duration is out of range",
            Trouble::Streams => "the number of parallel streams is out of range",
            Trouble::BlockSize => "the block size is out of range",
            Trouble::Window => "the window is out of range",
            Trouble::Mss => "the MSS is out of range",
            Trouble::Omit => "the omitted time is out of range",
            Trouble::Unimplemented => "this is not implemented there",
            Trouble::Burst => "the burst is out of range",
            Trouble::EndConditions => "the test has no end, or several",
            Trouble::DatagramSize => "the datagram size is out of range",
            Trouble::Tos => "the type of service is out of range",
            Trouble::ReverseAndBidirectional => "a test is reverse or bidirectional, not both",
            Trouble::TotalRate => "the rate is above the server's limit",
            Trouble::DurationAboveLimit => "the duration is above the server's limit",
            Trouble::Connection => "a connection cannot be made",
            Trouble::Message => "a message is not understood",
            Trouble::Parameters => "the parameters are not understood",
            Trouble::Results => "the results are not understood",
            Trouble::ServerTerminated => "the server ended the test",
            Trouble::Congestion => "the congestion control cannot be set",
            Trouble::Pacing => "the pacing rate cannot be set",
            Trouble::Authentication => "the user is not let in",
            Trouble::Silence => "nothing came for long",
            Trouble::Stream => "a stream cannot be opened",
        }
    }
}

/// iperf3's error number and the operating system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub code: i32,
    /// `errno`, or 0.
    pub system: i32,
}

impl Refusal {
    /// Returns the bytes after [`State::ServerError`](super::State::ServerError).
    pub fn encode(self) -> [u8; REFUSAL_BYTES] {
        let mut bytes = [0; REFUSAL_BYTES];
        bytes[..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..].copy_from_slice(&self.system.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: [u8; REFUSAL_BYTES]) -> Refusal {
        let both = u64::from_be_bytes(bytes);
        Refusal {
            code: (both >> 32) as i32,
            system: both as i32,
        }
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        Refusal {
            code: trouble.code(),
            system: 0,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Trouble::ALL.iter().find(|known| known.code() == self.code);
        match known {
            Some(trouble) => write!(f, "{} (iperf3's error {})", trouble.words(), self.code)?,
            None => write!(f, "iperf3's error {}", self.code)?,
        }
        if self.system != 0 {
            write!(f, ": {}", std::io::Error::from_raw_os_error(self.system))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian_and_each_trouble_has_its_own() {
        let refusal = Refusal {
            code: 27,
            system: 2,
        };
        assert_eq!(refusal.encode(), [0, 0, 0, 27, 0, 0, 0, 2]);
        assert_eq!(Refusal::decode(refusal.encode()), refusal);
        let codes = Trouble::ALL.map(Trouble::code);
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        assert!(Refusal::from(Trouble::Mss).to_string().contains("MSS"));
    }
}
