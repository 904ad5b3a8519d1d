//! The data streams of one test, from their arrival to their engines.

use super::book::{Entry, Turn};
use crate::drive::{Collected, EngineSetup, Engines, Sockets};
use crate::engine::{self, DataSocket, EndRun, EngineError, Heads, Role as Flow};
use crate::iperf3::course::{Course, Reading};
use crate::iperf3::server::Fault;
use crate::iperf3::wire::{Test, Transport, Trouble};
use crate::serve::datagram::open_flow;
use crate::serve::hooks::prepare_flow;
use crate::session::{EngineStart, Role};
use longhaul_model::report::v1::plan::{Plan, Stop};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// After the client's last word, so long without a byte means that nothing is under way.
const QUIET: Duration = Duration::from_millis(30);

/// Longer than any test: the client says when it is over.
const ENDLESS: Stop = Stop::Bytes(1 << 60);

/// Where the streams of a test come from.
pub(super) struct Awaited<'a> {
    pub entry: Entry<'a>,
    /// Of a UDP test.
    pub turn: Option<Turn<'a>>,
    pub local: SocketAddr,
    pub device: Option<&'a str>,
    arrived: Vec<(u64, DataSocket)>,
}

impl<'a> Awaited<'a> {
    pub fn new(
        entry: Entry<'a>,
        turn: Option<Turn<'a>>,
        local: SocketAddr,
        device: Option<&'a str>,
    ) -> Awaited<'a> {
        Awaited {
            entry,
            turn,
            local,
            device,
            arrived: Vec::new(),
        }
    }

    pub fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Takes what has arrived since; how many streams there are then.
    pub fn look(&mut self, plan: &Plan) -> Result<usize, Fault> {
        while let Ok((number, stream)) = self.entry.joined.try_recv() {
            // Until now it had the deadline of its cookie.
            let timed = stream.set_read_timeout(None);
            timed.map_err(|error| (Trouble::Stream, error.to_string()))?;
            self.arrived.push((number, DataSocket::Tcp(stream)));
        }
        while let Some(Ok((from, greeting))) = self.turn.as_ref().map(|turn| turn.flows.try_recv())
        {
            let failed = |error: std::io::Error| (Trouble::Stream, error.to_string());
            let socket = open_flow(self.local, self.device, from).map_err(failed)?;
            let socket = prepare_flow(socket, plan, from).map_err(failed)?;
            socket.send(&greeting.answer()).map_err(failed)?;
            let number = self.arrived.len() as u64;
            self.arrived.push((number, DataSocket::Udp(socket)));
        }
        Ok(self.arrived.len())
    }

    /// The sockets by direction, in the order in which the client opened them.
    fn sockets(&mut self, test: &Test, plan: &Plan) -> Result<Sockets, Fault> {
        self.arrived.sort_by_key(|(number, _)| *number);
        let mut sockets = Sockets::default();
        for (index, (_, socket)) in self.arrived.drain(..).enumerate() {
            let sends = test.server_sends(index);
            let role = if sends { Flow::Sender } else { Flow::Receiver };
            if let DataSocket::Tcp(stream) = &socket {
                engine::prepare_accepted(stream, plan, role).map_err(|error| fault(&error))?;
            }
            if sends {
                sockets.reverse.push(socket);
            } else {
                sockets.forward.push(socket);
            }
        }
        Ok(sockets)
    }
}

/// Which of the client's wishes the kernel refused.
fn fault(error: &EngineError) -> Fault {
    let tried = error.tried.as_str();
    let trouble = [
        ("congestion", Trouble::Congestion),
        ("MSS", Trouble::Mss),
        ("pace", Trouble::Pacing),
        ("buffer", Trouble::Window),
        ("window", Trouble::Window),
        ("DSCP", Trouble::Tos),
    ];
    let found = trouble.iter().find(|(word, _)| tried.contains(word));
    (
        found.map_or(Trouble::Stream, |(_, trouble)| *trouble),
        error.to_string(),
    )
}

/// The streams while payload flows.
pub(super) struct Flowing<'a> {
    /// While it stands, its cookie begins no other test.
    _entry: Entry<'a>,
    engines: Engines,
    began: Instant,
    pub course: Course,
    /// The client said at this time that it is over.
    stopped: Option<Instant>,
    changed: (u64, Instant),
    patience: Duration,
}

impl<'a> Flowing<'a> {
    /// Starts the engines; payload flows from now on.
    pub fn start(
        mut awaited: Awaited<'a>,
        (test, plan): (&Test, &Plan),
        epoch: Instant,
        idle_rtt: Duration,
    ) -> Result<Flowing<'a>, Fault> {
        let sockets = awaited.sockets(test, plan)?;
        let heads = match test.transport {
            Transport::Tcp => Heads::Longhaul,
            Transport::Udp => Heads::Iperf3(test.counters),
        };
        let setup = EngineSetup {
            role: Role::Responder,
            plan: Plan {
                stop: ENDLESS,
                ..plan.clone()
            },
            epoch,
        };
        let start = EngineStart {
            origin: epoch.elapsed(),
            idle_rtt,
            same_host: false,
        };
        let engines = Engines::start_with(heads, &setup, start, sockets);
        let engines = engines.map_err(|error| fault(&error))?;
        engines.go();
        let now = Instant::now();
        Ok(Flowing {
            _entry: awaited.entry,
            engines,
            began: now,
            course: Course::new(Duration::from_secs(u64::from(test.omit_seconds))),
            stopped: None,
            changed: (0, now),
            patience: QUIET.max(idle_rtt * 2),
        })
    }

    /// Looks at the counters; bytes moved so far.
    pub fn look(&mut self) -> u64 {
        let reading = self.reading();
        let bytes = reading.total_bytes();
        if bytes != self.changed.0 {
            self.changed = (bytes, Instant::now());
        }
        if self.stopped.is_none() {
            self.course.note(&reading);
        }
        bytes
    }

    fn reading(&self) -> Reading {
        // Also half-closes the streams of a sender that has stopped.
        self.engines.progress();
        let at = self.began.elapsed();
        Reading::take(at, self.engines.receiver(), self.engines.sender())
    }

    /// The client says that it is over: this end sends no more, but what is under way may come.
    pub fn stop(&mut self) {
        self.stopped = Some(Instant::now());
        if let Some(sender) = self.engines.sender() {
            sender.stop();
        }
    }

    /// Nothing comes any more.
    pub fn is_quiet(&self) -> bool {
        let over = self.engines.receiver().is_none_or(EndRun::finished);
        let since = self
            .stopped
            .map_or(self.changed.1, |at| at.max(self.changed.1));
        let sent = self.engines.sender().is_none_or(EndRun::finished);
        sent && (over || since.elapsed() >= self.patience)
    }

    /// Takes the last readings.
    pub fn collect(mut self) -> (Collected, Course) {
        let mut last = self.reading();
        // What came after the client's last word counts, and so does its time; waiting does not.
        let end = self.stopped.unwrap_or(self.changed.1).max(self.changed.1);
        last.at = end.saturating_duration_since(self.began);
        self.course.finish(last);
        (self.engines.collect(), self.course)
    }
}
