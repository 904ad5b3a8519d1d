//! The header of a datagram, and the messages that open a UDP stream.

/// The width of the datagram counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterWidth {
    Bits32,
    /// Since 3.1, if requested.
    Bits64,
}

impl CounterWidth {
    /// Returns the length of the header: the minimum size of a data datagram.
    pub fn header_bytes(self) -> usize {
        match self {
            CounterWidth::Bits32 => 12,
            CounterWidth::Bits64 => 16,
        }
    }
}

/// The header of a datagram, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iperf3Header {
    /// Time of the sender's clock, with any zero.
    pub seconds: u32,
    pub microseconds: u32,
    /// Counts from 1. With 32 bits the upper half is lost.
    pub number: u64,
}

impl Iperf3Header {
    /// Writes the header to the start of `datagram`; false if it is too short.
    pub fn write(self, datagram: &mut [u8], counters: CounterWidth) -> bool {
        let Some(head) = datagram.get_mut(..counters.header_bytes()) else {
            return false;
        };
        head[..4].copy_from_slice(&self.seconds.to_be_bytes());
        head[4..8].copy_from_slice(&self.microseconds.to_be_bytes());
        match counters {
            CounterWidth::Bits32 => head[8..].copy_from_slice(&(self.number as u32).to_be_bytes()),
            CounterWidth::Bits64 => head[8..].copy_from_slice(&self.number.to_be_bytes()),
        }
        true
    }

    /// Returns `None` if `datagram` is too short for data.
    pub fn read(datagram: &[u8], counters: CounterWidth) -> Option<Iperf3Header> {
        let (seconds, rest) = datagram.split_first_chunk::<4>()?;
        let (microseconds, rest) = rest.split_first_chunk::<4>()?;
        let number = match counters {
            CounterWidth::Bits32 => u64::from(u32::from_be_bytes(*rest.first_chunk::<4>()?)),
            CounterWidth::Bits64 => u64::from_be_bytes(*rest.first_chunk::<8>()?),
        };
        Some(Iperf3Header {
            seconds: u32::from_be_bytes(*seconds),
            microseconds: u32::from_be_bytes(*microseconds),
            number,
        })
    }
}

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
        UdpGreeting::ALL
            .into_iter()
            .find(|greeting| datagram == greeting.hello())
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
    fn heads_are_big_endian_and_as_long_as_their_counter() {
        let packet = Iperf3Header {
            seconds: 1,
            microseconds: 2,
            number: 0x1_0000_0003,
        };
        let mut bytes = [0xaa; 17];
        assert!(packet.write(&mut bytes, CounterWidth::Bits64));
        let wide = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0xaa];
        assert_eq!(bytes, wide);
        assert_eq!(
            Iperf3Header::read(&bytes, CounterWidth::Bits64),
            Some(packet)
        );
        let mut bytes = [0; 12];
        assert!(packet.write(&mut bytes, CounterWidth::Bits32));
        let narrow = Iperf3Header::read(&bytes, CounterWidth::Bits32).expect("12 bytes");
        assert_eq!(narrow.number, 3);
        assert!(!packet.write(&mut bytes, CounterWidth::Bits64));
        assert_eq!(Iperf3Header::read(&bytes, CounterWidth::Bits64), None);
    }

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
