//! Received runs that wait for the sender to the database.
//!
//! The outbox of the archive is what is sent. The sender takes a run from here if it is still there,
//! which saves reading it from the archive and parsing its report again.

use longhaul_store::history_store::IncomingRun;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The maximum size of the reports in the cache.
const MAX_REPORT_BYTES: usize = 64 << 20;

/// A bounded cache of runs that are in the archive and its outbox, by id.
#[derive(Debug, Default)]
pub struct StoredRunCache {
    content: Mutex<CacheContent>,
}

#[derive(Debug, Default)]
struct CacheContent {
    runs: HashMap<String, CachedRun>,
    report_bytes: usize,
    /// The number of calls that have added runs.
    additions: u64,
}

#[derive(Debug)]
struct CachedRun {
    run: IncomingRun,
    /// The number of the call that added it.
    addition: u64,
}

impl StoredRunCache {
    /// Adds runs. Those for which there is no room are read from the archive: the sender takes the
    /// earliest ones first, so that these must stay.
    pub fn add(&self, runs: Vec<IncomingRun>) {
        let mut content = self.content.lock();
        content.additions += 1;
        let addition = content.additions;
        for run in runs {
            let bytes = content.report_bytes + run.report.len();
            if bytes <= MAX_REPORT_BYTES && !content.runs.contains_key(&run.run.id) {
                content.report_bytes = bytes;
                content.runs.insert(run.run.id.clone(), CachedRun { run, addition });
            }
        }
    }

    pub fn take(&self, id: &str) -> Option<IncomingRun> {
        let mut content = self.content.lock();
        let CachedRun { run, .. } = content.runs.remove(id)?;
        content.report_bytes -= run.report.len();
        Some(run)
    }

    /// Returns the number of calls that have added runs.
    pub fn count_additions(&self) -> u64 {
        self.content.lock().additions
    }

    /// Removes the runs of the first `additions` calls. The sender has read the outbox to its end
    /// since, so that it has read these runs from the archive, just before they were added.
    pub fn remove_additions(&self, additions: u64) {
        let mut content = self.content.lock();
        content.runs.retain(|_, cached| cached.addition > additions);
        content.report_bytes = content.runs.values().map(|it| it.run.report.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::export::tests::place;

    fn build_run(id: &str, report_bytes: usize) -> IncomingRun {
        let mut run = place::run(id, "2026-01-31T12:00:00Z");
        run.report = " ".repeat(report_bytes);
        run
    }

    #[test]
    fn a_run_is_taken_once() {
        let cache = StoredRunCache::default();
        cache.add(vec![build_run("a", 9), build_run("b", 9)]);
        assert_eq!(cache.take("b"), Some(build_run("b", 9)));
        assert_eq!(cache.take("b"), None);
    }

    #[test]
    fn runs_that_the_sender_has_passed_make_room() {
        let cache = StoredRunCache::default();
        cache.add(vec![build_run("a", MAX_REPORT_BYTES)]);
        let additions = cache.count_additions();
        cache.add(vec![build_run("b", 0)]);
        cache.remove_additions(additions);
        cache.add(vec![build_run("c", MAX_REPORT_BYTES)]);
        assert!(
            cache.take("a").is_none() && cache.take("b").is_some() && cache.take("c").is_some()
        );
    }

    #[test]
    fn a_full_cache_keeps_the_earliest_runs() {
        let cache = StoredRunCache::default();
        let half = MAX_REPORT_BYTES / 2;
        cache.add(vec![build_run("a", half), build_run("b", half), build_run("c", 1)]);
        assert!(cache.take("c").is_none());
        assert!(cache.take("a").is_some());
        cache.add(vec![build_run("d", half), build_run("e", 1)]);
        assert!(
            cache.take("d").is_some() && cache.take("b").is_some() && cache.take("e").is_none()
        );
    }
}
