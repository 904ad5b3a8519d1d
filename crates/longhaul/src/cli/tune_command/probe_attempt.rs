//! Runs one probe and classifies its end.

use crate::cli::early_end::EarlyEnd;
use crate::command_failure::{CommandFailure, INTERRUPTED, PEER};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{
    self, BulkRun, TargetHost, ThroughputOutcome, ThroughputProgress,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time to wait for a lost server, which may be restarting.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(2);

/// The outcome of a probe.
pub enum ProbeEnding {
    Measured(Box<ThroughputOutcome>),
    /// The run was interrupted, or its server lost, when it had measured something.
    CutShort(Box<ThroughputOutcome>, CommandFailure),
    /// The server refuses this setting, or a kernel does not support it; others may work.
    SettingRefused(CommandFailure),
    /// The connection failed or was lost.
    ConnectionLost(CommandFailure),
    /// Another program than the expected server answers.
    WrongServer(CommandFailure),
    Interrupted(CommandFailure),
}

/// Runs one probe. An interrupt ends it early. If its plan requests a precision, it ends when its
/// goodput is known, or after `usual_end` unless it still ramps.
pub fn run_probe(
    target: &TargetHost,
    plan: &ThroughputPlan,
    bulk_run: &BulkRun,
    stop: &StopFlag,
    usual_end: Option<Duration>,
    show: &mut dyn FnMut(&ThroughputProgress),
) -> ProbeEnding {
    let Some(mut early_end) = EarlyEnd::new(plan, usual_end) else {
        return classify_ending(bulk_run(target, plan, stop, show));
    };
    let ended = early_end.run(plan, stop, show, |sent, watch| bulk_run(target, sent, stop, watch));
    if early_end.is_known {
        stop.store(false, Ordering::Relaxed);
    }
    classify_ending(ended)
}

fn classify_ending(ended: Result<ThroughputOutcome, ProbeError>) -> ProbeEnding {
    match ended {
        Ok(outcome) => match outcome.caveats.iter().find(|caveat| caveat.is_early_end()) {
            None => ProbeEnding::Measured(Box::new(outcome)),
            Some(caveat) => {
                let interrupted = caveat.code == ReportCaveat::INTERRUPTED;
                let code = if interrupted { INTERRUPTED } else { PEER };
                let failure = CommandFailure::new(code, caveat.text.clone());
                ProbeEnding::CutShort(Box::new(outcome), failure)
            }
        },
        Err(
            error @ (ProbeError::Plan(_)
            | ProbeError::Refused { .. }
            | ProbeError::PeerFailed { .. }
            | ProbeError::OtherProtocol { is_lost: false, .. }
            | ProbeError::Local { .. }),
        ) => ProbeEnding::SettingRefused(error.into()),
        Err(
            error @ (ProbeError::Connect { .. }
            | ProbeError::PeerLost { .. }
            | ProbeError::OtherProtocol { is_lost: true, .. }
            | ProbeError::Timeout { .. }),
        ) => ProbeEnding::ConnectionLost(error.into()),
        Err(error @ ProbeError::Interrupted { .. }) => ProbeEnding::Interrupted(error.into()),
        Err(error) => ProbeEnding::WrongServer(error.into()),
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
