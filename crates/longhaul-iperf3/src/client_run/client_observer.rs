//! Reports a test interval by interval, for a program that prints it as iperf3 does.

use crate::counter_readings::CounterReading;
use crate::iperf3_messages::{TestCookie, TestResults};
use crate::iperf3_service::interval_tracker::{CounterSnapshot, IntervalTracker};
use crate::iperf3_service::iperf3_streams::TcpInfoSource;
use crate::iperf3_service::server_observer::{IntervalReport, StartedStreams, StreamInterval};
use longhaul_probe::session_driver::SessionEngines;
use std::net::SocketAddr;
use std::time::Duration;

/// An observer of a test; the methods are called in this order.
pub trait ClientTestObserver {
    /// The control connection is open.
    fn connected(&mut self, control: &TestControlInfo);
    /// All data streams are open; those on which this end sends come first.
    fn started(&mut self, started: &StartedStreams);
    /// An interval has ended. `last`: the counting has ended.
    fn interval(&mut self, interval: IntervalReport, last: bool);
}

/// The data of a test that are known before its streams are opened.
#[derive(Debug, Clone)]
pub struct TestControlInfo {
    pub cookie: TestCookie,
    pub local: Option<SocketAddr>,
    pub peer: SocketAddr,
    /// The MSS of the control connection.
    pub mss_bytes: Option<u32>,
    /// Datagram payload of a UDP test.
    pub datagram_bytes: u64,
}

/// This end's total counts, without the omitted part.
#[derive(Debug, Clone, Default)]
pub struct CountedTotals {
    pub duration: Duration,
    /// The streams in the order of [`StartedStreams::streams`].
    pub streams: Vec<StreamInterval>,
}

/// An observer and its reporting interval.
pub struct ClientObserverConfig<'a> {
    pub observer: &'a mut dyn ClientTestObserver,
    /// `None`: one interval for the whole test.
    pub interval: Option<Duration>,
}

/// A test with an observer.
pub(super) struct ObservedTest<'a> {
    observer: &'a mut dyn ClientTestObserver,
    intervals: IntervalTracker,
    /// The interval from the end of the omitted part to the end of the test.
    whole_test: IntervalTracker,
    omit: Duration,
    taps: Vec<TcpInfoSource>,
    /// The counters when counting began; `None`: from zero.
    begin: Option<CounterReading>,
    counted: Option<CountedTotals>,
}

impl<'a> ObservedTest<'a> {
    pub fn new(
        ClientObserverConfig {
            observer: follow,
            interval: every,
        }: ClientObserverConfig<'a>,
        omit: Duration,
        (sends, taps): (Vec<bool>, Vec<TcpInfoSource>),
        datagrams: bool,
    ) -> ObservedTest<'a> {
        ObservedTest {
            observer: follow,
            intervals: IntervalTracker::new(every, omit, sends.clone(), datagrams),
            whole_test: IntervalTracker::new(None, omit, sends, datagrams),
            omit,
            taps,
            begin: None,
            counted: None,
        }
    }

    pub fn started(&mut self, started: &StartedStreams) {
        self.observer.started(started);
    }

    /// Returns the time of the next reading.
    pub fn due(&self) -> Option<Duration> {
        let due = self.intervals.due().into_iter();
        due.chain(self.whole_test.due()).min()
    }

    /// Reads the engines at time `at` of the payload; `over`: the counting ends here.
    pub fn poll(&mut self, engines: &SessionEngines, at: Duration, over: bool) {
        let due = self.due().is_some_and(|due| at >= due);
        if self.counted.is_some() || !(due || over) {
            return;
        }
        let reading = CounterReading::take(at, engines.sender(), engines.receiver());
        if self.begin.is_none() && !self.omit.is_zero() && at >= self.omit {
            self.begin = Some(reading.clone());
        }
        let look = CounterSnapshot {
            reading,
            kernel: self.taps.iter().map(TcpInfoSource::read).collect(),
        };
        if let Some(interval) = self.intervals.record(look.clone()) {
            self.observer.interval(interval, false);
        }
        self.whole_test.record(look.clone());
        if over {
            self.finish(look);
        }
    }

    fn finish(&mut self, look: CounterSnapshot) {
        if let Some(rest) = self.intervals.finish(look.clone()) {
            self.observer.interval(rest, true);
        }
        let whole = self.whole_test.finish(look).unwrap_or_default();
        self.counted = Some(CountedTotals {
            duration: whole.to.saturating_sub(whole.from),
            streams: whole.streams,
        });
    }

    pub fn take_counted(&mut self) -> Option<CountedTotals> {
        self.counted.take()
    }

    /// Subtracts the omitted part from this end's results.
    pub fn subtract_omitted(&self, results: &mut TestResults) {
        let (Some(begin), Some(counted)) = (&self.begin, &self.counted) else {
            return;
        };
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (row, stream) in results.streams.iter_mut().enumerate() {
            stream.bytes -= whole(begin.bytes.get(row).copied().unwrap_or(0));
            stream.end_time = Some(counted.duration.as_secs_f64());
            let udp = begin.datagrams.get(row).copied().unwrap_or_default();
            stream.omitted_errors = Some(whole(udp.lost));
            stream.omitted_packets = Some(whole(udp.datagrams + udp.lost));
        }
    }
}
