//! The server's tasks outside the protocol: capacity, data streams from the listener, engines,
//! results.

use super::datagram::{acknowledge, acknowledge_again, open_flow};
use super::event::ServeEvent;
use super::files::Files;
use super::journal::Journal;
use super::pending::PendingPlace;
use super::probes::Probes;
use super::registry::{Claim, Expected, Registered};
use super::slots::Slot;
use super::{Port, Service};
use crate::capture::beside::{Beside, attach};
use crate::capture::refused;
use crate::drive::{
    Collected, EngineSetup, Engines, Hooks, Sockets, capture_messages, result_messages,
};
use crate::engine::{self, DataSocket, EngineError, Role as Flow};
use crate::limits::{ANONYMOUS_CAPTURE_BYTES, MOST_CAPTURE_BYTES};
use crate::probing::Surveyor;
use crate::secure::random;
use crate::session::{Action, Aim, Input, Role, Session, State, Wanted, sends};
use crate::told::one_line;
use crate::wire::{Accept, AnonymousLimits, Ask, Bounds, Interval, Message, Nonce, Preamble};
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::{Direction, Plan, Transport};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The maximum length of a peer's name in the log.
const MOST_NAME: usize = 64;

pub(super) struct ResponderHooks<'a> {
    service: &'a Service<'a>,
    port: &'a Port,
    local: SocketAddr,
    peer: SocketAddr,
    epoch: Instant,
    /// Kept until the plan is accepted; until then the peer has proved nothing.
    pending: Option<PendingPlace<'a>>,
    run: Option<Run<'a>>,
    /// Set for a probe session, instead of `run`.
    probes: Option<Probes<'a>>,
    /// The file requests of a probe session.
    files: Option<Files<'a>>,
    control: Option<TcpStream>,
    moved: Interval,
    /// The log lines of this session.
    journal: Journal,
}

/// The state of an accepted plan.
struct Run<'a> {
    plan: Plan,
    registered: Registered<'a>,
    /// Keyed by direction (reverse first) and index.
    open: BTreeMap<(bool, u16), (Preamble, DataSocket)>,
    engines: Option<Engines>,
    capture: Beside,
    most_capture_bytes: u64,
    _slot: Slot<'a>,
}

impl Run<'_> {
    fn wanted(&self) -> usize {
        let directions = if self.plan.direction == Direction::Both {
            2
        } else {
            1
        };
        directions * self.plan.streams as usize
    }

    fn flows(&self) -> impl Iterator<Item = (&UdpSocket, &Preamble)> {
        self.open
            .values()
            .filter_map(|(preamble, socket)| match socket {
                DataSocket::Udp(socket) => Some((socket, preamble)),
                DataSocket::Tcp(_) => None,
            })
    }
}

impl<'a> ResponderHooks<'a> {
    pub fn new(
        (service, port): (&'a Service<'a>, &'a Port),
        (local, peer): (SocketAddr, SocketAddr),
        epoch: Instant,
        place: PendingPlace<'a>,
        control: TcpStream,
    ) -> Self {
        ResponderHooks {
            service,
            port,
            local,
            peer,
            epoch,
            pending: Some(place),
            run: None,
            probes: None,
            files: None,
            control: Some(control),
            moved: Interval::default(),
            journal: Journal::new(epoch),
        }
    }

    /// Returns the payload counted by this end's engines in both directions.
    pub fn moved_bytes(&self) -> u64 {
        let run = self.moved.sent_bytes.unwrap_or(0) + self.moved.received_bytes.unwrap_or(0);
        let files = self.files.as_ref().map_or(0, Files::moved_bytes);
        run + files + self.probes.as_ref().map_or(0, Probes::moved_bytes)
    }

    /// Logs an event, and adds it to the log lines for the peer.
    fn log(&mut self, event: ServeEvent) {
        self.journal.note(&event);
        (self.service.log)(event);
    }

    fn admit(&mut self, wanted: Wanted) -> Input {
        let plan = match wanted.aim {
            Aim::Run(plan) => *plan,
            Aim::Probe(bounds) => {
                return self.admit_probes(bounds, &wanted.party, wanted.anonymous);
            }
        };
        let strangers = wanted.anonymous.map(|limits| limits.concurrent);
        let slot = match self.service.slots.take(strangers) {
            Ok(slot) => slot,
            Err(why) => return Input::NotAdmitted(why),
        };
        let Some(nonce) = random().map(Nonce) else {
            return Input::Failed("the kernel gives no random bytes".to_owned());
        };
        let expected = Expected {
            peer: self.peer.ip(),
            streams: plan.streams,
            forward: sends(Role::Initiator, &plan),
            reverse: sends(Role::Responder, &plan),
            udp: plan.transport != Transport::Tcp,
        };
        self.log(ServeEvent::SessionOpened {
            peer: self.peer,
            host: one_line(&wanted.party.host, MOST_NAME),
            anonymous: wanted.anonymous.is_some(),
            what: in_words(&plan),
        });
        let most_capture_bytes = match wanted.anonymous {
            Some(_) => ANONYMOUS_CAPTURE_BYTES,
            None => MOST_CAPTURE_BYTES,
        };
        self.run = Some(Run {
            capture: self.begin_capture(&plan, most_capture_bytes),
            most_capture_bytes,
            plan,
            registered: self.service.registry.register(nonce, expected),
            open: BTreeMap::new(),
            engines: None,
            _slot: slot,
        });
        self.pending = None;
        Input::Admitted(Accept { nonce })
    }

    /// Starts the capture, before the peer learns where to open its streams.
    fn begin_capture(&self, plan: &Plan, most_bytes: u64) -> Beside {
        let Some(capture) = plan.capture.filter(|capture| capture.far) else {
            return Beside::Nothing;
        };
        if !self.service.options.captures {
            return Beside::Without(refused("`longhaul serve` there was told to make none"));
        }
        let listener = SocketAddr::new(self.local.ip(), self.port.address.port());
        // Packets need less space in the file than in memory.
        Beside::begin((plan, capture), self.peer, listener, 2 * most_bytes)
    }

    fn collect(&mut self) -> Vec<Message> {
        let bytes = self.moved_bytes();
        let Some(run) = &mut self.run else {
            return result_messages(Collected::default());
        };
        let streams = run.plan.streams;
        let engines = run.engines.take();
        let mut collected = engines.map(Engines::collect).unwrap_or_default();
        let capture = std::mem::take(&mut run.capture);
        let (captured, caveats) = capture.end(Role::Responder, &collected);
        let mut messages = Vec::new();
        let (mut about, mut capture_bytes) = (None, None);
        if let Some(mut captured) = captured {
            let file = captured.file(Vec::new(), run.most_capture_bytes);
            capture_bytes = Some(file.len() as u64);
            messages.extend(capture_messages(&file));
            about = Some(captured.about().clone());
        }
        attach(&mut collected, Role::Responder, about, caveats);
        self.log(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes,
            streams,
            capture_bytes,
        });
        let told = self.journal.told(self.service.options.command.as_deref());
        if let Some(end) = collected.receiver.as_mut().or(collected.sender.as_mut()) {
            end.end.program = Some(told);
        }
        messages.extend(result_messages(collected));
        messages
    }

    fn admit_probes(
        &mut self,
        bounds: Bounds,
        party: &Party,
        anonymous: Option<AnonymousLimits>,
    ) -> Input {
        let strangers = anonymous.map(|limits| limits.concurrent);
        let slot = match self.service.probe_slots.take(strangers) {
            Ok(slot) => slot,
            Err(why) => return Input::NotAdmitted(why),
        };
        let Some(nonce) = random().map(Nonce) else {
            return Input::Failed("the kernel gives no random bytes".to_owned());
        };
        let expected = Expected {
            peer: self.peer.ip(),
            streams: bounds.flows,
            forward: true,
            reverse: false,
            udp: true,
        };
        (self.service.log)(ServeEvent::SessionOpened {
            peer: self.peer,
            host: one_line(&party.host, MOST_NAME),
            anonymous: anonymous.is_some(),
            what: "probes or files".to_owned(),
        });
        let registered = self.service.registry.register(nonce, expected);
        let surveyor = Surveyor {
            local: self.local.ip().to_canonical(),
            peer: self.peer.ip().to_canonical(),
            device: self.service.options.device.clone(),
            control: self.control.take(),
        };
        self.probes = Some(Probes::new(
            (bounds, registered, slot),
            surveyor,
            self.epoch,
        ));
        self.files = Files::new(self.service, self.peer, anonymous);
        self.pending = None;
        Input::Admitted(Accept { nonce })
    }

    fn ask(&mut self, ask: Ask) -> Option<Input> {
        match (ask, &mut self.files, &self.probes) {
            (Ask::Files(ask), Some(files), _) => files.ask(*ask),
            (ask, _, Some(probes)) => probes.ask(ask),
            (ask, ..) => Some(Input::Failed(format!("{ask:?} cannot be done"))),
        }
    }

    /// Takes the streams that the listener has delivered.
    fn take_claims(&mut self) -> Option<Input> {
        let device = self.service.options.device.as_deref();
        let local = SocketAddr::new(self.local.ip(), self.port.address.port());
        let run = self.run.as_mut()?;
        while let Ok(claim) = run.registered.claims.try_recv() {
            let taken = match claim {
                Claim::Connection(preamble, stream) => {
                    engine::prepare_accepted(&stream, &run.plan, flow(&preamble))
                        .and_then(|()| engine::bound_window(&stream, &run.plan))
                        .map(|()| (preamble, DataSocket::Tcp(stream)))
                }
                Claim::Datagram(preamble, from) => open_flow(local, device, from)
                    .map_err(|source| failed("open a UDP flow", source))
                    .and_then(|socket| {
                        engine::prepare_datagrams(&socket, &run.plan, from)?;
                        Ok((preamble, DataSocket::Udp(socket)))
                    }),
            };
            let (preamble, socket) = match taken {
                Ok(taken) => taken,
                Err(error) => return Some(Input::Failed(error.to_string())),
            };
            if let DataSocket::Udp(socket) = &socket {
                acknowledge(socket, &preamble);
            }
            run.open
                .insert((preamble.forward, preamble.index), (preamble, socket));
        }
        (run.open.len() == run.wanted()).then_some(Input::StreamsOpen)
    }

    fn start(&mut self, start: crate::session::EngineStart) -> Result<Input, EngineError> {
        let Some(run) = &mut self.run else {
            return Ok(Input::Failed("no run to start".to_owned()));
        };
        let mut sockets = Sockets::default();
        for (preamble, socket) in std::mem::take(&mut run.open).into_values() {
            if preamble.forward {
                sockets.forward.push(socket);
            } else {
                sockets.reverse.push(socket);
            }
        }
        let setup = EngineSetup {
            role: Role::Responder,
            plan: run.plan.clone(),
            epoch: self.epoch,
        };
        run.engines = Some(Engines::start(&setup, start, sockets)?);
        Ok(Input::EngineReady)
    }
}

/// Returns this end's role on the stream.
fn flow(preamble: &Preamble) -> Flow {
    if preamble.forward {
        Flow::Receiver
    } else {
        Flow::Sender
    }
}

fn failed(tried: &str, source: io::Error) -> EngineError {
    EngineError {
        tried: tried.to_owned(),
        hint: None,
        source,
    }
}

pub(super) fn in_words(plan: &Plan) -> String {
    let direction = match plan.direction {
        Direction::Forward => "receiving",
        Direction::Reverse => "sending",
        Direction::Both => "sending and receiving",
    };
    let transport = match plan.transport {
        Transport::Tcp => "TCP",
        Transport::Udp { .. } => "UDP",
    };
    format!("{direction} {transport}, {} stream(s)", plan.streams)
}

impl Hooks for ResponderHooks<'_> {
    fn act(&mut self, action: Action) -> Result<Option<Input>, EngineError> {
        let engines = self.run.as_ref().and_then(|run| run.engines.as_ref());
        match action {
            Action::Admit(wanted) => return Ok(Some(self.admit(*wanted))),
            Action::Ask(ask) => return Ok(self.ask(*ask)),
            Action::StartEngine(start) => return self.start(start).map(Some),
            Action::Go => engines.into_iter().for_each(Engines::go),
            Action::StopEngine => engines.into_iter().for_each(Engines::stop),
            Action::Collect => {
                let messages = self.collect();
                return Ok(Some(Input::Results(messages)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn expects(&self) -> bool {
        self.files.as_ref().is_none_or(Files::expects)
    }

    fn poll(&mut self, session: &Session, _now: Duration) -> Option<Input> {
        if self.service.stopping() {
            return Some(Input::Failed("the far end is being stopped".to_owned()));
        }
        let files = self
            .files
            .as_mut()
            .filter(|_| session.state() == State::Working);
        if let Some(input) = files.and_then(Files::poll) {
            return Some(input);
        }
        if let Some(probes) = &mut self.probes {
            let local = SocketAddr::new(self.local.ip(), self.port.address.port());
            let device = self.service.options.device.as_deref();
            return probes.poll(session.state(), |peer| open_flow(local, device, peer));
        }
        match session.state() {
            State::Opening => {
                if let Some(input) = self.take_claims() {
                    return Some(input);
                }
                self.answer_again();
                None
            }
            State::Timing => {
                self.answer_again();
                None
            }
            State::Running | State::Draining => {
                let progress = self.run.as_ref()?.engines.as_ref()?.progress();
                self.moved = progress.interval;
                Some(Input::Progress(progress))
            }
            _ => None,
        }
    }
}

impl ResponderHooks<'_> {
    fn answer_again(&self) {
        for (socket, preamble) in self.run.iter().flat_map(Run::flows) {
            acknowledge_again(socket, preamble);
        }
    }
}
