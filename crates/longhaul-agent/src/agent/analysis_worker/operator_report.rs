//! The case text for the network operator, built from the current content of the archive.

use super::event_evidence::EventEvidence;
use crate::watch::watch_file::WatchFile;
use longhaul_history::event::{EventExplanation, format_operator_report};
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_store::{Archive, StoreError};

/// Builds the text from the stored causes of the event and the evidence around it.
pub fn build_case_text(
    archive: &Archive,
    event: &ChangeEvent,
    file: &WatchFile,
) -> Result<String, StoreError> {
    let gathered = EventEvidence::collect(archive, event, file)?;
    let explained = EventExplanation {
        causes: event.causes.clone(),
        unchanged: event.unchanged.clone(),
        scope: event.scope.clone(),
        ..EventExplanation::default()
    };
    let time_factor = file.detect.time_factor.unwrap_or(1);
    Ok(format_operator_report(event, &explained, &gathered.as_evidence(event, time_factor)))
}
