//! The messages that open a UDP stream.

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

#[cfg(test)]
mod tests {
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
