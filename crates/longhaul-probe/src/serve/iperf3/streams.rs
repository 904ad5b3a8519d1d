//! The data streams of one test, from their arrival to their engines.

use super::Following;
use super::book::{Entry, Turn};
use super::follow::{Interval, OpenStream, Started, TcpState};
use super::intervals::{Intervals, Kernel, Look};
use crate::drive::{Collected, EngineSetup, Engines, Sockets};
use crate::engine::{self, DataSocket, EndRun, Ending, EngineError, Heads, Role as Flow};
use crate::iperf3::course::{Course, Reading};
use crate::iperf3::server::Fault;
use crate::iperf3::wire::{Test, Transport, Trouble};
use crate::serve::datagram::open_flow;
use crate::session::{EngineStart, Role};
use longhaul_model::report::v1::plan::{Plan, Stop};
use longhaul_sys::{sockopt, tcp_info};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The time without a byte after the client's end of test, after which no data is in flight.
const QUIET: Duration = Duration::from_millis(30);

/// Longer than any test: the client announces the end.
const ENDLESS: Stop = Stop::Bytes(1 << 60);

/// The sources of a test's streams.
pub(super) struct Awaited<'a> {
    pub entry: Entry<'a>,
    /// Set for a UDP test.
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

    /// Takes newly arrived streams; returns the number of streams.
    pub fn look(&mut self, plan: &Plan) -> Result<usize, Fault> {
        while let Ok((number, stream)) = self.entry.joined.try_recv() {
            // It still has the timeout for reading its cookie.
            let timed = stream.set_read_timeout(None);
            timed.map_err(|error| (Trouble::Stream, error.to_string()))?;
            self.arrived.push((number, DataSocket::Tcp(stream)));
        }
        while let Some(Ok((from, greeting))) = self.turn.as_ref().map(|turn| turn.flows.try_recv())
        {
            let failed = |error: std::io::Error| (Trouble::Stream, error.to_string());
            let socket = open_flow(self.local, self.device, from).map_err(failed)?;
            engine::prepare_datagrams(&socket, plan, from)
                .map_err(|error| (Trouble::Stream, error.to_string()))?;
            socket.send(&greeting.answer()).map_err(failed)?;
            let number = self.arrived.len() as u64;
            self.arrived.push((number, DataSocket::Udp(socket)));
        }
        Ok(self.arrived.len())
    }

    /// Describes the streams for an observer, and returns sources for more data.
    fn open(&mut self, test: &Test) -> (Started, Vec<Tap>) {
        self.arrived.sort_by_key(|(number, _)| *number);
        let mut started = Started::default();
        let mut taps = Vec::new();
        for (index, (_, socket)) in self.arrived.iter().enumerate() {
            let sends = test.server_sends(index);
            let (local, peer, tap) = match socket {
                DataSocket::Tcp(tcp) => (tcp.local_addr(), tcp.peer_addr(), tcp.try_clone().ok()),
                DataSocket::Udp(udp) => (udp.local_addr(), udp.peer_addr(), None),
            };
            // A stream without a client has no addresses; the control connection reports that.
            if let (Ok(local), Ok(peer)) = (local, peer) {
                started.streams.push(OpenStream { sends, local, peer });
            }
            taps.push(Tap(tap.filter(|_| sends)));
        }
        let stored = |of: fn(&DataSocket) -> Option<usize>| {
            let first = self.arrived.first().map(|(_, socket)| socket);
            first.and_then(of).map(|bytes| bytes as u64)
        };
        started.send_buffer_bytes = stored(|socket| match socket {
            DataSocket::Tcp(tcp) => sockopt::stored_send_buffer(tcp).ok(),
            DataSocket::Udp(udp) => sockopt::stored_send_buffer(udp).ok(),
        });
        started.receive_buffer_bytes = stored(|socket| match socket {
            DataSocket::Tcp(tcp) => sockopt::stored_receive_buffer(tcp).ok(),
            DataSocket::Udp(udp) => sockopt::stored_receive_buffer(udp).ok(),
        });
        (started, taps)
    }

    /// Returns the sockets by direction, in the order in which the client opened them.
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

/// Maps an engine error to the parameter that the kernel refused.
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

/// Access to the kernel's data of a TCP stream on which this end sends, besides its engine.
pub(crate) struct Tap(pub Option<TcpStream>);

impl Tap {
    pub fn read(&self) -> Kernel {
        let info = tcp_info::read(self.0.as_ref()?).ok()?;
        let mss = u64::from(info.send_mss_bytes);
        let state = TcpState {
            cwnd_bytes: u64::from(info.cwnd_segments) * mss,
            peer_window_bytes: info.peer_window_bytes.map(u64::from),
            rtt: info.rtt,
            rttvar: info.rttvar,
            path_mtu_bytes: u64::from(info.path_mtu_bytes),
        };
        Some((u64::from(info.retransmitted_segments), state))
    }
}

/// The data of a test for its observer.
struct Followed {
    intervals: Intervals,
    taps: Vec<Tap>,
    /// An interval that has ended.
    over: Option<Interval>,
}

/// A test that has ended.
pub(super) struct Ended {
    pub collected: Collected,
    pub course: Course,
    /// The last, incomplete interval.
    pub rest: Option<Interval>,
}

/// The streams while payload flows.
pub(super) struct Flowing<'a> {
    /// While this exists, the cookie cannot begin another test.
    _entry: Entry<'a>,
    engines: Engines,
    began: Instant,
    pub course: Course,
    followed: Option<Followed>,
    /// The time at which the client ended the test.
    stopped: Option<Instant>,
    changed: (u64, Instant),
    patience: Duration,
}

impl<'a> Flowing<'a> {
    /// Starts the engines and the flow of payload. `following`: there is an observer.
    pub fn start(
        mut awaited: Awaited<'a>,
        (test, plan): (&Test, &Plan),
        (epoch, idle_rtt): (Instant, Duration),
        following: Option<&Following>,
    ) -> Result<(Flowing<'a>, Started), Fault> {
        let (open, taps) = awaited.open(test);
        let sockets = awaited.sockets(test, plan)?;
        let heads = Heads::Iperf3(test.counters);
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
        let engines = Engines::start_with((heads, Ending::HalfClosed), &setup, start, sockets);
        let engines = engines.map_err(|error| fault(&error))?;
        engines.go();
        let now = Instant::now();
        let omit = Duration::from_secs(u64::from(test.omit_seconds));
        let followed = following.map(|it| Followed {
            intervals: Intervals::new(
                it.every,
                omit,
                sends(test),
                test.transport == Transport::Udp,
            ),
            taps,
            over: None,
        });
        let flowing = Flowing {
            _entry: awaited.entry,
            engines,
            began: now,
            course: Course::new(omit),
            followed,
            stopped: None,
            changed: (0, now),
            patience: QUIET.max(idle_rtt * 2),
        };
        Ok((flowing, open))
    }

    /// Reads the counters; returns the bytes so far.
    pub fn look(&mut self) -> u64 {
        let reading = self.reading();
        let bytes = self.notice(&reading);
        if self.stopped.is_none() {
            self.course.note(&reading);
            if let Some(followed) = &mut self.followed {
                followed.note(reading);
            }
        }
        bytes
    }

    /// Returns the bytes so far, and records the time if they have changed.
    fn notice(&mut self, reading: &Reading) -> u64 {
        let bytes = reading.total_bytes();
        if bytes != self.changed.0 {
            self.changed = (bytes, Instant::now());
        }
        bytes
    }

    /// Returns the time until the next reading is due.
    pub fn due_in(&self) -> Option<Duration> {
        if self.stopped.is_some() {
            return None;
        }
        let followed = self.followed.as_ref();
        let told = followed.and_then(|followed| followed.intervals.due());
        let due = self.course.due();
        let first = told.map_or(due, |told| told.min(due));
        Some(first.saturating_sub(self.began.elapsed()))
    }

    /// Takes an interval that has ended.
    pub fn interval(&mut self) -> Option<Interval> {
        self.followed.as_mut()?.over.take()
    }

    fn reading(&self) -> Reading {
        // Half-closes the streams of a sender that has ended by itself.
        self.engines.sent();
        let at = self.began.elapsed();
        Reading::take(at, self.engines.receiver(), self.engines.sender())
    }

    /// Stops sending after the client ended the test; data in flight may still arrive.
    pub fn stop(&mut self) {
        self.stopped = Some(Instant::now());
        if let Some(sender) = self.engines.sender() {
            sender.stop();
        }
    }

    /// Returns whether no more data arrives.
    pub fn is_quiet(&self) -> bool {
        let over = self.engines.receiver().is_none_or(EndRun::finished);
        let since = self
            .stopped
            .map_or(self.changed.1, |at| at.max(self.changed.1));
        self.engines.sent() && (over || since.elapsed() >= self.patience)
    }

    /// Takes the last readings.
    pub fn collect(mut self) -> Ended {
        let mut last = self.reading();
        self.notice(&last);
        // Data after the client's end of test counts, and so does its time; waiting does not.
        let end = self.stopped.unwrap_or(self.changed.1).max(self.changed.1);
        last.at = end.saturating_duration_since(self.began);
        let rest = self.followed.take();
        let rest = rest.and_then(|mut followed| {
            let look = followed.look(last.clone());
            followed.intervals.finish(look)
        });
        self.course.finish(last);
        Ended {
            collected: self.engines.collect(),
            course: self.course,
            rest,
        }
    }
}

impl Followed {
    fn look(&self, reading: Reading) -> Look {
        Look {
            reading,
            kernel: self.taps.iter().map(Tap::read).collect(),
        }
    }

    fn note(&mut self, reading: Reading) {
        if self.intervals.due().is_some_and(|due| reading.at >= due) {
            let look = self.look(reading);
            self.over = self.intervals.note(look);
        }
    }
}

/// Returns for each stream, in order of opening, whether this end sends.
fn sends(test: &Test) -> Vec<bool> {
    (0..test.all_streams())
        .map(|index| test.server_sends(index))
        .collect()
}
