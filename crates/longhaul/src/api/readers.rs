//! A small pool of archive connections, opened on demand and reused.
//!
//! An archive may be slow or unavailable, so each query has a timeout. A query that exceeds it
//! continues in its thread and keeps its slot, which limits the load on a slow archive.

use super::fault::Fault;
use crate::agent::desk::Open;
use longhaul_store::{StoreError, Watched};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The maximum number of concurrent queries.
const READERS: usize = 4;
/// The timeout of a query, including the wait for a slot.
const DEADLINE: Duration = Duration::from_secs(5);

pub struct Readers {
    open: Open,
    idle: Arc<Mutex<Vec<Box<dyn Watched>>>>,
    places: Arc<Semaphore>,
    deadline: Duration,
}

impl Readers {
    pub fn new(open: Open) -> Readers {
        Readers::with(open, READERS, DEADLINE)
    }

    pub(super) fn with(open: Open, readers: usize, deadline: Duration) -> Readers {
        Readers {
            open,
            idle: Arc::default(),
            places: Arc::new(Semaphore::new(readers)),
            deadline,
        }
    }

    /// Runs a query in a thread for blocking work.
    pub async fn ask<T, Q>(&self, question: Q) -> Result<T, Fault>
    where
        T: Send + 'static,
        Q: FnOnce(&dyn Watched) -> Result<T, StoreError> + Send + 'static,
    {
        let answer = tokio::time::timeout(self.deadline, self.answer(question));
        answer.await.unwrap_or_else(|_| Err(self.too_slow()))
    }

    async fn answer<T, Q>(&self, question: Q) -> Result<T, Fault>
    where
        T: Send + 'static,
        Q: FnOnce(&dyn Watched) -> Result<T, StoreError> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| Fault::defect("reading the archive"))?;
        let (open, idle) = (Arc::clone(&self.open), Arc::clone(&self.idle));
        let asked = tokio::task::spawn_blocking(move || {
            let _held = place;
            let known = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let reader = known.map_or_else(|| open(), Ok)?;
            let answer = question(reader.as_ref());
            // A failed connection may stay broken, so it is not reused.
            if answer.is_ok() {
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push(reader);
            }
            answer
        });
        match asked.await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_panicked) => Err(Fault::defect("reading the archive")),
        }
    }

    fn too_slow(&self) -> Fault {
        let seconds = self.deadline.as_secs_f64();
        let text = format!("the archive did not answer within {seconds} s");
        Fault::busy("archive_busy", text).hint(
            "ask for a shorter range, or try again; see whether another program holds the archive",
        )
    }
}
