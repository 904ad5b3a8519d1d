//! State shared by the agent and its API: the archive, the current watch file, counters, recent
//! updates, and the queue of requested runs.
//!
//! The agent writes and the API reads; neither waits for the other. Counters and file are replaced
//! as a whole. Updates that a reader does not take in time are dropped, and the reader learns that
//! it missed some. A full request queue rejects.

use crate::watch::file::WatchFile;
use crate::watch::jobs::Key;
use crate::watch::schedule::{AskError, Asked, Tally};
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::Watched;
use longhaul_store::{StoreError, watched::PlannedRow};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use tokio::sync::{broadcast, mpsc, oneshot};

/// The maximum number of updates that a slow reader may lag behind.
pub const NEWS_MAX: usize = 256;
/// The maximum number of requested runs that wait for the event loop.
pub const ORDERS_MAX: usize = 32;

/// Opens another connection to the archive. Each thread has its own.
pub type Open = Arc<dyn Fn() -> Result<Box<dyn Watched>, StoreError> + Send + Sync>;

/// An update for the page. It is already in the archive.
#[derive(Debug, Clone)]
pub enum News {
    Run { id: String, pairs: Vec<Pair> },
    Event(Arc<Event>),
    Planned(Arc<PlannedRow>),
}

/// A request to run a job now.
#[derive(Debug)]
pub struct Order {
    pub key: Key,
    pub answer: oneshot::Sender<Result<Asked, AskError>>,
}

/// Counters of the agent, since its start unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub tally: Tally,
    /// The number of missed runs by reason.
    pub missed: Vec<(String, u64)>,
    pub bytes_today: u64,
    /// Runs, planned runs and events that wait to be sent; absent without collector or database.
    pub to_send: Option<u64>,
    /// Items that the collector or database rejected; they stay in this archive.
    pub set_aside: Option<u64>,
    pub notified: u64,
    pub notices_failed: u64,
    pub reloads: u64,
    pub reloads_refused: u64,
}

pub struct Desk {
    pub open: Open,
    pub started_us: i64,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    /// The current watch file; a reload replaces it as a whole.
    pub file: RwLock<Arc<WatchFile>>,
    pub figures: RwLock<Figures>,
    pub news: broadcast::Sender<News>,
    pub orders: mpsc::Sender<Order>,
}

impl Desk {
    /// Also returns the receiving end of the request queue.
    pub fn new(
        open: Open,
        (file, folder): (Arc<WatchFile>, PathBuf),
        started_us: i64,
    ) -> (Arc<Desk>, mpsc::Receiver<Order>) {
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        let (news, _) = broadcast::channel(NEWS_MAX);
        let desk = Desk {
            open,
            started_us,
            folder,
            file: RwLock::new(file),
            figures: RwLock::new(Figures::default()),
            news,
            orders,
        };
        (Arc::new(desk), taken)
    }

    /// Returns the current watch file.
    pub fn file(&self) -> Arc<WatchFile> {
        let held = self
            .file
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(&held)
    }

    pub fn figures(&self) -> Figures {
        let held = self
            .figures
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        held.clone()
    }
}
