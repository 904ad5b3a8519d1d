//! The data streams of one test, from their arrival to their engines.

use super::{TestEntry, UdpTurn};
use crate::counter_readings::{CountedSpan, CounterReading};
use crate::iperf3_messages::{Iperf3Error, RequestedTest};
use crate::server_protocol::TestFault;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::engine::{
    self, DataSocket, DatagramFormat, EndRun, EndSpec, EngineError, StreamEnding,
    TransferRole as Flow,
};
use longhaul_probe::measurement_server::open_flow;
use longhaul_probe::session_driver::{SessionEngines, SessionResults, SessionSockets};
use std::net::SocketAddr;
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
    /// Number and socket of each stream that has arrived.
    pub arrived: Vec<(u64, DataSocket)>,
}

impl AwaitedStreams<'_> {
    /// Takes newly arrived streams; returns the number of streams.
    pub fn poll(&mut self, plan: &ThroughputPlan) -> Result<usize, TestFault> {
        while let Ok((number, stream)) = self.entry.joined.try_recv() {
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

    /// Returns the sockets by direction, in the order in which the client opened them.
    fn take_sockets(&mut self, test: &RequestedTest) -> Result<SessionSockets, TestFault> {
        self.arrived.sort_by_key(|(number, _)| *number);
        let mut sockets = SessionSockets::default();
        for (index, (_, socket)) in self.arrived.drain(..).enumerate() {
            let sends = index >= test.first_sending();
            let role = if sends { Flow::Sender } else { Flow::Receiver };
            if let DataSocket::Tcp(stream) = &socket {
                engine::prepare_accepted(stream, &test.plan, role)
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
    (found.map_or(Iperf3Error::Stream, |(_, trouble)| *trouble), error.to_string())
}

/// A test that has ended.
pub(super) struct EndedTest {
    pub collected: SessionResults,
    pub span: CountedSpan,
}

/// The streams while payload flows.
pub(super) struct RunningStreams<'a> {
    /// While this exists, the cookie cannot begin another test.
    _entry: TestEntry<'a>,
    engines: SessionEngines,
    began: Instant,
    span: CountedSpan,
    /// The time at which the client ended the test.
    stopped: Option<Instant>,
    changed: (u64, Instant),
    quiet_time: Duration,
}

impl<'a> RunningStreams<'a> {
    /// Starts the engines and the flow of payload.
    pub fn start(
        mut awaited: AwaitedStreams<'a>,
        test: &RequestedTest,
        idle_rtt: Duration,
    ) -> Result<RunningStreams<'a>, TestFault> {
        let sockets = awaited.take_sockets(test)?;
        let spec = EndSpec {
            plan: ThroughputPlan { stop: ENDLESS, ..test.plan.clone() },
            initiator: false,
            idle_rtt: Some(idle_rtt),
            origin: Instant::now(),
            heads: DatagramFormat::Numbered(test.counters),
            ending: StreamEnding::HalfClosed,
        };
        let engines = SessionEngines::start(&spec, sockets);
        let engines = engines.map_err(|error| map_engine_error(&error))?;
        engines.go();
        let now = Instant::now();
        let omit = Duration::from_micros(test.plan.warm_up_us.unwrap_or(0));
        Ok(RunningStreams {
            _entry: awaited.entry,
            engines,
            began: now,
            span: CountedSpan::new(omit),
            stopped: None,
            changed: (0, now),
            quiet_time: QUIET_TIME.max(idle_rtt * 2),
        })
    }

    /// Reads the counters; returns the bytes so far.
    pub fn poll(&mut self) -> u64 {
        let reading = self.reading();
        let bytes = self.update_moved(&reading);
        if self.stopped.is_none() {
            self.span.record(&reading);
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

    /// Returns the time until the reading at the end of the omitted time.
    pub fn due_in(&self) -> Option<Duration> {
        if self.stopped.is_some() {
            return None;
        }
        Some(self.span.due?.saturating_sub(self.began.elapsed()))
    }

    fn reading(&self) -> CounterReading {
        let at = self.began.elapsed();
        CounterReading::take(at, self.engines.receiver.as_ref(), self.engines.sender.as_ref())
    }

    /// Stops sending after the client ended the test; data in flight may still arrive.
    pub fn stop(&mut self) {
        self.stopped = Some(Instant::now());
        if let Some(sender) = &self.engines.sender {
            sender.stop();
        }
    }

    /// Returns whether no more data arrives.
    pub fn is_quiet(&self) -> bool {
        let over = self.engines.receiver.as_ref().is_none_or(EndRun::finished);
        let since = self.stopped.map_or(self.changed.1, |at| at.max(self.changed.1));
        self.engines.has_sent_all() && (over || since.elapsed() >= self.quiet_time)
    }

    /// Takes the last readings.
    pub fn collect(mut self) -> EndedTest {
        let mut last = self.reading();
        self.update_moved(&last);
        // Data after the client's end of test counts, and so does its time; waiting does not.
        let end = self.stopped.unwrap_or(self.changed.1).max(self.changed.1);
        last.at = end.saturating_duration_since(self.began);
        self.span.finish(last);
        EndedTest { collected: self.engines.collect(), span: self.span }
    }
}
