//! Runs one probe in its own thread, so that an interrupt does not wait for its end.

use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{
    self, BulkRun, TargetHost, ThroughputOutcome, ThroughputProgress,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of checks for an interrupt, progress and the end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time to wait for a lost server, which may be restarting.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(2);

/// The outcome of a probe.
pub enum ProbeEnding {
    Measured(Box<ThroughputOutcome>),
    /// The server refuses this setting, or a kernel does not support it; others may work.
    SettingRefused(ProbeError),
    /// The connection failed or was lost.
    ConnectionLost(ProbeError),
    /// Another program than the expected server answers.
    WrongServer(ProbeError),
    Interrupted,
}

/// Runs one probe. After an interrupt the probe is abandoned and ends with the program.
pub fn run_probe(
    target: &TargetHost,
    plan: &ThroughputPlan,
    bulk_run: &Arc<BulkRun>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&ThroughputProgress),
) -> ProbeEnding {
    let latest = Arc::new(Mutex::new(None));
    let (target, plan, shared) = (target.clone(), plan.clone(), Arc::clone(&latest));
    let bulk_run = Arc::clone(bulk_run);
    let run = thread::spawn(move || {
        bulk_run(&target, &plan, &mut |progress| {
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
        })
    });
    while !run.is_finished() {
        if stop.load(Ordering::Relaxed) {
            return ProbeEnding::Interrupted;
        }
        thread::sleep(POLL_INTERVAL);
        if let Some(progress) = latest.lock().unwrap_or_else(PoisonError::into_inner).take() {
            show(&progress);
        }
    }
    match run.join() {
        Ok(ended) => classify_ending(ended),
        Err(_told_by_the_hook) => {
            let what = "the probe thread ended without a result".to_owned();
            ProbeEnding::SettingRefused(ProbeError::Local { what, source: None })
        }
    }
}

fn classify_ending(ended: Result<ThroughputOutcome, ProbeError>) -> ProbeEnding {
    match ended {
        Ok(outcome) => ProbeEnding::Measured(Box::new(outcome)),
        Err(
            error @ (ProbeError::Plan(_)
            | ProbeError::Refused { .. }
            | ProbeError::PeerFailed { .. }
            | ProbeError::OtherProtocol { is_lost: false, .. }
            | ProbeError::Local { .. }),
        ) => ProbeEnding::SettingRefused(error),
        Err(
            error @ (ProbeError::Connect { .. }
            | ProbeError::PeerLost { .. }
            | ProbeError::OtherProtocol { is_lost: true, .. }
            | ProbeError::Timeout { .. }),
        ) => ProbeEnding::ConnectionLost(error),
        Err(error) => ProbeEnding::WrongServer(error),
    }
}

/// Waits until the server answers. Returns false after a timeout or an interrupt.
pub fn wait_until_reachable(target: &TargetHost, stop: &AtomicBool) -> bool {
    let deadline = Instant::now() + RECONNECT_TIMEOUT;
    let mut attempt_at = Instant::now();
    while attempt_at < deadline && !stop.load(Ordering::Relaxed) {
        if Instant::now() < attempt_at {
            thread::sleep(POLL_INTERVAL);
            continue;
        }
        let left = deadline.saturating_duration_since(attempt_at);
        let connect_timeout = target.connect_timeout.min(left).max(POLL_INTERVAL);
        let hasty = TargetHost { connect_timeout, ..target.clone() };
        if throughput::measure_connect_rtt(&hasty).is_ok() {
            return true;
        }
        attempt_at = Instant::now() + RECONNECT_INTERVAL;
    }
    false
}
