//! What the agent and its page have in common: where the archive is, which file holds, what was
//! just learnt, and the way to ask for a run.
//!
//! The agent writes, the page reads. Neither waits for the other: figures and file are replaced
//! whole, news that nobody takes in time are dropped (the reader is told that it missed some), and
//! a full queue of orders refuses.

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

/// News that a slow reader of the page may lag behind by.
pub const NEWS_MAX: usize = 256;
/// Orders that may wait.
pub const ORDERS_MAX: usize = 32;

/// Opens one more connection to the archive; each thread has its own.
pub type Open = Arc<dyn Fn() -> Result<Box<dyn Watched>, StoreError> + Send + Sync>;

/// Something that the page may want to show at once. It is in the archive already.
#[derive(Debug, Clone)]
pub enum News {
    Run { id: String, pairs: Vec<Pair> },
    Event(Arc<Event>),
    Planned(Arc<PlannedRow>),
}

/// Somebody wants a run now.
#[derive(Debug)]
pub struct Order {
    pub key: Key,
    pub answer: oneshot::Sender<Result<Asked, AskError>>,
}

/// What the agent counts, since it started where nothing else is said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub tally: Tally,
    /// Runs that were not made, by the word of their reason.
    pub missed: Vec<(String, u64)>,
    pub bytes_today: u64,
    /// Runs, planned runs and events that wait to be sent to a collector or database; absent where there is none.
    pub to_send: Option<u64>,
    /// Items that a collector or database refused; they stay here.
    pub set_aside: Option<u64>,
    pub notified: u64,
    pub notices_failed: u64,
    pub reloads: u64,
    pub reloads_refused: u64,
}

pub struct Desk {
    pub open: Open,
    pub started_us: i64,
    /// From which relative names in the file count.
    pub folder: PathBuf,
    /// The file that holds now; replaced whole by a reload.
    pub file: RwLock<Arc<WatchFile>>,
    pub figures: RwLock<Figures>,
    pub news: broadcast::Sender<News>,
    pub orders: mpsc::Sender<Order>,
}

impl Desk {
    /// With the end where the agent takes orders from.
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

    /// The file that holds now.
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
