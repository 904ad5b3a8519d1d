//! Rewrites a capture file, so that only data that was understood reaches the disk.

use crate::capture_reader::{CaptureDamage, CaptureFileInfo, CaptureReadError, CaptureReader};
use crate::pcapng_writer::PcapngWriter;

/// Returns the packets of `file` after a new file header, and any damage of `file`.
///
/// # Errors
/// `file` is not a capture.
pub fn rewrite_capture(
    file: &[u8],
    comments: &[String],
) -> Result<(Vec<u8>, Option<CaptureDamage>), CaptureReadError> {
    let (about, damage) = read_file_info(file)?;
    let mut writer = PcapngWriter::new(about.application.as_deref(), comments);
    for interface in &about.interfaces {
        writer.interface(interface);
    }
    let mut until_ns = 0;
    let mut reader = CaptureReader::open(file)?;
    while let Some(record) = reader.next_packet() {
        until_ns = record.at_ns.max(until_ns);
        writer.packet(&record);
    }
    for (number, interface) in (0..).zip(&about.interfaces) {
        writer.statistics(number, until_ns, interface);
    }
    Ok((writer.finish(), damage))
}

/// Reads the whole file, because statistics are at its end.
fn read_file_info(
    file: &[u8],
) -> Result<(CaptureFileInfo, Option<CaptureDamage>), CaptureReadError> {
    let mut reader = CaptureReader::open(file)?;
    while reader.next_packet().is_some() {}
    Ok((reader.file_info().clone(), reader.damage().cloned()))
}
