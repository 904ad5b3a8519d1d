//! Reports a test interval by interval, for a program that prints it as iperf3 does.

use crate::drive::Engines;
use crate::iperf3::course::Reading;
use crate::iperf3::wire::{Cookie, Results};
use crate::serve::iperf3::follow::{Interval, Started, StreamInterval};
use crate::serve::iperf3::intervals::{Intervals, Look};
use crate::serve::iperf3::streams::Tap;
use std::net::SocketAddr;
use std::time::Duration;

/// An observer of a test; the methods are called in this order.
pub trait Follow {
    /// The control connection is open.
    fn connected(&mut self, control: &Control);
    /// All data streams are open; those on which this end sends come first.
    fn started(&mut self, started: &Started);
    /// An interval has ended. `last`: the counting has ended.
    fn interval(&mut self, interval: Interval, last: bool);
}

/// The data of a test that are known before its streams are opened.
#[derive(Debug, Clone)]
pub struct Control {
    pub cookie: Cookie,
    pub local: Option<SocketAddr>,
    pub peer: SocketAddr,
    /// The MSS of the control connection.
    pub mss_bytes: Option<u32>,
    /// Datagram payload of a UDP test.
    pub datagram_bytes: u64,
}

/// This end's total counts, without the omitted part.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub lasted: Duration,
    /// The streams in the order of [`Started::streams`].
    pub streams: Vec<StreamInterval>,
}

/// An observer and its reporting interval.
pub struct Following<'a> {
    pub follow: &'a mut dyn Follow,
    /// `None`: one interval for the whole test.
    pub every: Option<Duration>,
}

/// A test with an observer.
pub(super) struct Followed<'a> {
    follow: &'a mut dyn Follow,
    intervals: Intervals,
    /// The interval from the end of the omitted part to the end of the test.
    whole: Intervals,
    omit: Duration,
    taps: Vec<Tap>,
    /// The counters when counting began; `None`: from zero.
    begin: Option<Reading>,
    counted: Option<Counted>,
}

impl<'a> Followed<'a> {
    pub fn new(
        Following { follow, every }: Following<'a>,
        omit: Duration,
        (sends, taps): (Vec<bool>, Vec<Tap>),
        datagrams: bool,
    ) -> Followed<'a> {
        Followed {
            follow,
            intervals: Intervals::new(every, omit, sends.clone(), datagrams),
            whole: Intervals::new(None, omit, sends, datagrams),
            omit,
            taps,
            begin: None,
            counted: None,
        }
    }

    pub fn started(&mut self, started: &Started) {
        self.follow.started(started);
    }

    /// Returns the time of the next reading.
    pub fn due(&self) -> Option<Duration> {
        let due = self.intervals.due().into_iter();
        due.chain(self.whole.due()).min()
    }

    /// Reads the engines at time `at` of the payload; `over`: the counting ends here.
    pub fn look(&mut self, engines: &Engines, at: Duration, over: bool) {
        let due = self.due().is_some_and(|due| at >= due);
        if self.counted.is_some() || !(due || over) {
            return;
        }
        let reading = Reading::take(at, engines.sender(), engines.receiver());
        if self.begin.is_none() && !self.omit.is_zero() && at >= self.omit {
            self.begin = Some(reading.clone());
        }
        let look = Look {
            reading,
            kernel: self.taps.iter().map(Tap::read).collect(),
        };
        if let Some(interval) = self.intervals.note(look.clone()) {
            self.follow.interval(interval, false);
        }
        self.whole.note(look.clone());
        if over {
            self.finish(look);
        }
    }

    fn finish(&mut self, look: Look) {
        if let Some(rest) = self.intervals.finish(look.clone()) {
            self.follow.interval(rest, true);
        }
        let whole = self.whole.finish(look).unwrap_or_default();
        self.counted = Some(Counted {
            lasted: whole.to.saturating_sub(whole.from),
            streams: whole.streams,
        });
    }

    pub fn take_counted(&mut self) -> Option<Counted> {
        self.counted.take()
    }

    /// Subtracts the omitted part from this end's results.
    pub fn without_omitted(&self, results: &mut Results) {
        let (Some(begin), Some(counted)) = (&self.begin, &self.counted) else {
            return;
        };
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (row, stream) in results.streams.iter_mut().enumerate() {
            stream.bytes -= whole(begin.bytes.get(row).copied().unwrap_or(0));
            stream.end_time = Some(counted.lasted.as_secs_f64());
            let udp = begin.datagrams.get(row).copied().unwrap_or_default();
            stream.omitted_errors = Some(whole(udp.lost));
            stream.omitted_packets = Some(whole(udp.datagrams + udp.lost));
        }
    }
}
