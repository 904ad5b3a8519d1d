//! Sends results to another archive: a collector, a database that several agents share, or an archive
//! of perfSONAR.
//!
//! A background task takes up to some hundred items from the archive's outbox, sends them, and
//! removes them once the receiver acknowledges them. After a lost response or a kill the batch is
//! sent twice, and the receiver stores it once. If sending fails, the task retries with exponential
//! backoff. Rejected items are set aside with the reason, logged, counted, and sent once more at
//! the next start; they never block the items behind them (docs/decisions/0020).
//!
//! If [`has_export_destination`] is true for its watch file, the agent calls [`spawn_export`] once, and
//! every writing connection also puts its writes into the outbox (`Archive::enable_outbox`).
//!
//! - [`batch_wire`]: a batch as JSON; [`mod@run_from_report`]: derives series values from a report
//! - [`batch_sender`]: the send loop
//! - [`perfsonar_archive`]: a client for archives of perfSONAR; [`perfsonar_document`]: runs in its form

pub mod batch_sender;
pub mod batch_wire;
#[cfg(any(feature = "clickhouse", test))]
pub mod database_delivery;
pub mod perfsonar_archive;
pub mod perfsonar_document;
pub mod run_from_report;

pub use super::clocks::read_wall_us;

use super::agent_log::AgentLog;
use super::shared_state::SharedState;
use crate::watch::watch_file::WatchFile;
use batch_sender::BatchSender;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The reason why a batch was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// The receiver is unavailable, busy, or denies access: the same batch may succeed later.
    Temporary(String),
    /// The receiver will never accept this batch as it is.
    Rejected(String),
}

/// Returns whether the file names a collector, a database or an archive of perfSONAR.
pub fn has_export_destination(file: &WatchFile) -> bool {
    file.collector.is_some() || file.database.is_some() || file.perfsonar_archive().is_some()
}

/// Starts sending the outbox of the archive until `stop` is true.
pub fn spawn_export(
    state: Arc<SharedState>,
    log: AgentLog,
    stop: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let sender = BatchSender::new(state, log, stop);
    tokio::task::spawn_blocking(move || sender.run())
}

/// Formats the error and its causes as one sentence.
pub(crate) fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
