//! The load of a hop watch: a bulk run in its own thread.

use crate::error::ProbeError;
use crate::session::State;
use crate::throughput::{self, Outcome, Progress, Target, payload_span};
use longhaul_model::report::v1::path::HopLoad;
use longhaul_model::report::v1::plan::{Direction, Plan, Stop};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A finished load, with the time span of its payload.
pub(super) struct Loaded {
    pub from: Duration,
    pub until: Duration,
    pub plan: Plan,
    pub outcome: Outcome,
}

enum Word {
    /// Progress at this time since the start of the watch.
    Progress(Duration, Box<Progress>),
    Over(Box<Result<Outcome, ProbeError>>),
}

/// The load of a hop watch, in all its phases.
pub(super) struct Load {
    target: Target,
    plan: Plan,
    words: Option<Receiver<Word>>,
    from: Option<Duration>,
    until: Option<Duration>,
    outcome: Option<Outcome>,
}

impl Load {
    pub(super) fn new(target: &Target, asked: &HopLoad, phase: Duration) -> Load {
        let direction = if asked.forward {
            Direction::Forward
        } else {
            Direction::Reverse
        };
        Load {
            target: target.clone(),
            plan: Plan {
                direction,
                streams: asked.streams,
                stop: Stop::TimeUs(phase.as_micros() as u64),
                ..Plan::default()
            },
            words: None,
            from: None,
            until: None,
            outcome: None,
        }
    }

    /// Starts the run on the first call. A stopped watch detaches the thread, which ends with its
    /// phase or with the program.
    pub(super) fn begin(&mut self, epoch: Instant) -> Result<(), String> {
        if self.words.is_some() {
            return Ok(());
        }
        let (say, words) = mpsc::channel();
        let (target, plan) = (self.target.clone(), self.plan.clone());
        let run = move || {
            let mut watch = |progress: &Progress| {
                // The receiver is gone if the watch was stopped.
                let _ = say.send(Word::Progress(epoch.elapsed(), Box::new(progress.clone())));
            };
            let outcome = throughput::run(&target, &plan, &mut watch);
            let _ = say.send(Word::Over(Box::new(outcome)));
        };
        let thread = thread::Builder::new().name("load".to_owned()).spawn(run);
        self.words = Some(words);
        thread
            .map(drop)
            .map_err(|error| format!("cannot start a thread for the load: {error}"))
    }

    /// Processes the run's messages; returns the end of its payload once the run is finished.
    pub(super) fn look(
        &mut self,
        epoch: Instant,
        tell: &mut dyn FnMut(Option<&Progress>),
    ) -> Result<Option<Duration>, ProbeError> {
        while let Some(word) = self.words.as_ref().and_then(|words| words.try_recv().ok()) {
            match word {
                Word::Progress(at, progress) => {
                    self.note(at, &progress);
                    tell(Some(&progress));
                }
                Word::Over(outcome) => {
                    let outcome = (*outcome)?;
                    let told = self.until.unwrap_or_else(|| epoch.elapsed());
                    let (from, until) = flowed(&outcome, epoch).unwrap_or_else(|| {
                        let from = self.from.unwrap_or_else(|| self.began_by(told));
                        (from, told)
                    });
                    (self.from, self.until) = (Some(from), Some(until));
                    self.outcome = Some(outcome);
                }
            }
        }
        Ok(self.until.filter(|_| self.outcome.is_some()))
    }

    fn note(&mut self, at: Duration, progress: &Progress) {
        match progress.state {
            State::Running | State::Draining => {
                let began = at.saturating_sub(progress.elapsed);
                self.from = self.from.or(Some(began));
            }
            _ if self.from.is_some() => self.until = self.until.or(Some(at)),
            _ => {}
        }
    }

    /// Returns the planned start, for a run that reported none.
    fn began_by(&self, over: Duration) -> Duration {
        match self.plan.stop {
            Stop::TimeUs(time) => over.saturating_sub(Duration::from_micros(time)),
            Stop::Bytes(_) | Stop::Blocks(_) => over,
        }
    }

    /// Returns whether payload is being transferred.
    pub(super) fn flows(&self) -> bool {
        self.from.is_some() && self.until.is_none()
    }

    pub(super) fn take(self) -> Option<Loaded> {
        Some(Loaded {
            from: self.from?,
            until: self.until?,
            outcome: self.outcome?,
            plan: self.plan,
        })
    }
}

/// Returns the times of the first payload at the senders and the last at the receivers, from the
/// run's samples. Progress reports the end only after messages that follow the last payload: by
/// then a queue has been empty for some round trips.
fn flowed(outcome: &Outcome, epoch: Instant) -> Option<(Duration, Duration)> {
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

    fn load() -> Load {
        let asked = HopLoad {
            phase_us: 8_000_000,
            streams: 4,
            forward: false,
        };
        Load::new(&Target::new("192.0.2.1"), &asked, Duration::from_secs(8))
    }

    fn progress(state: State, elapsed: u64) -> Progress {
        Progress {
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
        assert_eq!(load.plan.direction, Direction::Reverse);
        load.note(at(9), &progress(State::Negotiating, 0));
        assert!(!load.flows());
        load.note(at(11), &progress(State::Running, 1));
        load.note(at(18), &progress(State::Draining, 8));
        assert!(load.flows());
        load.note(at(19), &progress(State::Exchanging, 9));
        load.note(at(20), &progress(State::Exchanging, 9));
        assert_eq!((load.from, load.until), (Some(at(10)), Some(at(19))));
        assert!(!load.flows());
    }

    #[test]
    fn a_load_that_cannot_connect_says_why() {
        let mut load = load();
        // The discard port of this host is closed.
        load.target = Target {
            port: 9,
            connect_timeout: Duration::from_secs(2),
            ..Target::new("127.0.0.1")
        };
        let epoch = Instant::now();
        load.begin(epoch).expect("a thread");
        let error = loop {
            match load.look(epoch, &mut |_| {}) {
                Ok(_) => assert!(epoch.elapsed() < Duration::from_secs(60)),
                Err(error) => break error,
            }
            std::thread::yield_now();
        };
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
    }
}
