//! What is old goes, once a day and at the start.

use super::desk::Desk;
use super::now;
use super::voice::Voice;
use longhaul_store::StoreError;
use longhaul_store::watched::{Removed, Retention};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Works beside the writer, on a connection of its own, in steps between which others write.
pub async fn daily(desk: Arc<Desk>, voice: Voice) {
    loop {
        let once = Arc::clone(&desk);
        match tokio::task::spawn_blocking(move || retain(&once)).await {
            Ok(Ok(removed)) => told(removed, voice),
            Ok(Err(error)) => voice.trouble(&format!(
                "what is old could not be removed: {error}; tried again in a day"
            )),
            // The runtime ends.
            Err(_) => return,
        }
        tokio::time::sleep(DAY).await;
    }
}

fn retain(desk: &Desk) -> Result<Removed, StoreError> {
    let runs = desk.file().retain.runs;
    let keep = Retention {
        values: runs,
        reports: runs,
        planned: runs,
    };
    (desk.open)()?.retain(now::wall_us(), &keep)
}

fn told(removed: Removed, voice: Voice) {
    let Removed {
        values,
        reports,
        planned,
        ..
    } = removed;
    if values + reports + planned > 0 {
        voice.note(&format!(
            "removed as too old: {reports} reports, {values} single values, {planned} planned runs"
        ));
    }
}
