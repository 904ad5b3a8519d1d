//! The mutual exclusion of this host's own heavy runs and the runs that its server answers.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;

/// The lock between the heavy runs that this host starts and those that its server answers. Runs
/// of the same side do not exclude each other.
#[derive(Clone)]
pub struct HeavyRunLock {
    users: Arc<Mutex<HeavyRunUsers>>,
    on_release: Arc<dyn Fn() + Send + Sync>,
}

/// The runs that use the host.
#[derive(Debug, Default)]
pub struct HeavyRunUsers {
    /// The number of runs that the server answers.
    pub served: u32,
    /// A heavy run of this host is in progress, or waits for those that are served: the server
    /// answers no further run.
    pub own: bool,
}

/// A run that the server answers; released when dropped.
#[derive(Debug)]
pub struct ServedRun(HeavyRunLock);

impl HeavyRunLock {
    /// Creates a lock; `on_release` is called when a served run has ended.
    pub fn new(on_release: impl Fn() + Send + Sync + 'static) -> HeavyRunLock {
        HeavyRunLock { users: Arc::default(), on_release: Arc::new(on_release) }
    }

    /// Returns the users; no run of the server begins before the guard is dropped.
    pub fn users(&self) -> MutexGuard<'_, HeavyRunUsers> {
        self.users.lock()
    }

    /// Begins a run of the server.
    ///
    /// # Errors
    /// This host measures.
    pub fn serve_run(&self) -> Result<ServedRun, String> {
        let mut users = self.users();
        if users.own {
            return Err("this host measures by itself; try again later".to_owned());
        }
        users.served += 1;
        Ok(ServedRun(self.clone()))
    }
}

impl fmt::Debug for HeavyRunLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeavyRunLock").field(&self.users).finish()
    }
}

impl Drop for ServedRun {
    fn drop(&mut self) {
        self.0.users().served -= 1;
        (self.0.on_release)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn own_runs_and_served_runs_exclude_each_other() {
        let released = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&released);
        let lock = HeavyRunLock::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let served = [lock.serve_run().expect("free"), lock.serve_run().expect("its own side")];
        assert_eq!(lock.users().served, 2);
        lock.users().own = true;
        let why = lock.serve_run().expect_err("an own run waits");
        assert!(why.ends_with("try again later"), "{why}");
        drop(served);
        assert_eq!((lock.users().served, released.load(Ordering::Relaxed)), (0, 2));
        lock.users().own = false;
        drop(lock.serve_run().expect("free again"));
    }
}
