//! Blocks of pcapng files.
//!
//! Reads sections, interfaces, enhanced and simple packets, and statistics; skips other blocks.
//! Source: the pcapng draft (draft-ietf-opsawg-pcapng).

use super::{
    BlockInput, ByteOrder, CaptureFileInfo, MAX_BLOCK_BYTES, MAX_COMMENTS, MAX_INTERFACES,
    PacketLocation, ReadStop, damage_error, decode_text,
};
use longhaul_model::report::v1::capture::CaptureInterface;
use std::io::Read;

/// The first bytes of a file: the block type of a section, the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The type and the length of a block, and the length repeated at its end.
const FRAME_BYTES: usize = 12;

/// The state of the reader within the current section.
#[derive(Debug, Default)]
pub(super) struct PcapngParser {
    order: ByteOrder,
    begun: bool,
    /// The time units of this section's interfaces, and the index of the first one in `CaptureFileInfo`.
    clocks: Vec<InterfaceClock>,
    first_interface: usize,
}

/// The time unit and snap length of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InterfaceClock {
    /// Units in a second.
    per_second: u64,
    /// Seconds to add to each timestamp.
    offset_s: i64,
    snap_bytes: u32,
}

impl InterfaceClock {
    fn to_nanoseconds(self, ticks: u64) -> u64 {
        let scaled = u128::from(ticks) * 1_000_000_000 / u128::from(self.per_second.max(1));
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let sum = i128::try_from(scaled)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }
}

impl PcapngParser {
    /// Returns the next packet and skips other blocks.
    pub fn next_packet<R: Read>(
        &mut self,
        input: &mut BlockInput<R>,
        about: &mut CaptureFileInfo,
    ) -> Result<PacketLocation, ReadStop> {
        loop {
            let kind = self.read_block(input)?;
            let body = &input.buffer[8..input.buffer.len() - 4];
            match kind {
                SECTION => self.parse_section(body, about)?,
                INTERFACE => self.parse_interface(body, about)?,
                STATISTICS => self.parse_statistics(body, about),
                PACKET => return self.parse_enhanced_packet(body),
                SIMPLE_PACKET => return self.parse_simple_packet(body),
                _ => {}
            }
        }
    }

    /// Reads a whole block. The four bytes that identified the file are already in the buffer.
    fn read_block<R: Read>(&mut self, input: &mut BlockInput<R>) -> Result<u32, ReadStop> {
        if self.begun {
            input.next(8)?;
        } else {
            self.begun = true;
            input.extend(4)?;
        }
        if input.buffer.starts_with(&MAGIC) {
            input.extend(4)?;
            self.order = detect_byte_order(&input.buffer[8..])?;
        }
        let short = || damage_error("a block ends within its header");
        let kind = self.order.u32(&input.buffer, 0).ok_or_else(short)?;
        let length = self.order.u32(&input.buffer, 4).ok_or_else(short)? as usize;
        if length < FRAME_BYTES.max(input.buffer.len()) || !length.is_multiple_of(4) {
            return Err(damage_error(format!(
                "a block has an invalid length of {length} bytes"
            )));
        }
        if length > MAX_BLOCK_BYTES {
            return Err(damage_error(format!(
                "a block of {length} bytes; at most {MAX_BLOCK_BYTES} are allowed"
            )));
        }
        input.extend(length - input.buffer.len())?;
        match self.order.u32(&input.buffer, length - 4) {
            Some(again) if again as usize == length => Ok(kind),
            _ => Err(damage_error("the two lengths of a block differ")),
        }
    }

    fn parse_section(&mut self, body: &[u8], about: &mut CaptureFileInfo) -> Result<(), ReadStop> {
        let major = self.order.u16(body, 4);
        if major != Some(1) {
            let major = major.unwrap_or(0);
            return Err(damage_error(format!(
                "unsupported pcapng version {major}, expected 1"
            )));
        }
        self.clocks.clear();
        self.first_interface = about.interfaces.len();
        for (code, value) in parse_options(self.order, body.get(16..).unwrap_or(&[])) {
            match code {
                1 if about.comments.len() < MAX_COMMENTS => about.comments.push(decode_text(value)),
                4 => about.application = Some(decode_text(value)),
                _ => {}
            }
        }
        Ok(())
    }

    fn parse_interface(
        &mut self,
        body: &[u8],
        about: &mut CaptureFileInfo,
    ) -> Result<(), ReadStop> {
        let short = || damage_error("an interface block is too short");
        let link_type_number = self.order.u16(body, 0).ok_or_else(short)?;
        let snap_bytes = self.order.u32(body, 4).ok_or_else(short)?;
        if about.interfaces.len() >= MAX_INTERFACES {
            return Err(damage_error(format!(
                "more than {MAX_INTERFACES} interfaces"
            )));
        }
        let mut unit = InterfaceClock {
            per_second: 1_000_000,
            offset_s: 0,
            snap_bytes,
        };
        let mut interface = CaptureInterface {
            link_type_number,
            snap_bytes: (snap_bytes > 0).then_some(snap_bytes),
            ..CaptureInterface::default()
        };
        for (code, value) in parse_options(self.order, &body[8..]) {
            match (code, value) {
                (2, name) => interface.name = Some(decode_text(name)),
                (9, [resolution, ..]) => unit.per_second = parse_resolution(*resolution)?,
                (11, [0, filter @ ..]) => interface.filter = Some(decode_text(filter)),
                (14, offset) => {
                    unit.offset_s = self.order.u64(offset, 0).map_or(0, u64::cast_signed);
                }
                _ => {}
            }
        }
        self.clocks.push(unit);
        about.interfaces.push(interface);
        Ok(())
    }

    fn parse_statistics(&self, body: &[u8], about: &mut CaptureFileInfo) {
        let number = self.order.u32(body, 0).map(|it| it as usize);
        let place = number.and_then(|number| self.first_interface.checked_add(number));
        let interface = place.and_then(|place| about.interfaces.get_mut(place));
        let Some(interface) = interface else {
            return;
        };
        for (code, value) in parse_options(self.order, body.get(12..).unwrap_or(&[])) {
            match code {
                4 => interface.received_packets = self.order.u64(value, 0),
                5 => interface.dropped_packets = self.order.u64(value, 0),
                _ => {}
            }
        }
    }

    fn parse_enhanced_packet(&self, body: &[u8]) -> Result<PacketLocation, ReadStop> {
        let short = || damage_error("a packet block is too short");
        let field = |at| self.order.u32(body, at).ok_or_else(short);
        let (number, high, low) = (field(0)?, field(4)?, field(8)?);
        let (captured, original_bytes) = (field(12)? as usize, field(16)?);
        let unit = self.interface_clock(number)?;
        let padded = captured.next_multiple_of(4);
        let rest = body.get(20..).unwrap_or(&[]);
        if captured > rest.len() {
            return Err(damage_error("a packet is longer than its block"));
        }
        let mut outgoing = None;
        for (code, value) in parse_options(self.order, rest.get(padded..).unwrap_or(&[])) {
            if code == 2 {
                outgoing = match self.order.u32(value, 0).map(|flags| flags & 3) {
                    Some(1) => Some(false),
                    Some(2) => Some(true),
                    _ => None,
                };
            }
        }
        Ok(PacketLocation {
            interface: self.interface_index(number),
            at_ns: unit.to_nanoseconds(u64::from(high) << 32 | u64::from(low)),
            original_bytes,
            outgoing,
            from: 28,
            to: 28 + captured,
        })
    }

    /// Decodes a simple packet: it has no timestamp and belongs to the first interface.
    fn parse_simple_packet(&self, body: &[u8]) -> Result<PacketLocation, ReadStop> {
        let short = || damage_error("a packet block is too short");
        let original_bytes = self.order.u32(body, 0).ok_or_else(short)?;
        let unit = self.interface_clock(0)?;
        let snap = if unit.snap_bytes == 0 {
            u32::MAX
        } else {
            unit.snap_bytes
        };
        let captured = (original_bytes.min(snap) as usize).min(body.len() - 4);
        Ok(PacketLocation {
            interface: self.interface_index(0),
            at_ns: 0,
            original_bytes,
            outgoing: None,
            from: 12,
            to: 12 + captured,
        })
    }

    fn interface_clock(&self, number: u32) -> Result<InterfaceClock, ReadStop> {
        let unit = self.clocks.get(number as usize).copied();
        unit.ok_or_else(|| {
            damage_error(format!(
                "a packet of interface {number}, which is not described"
            ))
        })
    }

    /// Returns the index of the interface among those of all sections.
    fn interface_index(&self, number: u32) -> u32 {
        (self.first_interface as u32).saturating_add(number)
    }
}

fn detect_byte_order(bytes: &[u8]) -> Result<ByteOrder, ReadStop> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(bytes, 0) == Some(BYTE_ORDER))
        .ok_or_else(|| damage_error("a section has no valid byte-order mark"))
}

/// Returns the units in a second: a power of ten, or of two if the highest bit is set.
fn parse_resolution(resolution: u8) -> Result<u64, ReadStop> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let units = base.checked_pow(exponent);
    units.ok_or_else(|| damage_error("an interface has an invalid timestamp resolution"))
}

/// Returns the code and the value of each option, up to the first that does not fit.
fn parse_options(order: ByteOrder, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, length) = (order.u16(bytes, 0)?, order.u16(bytes, 2)?);
        if code == 0 {
            return None;
        }
        let length = usize::from(length);
        let value = bytes.get(4..4 + length)?;
        bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((code, value))
    })
}
