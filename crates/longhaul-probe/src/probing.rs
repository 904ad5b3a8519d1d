//! Probing a path with few, well-timed datagrams: a session with a far end of longhaul.
//!
//! [`Prober::connect`] opens a control session and one UDP flow. Over that flow go *trains*
//! (datagrams that belong together, see [`TrainPlan`]) in either direction, and *echoes*, which
//! the far end reflects at once with its two times in them. The far end also traces the route
//! back, and says what it sees of the control connection.
//!
//! Rates count IP packets, headers of layer 3 included. Times of trains are nanoseconds of the
//! sender's and of the receiver's own monotonic clocks: their offset is unknown, their rates
//! differ by some parts per million. Receive times come from the kernel.

use crate::error::ProbeError;
use crate::throughput::Target;
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::available::{Train, TrainPlan};
use longhaul_model::report::v1::load;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{Echoes, Protocol, RoundTrips, Route, Trace};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Echoes at even spacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoSeries {
    /// From one to the next.
    pub interval: Duration,
    /// Of each packet, IP header included.
    pub packet_bytes: u32,
    pub dscp: Option<u8>,
    pub most_time: Duration,
}

/// What became of a series of echoes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EchoResult {
    /// Where times were taken, as in the report: `kernel_receive`, or `user`.
    pub clock: String,
    pub sent: u32,
    pub answered: u32,
    pub duplicates: u32,
    /// Answers overtaken by that to a later echo.
    pub reordered: u32,
    /// Answers that fit no echo, or came after it was given up.
    pub discarded: u32,
}

/// What the trains of one direction have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectionFacts {
    /// Speed of the sender's interface, where its kernel says it.
    pub interface_bps: Option<u64>,
    /// What took receive times: `kernel`, `user`; empty before the first train.
    pub receive_clock: String,
    /// Datagrams that the receiver's kernel dropped for want of buffer.
    pub overflowed: Option<u64>,
}

/// TCP options of the control connection, as the far end sees them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionsThere {
    pub in_force: Option<TcpOptions>,
    pub mss_bytes: Option<u32>,
    /// What that host would offer by its settings.
    pub offered: Option<TcpOptions>,
}

/// An open session with a far end, and one UDP flow to it.
pub struct Prober {
    initiator: Party,
    responder: Party,
    idle_rtt: Option<Duration>,
    forward: DirectionFacts,
    reverse: DirectionFacts,
}

impl Prober {
    /// Opens the session; blocks for some round trips, each with a deadline.
    ///
    /// # Errors
    /// As [`crate::throughput::run`]; [`ProbeError::Version`] where the far end only speaks
    /// version 1 of the protocol.
    pub fn connect(target: &Target) -> Result<Prober, ProbeError> {
        Err(missing(&target.host))
    }

    /// This end and the far one.
    pub fn parties(&self) -> (&Party, &Party) {
        (&self.initiator, &self.responder)
    }

    /// Least round trip of the control connection, before anything else was sent.
    pub fn idle_rtt(&self) -> Option<Duration> {
        self.idle_rtt
    }

    /// Of what this end sends (forward), or the far one.
    pub fn facts(&self, forward: bool) -> &DirectionFacts {
        if forward { &self.forward } else { &self.reverse }
    }

    /// Sends trains to the far end, one after another, and fetches their receive times.
    ///
    /// # Errors
    /// The session is over, or the far end refuses; a train that went wrong is `spoilt`.
    pub fn send_trains(&mut self, _trains: &[TrainPlan]) -> Result<Vec<Train>, ProbeError> {
        Err(missing("trains"))
    }

    /// Has the far end send trains, and takes their receive times here.
    ///
    /// # Errors
    /// As for [`Prober::send_trains`].
    pub fn receive_trains(&mut self, _trains: &[TrainPlan]) -> Result<Vec<Train>, ProbeError> {
        Err(missing("trains"))
    }

    /// Sends echoes until `stop` or the end of the series, and keeps the session alive meanwhile.
    /// `each` gets every echo once, when it is answered or given up as lost: nearly, not quite, in
    /// the order of sending. Times count from the begin of the series.
    ///
    /// # Errors
    /// The session is over.
    pub fn echo(
        &mut self,
        _series: &EchoSeries,
        _stop: &AtomicBool,
        _each: &mut dyn FnMut(&load::Probe),
    ) -> Result<EchoResult, ProbeError> {
        Err(missing("echoes"))
    }

    /// Has the far end trace the route to this host's address, and only there.
    ///
    /// # Errors
    /// The session is over, or the far end cannot trace: why.
    pub fn trace_back(
        &mut self,
        _protocol: Protocol,
        _port: Option<u16>,
        _trace: &Trace,
    ) -> Result<Route, ProbeError> {
        Err(missing("the route back"))
    }

    /// Has the far end measure round trips to this host's address.
    ///
    /// # Errors
    /// The session is over, or the far end cannot: why.
    pub fn echoes_back(&mut self, _asked: &RoundTrips) -> Result<Echoes, ProbeError> {
        Err(missing("round trips from the far end"))
    }

    /// What the far end sees of the control connection's TCP options.
    ///
    /// # Errors
    /// The session is over.
    pub fn options_there(&mut self) -> Result<OptionsThere, ProbeError> {
        Err(missing("options"))
    }

    /// Ends the session well.
    pub fn close(self) {}
}

fn missing(what: &str) -> ProbeError {
    ProbeError::Local {
        what: format!("{what}: not built in yet"),
        source: None,
    }
}
