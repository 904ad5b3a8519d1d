//! The server's tasks outside the protocol: capacity, data streams from the listener, engines,
//! results.

use super::serve_event::ServeEvent;
use super::stream_registry::{ExpectedStreams, SessionEntry, StreamClaim};
use super::{
    AdmissionPlace, RequestHandler, ServerContext, SessionPeer, SessionSlot, acknowledge_hello,
    answer_repeated_hellos, open_flow,
};
use crate::engine::{self, DataSocket, EngineError, TransferRole as Flow};
use crate::plan_limits::{ANONYMOUS_CAPTURE_BYTES, MAX_CAPTURE_BYTES, check_cores};
use crate::probing::{ProbeServer, ReverseSurveyor};
use crate::program_sanitizer::{MAX_LINES, sanitize_program};
use crate::run_capture::{CapturedRun, RunCapture, attach_capture};
use crate::session::{
    AdmissionRequest, Session, SessionAction, SessionInput, SessionPurpose, SessionRole,
    SessionState, sends_payload,
};
use crate::session_driver::{
    SessionEngines, SessionHooks, SessionResults, SessionSockets, split_capture, split_results,
};
use crate::wire::{
    AnonymousLimits, ControlMessage, IntervalCounters, MAX_RESULT_BYTES, ProbeBounds, SessionReply,
    SessionRequest, StreamPreamble, encode_frame,
};
use longhaul_capture::capture_refused_caveat;
use longhaul_model::report::v1::observation::ProgramInfo;
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};
use longhaul_model::sanitize::sanitize_line;
use longhaul_sys::packet_ring::interface_name;
use longhaul_sys::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// The maximum length of a peer's name in the log.
const MAX_NAME: usize = 64;

pub(super) struct ServerHooks<'a> {
    pub service: &'a ServerContext<'a>,
    /// The address that the client connected to.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub epoch: Instant,
    /// Kept until the plan is accepted; until then the peer has proved nothing.
    pub place: Option<AdmissionPlace<'a>>,
    pub run: Option<AdmittedRun<'a>>,
    /// The handlers of the requests of a probe session.
    pub handlers: Vec<Box<dyn RequestHandler + 'a>>,
    /// Set for a probe session, instead of `run`; its slot is released after the handlers.
    pub probes: Option<ServerProbeSession<'a>>,
    pub control: Option<Arc<TcpStream>>,
    pub moved: IntervalCounters,
    /// The log lines of this session.
    pub log_lines: Vec<String>,
}

/// The state of an accepted plan.
pub(super) struct AdmittedRun<'a> {
    plan: ThroughputPlan,
    registered: SessionEntry<'a>,
    /// Keyed by direction (reverse first) and index.
    open: BTreeMap<(bool, u16), (StreamPreamble, DataSocket)>,
    engines: Option<SessionEngines>,
    capture: RunCapture,
    _slot: SessionSlot<'a>,
}

impl AdmittedRun<'_> {
    fn expected_streams(&self) -> usize {
        let directions = if self.plan.direction == RunDirection::Both { 2 } else { 1 };
        directions * self.plan.streams as usize
    }

    fn answer_repeated_hellos(&self) {
        for (preamble, socket) in self.open.values() {
            if let DataSocket::Udp(socket) = socket {
                answer_repeated_hellos(socket, preamble);
            }
        }
    }
}

impl<'a> ServerHooks<'a> {
    /// Returns the payload counted by this end's engines in both directions.
    pub fn moved_bytes(&self) -> u64 {
        let run = self.moved.sent_bytes.unwrap_or(0) + self.moved.received_bytes.unwrap_or(0);
        let handled: u64 = self.handlers.iter().map(|it| it.moved_bytes()).sum();
        run + handled
    }

    /// Logs an event, and adds it to the log lines for the peer.
    fn log(&mut self, event: ServeEvent) {
        if self.log_lines.len() < MAX_LINES {
            let since = self.epoch.elapsed().as_secs_f64();
            self.log_lines.push(format!("+{since:.3} s {event}"));
        }
        self.service.log(event);
    }

    /// Returns the version, the command line and the log lines so far, which the client keeps.
    fn program_report(&self) -> ProgramInfo {
        sanitize_program(ProgramInfo {
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.service.options.command.clone(),
            log: self.log_lines.clone(),
        })
    }

    fn admit(&mut self, wanted: AdmissionRequest) -> SessionInput {
        let AdmissionRequest { purpose, party, anonymous } = wanted;
        if let SessionPurpose::Run(plan) = &purpose
            && let Err(error) = check_cores(&plan.affinity, false)
        {
            return SessionInput::NotAdmitted(error.to_string());
        }
        let (slots, expected, what) = match &purpose {
            SessionPurpose::Run(plan) => {
                let expected = ExpectedStreams {
                    peer: self.peer.ip(),
                    streams: plan.streams,
                    forward: sends_payload(SessionRole::Client, plan),
                    reverse: sends_payload(SessionRole::Server, plan),
                    udp: plan.transport != RunTransport::Tcp,
                };
                (&self.service.slots, expected, describe_plan(plan))
            }
            SessionPurpose::Probe(bounds) => {
                let expected = ExpectedStreams {
                    peer: self.peer.ip(),
                    streams: bounds.flows,
                    forward: true,
                    reverse: false,
                    udp: true,
                };
                (&self.service.probe_slots, expected, "probes or file copy".to_owned())
            }
        };
        let slot = match slots.take(self.peer.ip(), anonymous.map(|limits| limits.concurrent)) {
            Ok(slot) => slot,
            Err(why) => return SessionInput::NotAdmitted(why),
        };
        let registered = match self.service.expect_streams(expected) {
            Ok(registered) => registered,
            Err(why) => return SessionInput::Failed(why),
        };
        let nonce = registered.nonce;
        self.log(ServeEvent::SessionOpened {
            peer: self.peer,
            host: sanitize_line(&party.host, MAX_NAME),
            anonymous: anonymous.is_some(),
            what,
        });
        self.place = None;
        match purpose {
            SessionPurpose::Run(plan) => self.open_run(*plan, anonymous, slot, registered),
            SessionPurpose::Probe(bounds) => self.open_probes(bounds, anonymous, slot, registered),
        }
        SessionInput::Admitted(nonce)
    }

    fn open_run(
        &mut self,
        plan: ThroughputPlan,
        anonymous: Option<AnonymousLimits>,
        slot: SessionSlot<'a>,
        registered: SessionEntry<'a>,
    ) {
        let most_capture_bytes = match anonymous {
            Some(_) => ANONYMOUS_CAPTURE_BYTES,
            None => MAX_CAPTURE_BYTES,
        };
        self.run = Some(AdmittedRun {
            capture: self.start_capture(&plan, most_capture_bytes),
            plan,
            registered,
            open: BTreeMap::new(),
            engines: None,
            _slot: slot,
        });
    }

    /// Starts the capture, before the peer learns where to open its streams.
    fn start_capture(&self, plan: &ThroughputPlan, max_bytes: u64) -> RunCapture {
        let requested = plan.capture.filter(|capture| capture.far);
        if !self.service.options.captures {
            let refused =
                || capture_refused_caveat("`longhaul serve` on the server runs with --no-capture");
            return requested.map_or_else(RunCapture::default, |_| RunCapture::fail(refused()));
        }
        let (role, ends) = (SessionRole::Server, [self.peer, self.local]);
        let run = CapturedRun { plan, role, ends, max_bytes };
        RunCapture::begin(run, requested, self.service.options.header_analysis)
    }

    fn collect(&mut self) -> Vec<ControlMessage> {
        let bytes = self.moved_bytes();
        let Some(run) = &mut self.run else {
            return split_results(SessionResults::default());
        };
        let streams = run.plan.streams;
        let engines = run.engines.take();
        let mut collected = engines.map(SessionEngines::collect).unwrap_or_default();
        let capture = std::mem::take(&mut run.capture);
        let (captured, caveats) = capture.end(SessionRole::Server, &mut collected);
        let mut messages = Vec::new();
        let (mut about, mut capture_bytes) = (None, None);
        if let Some(mut captured) = captured {
            let file = captured.write_file(&[]);
            capture_bytes = Some(file.len() as u64);
            messages.extend(split_capture(&file));
            about = Some(captured.capture_report().clone());
        }
        attach_capture(&mut collected, SessionRole::Server, about, caveats);
        self.log(ServeEvent::ResultsReady { peer: self.peer, bytes, streams, capture_bytes });
        let told = self.program_report();
        if let Some(end) = collected.receiver.as_mut().or(collected.sender.as_mut()) {
            end.end.program = Some(told);
        }
        messages.extend(split_results(collected));
        messages
    }

    fn open_probes(
        &mut self,
        bounds: ProbeBounds,
        anonymous: Option<AnonymousLimits>,
        slot: SessionSlot<'a>,
        registered: SessionEntry<'a>,
    ) {
        // Probes have no scope, so those to a link-local address need its interface.
        let scope = || match self.peer {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => interface_name(v6.scope_id()),
            _ => None,
        };
        let surveyor = ReverseSurveyor {
            local: self.local.ip().to_canonical(),
            peer: self.peer.ip().to_canonical(),
            device: self.service.options.device.clone().or_else(scope),
            control: self.control.take(),
        };
        self.probes = Some(ServerProbeSession {
            bounds,
            registered,
            surveyor: Some(surveyor),
            epoch: self.epoch,
            _slot: slot,
        });
        let peer = SessionPeer { address: self.peer, anonymous };
        let handlers = self.service.options.handlers.iter();
        self.handlers =
            handlers.filter_map(|handler| handler.open_session(self.service, peer)).collect();
    }

    fn start_request(&mut self, ask: SessionRequest) -> Option<SessionInput> {
        match self.handlers.iter_mut().find(|it| it.accepts_request(&ask)) {
            Some(handler) => handler.start_request(ask),
            None => Some(SessionInput::Failed(format!("cannot execute {ask:?}"))),
        }
    }

    /// Opens the flow of a probe session once the listener has delivered it.
    fn open_probe_flow(&mut self) -> Option<SessionInput> {
        let device = self.service.options.device.as_deref();
        let opened = self.probes.as_mut()?.open_flow(|peer| open_flow(self.local, device, peer))?;
        Some(match opened {
            Ok(prober) => {
                self.handlers.push(Box::new(prober));
                SessionInput::StreamsOpen
            }
            Err(error) => SessionInput::Failed(format!("cannot open the probe flow: {error}")),
        })
    }

    /// Takes the streams that the listener has delivered.
    fn take_claims(&mut self) -> Option<SessionInput> {
        let device = self.service.options.device.as_deref();
        let run = self.run.as_mut()?;
        while let Ok(claim) = run.registered.claims.try_recv() {
            let taken = match claim {
                StreamClaim::Connection(preamble, stream) => {
                    engine::prepare_accepted(&stream, &run.plan, stream_role(&preamble))
                        .and_then(|()| engine::limit_window(&stream, &run.plan))
                        .map(|()| (preamble, DataSocket::Tcp(stream)))
                }
                StreamClaim::Datagram(preamble, from) => open_flow(self.local, device, from)
                    .map_err(|source| EngineError::new("open a UDP flow", source))
                    .and_then(|socket| {
                        engine::prepare_udp_socket(&socket, &run.plan, from)?;
                        Ok((preamble, DataSocket::Udp(socket)))
                    }),
            };
            let (preamble, socket) = match taken {
                Ok(taken) => taken,
                Err(error) => return Some(SessionInput::Failed(error.to_string())),
            };
            if let DataSocket::Udp(socket) = &socket {
                acknowledge_hello(socket, &preamble);
            }
            run.open.insert((preamble.forward, preamble.index), (preamble, socket));
        }
        (run.open.len() == run.expected_streams()).then_some(SessionInput::StreamsOpen)
    }

    fn start(&mut self, start: crate::session::EngineStart) -> Result<SessionInput, EngineError> {
        let Some(run) = &mut self.run else {
            return Ok(SessionInput::Failed("no run to start".to_owned()));
        };
        let open = std::mem::take(&mut run.open).into_values();
        let sockets = SessionSockets::by_direction(open);
        let spec = start.end_spec(&run.plan, false, self.epoch);
        run.engines = Some(SessionEngines::start(&spec, sockets)?);
        Ok(SessionInput::EngineReady)
    }
}

/// Returns this end's role on the stream.
fn stream_role(preamble: &StreamPreamble) -> Flow {
    if preamble.forward { Flow::Receiver } else { Flow::Sender }
}

/// Describes direction, transport and streams, as seen from this end.
pub fn describe_plan(plan: &ThroughputPlan) -> String {
    let direction = match plan.direction {
        RunDirection::Forward => "receiving",
        RunDirection::Reverse => "sending",
        RunDirection::Both => "sending and receiving",
    };
    let transport = match plan.transport {
        RunTransport::Tcp => "TCP",
        RunTransport::Udp { .. } => "UDP",
    };
    format!("{direction} {transport}, {} stream(s)", plan.streams)
}

impl SessionHooks for ServerHooks<'_> {
    fn act(&mut self, action: SessionAction) -> Result<Option<SessionInput>, EngineError> {
        let engines = self.run.as_ref().and_then(|run| run.engines.as_ref());
        match action {
            SessionAction::Admit(wanted) => return Ok(Some(self.admit(*wanted))),
            SessionAction::Ask(ask) => return Ok(self.start_request(*ask)),
            SessionAction::StartEngine(start) => return self.start(start).map(Some),
            SessionAction::Go => engines.into_iter().for_each(SessionEngines::go),
            SessionAction::StopEngine => engines.into_iter().for_each(SessionEngines::stop),
            SessionAction::StopSending => {
                engines.into_iter().for_each(SessionEngines::stop_sending);
            }
            SessionAction::Collect => {
                let messages = self.collect();
                return Ok(Some(SessionInput::Results(messages)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn expects_events(&self) -> bool {
        self.probes.is_none() || self.handlers.iter().any(|handler| handler.is_pending())
    }

    fn poll(&mut self, session: &Session, _now: Duration) -> Option<SessionInput> {
        if self.service.is_stopping() {
            return Some(SessionInput::Failed("the server is shutting down".to_owned()));
        }
        match session.state() {
            SessionState::Working => self.handlers.iter_mut().find_map(|handler| handler.poll()),
            SessionState::Opening if self.probes.is_some() => self.open_probe_flow(),
            state @ (SessionState::Opening | SessionState::Timing) => {
                let opened = (state == SessionState::Opening).then(|| self.take_claims()).flatten();
                if opened.is_none() {
                    self.run.iter().for_each(AdmittedRun::answer_repeated_hellos);
                }
                opened
            }
            SessionState::Running | SessionState::Draining => {
                let run = self.run.as_mut()?;
                let engines = run.engines.as_ref()?;
                run.capture.follow_sender(engines);
                let progress = engines.progress();
                self.moved = progress.interval;
                Some(SessionInput::Progress(progress))
            }
            _ => None,
        }
    }
}

pub(super) struct ServerProbeSession<'a> {
    pub bounds: ProbeBounds,
    pub registered: SessionEntry<'a>,
    /// Taken when the flow opens.
    pub surveyor: Option<ReverseSurveyor>,
    /// Zero of the server's times.
    pub epoch: Instant,
    pub _slot: SessionSlot<'a>,
}

impl ServerProbeSession<'_> {
    /// Starts the thread that handles the requests once the listener has received the flow.
    pub fn open_flow(
        &mut self,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<io::Result<ProbeServer>> {
        Some(if self.bounds.flows == 0 {
            self.start(None)
        } else {
            match self.registered.claims.try_recv().ok()? {
                StreamClaim::Datagram(preamble, from) => open(from).and_then(|socket| {
                    if let Some(dscp) = self.bounds.dscp {
                        sockopt::set_dscp(&socket, dscp, from)?;
                    }
                    super::acknowledge_hello(&socket, &preamble);
                    self.start(Some((socket, preamble)))
                }),
                StreamClaim::Connection(..) => {
                    Err(io::Error::other("received a TCP stream instead of a datagram"))
                }
            }
        })
    }

    fn start(&mut self, flow: Option<(UdpSocket, StreamPreamble)>) -> io::Result<ProbeServer> {
        let surveyor =
            self.surveyor.take().ok_or_else(|| io::Error::other("it is already open"))?;
        ProbeServer::start(flow, self.epoch, self.bounds.most_bytes, surveyor)
    }
}

impl RequestHandler for ProbeServer {
    /// Accepts what no other handler has accepted.
    fn accepts_request(&self, _request: &SessionRequest) -> bool {
        true
    }

    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput> {
        let failed = "the probe thread accepts no request".to_owned();
        (!self.try_request(request)).then_some(SessionInput::Failed(failed))
    }

    fn poll(&mut self) -> Option<SessionInput> {
        match self.poll_answer() {
            Ok(answer) => Some(SessionInput::Answer(Box::new(limit_answer(answer)))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(SessionInput::Failed("the probe thread ended".to_owned()))
            }
        }
    }

    /// Its answers need not be fetched at once: polling often would disturb the probes.
    fn is_pending(&self) -> bool {
        false
    }

    fn moved_bytes(&self) -> u64 {
        self.sent_bytes()
    }
}

/// Replaces an answer that is too large for a frame: routes and echo series have no fixed size.
fn limit_answer(answer: SessionReply) -> SessionReply {
    // The message consists of its name and the answer.
    match encode_frame(&answer, MAX_RESULT_BYTES - r#"{"answer":}"#.len()) {
        Ok(_) => answer,
        Err(_) => SessionReply::Failed("the answer is too large for a frame".to_owned()),
    }
}
