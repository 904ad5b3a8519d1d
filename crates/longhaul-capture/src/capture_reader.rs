//! Reads capture files, pcapng ([`pcapng`]) or classic pcap ([`pcap`]), of either byte order, in
//! bounded memory.
//!
//! A file may be truncated or damaged: all packets before the damage are returned, and
//! [`CaptureReader::damage`] says where it begins and why. The input is not trusted: lengths are limited
//! and texts are cut.

mod pcap;
mod pcapng;

use crate::CaptureRecord;
use longhaul_model::report::v1::capture::CaptureInterface;
use std::fmt;
use std::io::{self, Read};

/// The maximum length of a block; packets on real interfaces are far shorter.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
/// The maximum number of interfaces.
const MAX_INTERFACES: usize = 256;
/// The maximum number of comments, and the maximum length of a text.
const MAX_COMMENTS: usize = 64;
const MAX_TEXT_BYTES: usize = 4096;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureFormat {
    Pcapng,
    Pcap,
}

impl CaptureFormat {
    pub fn word(self) -> &'static str {
        match self {
            CaptureFormat::Pcapng => "pcapng",
            CaptureFormat::Pcap => "pcap",
        }
    }
}

#[derive(Debug)]
enum FormatParser {
    Pcapng(pcapng::PcapngParser),
    Pcap(pcap::PcapParser),
}

/// A reader of a capture file.
#[derive(Debug)]
pub struct CaptureReader<R> {
    input: BlockInput<R>,
    kind: FormatParser,
    about: CaptureFileInfo,
    damage: Option<CaptureDamage>,
    over: bool,
}

/// The metadata of a packet whose bytes are in the input's buffer.
#[derive(Debug, Clone, Copy)]
struct PacketLocation {
    interface: u32,
    at_ns: u64,
    original_bytes: u32,
    outgoing: Option<bool>,
    from: usize,
    to: usize,
}

impl<R: Read> CaptureReader<R> {
    /// Detects the format from the first bytes.
    pub fn open(read: R) -> Result<CaptureReader<R>, CaptureReadError> {
        let mut input = BlockInput {
            read,
            at: 0,
            buffer: Vec::new(),
        };
        let first = match input.next(4) {
            Ok(first) => first.first_chunk::<4>().copied().unwrap_or_default(),
            Err(ReadStop::End) => return Err(CaptureReadError::Empty),
            Err(ReadStop::Damage(_)) => return Err(CaptureReadError::NotACapture),
            Err(ReadStop::Read(error)) => return Err(error.into()),
        };
        let mut about = CaptureFileInfo::default();
        let kind = if first == pcapng::MAGIC {
            FormatParser::Pcapng(pcapng::PcapngParser::default())
        } else if let Some(state) = pcap::PcapParser::detect(first) {
            FormatParser::Pcap(state)
        } else {
            return Err(CaptureReadError::NotACapture);
        };
        let mut damage = None;
        let begun = match &kind {
            FormatParser::Pcapng(_) => Ok(()),
            FormatParser::Pcap(state) => state.read_header(&mut input, &mut about),
        };
        match begun {
            Ok(()) => {}
            Err(ReadStop::Read(error)) => return Err(error.into()),
            Err(trouble) => damage = Some(input.damage(trouble)),
        }
        Ok(CaptureReader {
            over: damage.is_some(),
            input,
            kind,
            about,
            damage,
        })
    }

    pub fn format(&self) -> CaptureFormat {
        match self.kind {
            FormatParser::Pcapng(_) => CaptureFormat::Pcapng,
            FormatParser::Pcap(_) => CaptureFormat::Pcap,
        }
    }

    /// Returns the file's metadata read so far; it is complete after the last packet.
    pub fn file_info(&self) -> &CaptureFileInfo {
        &self.about
    }

    /// Returns the damage that ended the packets before the end of the file.
    pub fn damage(&self) -> Option<&CaptureDamage> {
        self.damage.as_ref()
    }

    /// Returns the next packet; `None` if there are no more, or the rest cannot be read.
    pub fn next_packet(&mut self) -> Option<CaptureRecord<'_>> {
        if self.over {
            return None;
        }
        let found = match &mut self.kind {
            FormatParser::Pcapng(state) => state.next_packet(&mut self.input, &mut self.about),
            FormatParser::Pcap(state) => state.next_packet(&mut self.input),
        };
        match found {
            Ok(found) => Some(CaptureRecord {
                interface: found.interface,
                link_type: self
                    .about
                    .interfaces
                    .get(found.interface as usize)?
                    .link_type_number,
                at_ns: found.at_ns,
                original_bytes: found.original_bytes,
                outgoing: found.outgoing,
                bytes: self.input.buffer.get(found.from..found.to).unwrap_or(&[]),
            }),
            Err(trouble) => {
                self.over = true;
                if !matches!(trouble, ReadStop::End) {
                    self.damage = Some(self.input.damage(trouble));
                }
                None
            }
        }
    }
}

/// The reason why no more can be read.
#[derive(Debug)]
enum ReadStop {
    /// The file ends at a block boundary.
    End,
    Damage(String),
    Read(io::Error),
}

fn damage_error(why: impl Into<String>) -> ReadStop {
    ReadStop::Damage(why.into())
}

/// The bytes of a file, one piece at a time.
#[derive(Debug)]
struct BlockInput<R> {
    read: R,
    /// The position in the file of the piece in `buffer`.
    at: u64,
    buffer: Vec<u8>,
}

impl<R: Read> BlockInput<R> {
    /// Reads the next piece. Returns `End` if the file ends before its first byte.
    fn next(&mut self, bytes: usize) -> Result<&[u8], ReadStop> {
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        self.extend(bytes)?;
        Ok(&self.buffer)
    }

    /// Extends the piece by `bytes`.
    fn extend(&mut self, bytes: usize) -> Result<(), ReadStop> {
        let held = self.buffer.len();
        let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Memory grows with the bytes that are present, not with the declared length.
        let read = self.read.by_ref().take(limit).read_to_end(&mut self.buffer);
        let read = read.map_err(ReadStop::Read)?;
        match read {
            _ if read == bytes => Ok(()),
            0 if held == 0 => Err(ReadStop::End),
            _ => Err(damage_error(format!(
                "the file is truncated: {} of {} bytes are present",
                held + read,
                held + bytes
            ))),
        }
    }

    fn damage(&self, trouble: ReadStop) -> CaptureDamage {
        let why = match trouble {
            ReadStop::End => "the file ends within its header".to_owned(),
            ReadStop::Damage(why) => why,
            ReadStop::Read(error) => format!("cannot read further: {error}"),
        };
        CaptureDamage {
            at_byte: self.at,
            why,
        }
    }
}

/// The byte order of a file's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ByteOrder {
    #[default]
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = *bytes.get(at..)?.first_chunk::<2>()?;
        Some(match self {
            ByteOrder::Little => u16::from_le_bytes(field),
            ByteOrder::Big => u16::from_be_bytes(field),
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(field),
            ByteOrder::Big => u32::from_be_bytes(field),
        })
    }

    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let field = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(match self {
            ByteOrder::Little => u64::from_le_bytes(field),
            ByteOrder::Big => u64::from_be_bytes(field),
        })
    }
}

/// Returns a text of a file, truncated and converted to valid UTF-8.
fn decode_text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').to_owned()
}
