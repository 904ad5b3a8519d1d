//! Captures of a record: their analysis, and their first packets as text.

use crate::cli::capture_command;
use crate::command_failure::CommandFailure;
use longhaul_model::report::v1::capture::CaptureReading;
use longhaul_record::speed_record::CapturedPayload;
use std::path::PathBuf;

/// The number of packets shown, as in the submissions of 2004.
const SHOWN_PACKETS: u64 = 100;

/// The capture of one end.
pub struct RecordCapture {
    /// The role of the end: `initiator` or `responder`.
    pub role: &'static str,
    pub file: PathBuf,
    reading: CaptureReading,
    /// The analysis and the first packets.
    pub text: String,
}

impl RecordCapture {
    pub fn read(role: &'static str, file: PathBuf) -> Result<RecordCapture, CommandFailure> {
        let (reading, says) = capture_command::read_capture(&file)?;
        let (extract, _) = capture_command::format_first_packets(&file, SHOWN_PACKETS)?;
        Ok(RecordCapture { role, text: format!("{says}\nfirst packets\n{extract}"), file, reading })
    }
}

/// Returns the variety of payload from the capture with the most payload packets.
pub fn select_payload(captures: &[RecordCapture]) -> Option<CapturedPayload> {
    let seen = captures.iter().filter_map(|capture| {
        Some(CapturedPayload {
            captured_by: capture.role.to_owned(),
            variety: capture.reading.payload?,
        })
    });
    seen.max_by_key(|payload| payload.variety.packets)
}
