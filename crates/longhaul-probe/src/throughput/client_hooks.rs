//! Client-side actions outside the protocol: streams, engines, progress for the user.

use super::{TargetHost, ThroughputProgress, stream_opening};
use crate::engine::EngineError;
use crate::run_capture::RunCapture;
use crate::session::{Session, SessionAction, SessionInput, SessionState};
use crate::session_driver::{SessionEngines, SessionHooks, SessionResults, SessionSockets};
use crate::wire::IntervalCounters;
use longhaul_capture::FinishedCapture;
use longhaul_model::report::v1::plan::ThroughputPlan;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between calls of the user's `watch`.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct ClientHooks<'a> {
    pub target: &'a TargetHost,
    pub plan: &'a ThroughputPlan,
    pub address: SocketAddr,
    /// Local address of the control connection.
    pub local: Option<SocketAddr>,
    pub epoch: Instant,
    /// Zero of the common time line.
    pub origin: Instant,
    pub watch: &'a mut dyn FnMut(&ThroughputProgress),
    /// Set by the user to end the run early.
    pub stop: &'a AtomicBool,
    /// The step in which the session learnt of it.
    pub stopped_in: Option<SessionState>,
    pub last_report: Option<(SessionState, Duration)>,
    pub sockets: SessionSockets,
    pub engines: Option<SessionEngines>,
    pub local_interval: IntervalCounters,
    /// The data streams did not reach the server, so this host did not fail.
    pub server_unreachable: bool,
    pub server_interval: IntervalCounters,
    pub collected: SessionResults,
    pub capture: RunCapture,
    pub captured: Option<FinishedCapture>,
}

impl ClientHooks<'_> {
    /// Returns the payload bytes counted by this end's engines.
    pub fn moved_bytes(&self) -> u64 {
        self.local_interval
            .sent_bytes
            .unwrap_or(0)
            .max(self.local_interval.received_bytes.unwrap_or(0))
    }

    /// Takes the results of this end, unless they were taken before.
    pub fn collect(&mut self) {
        if let Some(engines) = self.engines.take() {
            self.collected = engines.collect();
            let capture = std::mem::take(&mut self.capture);
            self.captured = capture.end_client(&mut self.collected);
        }
    }

    /// Returns whether the user ended the run before all payload had arrived.
    pub fn was_cut_short(&self) -> bool {
        self.stopped_in.is_some_and(|step| step != SessionState::Exchanging)
    }

    fn report_progress(&mut self, state: SessionState, now: Duration) {
        let due =
            self.last_report.is_none_or(|(last, at)| last != state || now >= at + WATCH_INTERVAL);
        if !due {
            return;
        }
        self.last_report = Some((state, now));
        let progress = self.current_progress(state);
        (self.watch)(&progress);
    }

    fn current_progress(&self, state: SessionState) -> ThroughputProgress {
        let mut progress = ThroughputProgress::read_engines(state, self.engines.as_ref());
        let server = &self.server_interval;
        if let Some(forward) = &mut progress.forward {
            let at = Duration::from_micros(server.elapsed_us);
            forward.received_bytes = server.received_bytes;
            forward.received_at = server.received_bytes.map(|_| at);
        }
        if let Some(reverse) = &mut progress.reverse {
            reverse.sent_bytes = server.sent_bytes;
        }
        progress
    }
}

/// Returns whether the path or the server is at fault, not this host.
fn is_path_error(error: &io::Error) -> bool {
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

impl SessionHooks for ClientHooks<'_> {
    fn act(&mut self, action: SessionAction) -> Result<Option<SessionInput>, EngineError> {
        match action {
            SessionAction::OpenStreams(nonce) => {
                self.capture = RunCapture::begin_client(
                    self.plan,
                    self.local,
                    self.address,
                    self.target.header_analysis,
                );
                let (target, plan) = (self.target, self.plan);
                let opened =
                    stream_opening::open_data_streams(target, plan, self.address, nonce, 0);
                self.server_unreachable = opened.as_ref().is_err_and(|e| is_path_error(&e.source));
                self.sockets = opened?;
                return Ok(Some(SessionInput::StreamsOpen));
            }
            SessionAction::StartEngine(start) => {
                let spec = start.end_spec(self.plan, true, self.epoch);
                self.origin = spec.origin;
                let sockets = std::mem::take(&mut self.sockets);
                self.engines = Some(SessionEngines::start(&spec, sockets)?);
                return Ok(Some(SessionInput::EngineReady));
            }
            SessionAction::Go => self.engines.iter().for_each(SessionEngines::go),
            SessionAction::StopEngine => self.engines.iter().for_each(SessionEngines::stop),
            SessionAction::StopSending => {
                self.engines.iter().for_each(SessionEngines::stop_sending);
            }
            SessionAction::Collect => self.collect(),
            SessionAction::PeerInterval(interval) => self.server_interval = interval,
            SessionAction::Send(_)
            | SessionAction::Admit(_)
            | SessionAction::Ask(_)
            | SessionAction::Answer(_)
            | SessionAction::Close(_) => {}
        }
        Ok(None)
    }

    fn poll(&mut self, session: &Session, now: Duration) -> Option<SessionInput> {
        let state = session.state();
        self.report_progress(state, now);
        if self.stopped_in.is_none() && self.stop.load(Ordering::Relaxed) {
            self.stopped_in = Some(state);
            return Some(SessionInput::Interrupted);
        }
        if !matches!(state, SessionState::Running | SessionState::Draining) {
            return None;
        }
        let engines = self.engines.as_ref()?;
        self.capture.follow_sender(engines);
        let progress = engines.progress();
        self.local_interval = progress.interval;
        Some(SessionInput::Progress(progress))
    }
}
