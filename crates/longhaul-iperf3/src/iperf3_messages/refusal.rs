//! The server's refusal: eight bytes after its error state.

use std::fmt;

/// The length of a refusal after its state byte.
pub const REFUSAL_BYTES: usize = 8;

/// An iperf3 error with iperf3's own number, which clients print as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Iperf3Error {
    Duration = 5,
    Streams = 6,
    BlockSize = 7,
    Window = 8,
    Mss = 10,
    Omit = 12,
    Unimplemented = 13,
    Burst = 15,
    EndConditions = 16,
    DatagramSize = 20,
    Tos = 21,
    ReverseAndBidirectional = 25,
    TotalRate = 27,
    /// Since 3.17; older clients print the number.
    DurationAboveLimit = 37,
    Connection = 103,
    Message = 110,
    Parameters = 114,
    Results = 117,
    ServerTerminated = 120,
    Congestion = 134,
    Pacing = 140,
    Authentication = 142,
    /// No payload arrived for a long time.
    Silence = 144,
    Stream = 203,
}

/// The errors by number, with their texts.
const ERROR_TEXTS: [(Iperf3Error, &str); 24] = [
    (Iperf3Error::Duration, "the duration is out of range"),
    (Iperf3Error::Streams, "the number of parallel streams is out of range"),
    (Iperf3Error::BlockSize, "the block size is out of range"),
    (Iperf3Error::Window, "the window is out of range"),
    (Iperf3Error::Mss, "the MSS is out of range"),
    (Iperf3Error::Omit, "the omitted time is out of range"),
    (Iperf3Error::Unimplemented, "the server does not implement this"),
    (Iperf3Error::Burst, "the burst is out of range"),
    (Iperf3Error::EndConditions, "the test has no end condition, or several"),
    (Iperf3Error::DatagramSize, "the datagram size is out of range"),
    (Iperf3Error::Tos, "the type of service is out of range"),
    (Iperf3Error::ReverseAndBidirectional, "a test is reverse or bidirectional, not both"),
    (Iperf3Error::TotalRate, "the rate is above the server's limit"),
    (Iperf3Error::DurationAboveLimit, "the duration is above the server's limit"),
    (Iperf3Error::Connection, "a connection cannot be made"),
    (Iperf3Error::Message, "a message is invalid"),
    (Iperf3Error::Parameters, "the parameters are invalid"),
    (Iperf3Error::Results, "the results are invalid"),
    (Iperf3Error::ServerTerminated, "the server ended the test"),
    (Iperf3Error::Congestion, "the congestion control cannot be set"),
    (Iperf3Error::Pacing, "the pacing rate cannot be set"),
    (Iperf3Error::Authentication, "the user is not authorized"),
    (Iperf3Error::Silence, "no data arrived for too long"),
    (Iperf3Error::Stream, "a stream cannot be opened"),
];

impl Iperf3Error {
    /// Returns iperf3's number of the error.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// iperf3's error number and the operating system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerRefusal {
    pub code: i32,
    /// `errno`, or 0.
    pub system: i32,
}

impl ServerRefusal {
    /// Returns the bytes after [`TestState::ServerError`](super::TestState::ServerError).
    pub fn encode(self) -> [u8; REFUSAL_BYTES] {
        let mut bytes = [0; REFUSAL_BYTES];
        bytes[..4].copy_from_slice(&self.code.to_be_bytes());
        bytes[4..].copy_from_slice(&self.system.to_be_bytes());
        bytes
    }

    pub fn decode(bytes: [u8; REFUSAL_BYTES]) -> ServerRefusal {
        let both = u64::from_be_bytes(bytes);
        ServerRefusal { code: (both >> 32) as i32, system: both as i32 }
    }
}

impl From<Iperf3Error> for ServerRefusal {
    fn from(trouble: Iperf3Error) -> ServerRefusal {
        ServerRefusal { code: trouble.code(), system: 0 }
    }
}

impl fmt::Display for ServerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ERROR_TEXTS.iter().find(|(known, _)| known.code() == self.code);
        match known {
            Some((_, text)) => write!(f, "{text} (iperf3 error {})", self.code)?,
            None => write!(f, "iperf3 error {}", self.code)?,
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
        let refusal = ServerRefusal { code: 27, system: 2 };
        assert_eq!(refusal.encode(), [0, 0, 0, 27, 0, 0, 0, 2]);
        assert_eq!(ServerRefusal::decode(refusal.encode()), refusal);
        let codes = ERROR_TEXTS.map(|(trouble, _)| trouble.code());
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        assert!(ServerRefusal::from(Iperf3Error::Mss).to_string().contains("MSS"));
    }
}
