//! Captures of a record: what they say, and their first packets as text.

use crate::cli::capture;
use crate::fail::Fail;
use longhaul_model::report::v1::capture::Reading;
use longhaul_model::report::v1::record::Payload;
use std::path::PathBuf;

/// As many as the submissions of 2004 printed.
const SHOWN_PACKETS: u64 = 100;

/// One end's capture.
pub struct Capture {
    /// Whose: `initiator` or `responder`.
    pub role: &'static str,
    pub file: PathBuf,
    reading: Reading,
    /// What it says, and its first packets.
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

/// How payload differs, by the capture that shows most of it.
pub fn payload(captures: &[Capture]) -> Option<Payload> {
    let seen = captures.iter().filter_map(|capture| {
        Some(Payload {
            captured_by: capture.role.to_owned(),
            variety: capture.reading.payload?,
        })
    });
    seen.max_by_key(|payload| payload.variety.packets)
}
