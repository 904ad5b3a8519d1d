//! What is old goes, once a day and at the start.

use super::desk::Desk;
use super::fleet;
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
        let worked = tokio::task::spawn_blocking(move || {
            let shared = shared(&once);
            retain(&once).and_then(|removed| shared.map(|shared| (removed, shared)))
        });
        match worked.await {
            Ok(Ok((removed, shared))) => {
                told(removed, "", voice);
                told(shared, " in the database", voice);
            }
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
    let keep = desk.file().retain;
    let hourly = keep.hourly.unwrap_or(Duration::MAX);
    (desk.open)()?.retain(now::wall_us(), &kept(keep.runs, hourly))
}

/// The database too, where the file says that this agent does so.
fn shared(desk: &Desk) -> Result<Removed, StoreError> {
    let file = desk.file();
    let section = file.database.as_ref();
    let Some((section, runs)) = section.and_then(|it| Some((it, it.retain?))) else {
        return Ok(Removed::default());
    };
    // The hours of the database are for ever: other agents share them.
    let keep = kept(runs, Duration::MAX);
    fleet::open(section, &desk.folder)?.retain(now::wall_us(), &keep)
}

fn kept(runs: Duration, hours: Duration) -> Retention {
    Retention {
        values: runs,
        hours,
        reports: runs,
        planned: runs,
    }
}

fn told(removed: Removed, place: &str, voice: Voice) {
    let Removed {
        values,
        reports,
        planned,
        hours,
        ..
    } = removed;
    if values + reports + planned + hours > 0 {
        voice.note(&format!(
            "removed{place} as too old: {reports} reports, {values} single values, {planned} planned runs, \
             {hours} hourly values"
        ));
    }
}
