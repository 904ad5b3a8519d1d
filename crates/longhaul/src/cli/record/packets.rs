//! Captures of a record: their analysis, and their first packets as text.

use crate::cli::capture;
use crate::fail::Fail;
use longhaul_model::report::v1::capture::Reading;
use longhaul_model::report::v1::record::Payload;
use std::path::PathBuf;

/// The number of packets shown, as in the submissions of 2004.
const SHOWN_PACKETS: u64 = 100;

/// The capture of one end.
pub struct Capture {
    /// The role of the end: `initiator` or `responder`.
    pub role: &'static str,
    pub file: PathBuf,
    reading: Reading,
    /// The analysis and the first packets.
    pub text: String,
}

impl Capture {
    pub fn read(role: &'static str, file: PathBuf) -> Result<Capture, Fail> {
        let (reading, says) = capture::read(&file)?;
        let (extract, _) = capture::first_packets(&file, SHOWN_PACKETS)?;
        Ok(Capture {
            role,
            text: format!("{says}\nfirst packets\n{extract}"),
            file,
            reading,
        })
    }
}

/// Returns the variety of payload from the capture with the most payload packets.
pub fn payload(captures: &[Capture]) -> Option<Payload> {
    let seen = captures.iter().filter_map(|capture| {
        Some(Payload {
            captured_by: capture.role.to_owned(),
            variety: capture.reading.payload?,
        })
    });
    seen.max_by_key(|payload| payload.variety.packets)
}
