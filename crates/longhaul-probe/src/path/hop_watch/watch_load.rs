//! The load of a hop watch: a bulk run in its own thread.

use crate::probe_error::ProbeError;
use crate::session::SessionState;
use crate::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress, payload_span};
use longhaul_model::report::v1::path::HopLoadPlan;
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A finished load, with the time span of its payload.
pub(super) struct FinishedLoad {
    pub started: Duration,
    pub ended: Duration,
    pub plan: ThroughputPlan,
    pub outcome: ThroughputOutcome,
}

enum LoadMessage {
    /// Progress at this time since the start of the watch.
    Progress(Duration, Box<ThroughputProgress>),
    Finished(Box<Result<ThroughputOutcome, ProbeError>>),
}

/// The load of a hop watch, in all its phases.
pub(super) struct WatchLoad {
    target: TargetHost,
    plan: ThroughputPlan,
    messages: Option<Receiver<LoadMessage>>,
    started: Option<Duration>,
    ended: Option<Duration>,
    outcome: Option<ThroughputOutcome>,
}

impl WatchLoad {
    pub(super) fn new(target: &TargetHost, asked: &HopLoadPlan, phase: Duration) -> WatchLoad {
        let direction = if asked.forward { RunDirection::Forward } else { RunDirection::Reverse };
        WatchLoad {
            target: target.clone(),
            plan: ThroughputPlan {
                direction,
                streams: asked.streams,
                stop: StopCondition::TimeUs(phase.as_micros() as u64),
                ..ThroughputPlan::default()
            },
            messages: None,
            started: None,
            ended: None,
            outcome: None,
        }
    }

    /// Starts the run on the first call. A stopped watch detaches the thread, which ends with its
    /// phase or with the program.
    pub(super) fn start(&mut self, epoch: Instant) -> Result<(), String> {
        if self.messages.is_some() {
            return Ok(());
        }
        let (say, words) = mpsc::channel();
        let (target, plan) = (self.target.clone(), self.plan.clone());
        let run = move || {
            let mut watch = |progress: &ThroughputProgress| {
                // The receiver is gone if the watch was stopped.
                let _ =
                    say.send(LoadMessage::Progress(epoch.elapsed(), Box::new(progress.clone())));
            };
            let outcome = throughput::run(&target, &plan, &mut watch);
            let _ = say.send(LoadMessage::Finished(Box::new(outcome)));
        };
        let thread = thread::Builder::new().name("load".to_owned()).spawn(run);
        self.messages = Some(words);
        thread.map(drop).map_err(|error| format!("cannot start a thread for the load: {error}"))
    }

    /// Processes the run's messages; returns the end of its payload once the run is finished.
    pub(super) fn poll(
        &mut self,
        epoch: Instant,
        tell: &mut dyn FnMut(Option<&ThroughputProgress>),
    ) -> Result<Option<Duration>, ProbeError> {
        while let Some(word) = self.messages.as_ref().and_then(|words| words.try_recv().ok()) {
            match word {
                LoadMessage::Progress(at, progress) => {
                    self.record_progress(at, &progress);
                    tell(Some(&progress));
                }
                LoadMessage::Finished(outcome) => {
                    let outcome = (*outcome)?;
                    let told = self.ended.unwrap_or_else(|| epoch.elapsed());
                    let (from, until) = payload_times(&outcome, epoch)
                        .unwrap_or_else(|| (self.started.unwrap_or(told), told));
                    (self.started, self.ended) = (Some(from), Some(until));
                    self.outcome = Some(outcome);
                }
            }
        }
        Ok(self.ended.filter(|_| self.outcome.is_some()))
    }

    fn record_progress(&mut self, at: Duration, progress: &ThroughputProgress) {
        match progress.state {
            SessionState::Running | SessionState::Draining => {
                let began = at.saturating_sub(progress.elapsed);
                self.started = self.started.or(Some(began));
            }
            _ if self.started.is_some() => self.ended = self.ended.or(Some(at)),
            _ => {}
        }
    }

    /// Returns whether payload is being transferred.
    pub(super) fn is_running(&self) -> bool {
        self.started.is_some() && self.ended.is_none()
    }

    pub(super) fn into_finished(self) -> Option<FinishedLoad> {
        Some(FinishedLoad {
            started: self.started?,
            ended: self.ended?,
            outcome: self.outcome?,
            plan: self.plan,
        })
    }
}

/// Returns the times of the first payload at the senders and the last at the receivers, from the
/// run's samples. Progress reports the end only after messages that follow the last payload: by
/// then a queue has been empty for some round trips.
fn payload_times(outcome: &ThroughputOutcome, epoch: Instant) -> Option<(Duration, Duration)> {
    let zero = outcome.origin.checked_duration_since(epoch)?;
    let streams = &outcome.observation.streams;
    let (first, _) = payload_span(streams.iter().map(|stream| &stream.sender))?;
    let (_, last) = payload_span(streams.iter().map(|stream| &stream.receiver))?;
    let at = |us: u64| zero + Duration::from_micros(us);
    Some((at(first), at(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> WatchLoad {
        let asked = HopLoadPlan { phase_us: 8_000_000, streams: 4, forward: false };
        WatchLoad::new(&TargetHost::new("192.0.2.1"), &asked, Duration::from_secs(8))
    }

    fn progress(state: SessionState, elapsed: u64) -> ThroughputProgress {
        ThroughputProgress {
            state,
            elapsed: Duration::from_secs(elapsed),
            forward: None,
            reverse: None,
        }
    }

    #[test]
    fn payload_flows_from_its_first_byte_to_the_end_of_draining() {
        let at = Duration::from_secs;
        let mut load = load();
        assert_eq!(load.plan.direction, RunDirection::Reverse);
        load.record_progress(at(9), &progress(SessionState::Negotiating, 0));
        assert!(!load.is_running());
        load.record_progress(at(11), &progress(SessionState::Running, 1));
        load.record_progress(at(18), &progress(SessionState::Draining, 8));
        assert!(load.is_running());
        load.record_progress(at(19), &progress(SessionState::Exchanging, 9));
        load.record_progress(at(20), &progress(SessionState::Exchanging, 9));
        assert_eq!((load.started, load.ended), (Some(at(10)), Some(at(19))));
        assert!(!load.is_running());
    }

    #[test]
    fn a_load_that_cannot_connect_says_why() {
        let mut load = load();
        // The discard port of this host is closed.
        load.target = TargetHost {
            port: 9,
            connect_timeout: Duration::from_secs(2),
            ..TargetHost::new("127.0.0.1")
        };
        let epoch = Instant::now();
        load.start(epoch).expect("a thread");
        let error = loop {
            match load.poll(epoch, &mut |_| {}) {
                Ok(_) => assert!(epoch.elapsed() < Duration::from_secs(60)),
                Err(error) => break error,
            }
            std::thread::yield_now();
        };
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
    }
}
