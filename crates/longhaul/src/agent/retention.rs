//! Deletes expired data daily and at startup.

use super::desk::Desk;
use super::fleet;
use super::now;
use super::voice::Voice;
use longhaul_store::StoreError;
use longhaul_store::watched::{Removed, Retention};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Deletes on its own connection, in steps that let other writers in between.
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
            // The runtime is shutting down.
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

/// Deletes expired data in the shared database if the file requests it of this agent.
fn shared(desk: &Desk) -> Result<Removed, StoreError> {
    let file = desk.file();
    let section = file.database.as_ref();
    let Some((section, runs)) = section.and_then(|it| Some((it, it.retain?))) else {
        return Ok(Removed::default());
    };
    // Hourly values in the database never expire, because other agents share them.
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
