//! Deletes expired data daily and at startup.

use super::agent_log::AgentLog;
use super::clocks;
use super::shared_archive;
use super::shared_state::SharedState;
use longhaul_store::StoreError;
use longhaul_store::history_store::{RetentionPolicy, RetentionResult};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Deletes on its own connection, in steps that let other writers in between.
pub async fn run_retention(state: Arc<SharedState>, log: AgentLog) {
    loop {
        let once = Arc::clone(&state);
        let worked = tokio::task::spawn_blocking(move || {
            let shared = delete_expired_shared(&once);
            delete_expired_own(&once).and_then(|removed| shared.map(|shared| (removed, shared)))
        });
        match worked.await {
            Ok(Ok((removed, shared))) => {
                log_removed(removed, "", log);
                log_removed(shared, " in the database", log);
            }
            Ok(Err(error)) => {
                log.warn(&format!("cannot delete expired data: {error}; retrying in a day"));
            }
            // The runtime is shutting down.
            Err(_) => return,
        }
        tokio::time::sleep(DAY).await;
    }
}

fn delete_expired_own(state: &SharedState) -> Result<RetentionResult, StoreError> {
    let keep = state.file().retain;
    let hourly = keep.hourly.unwrap_or(Duration::MAX);
    (state.open_archive)()?.retain(clocks::read_wall_us(), &build_retention(keep.runs, hourly))
}

/// Deletes expired data in the shared database if the file requests it of this agent.
fn delete_expired_shared(state: &SharedState) -> Result<RetentionResult, StoreError> {
    let file = state.file();
    let section = file.database.as_ref();
    let Some((section, runs)) = section.and_then(|it| Some((it, it.retain?))) else {
        return Ok(RetentionResult::default());
    };
    // Hourly values in the database never expire, because other agents share them.
    let keep = build_retention(runs, Duration::MAX);
    shared_archive::open_shared_archive(section, &state.folder)?
        .retain(clocks::read_wall_us(), &keep)
}

fn build_retention(runs: Duration, hours: Duration) -> RetentionPolicy {
    RetentionPolicy { values: runs, hours, reports: runs, planned: runs }
}

fn log_removed(removed: RetentionResult, place: &str, log: AgentLog) {
    let RetentionResult { values, reports, planned, hours, .. } = removed;
    if values + reports + planned + hours > 0 {
        log.info(&format!(
            "deleted expired data{place}: {reports} reports, {values} single values, {planned} planned runs, \
             {hours} hourly values"
        ));
    }
}
