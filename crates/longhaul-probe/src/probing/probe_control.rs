//! The control session of a prober: open, request, service, close.

use super::session_number;
use crate::engine::EngineError;
use crate::probe_error::ProbeError;
use crate::session::{
    Session, SessionAction, SessionEnd, SessionInput, SessionPurpose, SessionState,
};
use crate::session_driver::{SessionDriver, SessionHooks};
use crate::supervise::StopFlag;
use crate::throughput::{
    self, TargetHost, connect_control, initiator_party, open_flow, responder_party, session_error,
    target_token,
};
use crate::wire::{ProbeBounds, SessionNonce, SessionReply, SessionRequest, StreamPreamble};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::{RunTransport, ThroughputPlan};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An open control session with a server.
pub struct ProbeControl {
    drive: SessionDriver,
    hooks: ProbeControlHooks,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub(super) local: Option<IpAddr>,
    /// Zero of this host's times.
    pub(super) epoch: Instant,
    /// Set by the user, which ends the wait for an answer.
    pub(super) stop: StopFlag,
}

impl ProbeControl {
    pub fn open(
        target: &TargetHost,
        bounds: ProbeBounds,
        stop: &StopFlag,
    ) -> Result<ProbeControl, ProbeError> {
        let token = target_token(target)?;
        let own_target = target.clone();
        let connection =
            throughput::connect_unless_stopped(stop, move || connect_control(&own_target))?;
        let initiator = initiator_party(connection.local);
        let setup = connection.session_setup(token, initiator.clone());
        let address = connection.address;
        let epoch = Instant::now();
        let purpose = SessionPurpose::Probe(bounds.clone());
        let mut line = ProbeControl {
            local: connection.local.map(|local| local.ip().to_canonical()),
            drive: SessionDriver::new(connection.channel, Session::client(setup, purpose), epoch),
            hooks: ProbeControlHooks {
                target: connection.target,
                address,
                bounds,
                flow: None,
                unreachable_reason: None,
                answer: None,
            },
            initiator,
            responder: RunParty::default(),
            epoch,
            stop: StopFlag::clone(stop),
        };
        line.drive.feed(&mut line.hooks, SessionInput::Start);
        while line.drive.session().state() != SessionState::Asking {
            line.drive_once()?;
        }
        line.responder = responder_party(&line.hooks.target, address, line.drive.session());
        Ok(line)
    }

    /// Takes the UDP flow, with the session's number in its datagrams.
    pub(super) fn take_flow(&mut self) -> Option<(UdpSocket, u64)> {
        self.hooks.flow.take()
    }

    pub fn address(&self) -> SocketAddr {
        self.hooks.address
    }

    /// Returns the target with the address of this session.
    pub fn target(&self) -> &TargetHost {
        &self.hooks.target
    }

    pub fn idle_rtt(&self) -> Option<Duration> {
        self.drive.session().clock().map(|clock| clock.rtt)
    }

    /// Returns the protocol version of the session.
    pub fn version(&self) -> Option<u16> {
        self.drive.session().version()
    }

    pub fn same_host(&self) -> bool {
        self.drive.session().same_host()
    }

    pub fn bounds(&self) -> Option<&ProbeBounds> {
        self.drive.session().bounds()
    }

    /// Sends a request and waits for the answer; the session's deadlines limit the wait.
    pub fn request(&mut self, ask: SessionRequest) -> Result<SessionReply, ProbeError> {
        match self.request_raw(ask)? {
            SessionReply::Failed(why) => Err(self.peer_failure(&why)),
            answer => Ok(answer),
        }
    }

    /// Like `request`, but returns a failure as an ordinary answer.
    pub fn request_raw(&mut self, ask: SessionRequest) -> Result<SessionReply, ProbeError> {
        // First process pending input: heartbeats, or the end.
        self.service()?;
        self.drive.feed(&mut self.hooks, SessionInput::Ask(Box::new(ask)));
        loop {
            if let Some(answer) = self.hooks.answer.take() {
                return Ok(answer);
            }
            self.drive_once()?;
        }
    }

    fn drive_once(&mut self) -> Result<(), ProbeError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted { step: self.drive.session().state() });
        }
        let until = self.drive.wake_at(&self.hooks);
        self.drive.poll_once(&mut self.hooks, until);
        self.check_open()
    }

    /// Processes received and due messages, without waiting.
    pub fn service(&mut self) -> Result<(), ProbeError> {
        self.drive.poll_once(&mut self.hooks, Instant::now());
        self.check_open()
    }

    fn check_open(&self) -> Result<(), ProbeError> {
        let Some(closed) = self.drive.closed().cloned() else {
            return Ok(());
        };
        if let (SessionEnd::OwnFailure { step, .. }, Some(what)) =
            (&closed, &self.hooks.unreachable_reason)
        {
            return Err(ProbeError::PeerLost {
                address: self.hooks.address,
                step: *step,
                what: what.clone(),
            });
        }
        Err(session_error(&self.hooks.target, self.hooks.address, closed, 0))
    }

    /// Returns the error for an answer of the wrong type.
    pub fn unexpected_answer(&self, answer: &SessionReply) -> ProbeError {
        self.peer_failure(&format!("unexpected answer `{}`", answer.name()))
    }

    pub(crate) fn peer_failure(&self, why: &str) -> ProbeError {
        ProbeError::PeerFailed {
            address: self.hooks.address,
            step: SessionState::Working,
            what: why.to_owned(),
        }
    }

    /// Closes the session.
    pub fn close(mut self) {
        self.drive.feed(&mut self.hooks, SessionInput::NoMoreRequests);
        self.drive.close();
    }
}

/// Client-side actions of a probe session outside the protocol.
struct ProbeControlHooks {
    target: TargetHost,
    address: SocketAddr,
    bounds: ProbeBounds,
    flow: Option<(UdpSocket, u64)>,
    /// Reason why the flow did not reach the server, if the path is at fault.
    unreachable_reason: Option<String>,
    answer: Option<SessionReply>,
}

impl ProbeControlHooks {
    fn open_flow(&mut self, nonce: SessionNonce) -> Result<SessionInput, EngineError> {
        if self.bounds.flows == 0 {
            return Ok(SessionInput::StreamsOpen);
        }
        let preamble = StreamPreamble { nonce, index: 0, forward: true };
        let plan = ThroughputPlan {
            transport: RunTransport::Udp { rate_bps: 0 },
            dscp: self.bounds.dscp,
            ..ThroughputPlan::default()
        };
        let opened = open_flow(&self.target, &plan, self.address, preamble);
        let socket = opened.inspect_err(|error| {
            if error.source.kind() == std::io::ErrorKind::TimedOut {
                self.unreachable_reason = Some(error.to_string());
            }
        })?;
        self.flow = Some((socket, session_number(nonce)));
        Ok(SessionInput::StreamsOpen)
    }
}

impl SessionHooks for ProbeControlHooks {
    fn act(&mut self, action: SessionAction) -> Result<Option<SessionInput>, EngineError> {
        match action {
            SessionAction::OpenStreams(nonce) => return self.open_flow(nonce).map(Some),
            SessionAction::Answer(answer) => self.answer = Some(*answer),
            _ => {}
        }
        Ok(None)
    }

    fn poll(&mut self, _session: &Session, _now: Duration) -> Option<SessionInput> {
        None
    }
}
