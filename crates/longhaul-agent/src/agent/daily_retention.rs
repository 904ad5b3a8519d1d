//! Deletes expired data daily and at startup.

use super::agent_log::AgentLog;
use super::clocks;
use super::shared_state::SharedState;
use crate::watch::watch_file::RetainSection;
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
            #[cfg(feature = "clickhouse")]
            delete_expired_shared(&once)?;
            delete_expired_own(&once)
        });
        match worked.await {
            Ok(Ok(removed)) => log_removed(removed, log),
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
    let RetainSection { runs, hourly } = state.file().retain;
    let keep = RetentionPolicy { runs, hours: hourly.unwrap_or(Duration::MAX) };
    (state.open_archive)()?.retain(clocks::read_wall_us(), &keep)
}

/// Deletes expired data in the shared database if the file requests it of this agent.
#[cfg(feature = "clickhouse")]
fn delete_expired_shared(state: &SharedState) -> Result<(), StoreError> {
    let file = state.file();
    let section = file.database.as_ref();
    let Some((section, runs)) = section.and_then(|it| Some((it, it.retain?))) else {
        return Ok(());
    };
    let before_us = RetentionPolicy::cutoff_us(clocks::read_wall_us(), runs);
    super::shared_database::open_database(section, &state.folder)?.delete_before(before_us)
}

fn log_removed(removed: RetentionResult, log: AgentLog) {
    let RetentionResult { values, reports, planned, hours } = removed;
    if values + reports + planned + hours > 0 {
        log.info(&format!(
            "deleted expired data: {reports} reports, {values} single values, {planned} planned runs, \
             {hours} hourly values"
        ));
    }
}
