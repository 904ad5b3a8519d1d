//! The data streams of one test, from their arrival to their engines.

use super::ServerObserverConfig;
use super::interval_tracker::{CounterSnapshot, IntervalTracker, KernelStreamData};
use super::server_observer::{IntervalReport, OpenStream, StartedStreams, TcpState};
use super::test_registry::{TestEntry, UdpTurn};
use crate::counter_readings::{CounterReading, CounterReadings};
use crate::iperf3_messages::{Iperf3Error, RequestedTest, TestTransport};
use crate::server_protocol::TestFault;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::engine::{
    self, DataSocket, DatagramFormat, EndRun, EngineError, StreamEnding, TransferRole as Flow,
};
use longhaul_probe::measurement_server::open_flow;
use longhaul_probe::session::{EngineStart, SessionRole};
use longhaul_probe::session_driver::{EngineSetup, SessionEngines, SessionResults, SessionSockets};
use longhaul_sys::{sockopt, tcp_info};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The time without a byte after the client's end of test, after which no data is in flight.
const QUIET_TIME: Duration = Duration::from_millis(30);

/// Longer than any test: the client announces the end.
const ENDLESS: StopCondition = StopCondition::Bytes(1 << 60);

/// The sources of a test's streams.
pub(super) struct AwaitedStreams<'a> {
    pub entry: TestEntry<'a>,
    /// Set for a UDP test.
    pub turn: Option<UdpTurn<'a>>,
    pub local: SocketAddr,
    pub device: Option<&'a str>,
    arrived: Vec<(u64, DataSocket)>,
}

impl<'a> AwaitedStreams<'a> {
    pub fn new(
        entry: TestEntry<'a>,
        turn: Option<UdpTurn<'a>>,
        local: SocketAddr,
        device: Option<&'a str>,
    ) -> AwaitedStreams<'a> {
        AwaitedStreams {
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
    pub fn poll(&mut self, plan: &ThroughputPlan) -> Result<usize, TestFault> {
        while let Ok((number, stream)) = self.entry.joined.try_recv() {
            // It still has the timeout for reading its cookie.
            let timed = stream.set_read_timeout(None);
            timed.map_err(|error| (Iperf3Error::Stream, error.to_string()))?;
            self.arrived.push((number, DataSocket::Tcp(stream)));
        }
        while let Some(Ok((from, greeting))) = self.turn.as_ref().map(|turn| turn.flows.try_recv())
        {
            let failed = |error: std::io::Error| (Iperf3Error::Stream, error.to_string());
            let socket = open_flow(self.local, self.device, from).map_err(failed)?;
            engine::prepare_udp_socket(&socket, plan, from)
                .map_err(|error| (Iperf3Error::Stream, error.to_string()))?;
            socket.send(&greeting.answer()).map_err(failed)?;
            let number = self.arrived.len() as u64;
            self.arrived.push((number, DataSocket::Udp(socket)));
        }
        Ok(self.arrived.len())
    }

    /// Describes the streams for an observer, and returns sources for more data.
    fn describe_streams(&mut self, test: &RequestedTest) -> (StartedStreams, Vec<TcpInfoSource>) {
        self.arrived.sort_by_key(|(number, _)| *number);
        let mut started = StartedStreams::default();
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
            taps.push(TcpInfoSource(tap.filter(|_| sends)));
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
    fn take_sockets(
        &mut self,
        test: &RequestedTest,
        plan: &ThroughputPlan,
    ) -> Result<SessionSockets, TestFault> {
        self.arrived.sort_by_key(|(number, _)| *number);
        let mut sockets = SessionSockets::default();
        for (index, (_, socket)) in self.arrived.drain(..).enumerate() {
            let sends = test.server_sends(index);
            let role = if sends { Flow::Sender } else { Flow::Receiver };
            if let DataSocket::Tcp(stream) = &socket {
                engine::prepare_accepted(stream, plan, role)
                    .map_err(|error| map_engine_error(&error))?;
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
fn map_engine_error(error: &EngineError) -> TestFault {
    let tried = error.operation.as_str();
    let trouble = [
        ("congestion", Iperf3Error::Congestion),
        ("MSS", Iperf3Error::Mss),
        ("pace", Iperf3Error::Pacing),
        ("buffer", Iperf3Error::Window),
        ("window", Iperf3Error::Window),
        ("DSCP", Iperf3Error::Tos),
    ];
    let found = trouble.iter().find(|(word, _)| tried.contains(word));
    (
        found.map_or(Iperf3Error::Stream, |(_, trouble)| *trouble),
        error.to_string(),
    )
}

/// Access to the kernel's data of a TCP stream on which this end sends, besides its engine.
pub(crate) struct TcpInfoSource(pub Option<TcpStream>);

impl TcpInfoSource {
    pub fn read(&self) -> KernelStreamData {
        let info = tcp_info::read_tcp_info(self.0.as_ref()?).ok()?;
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
struct ObservedIntervals {
    intervals: IntervalTracker,
    sources: Vec<TcpInfoSource>,
    /// An interval that has ended.
    over: Option<IntervalReport>,
}

/// A test that has ended.
pub(super) struct EndedTest {
    pub collected: SessionResults,
    pub course: CounterReadings,
    /// The last, incomplete interval.
    pub rest: Option<IntervalReport>,
}

/// The streams while payload flows.
pub(super) struct RunningStreams<'a> {
    /// While this exists, the cookie cannot begin another test.
    _entry: TestEntry<'a>,
    engines: SessionEngines,
    began: Instant,
    pub course: CounterReadings,
    observed: Option<ObservedIntervals>,
    /// The time at which the client ended the test.
    stopped: Option<Instant>,
    changed: (u64, Instant),
    quiet_time: Duration,
}

impl<'a> RunningStreams<'a> {
    /// Starts the engines and the flow of payload. `following`: there is an observer.
    pub fn start(
        mut awaited: AwaitedStreams<'a>,
        test: &RequestedTest,
        plan: &ThroughputPlan,
        epoch: Instant,
        idle_rtt: Duration,
        following: Option<&ServerObserverConfig>,
    ) -> Result<(RunningStreams<'a>, StartedStreams), TestFault> {
        let (open, taps) = awaited.describe_streams(test);
        let sockets = awaited.take_sockets(test, plan)?;
        let heads = DatagramFormat::Numbered(test.counters);
        let setup = EngineSetup {
            role: SessionRole::Server,
            plan: ThroughputPlan {
                stop: ENDLESS,
                ..plan.clone()
            },
            epoch,
        };
        let start = EngineStart {
            origin: epoch.elapsed(),
            idle_rtt,
        };
        let engines =
            SessionEngines::start_with(heads, StreamEnding::HalfClosed, &setup, start, sockets);
        let engines = engines.map_err(|error| map_engine_error(&error))?;
        engines.go();
        let now = Instant::now();
        let omit = Duration::from_secs(u64::from(test.omit_seconds));
        let followed = following.map(|it| ObservedIntervals {
            intervals: IntervalTracker::new(
                it.interval,
                omit,
                list_sending(test),
                test.transport == TestTransport::Udp,
            ),
            sources: taps,
            over: None,
        });
        let flowing = RunningStreams {
            _entry: awaited.entry,
            engines,
            began: now,
            course: CounterReadings::new(omit),
            observed: followed,
            stopped: None,
            changed: (0, now),
            quiet_time: QUIET_TIME.max(idle_rtt * 2),
        };
        Ok((flowing, open))
    }

    /// Reads the counters; returns the bytes so far.
    pub fn poll(&mut self) -> u64 {
        let reading = self.reading();
        let bytes = self.update_moved(&reading);
        if self.stopped.is_none() {
            self.course.record(&reading);
            if let Some(followed) = &mut self.observed {
                followed.record(reading);
            }
        }
        bytes
    }

    /// Returns the bytes so far, and records the time if they have changed.
    fn update_moved(&mut self, reading: &CounterReading) -> u64 {
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
        let followed = self.observed.as_ref();
        let told = followed.and_then(|followed| followed.intervals.due());
        let due = self.course.due();
        let first = told.map_or(due, |told| told.min(due));
        Some(first.saturating_sub(self.began.elapsed()))
    }

    /// Takes an interval that has ended.
    pub fn interval(&mut self) -> Option<IntervalReport> {
        self.observed.as_mut()?.over.take()
    }

    fn reading(&self) -> CounterReading {
        // Half-closes the streams of a sender that has ended by itself.
        self.engines.has_sent_all();
        let at = self.began.elapsed();
        CounterReading::take(at, self.engines.receiver(), self.engines.sender())
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
        self.engines.has_sent_all() && (over || since.elapsed() >= self.quiet_time)
    }

    /// Takes the last readings.
    pub fn collect(mut self) -> EndedTest {
        let mut last = self.reading();
        self.update_moved(&last);
        // Data after the client's end of test counts, and so does its time; waiting does not.
        let end = self.stopped.unwrap_or(self.changed.1).max(self.changed.1);
        last.at = end.saturating_duration_since(self.began);
        let rest = self.observed.take();
        let rest = rest.and_then(|mut followed| {
            let look = followed.snapshot(last.clone());
            followed.intervals.finish(look)
        });
        self.course.finish(last);
        EndedTest {
            collected: self.engines.collect(),
            course: self.course,
            rest,
        }
    }
}

impl ObservedIntervals {
    fn snapshot(&self, reading: CounterReading) -> CounterSnapshot {
        CounterSnapshot {
            reading,
            kernel: self.sources.iter().map(TcpInfoSource::read).collect(),
        }
    }

    fn record(&mut self, reading: CounterReading) {
        if self.intervals.due().is_some_and(|due| reading.at >= due) {
            let look = self.snapshot(reading);
            self.over = self.intervals.record(look);
        }
    }
}

/// Returns for each stream, in order of opening, whether this end sends.
fn list_sending(test: &RequestedTest) -> Vec<bool> {
    (0..test.all_streams())
        .map(|index| test.server_sends(index))
        .collect()
}
