//! The header of every probe datagram; incompressible padding follows it.
//!
//! ```text
//!  0      4       6     8          16      20      24        32              40           48
//! +------+-------+-----+----------+-------+-------+---------+---------------+------------+
//! | LHP1 | flags | zero| session  | train | index | sent_ns | there_recv_ns | there_sent |
//! +------+-------+-----+----------+-------+-------+---------+---------------+------------+
//! ```
//!
//! Integers are big-endian. Flags: 1 echo request, 2 echo reply, 0 part of a train. `session` is
//! the second half of the session's nonce. Times are nanoseconds of the clock of the host that took
//! them; `there_…` are the server's, zero in all datagrams but echo replies.

use crate::path::probe_reply::{read_array_at, read_u16_at, read_u32_at};
use crate::wire::SessionNonce;

/// Length of the header, and minimum payload of a probe.
pub const HEADER_BYTES: usize = 48;
const MAGIC: [u8; 4] = *b"LHP1";

/// Type of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramKind {
    Train,
    EchoWanted,
    Echo,
}

impl DatagramKind {
    fn from_flags(flags: u16) -> Option<DatagramKind> {
        let kinds = [DatagramKind::Train, DatagramKind::EchoWanted, DatagramKind::Echo];
        kinds.get(usize::from(flags)).copied()
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeDatagramHeader {
    pub kind: DatagramKind,
    /// See [`session_number`].
    pub session: u64,
    /// Index of the train's plan; for echoes, the number of the series.
    pub train: u32,
    /// Index within the train or series, from 0.
    pub index: u32,
    pub sent_ns: u64,
    pub there_received_ns: u64,
    pub there_sent_ns: u64,
}

/// Returns the session's number in its datagrams, which excludes strays of earlier sessions.
pub(crate) fn session_number(nonce: SessionNonce) -> u64 {
    nonce.0.last_chunk::<8>().map_or(0, |half| u64::from_be_bytes(*half))
}

impl ProbeDatagramHeader {
    /// Writes the header to the start of `datagram`; does nothing if that is too short.
    pub fn write(self, datagram: &mut [u8]) {
        let Some(head) = datagram.first_chunk_mut::<HEADER_BYTES>() else {
            return;
        };
        head[0..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&(self.kind as u16).to_be_bytes());
        head[6..8].fill(0);
        head[8..16].copy_from_slice(&self.session.to_be_bytes());
        head[16..20].copy_from_slice(&self.train.to_be_bytes());
        head[20..24].copy_from_slice(&self.index.to_be_bytes());
        head[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        head[32..40].copy_from_slice(&self.there_received_ns.to_be_bytes());
        head[40..48].copy_from_slice(&self.there_sent_ns.to_be_bytes());
    }

    /// Parses a header; returns `None` for other datagrams.
    pub fn read(datagram: &[u8]) -> Option<ProbeDatagramHeader> {
        let u64_at = |at| read_array_at(datagram, at).map(u64::from_be_bytes);
        if !datagram.starts_with(&MAGIC) || read_u16_at(datagram, 6) != Some(0) {
            return None;
        }
        Some(ProbeDatagramHeader {
            kind: DatagramKind::from_flags(read_u16_at(datagram, 4)?)?,
            session: u64_at(8)?,
            train: read_u32_at(datagram, 16)?,
            index: read_u32_at(datagram, 20)?,
            sent_ns: u64_at(24)?,
            there_received_ns: u64_at(32)?,
            there_sent_ns: u64_at(40)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let header = ProbeDatagramHeader {
            kind: DatagramKind::Echo,
            session: 0x0102_0304_0506_0708,
            train: 9,
            index: 10,
            sent_ns: 11,
            there_received_ns: 12,
            there_sent_ns: 13,
        };
        let mut bytes = [0xee; HEADER_BYTES];
        header.write(&mut bytes);
        let mut drawn = b"LHP1\0\x02\0\0\x01\x02\x03\x04\x05\x06\x07\x08".to_vec();
        drawn.extend([0, 0, 0, 9, 0, 0, 0, 10]);
        for time in [11, 12, 13] {
            drawn.extend([0, 0, 0, 0, 0, 0, 0, time]);
        }
        assert_eq!(bytes.as_slice(), drawn);
        assert_eq!(ProbeDatagramHeader::read(&bytes), Some(header));
        assert_eq!(ProbeDatagramHeader::read(&bytes[..47]), None);
        bytes[5] = 3;
        assert_eq!(ProbeDatagramHeader::read(&bytes), None, "both flags");
    }

    proptest! {
        #[test]
        fn a_head_reads_back_as_it_was_written(
            kind in prop::sample::select(vec![DatagramKind::Train, DatagramKind::EchoWanted, DatagramKind::Echo]),
            numbers: (u64, u32, u32),
            times: (u64, u64, u64),
            length in HEADER_BYTES..2000,
        ) {
            let header = ProbeDatagramHeader {
                kind,
                session: numbers.0,
                train: numbers.1,
                index: numbers.2,
                sent_ns: times.0,
                there_received_ns: times.1,
                there_sent_ns: times.2,
            };
            let mut datagram = vec![7; length];
            header.write(&mut datagram);
            prop_assert_eq!(ProbeDatagramHeader::read(&datagram), Some(header));
        }

        #[test]
        fn bytes_of_a_stranger_are_no_head(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(ProbeDatagramHeader::read(&bytes), None);
        }

        #[test]
        fn what_begins_like_ours_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let bytes = [MAGIC.as_slice(), &bytes].concat();
            if let Some(header) = ProbeDatagramHeader::read(&bytes) {
                let mut again = bytes.clone();
                header.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
