//! Client-side actions outside the protocol: streams, engines, progress for the user.

use super::observe::{self, FarResults};
use super::{Captures, FlowProgress, Progress, Target, streams};
use crate::capture::beside::{Beside, attach};
use crate::capture::store::MOST_HELD_BYTES;
use crate::capture::{missing, refused};
use crate::drive::{Collected, EngineSetup, Engines, Hooks, Sockets};
use crate::engine::{EndRun, EngineError};
use crate::session::{Action, FarResult, Input, Role, Session, State};
use crate::wire::Interval;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::Observation;
use longhaul_model::report::v1::plan::Plan;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Interval between calls of the user's `watch`.
const WATCH: Duration = Duration::from_millis(200);

pub(super) struct InitiatorHooks<'a> {
    target: &'a Target,
    plan: &'a Plan,
    address: SocketAddr,
    /// Local address of the control connection.
    local: Option<SocketAddr>,
    epoch: Instant,
    /// Zero of the common time line.
    origin: Instant,
    watch: &'a mut dyn FnMut(&Progress),
    watched: Option<(State, Duration)>,
    sockets: Sockets,
    engines: Option<Engines>,
    moved: Interval,
    /// The data streams did not reach the server, so this host did not fail.
    pub far_end_unreached: bool,
    far: Interval,
    collected: Collected,
    results: FarResults,
    capture: Beside,
    captures: Captures,
}

impl<'a> InitiatorHooks<'a> {
    pub fn new(
        target: &'a Target,
        plan: &'a Plan,
        (local, address): (Option<SocketAddr>, SocketAddr),
        epoch: Instant,
        watch: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        InitiatorHooks {
            target,
            plan,
            address,
            local,
            epoch,
            origin: epoch,
            watch,
            watched: None,
            sockets: Sockets::default(),
            engines: None,
            moved: Interval::default(),
            far_end_unreached: false,
            far: Interval::default(),
            collected: Collected::default(),
            results: FarResults::default(),
            capture: Beside::Nothing,
            captures: Captures::default(),
        }
    }

    /// Returns the zero of the common time line, on this host's clock.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Returns the payload bytes counted by this end's engines.
    pub fn moved_bytes(&self) -> u64 {
        self.moved
            .sent_bytes
            .unwrap_or(0)
            .max(self.moved.received_bytes.unwrap_or(0))
    }

    /// Takes the packet captures of both ends.
    pub fn take_captures(&mut self) -> Captures {
        std::mem::take(&mut self.captures)
    }

    /// Joins the readings of both ends.
    pub fn observation(self, session: &Session) -> Result<(Observation, Vec<Caveat>), String> {
        let far = self.plan.capture.is_some_and(|capture| capture.far);
        let (observation, mut caveats) =
            observe::join(self.plan, self.collected, self.results, session)?;
        if far && !session.knows_captures() {
            let told = refused("this release of longhaul there knows none");
            caveats.push(Caveat::new(&told.code, format!("far end: {}", told.text)));
        }
        Ok((observation, caveats))
    }

    /// Starts the capture before any stream opens, so that it contains the handshakes.
    fn begin_capture(&mut self) {
        let Some(capture) = self.plan.capture else {
            return;
        };
        self.capture = match self.local {
            Some(local) => {
                let asked = (self.plan, capture);
                Beside::begin(asked, local, self.address, MOST_HELD_BYTES)
            }
            None => Beside::Without(missing(&io::ErrorKind::AddrNotAvailable.into())),
        };
    }

    fn end_capture(&mut self) {
        let capture = std::mem::take(&mut self.capture);
        let (captured, caveats) = capture.end(Role::Initiator, &self.collected);
        let about = captured.as_ref().map(|captured| captured.about().clone());
        attach(&mut self.collected, Role::Initiator, about, caveats);
        self.captures.near = captured;
    }

    fn tell(&mut self, state: State, now: Duration) {
        let due = self
            .watched
            .is_none_or(|(last, at)| last != state || now >= at + WATCH);
        if !due {
            return;
        }
        self.watched = Some((state, now));
        let progress = self.progress(state);
        (self.watch)(&progress);
    }

    fn progress(&self, state: State) -> Progress {
        let engines = self.engines.as_ref();
        let far_at = Some(Duration::from_micros(self.far.elapsed_us));
        let here = |run: &EndRun| {
            let progress = run.progress();
            let flow = FlowProgress {
                stream_bytes: progress.stream_bytes,
                retransmits: progress.retransmits,
                rtt: progress.rtt,
                ..FlowProgress::default()
            };
            (progress.bytes, progress.elapsed, flow)
        };
        let forward = engines.and_then(Engines::sender).map(here);
        let reverse = engines.and_then(Engines::receiver).map(here);
        let elapsed = forward
            .iter()
            .chain(&reverse)
            .map(|(_, elapsed, _)| *elapsed)
            .max();
        Progress {
            state,
            elapsed: elapsed.unwrap_or_default(),
            forward: forward.map(|(bytes, _, flow)| FlowProgress {
                sent_bytes: Some(bytes),
                received_bytes: self.far.received_bytes,
                received_at: far_at.filter(|_| self.far.received_bytes.is_some()),
                ..flow
            }),
            reverse: reverse.map(|(bytes, elapsed, flow)| FlowProgress {
                sent_bytes: self.far.sent_bytes,
                received_bytes: Some(bytes),
                received_at: Some(elapsed),
                ..flow
            }),
        }
    }
}

/// Returns whether the path or the server is at fault, not this host.
fn is_of_path(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkUnreachable, TimedOut, WouldBlock,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkUnreachable
            | TimedOut
            | WouldBlock
    )
}

impl Hooks for InitiatorHooks<'_> {
    fn act(&mut self, action: Action) -> Result<Option<Input>, EngineError> {
        match action {
            Action::OpenStreams(accept) => {
                self.begin_capture();
                let opened = streams::open(self.target, self.plan, self.address, accept.nonce);
                self.far_end_unreached = opened.as_ref().is_err_and(|e| is_of_path(&e.source));
                self.sockets = opened?;
                return Ok(Some(Input::StreamsOpen));
            }
            Action::StartEngine(start) => {
                self.origin = self.epoch + start.origin;
                let setup = EngineSetup {
                    role: Role::Initiator,
                    plan: self.plan.clone(),
                    epoch: self.epoch,
                };
                let sockets = std::mem::take(&mut self.sockets);
                self.engines = Some(Engines::start(&setup, start, sockets)?);
                return Ok(Some(Input::EngineReady));
            }
            Action::Go => self.engines.iter().for_each(Engines::go),
            Action::StopEngine => self.engines.iter().for_each(Engines::stop),
            Action::Collect => {
                self.collected = self
                    .engines
                    .take()
                    .map(Engines::collect)
                    .unwrap_or_default();
                self.end_capture();
            }
            Action::FarInterval(interval) => self.far = interval,
            Action::Result(FarResult::Capture(piece)) => {
                let file = self.captures.far.get_or_insert_default();
                file.extend(piece);
            }
            Action::Result(FarResult::Stream(result)) => self.results.streams.push(*result),
            Action::Result(FarResult::End(result)) => self.results.ends.push(*result),
            Action::Send(_)
            | Action::Admit(_)
            | Action::Ask(_)
            | Action::Answer(_)
            | Action::Close(_) => {}
        }
        Ok(None)
    }

    fn poll(&mut self, session: &Session, now: Duration) -> Option<Input> {
        let state = session.state();
        self.tell(state, now);
        if !matches!(state, State::Running | State::Draining) {
            return None;
        }
        let progress = self.engines.as_ref()?.progress();
        self.moved = progress.interval;
        Some(Input::Progress(progress))
    }
}
