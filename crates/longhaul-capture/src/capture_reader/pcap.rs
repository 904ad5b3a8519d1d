//! Records of classic pcap files with microsecond or nanosecond timestamps.
//!
//! Source: draft-ietf-opsawg-pcap.

use super::{
    BlockInput, ByteOrder, CaptureFileInfo, MAX_BLOCK_BYTES, PacketLocation, ReadStop, damage_error,
};
use longhaul_model::report::v1::capture::CaptureInterface;
use std::io::Read;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The length of the file header after its magic number.
const HEAD_BYTES: usize = 20;
const RECORD_BYTES: usize = 16;

/// The byte order and time unit of a file, from its magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcapParser {
    order: ByteOrder,
    /// Nanoseconds of one tick.
    tick_ns: u64,
}

impl PcapParser {
    /// Returns `None` if `first` is not a magic number of this format.
    pub fn detect(first: [u8; 4]) -> Option<PcapParser> {
        [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let tick_ns = match order.u32(&first, 0)? {
                    MICROSECONDS => 1000,
                    NANOSECONDS => 1,
                    _ => return None,
                };
                Some(PcapParser { order, tick_ns })
            })
    }

    /// Reads the rest of the file header.
    pub fn read_header<R: Read>(
        self,
        input: &mut BlockInput<R>,
        about: &mut CaptureFileInfo,
    ) -> Result<(), ReadStop> {
        let order = self.order;
        let head = input.next(HEAD_BYTES)?;
        let (snap_bytes, link) = (order.u32(head, 12), order.u32(head, 16));
        about.interfaces.push(CaptureInterface {
            // The upper bits describe the frame check sequence.
            link_type_number: link.unwrap_or_default() as u16,
            snap_bytes: snap_bytes.filter(|snap| *snap > 0),
            ..CaptureInterface::default()
        });
        Ok(())
    }

    pub fn next_packet<R: Read>(
        self,
        input: &mut BlockInput<R>,
    ) -> Result<PacketLocation, ReadStop> {
        let order = self.order;
        let head = input.next(RECORD_BYTES)?;
        let field = |at| order.u32(head, at).unwrap_or_default();
        let (seconds, ticks, captured, original_bytes) = (field(0), field(4), field(8), field(12));
        let captured = captured as usize;
        if captured > MAX_BLOCK_BYTES {
            return Err(damage_error(format!(
                "a packet of {captured} bytes; at most {MAX_BLOCK_BYTES} are allowed"
            )));
        }
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(ticks) * self.tick_ns;
        input.extend(captured)?;
        Ok(PacketLocation {
            interface: 0,
            at_ns,
            original_bytes,
            outgoing: None,
            from: RECORD_BYTES,
            to: RECORD_BYTES + captured,
        })
    }
}
