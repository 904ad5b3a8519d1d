//! Sends results to other archives: a collector or a database that several agents share, and archives
//! of perfSONAR.
//!
//! A background task for each receiver takes up to some hundred items from the archive's outbox, sends
//! them, and removes them once the receiver acknowledges them. After a lost response or a kill the
//! batch is sent twice, and the receiver stores it once. If sending fails, the task retries with exponential
//! backoff. Rejected items are set aside with the reason, logged, counted, and sent once more at
//! the next start; they never block the items behind them (docs/decisions/0020).
//!
//! The agent calls [`spawn_export`] once. Before, it names the receivers to the archive
//! (`Archive::set_destinations`), whose connections then put their writes into the outbox.
//!
//! - [`batch_wire`]: a batch as JSON; [`mod@run_from_report`]: derives series values from a report
//! - [`batch_sender`]: the send loop
//! - [`stored_run_cache`]: received runs that wait for the sender to the database
//! - [`perfsonar_archive`]: a client for archives of perfSONAR; [`perfsonar_document`]: runs in its form

pub mod batch_sender;
pub mod batch_wire;
#[cfg(any(feature = "clickhouse", test))]
pub mod database_delivery;
pub mod perfsonar_archive;
pub mod perfsonar_document;
pub mod run_from_report;
pub mod stored_run_cache;

pub use super::clocks::read_wall_us;

use super::agent_log::AgentLog;
use super::shared_state::SharedState;
use crate::watch::watch_file::{PerfsonarArchiveSection, WatchFile};
use batch_sender::BatchSender;
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The reason why a batch was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// The receiver is unavailable, busy, or denies access: the same batch may succeed later.
    Temporary(String),
    /// The receiver will never accept this batch as it is.
    Rejected(String),
}

/// A receiver of results, with items of its own in the outbox.
#[derive(Debug, Clone)]
pub enum ResultReceiver {
    /// The collector or the database.
    Main,
    Perfsonar(PerfsonarArchiveSection),
}

impl ResultReceiver {
    /// Returns the receivers that the watch file names.
    pub fn list(file: &WatchFile) -> Vec<ResultReceiver> {
        let has_main = file.collector.is_some() || file.database.is_some();
        let archives = file.perfsonar_archives.iter().cloned().map(ResultReceiver::Perfsonar);
        has_main.then_some(ResultReceiver::Main).into_iter().chain(archives).collect()
    }

    /// Returns true if it is the database of the watch file.
    fn is_database(&self, file: &WatchFile) -> bool {
        matches!(self, ResultReceiver::Main) && file.database.is_some()
    }

    /// Returns its name in the outbox.
    pub fn outbox_name(&self) -> &str {
        match self {
            ResultReceiver::Main => MAIN_DESTINATION,
            ResultReceiver::Perfsonar(section) => &section.url,
        }
    }
}

/// Starts sending the outbox of the archive to all receivers until `stop` is true.
pub fn spawn_export(
    state: &Arc<SharedState>,
    log: AgentLog,
    stop: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let mut senders = JoinSet::new();
    for receiver in ResultReceiver::list(&state.file()) {
        let sender = BatchSender::new(receiver, Arc::clone(state), log, stop.clone());
        senders.spawn_blocking(move || sender.run());
    }
    tokio::spawn(async move {
        senders.join_all().await;
    })
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
