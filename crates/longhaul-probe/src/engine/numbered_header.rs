//! A datagram header with the time of sending and a number, as in iperf3's datagrams.

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
pub struct NumberedHeader {
    /// Time of the sender's clock, with any zero.
    pub seconds: u32,
    pub microseconds: u32,
    /// Counts from 1. With 32 bits the upper half is lost.
    pub number: u64,
}

impl NumberedHeader {
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
    pub fn read(datagram: &[u8], counters: CounterWidth) -> Option<NumberedHeader> {
        let (seconds, rest) = datagram.split_first_chunk::<4>()?;
        let (microseconds, rest) = rest.split_first_chunk::<4>()?;
        let number = match counters {
            CounterWidth::Bits32 => u64::from(u32::from_be_bytes(*rest.first_chunk::<4>()?)),
            CounterWidth::Bits64 => u64::from_be_bytes(*rest.first_chunk::<8>()?),
        };
        Some(NumberedHeader {
            seconds: u32::from_be_bytes(*seconds),
            microseconds: u32::from_be_bytes(*microseconds),
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_big_endian_and_as_long_as_their_counter() {
        let packet = NumberedHeader { seconds: 1, microseconds: 2, number: 0x1_0000_0003 };
        let mut bytes = [0xaa; 17];
        assert!(packet.write(&mut bytes, CounterWidth::Bits64));
        let wide = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0xaa];
        assert_eq!(bytes, wide);
        assert_eq!(NumberedHeader::read(&bytes, CounterWidth::Bits64), Some(packet));
        let mut bytes = [0; 12];
        assert!(packet.write(&mut bytes, CounterWidth::Bits32));
        let narrow = NumberedHeader::read(&bytes, CounterWidth::Bits32).expect("12 bytes");
        assert_eq!(narrow.number, 3);
        assert!(!packet.write(&mut bytes, CounterWidth::Bits64));
        assert_eq!(NumberedHeader::read(&bytes, CounterWidth::Bits64), None);
    }
}
