//! The control session of a prober: open, request, service, close.

use super::datagram::session_number;
use crate::drive::{Drive, Hooks};
use crate::engine::EngineError;
use crate::error::ProbeError;
use crate::secure::boot_proof;
use crate::session::{Action, Closed, Initiative, Input, Part, Session, Setup, State};
use crate::throughput::{
    self, Target, connect_control, error_of, initiator_party, open_flow, responder_party, token_of,
};
use crate::wire::{Accept, Answer, Ask, Bounds, Preamble, Versions};
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::{Plan, Transport};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The control session and its server.
pub(crate) struct Line {
    drive: Drive,
    hooks: LineHooks,
    target: Target,
    address: SocketAddr,
}

/// Result of opening a session.
pub(crate) struct Opened {
    pub line: Line,
    /// The UDP flow, with the session's number in its datagrams.
    pub flow: Option<(UdpSocket, u64)>,
    pub initiator: Party,
    pub responder: Party,
    pub local: Option<IpAddr>,
    /// Zero of this host's times.
    pub epoch: Instant,
}

impl Line {
    pub fn open(target: &Target, bounds: Bounds) -> Result<Opened, ProbeError> {
        let token = token_of(target)?;
        let address = throughput::resolve(target)?;
        let connection = connect_control(target, address)?;
        let initiator = initiator_party(connection.local);
        let setup = Setup {
            token,
            exporter: *connection.channel.exporter(),
            party: initiator.clone(),
            boot_proof: boot_proof(connection.channel.exporter()),
            one_address: connection.local.map(|local| local.ip()) == Some(address.ip()),
        };
        let epoch = Instant::now();
        let mut line = Line {
            hooks: LineHooks {
                target: target.clone(),
                address,
                bounds: bounds.clone(),
                flow: None,
                unreached: None,
                answer: None,
            },
            drive: Drive::new(
                connection.channel,
                Session::new(
                    setup,
                    Part::Initiator(Box::new(Initiative::probing(bounds))),
                ),
                epoch,
            ),
            target: target.clone(),
            address,
        };
        line.drive.feed(&mut line.hooks, Input::Start);
        while line.drive.session().state() != State::Asking {
            line.turn()?;
        }
        let responder = responder_party(target, address, line.drive.session());
        Ok(Opened {
            flow: line.hooks.flow.take(),
            initiator,
            responder,
            local: connection.local.map(|local| local.ip().to_canonical()),
            epoch,
            line,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn idle_rtt(&self) -> Option<Duration> {
        self.drive.session().clock().map(|clock| clock.rtt)
    }

    pub fn same_host(&self) -> bool {
        self.drive.session().same_host()
    }

    /// Returns an error if the server is too old to copy files.
    pub fn speaks_of_files(&self) -> Result<(), ProbeError> {
        let session = self.drive.session();
        if session.knows_files() {
            return Ok(());
        }
        Err(ProbeError::Version {
            address: self.address,
            ours: Versions {
                least: Versions::FILES,
                most: Versions::OURS.most,
            },
            theirs: session.peer_versions(),
        })
    }

    pub fn bounds(&self) -> Option<&Bounds> {
        self.drive.session().bounds()
    }

    /// Sends a request and waits for the answer; the session's deadlines limit the wait.
    pub fn ask(&mut self, ask: Ask) -> Result<Answer, ProbeError> {
        match self.answer(ask)? {
            Answer::Failed(why) => Err(self.failed(&why)),
            answer => Ok(answer),
        }
    }

    /// Like `ask`, but returns a failure as an ordinary answer.
    pub fn answer(&mut self, ask: Ask) -> Result<Answer, ProbeError> {
        // First process pending input: heartbeats, or the end.
        self.look_after()?;
        self.drive.feed(&mut self.hooks, Input::Ask(Box::new(ask)));
        loop {
            if let Some(answer) = self.hooks.answer.take() {
                return Ok(answer);
            }
            self.turn()?;
        }
    }

    fn turn(&mut self) -> Result<(), ProbeError> {
        let until = self.drive.wake_at(&self.hooks);
        self.drive.turn(&mut self.hooks, until);
        self.still_open()
    }

    /// Processes received and due messages, without waiting.
    pub fn look_after(&mut self) -> Result<(), ProbeError> {
        self.drive.turn(&mut self.hooks, Instant::now());
        self.still_open()
    }

    fn still_open(&self) -> Result<(), ProbeError> {
        let Some(closed) = self.drive.closed().cloned() else {
            return Ok(());
        };
        if let (Closed::OwnFailure { step, .. }, Some(what)) = (&closed, &self.hooks.unreached) {
            return Err(ProbeError::PeerLost {
                address: self.address,
                step: *step,
                what: what.clone(),
            });
        }
        Err(error_of(&self.target, self.address, closed, 0))
    }

    /// Returns the error for an answer of the wrong type.
    pub fn unexpected(&self, answer: &Answer) -> ProbeError {
        self.failed(&format!("it answered `{}`", answer.name()))
    }

    fn failed(&self, why: &str) -> ProbeError {
        let visible = why.chars().map(|c| if c.is_control() { ' ' } else { c });
        ProbeError::PeerFailed {
            address: self.address,
            step: State::Working,
            what: visible.take(300).collect(),
        }
    }

    /// Closes the session.
    pub fn close(mut self) {
        self.drive.feed(&mut self.hooks, Input::Enough);
        self.drive.hang_up();
    }
}

/// Client-side actions of a probe session outside the protocol.
struct LineHooks {
    target: Target,
    address: SocketAddr,
    bounds: Bounds,
    flow: Option<(UdpSocket, u64)>,
    /// Reason why the flow did not reach the server, if the path is at fault.
    unreached: Option<String>,
    answer: Option<Answer>,
}

impl LineHooks {
    fn open(&mut self, accept: &Accept) -> Result<Input, EngineError> {
        if self.bounds.flows == 0 {
            return Ok(Input::StreamsOpen);
        }
        let preamble = Preamble {
            nonce: accept.nonce,
            index: 0,
            forward: true,
        };
        let plan = Plan {
            transport: Transport::Udp { rate_bps: 0 },
            dscp: self.bounds.dscp,
            ..Plan::default()
        };
        let opened = open_flow(&self.target, &plan, self.address, preamble);
        let socket = opened.inspect_err(|error| {
            if error.source.kind() == std::io::ErrorKind::TimedOut {
                self.unreached = Some(error.to_string());
            }
        })?;
        self.flow = Some((socket, session_number(accept.nonce)));
        Ok(Input::StreamsOpen)
    }
}

impl Hooks for LineHooks {
    fn act(&mut self, action: Action) -> Result<Option<Input>, EngineError> {
        match action {
            Action::OpenStreams(accept) => return self.open(&accept).map(Some),
            Action::Answer(answer) => self.answer = Some(*answer),
            _ => {}
        }
        Ok(None)
    }

    fn poll(&mut self, _session: &Session, _now: Duration) -> Option<Input> {
        None
    }
}
