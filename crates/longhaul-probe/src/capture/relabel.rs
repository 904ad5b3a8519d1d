//! Rewrites a capture file, so that only data that was understood reaches the disk.

use super::read::{About, Damage, ReadError, Reader};
use super::write::{Section, Writer};

/// Returns the packets of `file` after a new file header, and any damage of `file`.
///
/// # Errors
/// `file` is not a capture.
pub fn relabel(file: &[u8], comments: Vec<String>) -> Result<(Vec<u8>, Option<Damage>), ReadError> {
    let (about, damage) = about(file)?;
    let section = Section {
        application: about.application,
        comments,
    };
    let mut writer = Writer::new(Vec::with_capacity(file.len()), &section);
    for interface in &about.interfaces {
        writer.interface(interface);
    }
    let mut until_ns = 0;
    let mut reader = Reader::open(file)?;
    while let Some(record) = reader.packet() {
        until_ns = record.at_ns.max(until_ns);
        writer.packet(&record);
    }
    for (number, interface) in (0..).zip(&about.interfaces) {
        writer.statistics(number, until_ns, interface);
    }
    Ok((writer.finish(), damage))
}

/// Reads the whole file, because statistics are at its end.
fn about(file: &[u8]) -> Result<(About, Option<Damage>), ReadError> {
    let mut reader = Reader::open(file)?;
    while reader.packet().is_some() {}
    Ok((reader.about().clone(), reader.damage().cloned()))
}
