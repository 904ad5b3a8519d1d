//! Blocks of pcapng files.
//!
//! Reads sections, interfaces, enhanced and simple packets, and statistics; skips other blocks.
//! Source: the pcapng draft (draft-ietf-opsawg-pcapng).

use super::{
    About, Found, Input, MOST_BLOCK_BYTES, MOST_COMMENTS, MOST_INTERFACES, Order, Trouble, damaged,
    text,
};
use longhaul_model::report::v1::capture::CapturedOn;
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
pub(super) struct State {
    order: Order,
    begun: bool,
    /// The time units of this section's interfaces, and the index of the first one in `About`.
    units: Vec<Unit>,
    first: usize,
}

/// The time unit and snap length of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// Units in a second.
    per_second: u64,
    /// Seconds to add to each timestamp.
    offset_s: i64,
    snap_bytes: u32,
}

impl Unit {
    fn nanoseconds(self, ticks: u64) -> u64 {
        let scaled = u128::from(ticks) * 1_000_000_000 / u128::from(self.per_second.max(1));
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let sum = i128::try_from(scaled)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }
}

impl State {
    /// Returns the next packet and skips other blocks.
    pub fn packet<R: Read>(
        &mut self,
        input: &mut Input<R>,
        about: &mut About,
    ) -> Result<Found, Trouble> {
        loop {
            let kind = self.block(input)?;
            let body = &input.buffer[8..input.buffer.len() - 4];
            match kind {
                SECTION => self.section(body, about)?,
                INTERFACE => self.interface(body, about)?,
                STATISTICS => self.statistics(body, about),
                PACKET => return self.enhanced(body),
                SIMPLE_PACKET => return self.simple(body),
                _ => {}
            }
        }
    }

    /// Reads a whole block. The four bytes that identified the file are already in the buffer.
    fn block<R: Read>(&mut self, input: &mut Input<R>) -> Result<u32, Trouble> {
        if self.begun {
            input.next(8)?;
        } else {
            self.begun = true;
            input.more(4)?;
        }
        if input.buffer.starts_with(&MAGIC) {
            input.more(4)?;
            self.order = byte_order(&input.buffer[8..])?;
        }
        let short = || damaged("a block ends within its head");
        let kind = self.order.u32(&input.buffer, 0).ok_or_else(short)?;
        let length = self.order.u32(&input.buffer, 4).ok_or_else(short)? as usize;
        if length < FRAME_BYTES.max(input.buffer.len()) || !length.is_multiple_of(4) {
            return Err(damaged(format!("a block has a length of {length} bytes")));
        }
        if length > MOST_BLOCK_BYTES {
            return Err(damaged(format!(
                "a block of {length} bytes, where {MOST_BLOCK_BYTES} are allowed"
            )));
        }
        input.more(length - input.buffer.len())?;
        match self.order.u32(&input.buffer, length - 4) {
            Some(again) if again as usize == length => Ok(kind),
            _ => Err(damaged("the two lengths of a block differ")),
        }
    }

    fn section(&mut self, body: &[u8], about: &mut About) -> Result<(), Trouble> {
        let major = self.order.u16(body, 4);
        if major != Some(1) {
            let major = major.unwrap_or(0);
            return Err(damaged(format!(
                "a section of pcapng version {major}, not 1"
            )));
        }
        self.units.clear();
        self.first = about.interfaces.len();
        for (code, value) in options(self.order, body.get(16..).unwrap_or(&[])) {
            match code {
                1 if about.comments.len() < MOST_COMMENTS => about.comments.push(text(value)),
                4 => about.application = Some(text(value)),
                _ => {}
            }
        }
        Ok(())
    }

    fn interface(&mut self, body: &[u8], about: &mut About) -> Result<(), Trouble> {
        let short = || damaged("an interface's block is too short");
        let link_type_number = self.order.u16(body, 0).ok_or_else(short)?;
        let snap_bytes = self.order.u32(body, 4).ok_or_else(short)?;
        if about.interfaces.len() >= MOST_INTERFACES {
            return Err(damaged(format!("more than {MOST_INTERFACES} interfaces")));
        }
        let mut unit = Unit {
            per_second: 1_000_000,
            offset_s: 0,
            snap_bytes,
        };
        let mut interface = CapturedOn {
            link_type_number,
            snap_bytes: (snap_bytes > 0).then_some(snap_bytes),
            ..CapturedOn::default()
        };
        for (code, value) in options(self.order, &body[8..]) {
            match (code, value) {
                (2, name) => interface.name = Some(text(name)),
                (9, [resolution, ..]) => unit.per_second = per_second(*resolution)?,
                (11, [0, filter @ ..]) => interface.filter = Some(text(filter)),
                (14, offset) => {
                    unit.offset_s = self.order.u64(offset, 0).map_or(0, u64::cast_signed);
                }
                _ => {}
            }
        }
        self.units.push(unit);
        about.interfaces.push(interface);
        Ok(())
    }

    fn statistics(&self, body: &[u8], about: &mut About) {
        let number = self.order.u32(body, 0).map(|it| it as usize);
        let place = number.and_then(|number| self.first.checked_add(number));
        let interface = place.and_then(|place| about.interfaces.get_mut(place));
        let Some(interface) = interface else {
            return;
        };
        for (code, value) in options(self.order, body.get(12..).unwrap_or(&[])) {
            match code {
                4 => interface.received_packets = self.order.u64(value, 0),
                5 => interface.dropped_packets = self.order.u64(value, 0),
                _ => {}
            }
        }
    }

    fn enhanced(&self, body: &[u8]) -> Result<Found, Trouble> {
        let short = || damaged("a packet's block is too short");
        let field = |at| self.order.u32(body, at).ok_or_else(short);
        let (number, high, low) = (field(0)?, field(4)?, field(8)?);
        let (captured, original_bytes) = (field(12)? as usize, field(16)?);
        let unit = self.unit(number)?;
        let padded = captured.next_multiple_of(4);
        let rest = body.get(20..).unwrap_or(&[]);
        if captured > rest.len() {
            return Err(damaged("a packet is longer than its block"));
        }
        let mut outgoing = None;
        for (code, value) in options(self.order, rest.get(padded..).unwrap_or(&[])) {
            if code == 2 {
                outgoing = match self.order.u32(value, 0).map(|flags| flags & 3) {
                    Some(1) => Some(false),
                    Some(2) => Some(true),
                    _ => None,
                };
            }
        }
        Ok(Found {
            interface: self.place(number),
            at_ns: unit.nanoseconds(u64::from(high) << 32 | u64::from(low)),
            original_bytes,
            outgoing,
            from: 28,
            to: 28 + captured,
        })
    }

    /// Decodes a simple packet: it has no timestamp and belongs to the first interface.
    fn simple(&self, body: &[u8]) -> Result<Found, Trouble> {
        let short = || damaged("a packet's block is too short");
        let original_bytes = self.order.u32(body, 0).ok_or_else(short)?;
        let unit = self.unit(0)?;
        let snap = if unit.snap_bytes == 0 {
            u32::MAX
        } else {
            unit.snap_bytes
        };
        let captured = (original_bytes.min(snap) as usize).min(body.len() - 4);
        Ok(Found {
            interface: self.place(0),
            at_ns: 0,
            original_bytes,
            outgoing: None,
            from: 12,
            to: 12 + captured,
        })
    }

    fn unit(&self, number: u32) -> Result<Unit, Trouble> {
        let unit = self.units.get(number as usize).copied();
        unit.ok_or_else(|| {
            damaged(format!(
                "a packet of interface {number}, which is not there"
            ))
        })
    }

    /// Returns the index of the interface among those of all sections.
    fn place(&self, number: u32) -> u32 {
        (self.first as u32).saturating_add(number)
    }
}

fn byte_order(bytes: &[u8]) -> Result<Order, Trouble> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(bytes, 0) == Some(BYTE_ORDER))
        .ok_or_else(|| damaged("a section does not say its byte order"))
}

/// Returns the units in a second: a power of ten, or of two if the highest bit is set.
fn per_second(resolution: u8) -> Result<u64, Trouble> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let units = base.checked_pow(exponent);
    units.ok_or_else(|| damaged("an interface counts time in units that no clock has"))
}

/// Returns the code and the value of each option, up to the first that does not fit.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
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
