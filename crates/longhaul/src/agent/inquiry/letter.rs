//! The case text for the network operator, built from the current content of the archive.

use super::gathered::Gathered;
use crate::watch::file::WatchFile;
use longhaul_analysis::event::{Explained, case_text};
use longhaul_model::report::v1::event::Event;
use longhaul_store::{StoreError, Watched};

/// Builds the text from the stored causes of the event and the evidence around it.
pub fn case_text_of(
    archive: &dyn Watched,
    event: &Event,
    file: &WatchFile,
) -> Result<String, StoreError> {
    let gathered = Gathered::around(archive, event, file)?;
    let explained = Explained {
        causes: event.causes.clone(),
        unchanged: event.unchanged.clone(),
        scope: event.scope.clone(),
        ..Explained::default()
    };
    let quicker = file.detect.quicker.unwrap_or(1);
    Ok(case_text(
        event,
        &explained,
        &gathered.evidence(event, quicker),
    ))
}
