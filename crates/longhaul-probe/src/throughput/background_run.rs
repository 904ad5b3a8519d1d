//! A bulk run in a thread of its own, which can be abandoned when the user interrupts.

use super::{TargetHost, ThroughputOutcome, ThroughputProgress};
use crate::probe_error::ProbeError;
use longhaul_model::report::v1::plan::ThroughputPlan;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A bulk run that is in progress. When it is dropped, its thread goes on until the run or the
/// program ends.
pub(crate) struct BackgroundRun {
    pub plan: ThroughputPlan,
    progress: Arc<Mutex<Option<ThroughputProgress>>>,
    thread: JoinHandle<Result<ThroughputOutcome, ProbeError>>,
}

impl BackgroundRun {
    pub fn start(target: &TargetHost, plan: ThroughputPlan) -> Result<BackgroundRun, ProbeError> {
        let progress = Arc::new(Mutex::new(None));
        let (own_target, own_plan, latest) = (target.clone(), plan.clone(), Arc::clone(&progress));
        let run = move || {
            super::run(&own_target, &own_plan, &mut |progress| {
                *latest.lock() = Some(progress.clone());
            })
        };
        let thread = thread::Builder::new()
            .name("load".to_owned())
            .spawn(run)
            .map_err(|source| ProbeError::local("cannot start a thread for the load", source))?;
        Ok(BackgroundRun { plan, progress, thread })
    }

    /// Returns the latest progress; `None` before the first.
    pub fn progress(&self) -> Option<ThroughputProgress> {
        self.progress.lock().clone()
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the result; abandons a run that has not ended.
    pub fn finish(self) -> Result<ThroughputOutcome, ProbeError> {
        let ended = if self.is_finished() { self.thread.join().ok() } else { None };
        let interrupted = "the load was interrupted before its end";
        ended.unwrap_or_else(|| Err(ProbeError::local(interrupted, None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_run_that_cannot_connect_says_why() {
        // The discard port of this host is closed.
        let target = TargetHost {
            port: 9,
            connect_timeout: Duration::from_secs(2),
            ..TargetHost::new("127.0.0.1")
        };
        let run = BackgroundRun::start(&target, ThroughputPlan::default()).expect("a thread");
        let began = Instant::now();
        while !run.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        let error = run.finish().expect_err("nothing listens there");
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
    }
}
