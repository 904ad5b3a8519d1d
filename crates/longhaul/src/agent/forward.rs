//! What is measured here goes on to another archive: a collector, or a database that agents share.
//!
//! A task of its own takes what waits in the archive's outbox, some hundred items at a time, sends
//! it, and forgets it when the other side says that it has it. An answer that is lost, or a kill,
//! costs a batch sent twice, which the other side stores once. While nobody answers the task tries
//! again after ever longer waits, and goes on at once when somebody does. What the other side will
//! not have is set aside with the reason, told, counted, and sent once more at the next start; it
//! never stops what comes behind it (docs/decisions/0020).
//!
//! The agent calls [`spawn`] once, after its archive is open, and lets every connection that writes
//! put what it writes into the outbox (`Archive::send_on`) while [`wanted`] says so of the file. It
//! starts no run while the [`Spool`] is full.
//!
//! - [`wire`]: a batch as JSON; [`mod@derive`]: from a report to its values
//! - [`collector`], [`database`]: the two destinations
//! - [`backoff`]: how long to wait; [`course`]: one step after the other

pub mod backoff;
pub mod collector;
pub mod course;
pub mod database;
pub mod derive;
pub mod wire;

pub use super::now::wall_us;

use super::desk::Desk;
use super::voice::Voice;
use crate::watch::file::WatchFile;
use course::Course;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Why a batch has not arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The other side is away, busy, or lets nobody in: the same batch may arrive later.
    Later(String),
    /// The other side will never take this batch as it is.
    Refused(String),
}

/// Whether there is room for what waits to be sent.
#[derive(Debug, Clone, Default)]
pub struct Spool {
    full: Arc<AtomicBool>,
}

impl Spool {
    /// More is kept for the other side, beyond what `[retain]` keeps, than the file allows: no run
    /// is to start.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Says so; whether it was otherwise before.
    fn set(&self, full: bool) -> bool {
        self.full.swap(full, Ordering::Relaxed) != full
    }
}

/// Whether the file names somebody to whom results go on.
pub fn wanted(file: &WatchFile) -> bool {
    file.collector.is_some() || file.database.is_some()
}

/// Starts sending what is in the outbox of the archive file, until `stop` says true. Which
/// destination holds is read from the desk's file, and read again after a reload.
pub fn spawn(
    desk: Arc<Desk>,
    archive: PathBuf,
    (voice, spool): (Voice, Spool),
    mut stop: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let course = Course::new(desk, archive, voice, spool);
    tokio::spawn(async move {
        tokio::select! {
            () = course.work() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    })
}

/// The error and its causes, as one sentence.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
mod tests;
