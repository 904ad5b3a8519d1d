//! Reads capture files, pcapng or classic pcap, of either byte order, compressed or not, in bounded
//! memory.
//!
//! A file may be truncated or damaged: all packets before the damage are returned, and
//! [`CaptureReader::damage`] says where it begins and why. The input is not trusted: lengths are limited
//! and texts are cut. The library pcap-parser finds the blocks and their fields.

use crate::CaptureRecord;
use crate::compressed_input;
use longhaul_model::report::v1::capture::CaptureInterface;
use pcap_parser::{
    Block, InterfaceDescriptionBlock, InterfaceStatisticsBlock, PcapBlockOwned, PcapError,
    PcapHeader, PcapNGOption, SectionHeaderBlock,
};
use pcap_parser::{create_reader, traits::PcapReaderIterator};
use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// The maximum length of a block; packets on real interfaces are far shorter.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
/// The size of the buffer until a block needs more.
const BUFFER_BYTES: usize = 64 << 10;
/// The maximum number of interfaces.
const MAX_INTERFACES: usize = 256;
/// The maximum number of comments, and the maximum length of a text.
const MAX_COMMENTS: usize = 64;
const MAX_TEXT_BYTES: usize = 4096;
/// The block type of a section: the first bytes of a pcapng file in both byte orders.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The length of a block's type and its two lengths.
const BLOCK_FRAME_BYTES: u32 = 12;
const CONTRADICTORY_BLOCK: &str = "a block contradicts its type or its length";
/// The first bytes of a pcap file: little-endian and big-endian, microseconds and nanoseconds.
const PCAP_MAGICS: [[u8; 4]; 4] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
];

/// An error that makes a file unreadable.
#[derive(Debug, thiserror::Error)]
pub enum CaptureReadError {
    #[error("not a pcap or pcapng file")]
    NotACapture,
    #[error("the file is empty")]
    Empty,
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// The position from which a file is unreadable, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureDamage {
    pub at_byte: u64,
    pub why: String,
}

impl fmt::Display for CaptureDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.at_byte)
    }
}

/// A file's metadata, as far as it has been read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureFileInfo {
    pub application: Option<String>,
    pub comments: Vec<String>,
    pub interfaces: Vec<CaptureInterface>,
}

/// A reader of a capture file.
pub struct CaptureReader<'a> {
    /// `None` after the end of the file or its readable part.
    blocks: Option<Box<dyn PcapReaderIterator + Send + 'a>>,
    buffer_bytes: usize,
    /// The length of the block whose packet was returned last.
    held_bytes: usize,
    format: &'static str,
    section: CaptureSection,
    damage: Option<CaptureDamage>,
    read_error: Arc<OnceLock<String>>,
}

impl<'a> CaptureReader<'a> {
    /// Detects compression and format from the first bytes.
    pub fn open(read: impl Read + Send + 'a) -> Result<CaptureReader<'a>, CaptureReadError> {
        let read_error = Arc::new(OnceLock::new());
        let read = compressed_input::decompress(read)?;
        let mut read = RememberedError { read, error: read_error.clone() };
        // The library decides by what one call of `read` returns, which may be short.
        let mut head = Vec::new();
        read.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut head)?;
        let format = match head.first_chunk::<4>() {
            None if head.is_empty() => return Err(CaptureReadError::Empty),
            Some(&PCAPNG_MAGIC) => "pcapng",
            Some(first) if PCAP_MAGICS.contains(first) => "pcap",
            _ => return Err(CaptureReadError::NotACapture),
        };
        let blocks = create_reader(BUFFER_BYTES, io::Cursor::new(head).chain(read));
        let damage = blocks.as_ref().err().map(|_| CaptureDamage {
            at_byte: 0,
            why: "the file is truncated or damaged within its header".to_owned(),
        });
        Ok(CaptureReader {
            blocks: blocks.ok(),
            buffer_bytes: BUFFER_BYTES,
            held_bytes: 0,
            format,
            section: CaptureSection::default(),
            damage,
            read_error,
        })
    }

    /// Returns `pcapng` or `pcap`.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Returns the file's metadata read so far; it is complete after the last packet.
    pub fn file_info(&self) -> &CaptureFileInfo {
        &self.section.about
    }

    /// Returns the damage that ended the packets before the end of the file.
    pub fn damage(&self) -> Option<&CaptureDamage> {
        self.damage.as_ref()
    }

    /// Returns the next packet; `None` if there are no more, or the rest cannot be read.
    pub fn next_packet(&mut self) -> Option<CaptureRecord<'_>> {
        let found = loop {
            match self.read_block() {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(stop) => {
                    let at_byte = self.blocks.take()?.consumed() as u64;
                    self.damage = stop.map(|why| CaptureDamage { at_byte, why });
                    return None;
                }
            }
        };
        let interfaces = &self.section.about.interfaces;
        Some(CaptureRecord {
            interface: found.interface as u32,
            link_type: interfaces.get(found.interface)?.link_type_number,
            at_ns: found.at_ns,
            original_bytes: found.original_bytes,
            outgoing: found.outgoing,
            bytes: self.blocks.as_ref()?.data().get(found.from..found.to)?,
        })
    }

    /// Reads a block and returns its packet. The error is `None` at the end of the file.
    fn read_block(&mut self) -> Result<Option<PacketLocation>, Option<String>> {
        let blocks = self.blocks.as_mut().ok_or(None)?;
        blocks.consume(std::mem::take(&mut self.held_bytes));
        if self.format == "pcapng" && self.section.is_block_too_short(blocks.data()) {
            return Err(Some(CONTRADICTORY_BLOCK.to_owned()));
        }
        let why = match blocks.next() {
            Ok((length, block)) => {
                let found = self.section.parse_block(length, &block)?;
                self.held_bytes = length;
                return Ok(found);
            }
            Err(PcapError::Incomplete(_)) => {
                if blocks.refill().is_ok() {
                    return Ok(None);
                }
                let why = self.read_error.get().map_or("the file ends", String::as_str);
                format!("cannot read further: {why}")
            }
            Err(PcapError::Eof) => return Err(None),
            Err(PcapError::UnexpectedEof) => "the file is truncated".to_owned(),
            Err(PcapError::BufferTooSmall) if self.buffer_bytes < MAX_BLOCK_BYTES => {
                self.buffer_bytes *= 4;
                blocks.grow(self.buffer_bytes);
                return Ok(None);
            }
            Err(PcapError::BufferTooSmall) => {
                format!("a block of more than the {MAX_BLOCK_BYTES} bytes that are allowed")
            }
            Err(_) => CONTRADICTORY_BLOCK.to_owned(),
        };
        Err(Some(why))
    }
}

/// A reader whose first error is kept: the library reports none.
struct RememberedError<R> {
    read: R,
    error: Arc<OnceLock<String>>,
}

impl<R: Read> Read for RememberedError<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.read.read(buffer);
        if let Err(error) = &result {
            self.error.get_or_init(|| error.to_string());
        }
        result
    }
}

/// The metadata of a packet and the position of its bytes within the block.
struct PacketLocation {
    interface: usize,
    at_ns: u64,
    original_bytes: u32,
    outgoing: Option<bool>,
    from: usize,
    to: usize,
}

/// The time unit of an interface.
#[derive(Debug, Clone, Copy)]
struct InterfaceClock {
    /// Units in a second.
    per_second: u64,
    /// Seconds to add to each timestamp.
    offset_s: i64,
}

impl InterfaceClock {
    fn to_nanoseconds(self, ticks: u64) -> u64 {
        let scaled = i128::from(ticks) * 1_000_000_000 / i128::from(self.per_second.max(1));
        let sum = scaled.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }
}

/// The state of the reader within the current section; a pcap file is one section.
#[derive(Debug, Default)]
struct CaptureSection {
    about: CaptureFileInfo,
    big_endian: bool,
    /// The clocks of this section's interfaces, and the index of the first one in `about`.
    clocks: Vec<InterfaceClock>,
    first_interface: usize,
}

impl CaptureSection {
    /// Returns whether the pcapng block that begins here is shorter than its own frame, which the
    /// library does not check for every type.
    fn is_block_too_short(&self, bytes: &[u8]) -> bool {
        let Some((kind, rest)) = bytes.split_first_chunk::<4>() else {
            return false;
        };
        let decode = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let length = rest.first_chunk().copied().map(decode);
        // The beginning of a section says itself in which byte order it is.
        *kind != PCAPNG_MAGIC && length.is_some_and(|length| length < BLOCK_FRAME_BYTES)
    }

    /// Returns the packet of a block that has one, and keeps the metadata of others.
    fn parse_block(
        &mut self,
        length: usize,
        block: &PcapBlockOwned<'_>,
    ) -> Result<Option<PacketLocation>, String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.parse_pcap_header(header),
            PcapBlockOwned::NG(Block::SectionHeader(header)) => self.parse_section(header)?,
            PcapBlockOwned::NG(Block::InterfaceDescription(it)) => self.parse_interface(it)?,
            PcapBlockOwned::NG(Block::InterfaceStatistics(it)) => self.parse_statistics(it),
            PcapBlockOwned::Legacy(packet) => {
                let clock = self.interface_clock(0)?;
                let ticks = u64::from(packet.ts_sec) * clock.per_second;
                return Ok(Some(PacketLocation {
                    interface: 0,
                    at_ns: clock.to_nanoseconds(ticks + u64::from(packet.ts_usec)),
                    original_bytes: packet.origlen,
                    outgoing: None,
                    from: length - packet.data.len(),
                    to: length,
                }));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let clock = self.interface_clock(packet.if_id)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let flags = find_option(&packet.options, 2).and_then(|flags| flags.first_chunk());
                return Ok(Some(PacketLocation {
                    interface: self.first_interface + packet.if_id as usize,
                    at_ns: clock.to_nanoseconds(ticks),
                    original_bytes: packet.origlen,
                    outgoing: match flags.map(|flags| self.u32(*flags) & 3) {
                        Some(1) => Some(false),
                        Some(2) => Some(true),
                        _ => None,
                    },
                    from: 28,
                    to: 28 + packet.caplen as usize,
                }));
            }
            // Packets without a time (simple packet blocks) are skipped, as all other blocks.
            PcapBlockOwned::NG(_) => {}
        }
        Ok(None)
    }

    fn parse_pcap_header(&mut self, header: &PcapHeader) {
        self.clocks.push(InterfaceClock {
            per_second: if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 },
            offset_s: 0,
        });
        self.about.interfaces.push(CaptureInterface {
            // The upper bits describe the frame check sequence.
            link_type_number: header.network.0 as u16,
            snap_bytes: (header.snaplen > 0).then_some(header.snaplen),
            ..CaptureInterface::default()
        });
    }

    fn parse_section(&mut self, header: &SectionHeaderBlock<'_>) -> Result<(), String> {
        if header.major_version != 1 {
            let major = header.major_version;
            return Err(format!("unsupported pcapng version {major}, expected 1"));
        }
        self.big_endian = header.big_endian();
        self.clocks.clear();
        self.first_interface = self.about.interfaces.len();
        let room = MAX_COMMENTS - self.about.comments.len();
        let comments = header.options.iter().filter(|option| option.code.0 == 1);
        let comments = comments.filter_map(|comment| comment.as_bytes().ok());
        let comments = comments.take(room).map(decode_text);
        self.about.comments.extend(comments);
        if let Some(application) = find_option(&header.options, 4) {
            self.about.application = Some(decode_text(application));
        }
        Ok(())
    }

    fn parse_interface(&mut self, block: &InterfaceDescriptionBlock<'_>) -> Result<(), String> {
        if self.about.interfaces.len() >= MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces"));
        }
        // The library reads the offset as little-endian, and no power of two as resolution.
        let offset = find_option(&block.options, 14).and_then(|offset| offset.first_chunk());
        self.clocks.push(InterfaceClock {
            per_second: parse_resolution(block.if_tsresol)
                .ok_or("an interface has an invalid timestamp resolution")?,
            offset_s: offset.map_or(0, |offset| self.u64(*offset).cast_signed()),
        });
        self.about.interfaces.push(CaptureInterface {
            name: find_option(&block.options, 2).map(decode_text),
            link_type_number: block.linktype.0 as u16,
            snap_bytes: (block.snaplen > 0).then_some(block.snaplen),
            // A first byte of 0 means text in the syntax of pcap-filter.
            filter: find_option(&block.options, 11)
                .and_then(|filter| filter.strip_prefix(&[0]))
                .map(decode_text),
            ..CaptureInterface::default()
        });
        Ok(())
    }

    fn parse_statistics(&mut self, block: &InterfaceStatisticsBlock<'_>) {
        let count = |code| {
            let value = find_option(&block.options, code)?.first_chunk()?;
            Some(self.u64(*value))
        };
        let (received, dropped) = (count(4), count(5));
        let number = self.first_interface.saturating_add(block.if_id as usize);
        if let Some(interface) = self.about.interfaces.get_mut(number) {
            interface.received_packets = received.or(interface.received_packets);
            interface.dropped_packets = dropped.or(interface.dropped_packets);
        }
    }

    fn interface_clock(&self, number: u32) -> Result<InterfaceClock, String> {
        let clock = self.clocks.get(number as usize).copied();
        clock.ok_or_else(|| format!("a packet of interface {number}, which is not described"))
    }

    fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64(&self, bytes: [u8; 8]) -> u64 {
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

/// Returns the value of the last option with this code.
fn find_option<'a>(options: &'a [PcapNGOption<'_>], code: u16) -> Option<&'a [u8]> {
    let option = options.iter().rfind(|option| option.code.0 == code)?;
    option.as_bytes().ok()
}

/// Returns the units in a second: a power of ten, or of two if the highest bit is set.
fn parse_resolution(resolution: u8) -> Option<u64> {
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(resolution & 0x7f))
}

/// Returns a text of a file, truncated and converted to valid UTF-8.
fn decode_text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').to_owned()
}
