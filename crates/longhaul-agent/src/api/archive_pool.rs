//! A small pool of archive connections, opened on demand and reused.
//!
//! An archive may be slow or unavailable, so each query has a timeout. A query that exceeds it
//! continues in its thread and keeps its slot, which limits the load on a slow archive.

use super::api_error::ApiError;
use crate::agent::shared_state::ArchiveOpener;
use longhaul_store::{Archive, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of concurrent queries.
const MAX_QUERIES: usize = 4;
/// The timeout of a query, including the wait for a slot.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

pub struct ArchivePool {
    open: ArchiveOpener,
    idle: Arc<Mutex<Vec<Archive>>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
}

impl ArchivePool {
    pub fn new(open: ArchiveOpener) -> ArchivePool {
        ArchivePool::with_limits(open, MAX_QUERIES, QUERY_TIMEOUT)
    }

    pub(super) fn with_limits(
        open: ArchiveOpener,
        readers: usize,
        deadline: Duration,
    ) -> ArchivePool {
        ArchivePool {
            open,
            idle: Arc::default(),
            permits: Arc::new(Semaphore::new(readers)),
            timeout: deadline,
        }
    }

    /// Runs a query in a thread for blocking work.
    pub async fn query<T, Q>(&self, question: Q) -> Result<T, ApiError>
    where
        T: Send + 'static,
        Q: FnOnce(&Archive) -> Result<T, StoreError> + Send + 'static,
    {
        self.change(|archive| question(archive)).await
    }

    /// Runs a small write in a thread for blocking work.
    pub async fn change<T, Q>(&self, question: Q) -> Result<T, ApiError>
    where
        T: Send + 'static,
        Q: FnOnce(&mut Archive) -> Result<T, StoreError> + Send + 'static,
    {
        let (open, idle) = (Arc::clone(&self.open), Arc::clone(&self.idle));
        let permits = Arc::clone(&self.permits);
        let work = move |place: OwnedSemaphorePermit| {
            let _held = place;
            let known = idle.lock().pop();
            let mut reader = known.map_or_else(|| open(), Ok)?;
            let answer = question(&mut reader);
            // A failed connection may stay broken, so it is not reused.
            if answer.is_ok() {
                let mut idle = idle.lock();
                idle.push(reader);
            }
            answer
        };
        let defect = || ApiError::internal("reading the archive");
        let answer = tokio::time::timeout(self.timeout, async move {
            let place = permits.acquire_owned().await.map_err(|_| defect())?;
            let asked = tokio::task::spawn_blocking(move || work(place)).await;
            asked.map_err(|_panicked| defect())?.map_err(ApiError::from)
        });
        answer.await.unwrap_or_else(|_| Err(self.timeout_error()))
    }

    fn timeout_error(&self) -> ApiError {
        let seconds = self.timeout.as_secs_f64();
        let text = format!("the archive did not answer within {seconds} s");
        ApiError::unavailable("archive_busy", text).hint(
            "request a shorter range, or try again; check whether another program locks the archive",
        )
    }
}
