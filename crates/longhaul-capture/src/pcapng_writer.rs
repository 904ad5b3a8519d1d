//! Writes packets as a pcapng file in memory.
//!
//! The file has one section: application and comments, interfaces with filter and snap length,
//! packets with nanosecond timestamps and direction, and the interfaces' statistics at the end. It
//! is little-endian, which the draft allows. Source: the pcapng draft (draft-ietf-opsawg-pcapng).

use crate::CaptureRecord;
use longhaul_model::report::v1::capture::CaptureInterface;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The maximum length of an option's text.
const MAX_TEXT_BYTES: usize = 4096;

/// A pcapng file that is being written.
#[derive(Debug)]
pub struct PcapngWriter {
    out: Vec<u8>,
}

impl PcapngWriter {
    /// Begins a file with its section header.
    pub fn new(application: Option<&str>, comments: &[String]) -> PcapngWriter {
        let mut writer = PcapngWriter { out: Vec::new() };
        let mut body = Vec::new();
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        // Section length: -1, not specified.
        body.extend(u64::MAX.to_le_bytes());
        for comment in comments {
            push_option(&mut body, 1, truncate_text(comment));
        }
        if let Some(application) = application {
            push_option(&mut body, 4, truncate_text(application));
        }
        writer.block(SECTION, body);
        writer
    }

    /// Appends an interface; packets refer to it by its index, from 0.
    pub fn interface(&mut self, about: &CaptureInterface) {
        let mut body = Vec::new();
        body.extend(about.link_type_number.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend(about.snap_bytes.unwrap_or(0).to_le_bytes());
        if let Some(name) = &about.name {
            push_option(&mut body, 2, truncate_text(name));
        }
        // Timestamps in nanoseconds.
        push_option(&mut body, 9, &[9]);
        if let Some(filter) = &about.filter {
            // A first byte of 0 means text in the syntax of pcap-filter.
            let mut value = vec![0];
            value.extend(truncate_text(filter));
            push_option(&mut body, 11, &value);
        }
        self.block(INTERFACE, body);
    }

    pub fn packet(&mut self, record: &CaptureRecord<'_>) {
        let mut body = Vec::with_capacity(48 + record.bytes.len());
        body.extend(record.interface.to_le_bytes());
        push_timestamp(&mut body, record.at_ns);
        body.extend((record.bytes.len() as u32).to_le_bytes());
        body.extend(record.original_bytes.to_le_bytes());
        body.extend(record.bytes);
        pad_to_word(&mut body);
        if let Some(outgoing) = record.outgoing {
            let flags = if outgoing { 2_u32 } else { 1 };
            push_option(&mut body, 2, &flags.to_le_bytes());
        }
        self.block(PACKET, body);
    }

    /// Appends the counters of an interface, at the end of the file.
    pub fn statistics(&mut self, interface: u32, until_ns: u64, about: &CaptureInterface) {
        let mut body = Vec::new();
        body.extend(interface.to_le_bytes());
        push_timestamp(&mut body, until_ns);
        for (code, value) in [(4, about.received_packets), (5, about.dropped_packets)] {
            if let Some(value) = value {
                push_option(&mut body, code, &value.to_le_bytes());
            }
        }
        self.block(STATISTICS, body);
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Ends the options and frames the body with its type and length.
    fn block(&mut self, kind: u32, mut body: Vec<u8>) {
        body.extend([0; 4]);
        let length = (body.len() + 12) as u32;
        self.out.extend(kind.to_le_bytes());
        self.out.extend(length.to_le_bytes());
        self.out.extend(body);
        self.out.extend(length.to_le_bytes());
    }
}

fn push_timestamp(body: &mut Vec<u8>, at_ns: u64) {
    body.extend(((at_ns >> 32) as u32).to_le_bytes());
    body.extend((at_ns as u32).to_le_bytes());
}

fn push_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad_to_word(body);
}

fn pad_to_word(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn truncate_text(text: &str) -> &[u8] {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}
