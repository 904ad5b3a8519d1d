//! Probes a path with few, well-timed datagrams, in a session with a longhaul server.
//!
//! [`Prober::connect`] opens a control session and one UDP flow. The flow carries *trains*
//! (datagrams that belong together, see [`TrainPlan`]) in either direction, and *echoes*, which the
//! server reflects at once with its receive and send times. The server also traces the reverse
//! route, and reports its view of the control connection.
//!
//! Rates count IP packets, including layer 3 headers. Times of trains are nanoseconds of the
//! sender's and of the receiver's own monotonic clocks: their offset is unknown, and their rates
//! differ by some parts per million. Receive times come from the kernel.

mod bulk;
mod clock;
mod datagram;
mod echo;
mod far;
mod flow;
mod join;
mod line;
mod recorder;
mod schedule;
mod sending;
mod series;
mod survey;

pub use crate::wire::Bounds;
pub use bulk::{BulkAsked, BulkOutcome, bulk};
pub use datagram::{HEADER_BYTES, Header, Kind};
pub(crate) use far::{FarEnd, FarSetup};
pub(crate) use survey::Surveyor;

use crate::error::ProbeError;
use crate::limits::{LONGEST_PROBING_US, MOST_PROBE_BYTES, check_trains};
use crate::throughput::Target;
use crate::wire::{Answer, Ask, Collect, Seen, TraceBack, TrainSent};
use flow::Reader;
pub(crate) use line::Line;
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::available::{Train, TrainPlan};
use longhaul_model::report::v1::load;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{Echoes, Protocol, RoundTrips, Route, Trace};
use longhaul_sys::poll;
use sending::Sender;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time for outstanding datagrams, plus a part of the round trip, after the server has reported
/// that all were sent.
const GRACE: Duration = Duration::from_millis(60);
/// Interval at which the control connection is serviced while trains are sent.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// Maximum duration of one wait of the receiving thread.
const WAKE: Duration = Duration::from_millis(10);

/// A series of echoes with constant spacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoSeries {
    /// Interval between two echoes.
    pub interval: Duration,
    /// Size of each packet, including the IP header.
    pub packet_bytes: u32,
    pub dscp: Option<u8>,
    pub most_time: Duration,
}

/// Result of a series of echoes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EchoResult {
    /// Source of the timestamps, as in the report: `kernel_receive` or `user`.
    pub clock: String,
    pub sent: u32,
    pub answered: u32,
    pub duplicates: u32,
    /// Answers overtaken by the answer to a later echo.
    pub reordered: u32,
    /// Answers that match no echo, or arrived after it was given up.
    pub discarded: u32,
}

/// Properties shared by the trains of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectionFacts {
    /// Speed of the sender's interface, if its kernel reports it.
    pub interface_bps: Option<u64>,
    /// Source of the receive times: `kernel` or `user`; empty before the first train.
    pub receive_clock: String,
    /// Datagrams that the receiver's kernel dropped because of a full buffer.
    pub overflowed: Option<u64>,
}

/// TCP options of the control connection, as seen by the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionsThere {
    pub in_force: Option<TcpOptions>,
    pub mss_bytes: Option<u32>,
    /// Options that the server would offer according to its settings.
    pub offered: Option<TcpOptions>,
}

/// An open session with a server, and one UDP flow to it.
///
/// The server closes the session after 15 seconds without a message: use it, or close it.
pub struct Prober {
    line: Line,
    flow: Option<Flow>,
    initiator: Party,
    responder: Party,
    forward: DirectionFacts,
    reverse: DirectionFacts,
    loopback: bool,
    series: u32,
    epoch: Instant,
}

/// The local end of the UDP flow.
struct Flow {
    socket: UdpSocket,
    sender: Sender,
    reader: Reader,
    session: u64,
}

impl Prober {
    /// Opens the session with one UDP flow; blocks for some round trips, each with a deadline.
    ///
    /// # Errors
    /// Like [`crate::throughput::run`]; [`ProbeError::Version`] if the server supports only version
    /// 1 of the protocol.
    pub fn connect(target: &Target) -> Result<Prober, ProbeError> {
        let bounds = Bounds {
            flows: 1,
            most_bytes: MOST_PROBE_BYTES,
            most_time_us: LONGEST_PROBING_US,
            dscp: None,
        };
        Prober::open(target, bounds)
    }

    /// Opens a session within `bounds`, or within the server's limits for anonymous clients; see
    /// [`Prober::bounds`].
    ///
    /// # Errors
    /// Like [`Prober::connect`].
    pub fn open(target: &Target, bounds: Bounds) -> Result<Prober, ProbeError> {
        let opened = Line::open(target, bounds)?;
        let epoch = opened.epoch;
        let flow = opened
            .flow
            .map(|(socket, session)| Flow::new(socket, session, clock::Clock::new(epoch)))
            .transpose()
            .map_err(local("open the flow of probes"))?;
        let peer = opened.line.address().ip();
        let interface_bps = opened
            .local
            .and_then(|local| survey::interface_bps(local, peer));
        Ok(Prober {
            line: opened.line,
            flow,
            initiator: opened.initiator,
            responder: opened.responder,
            forward: DirectionFacts {
                interface_bps,
                ..DirectionFacts::default()
            },
            reverse: DirectionFacts::default(),
            // A host reaches all of its own addresses over loopback.
            loopback: peer.is_loopback() || opened.local == Some(peer),
            series: 0,
            epoch,
        })
    }

    /// Returns the client and the server.
    pub fn parties(&self) -> (&Party, &Party) {
        (&self.initiator, &self.responder)
    }

    /// Returns the minimum round trip of the control connection before any other traffic.
    pub fn idle_rtt(&self) -> Option<Duration> {
        self.line.idle_rtt()
    }

    /// Returns whether both ends run under one kernel without a network in between.
    pub fn same_host(&self) -> bool {
        self.line.same_host()
    }

    /// Returns whether there is no link between the ends: packets never leave this host.
    pub fn loopback(&self) -> bool {
        self.loopback
    }

    /// Returns the limits of the session.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.line.bounds()
    }

    /// Returns the properties of trains sent by the client (forward) or by the server.
    pub fn facts(&self, forward: bool) -> &DirectionFacts {
        if forward {
            &self.forward
        } else {
            &self.reverse
        }
    }

    /// Returns the MTU of the path to the server, as known by this kernel.
    pub fn path_mtu_bytes(&self) -> Option<u32> {
        let socket = &self.flow.as_ref()?.socket;
        let peer = socket.peer_addr().ok()?;
        longhaul_sys::sockopt::path_mtu_bytes(socket, peer).ok()
    }

    /// Sends trains to the server, one after another, and fetches their receive times.
    ///
    /// # Errors
    /// The session is over, or the server refuses; a train that failed is `spoilt`.
    pub fn send_trains(&mut self, trains: &[TrainPlan]) -> Result<Vec<Train>, ProbeError> {
        check_trains(trains)?;
        match self.line.ask(Ask::Arm(trains.to_vec()))? {
            Answer::Armed => {}
            other => return Err(self.line.unexpected(&other)),
        }
        let sent = self.shoot(trains)?;
        let wait = GRACE + self.idle_rtt().unwrap_or_default() / 4;
        let wait_us = wait.as_micros() as u64;
        let seen = match self.line.ask(Ask::Collect(Collect { wait_us }))? {
            Answer::Seen(seen) => seen,
            other => return Err(self.line.unexpected(&other)),
        };
        note(&mut self.forward, &seen);
        Ok(join::join(trains, &sent, &seen))
    }

    fn shoot(&mut self, trains: &[TrainPlan]) -> Result<Vec<TrainSent>, ProbeError> {
        let never = AtomicBool::new(false);
        let mut looked = Instant::now();
        let mut sent = Vec::with_capacity(trains.len());
        for train in trains {
            let flow = self.flow.as_mut().ok_or_else(no_flow)?;
            let shot = flow.sender.send(train, &never);
            let burst = (shot.micro_burst_packets, shot.spoilt);
            sent.push(far::told(train.index, &shot.sent_ns, burst));
            if looked.elapsed() > LOOK_AFTER {
                self.line.look_after()?;
                looked = Instant::now();
            }
        }
        Ok(sent)
    }

    /// Requests trains from the server, and records their receive times.
    ///
    /// # Errors
    /// Like [`Prober::send_trains`].
    pub fn receive_trains(&mut self, trains: &[TrainPlan]) -> Result<Vec<Train>, ProbeError> {
        check_trains(trains)?;
        let grace = GRACE + self.idle_rtt().unwrap_or_default() / 4;
        let Some(Flow { socket, reader, .. }) = &mut self.flow else {
            return Err(no_flow());
        };
        let line = &mut self.line;
        let offset = reader.clock.wall_offset_ns();
        reader.recorder.arm(trains, offset);
        let over = AtomicBool::new(false);
        let (answer, seen) = thread::scope(|scope| {
            let reading = thread::Builder::new()
                .name("probes".to_owned())
                .spawn_scoped(scope, || read_trains(socket, reader, &over, grace))
                .map_err(local("start a thread"))?;
            let answer = line.ask(Ask::Send(trains.to_vec()));
            over.store(true, Ordering::Relaxed);
            let seen = reading
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
                .map_err(local("receive probes"))?;
            Ok::<_, ProbeError>((answer?, seen))
        })?;
        let sent = match answer {
            Answer::Sent(sent) => sent,
            other => return Err(self.line.unexpected(&other)),
        };
        self.reverse.interface_bps = sent.interface_bps.or(self.reverse.interface_bps);
        note(&mut self.reverse, &seen);
        Ok(join::join(trains, &sent.trains, &seen))
    }

    /// Sends echoes until `stop` or the end of the series, and keeps the session alive meanwhile.
    /// `each` receives every echo once, when it is answered or given up as lost: nearly, but not
    /// exactly, in sending order. Times count from the start of the series.
    ///
    /// # Errors
    /// The session is over.
    pub fn echo(
        &mut self,
        series: &EchoSeries,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&load::Probe),
    ) -> Result<EchoResult, ProbeError> {
        self.series = self.series.wrapping_add(1);
        let number = self.series;
        let flow = self.flow.as_mut().ok_or_else(no_flow)?;
        series::run(
            (flow, &mut self.line),
            (number, clock::Clock::new(self.epoch)),
            series,
            stop,
            each,
        )
    }

    /// Makes the server trace the route to this host's address, the only permitted destination.
    ///
    /// # Errors
    /// The session is over, or the server cannot trace, with its reason.
    pub fn trace_back(
        &mut self,
        protocol: Protocol,
        port: Option<u16>,
        trace: &Trace,
    ) -> Result<Route, ProbeError> {
        let back = TraceBack {
            protocol,
            port,
            trace: trace.clone(),
        };
        match self.line.ask(Ask::Trace(back))? {
            Answer::Route(route) => Ok(*route),
            other => Err(self.line.unexpected(&other)),
        }
    }

    /// Makes the server measure round trips to this host's address.
    ///
    /// # Errors
    /// The session is over, or the server cannot measure, with its reason.
    pub fn echoes_back(&mut self, asked: &RoundTrips) -> Result<Echoes, ProbeError> {
        match self.line.ask(Ask::Echoes(asked.clone()))? {
            Answer::Echoes(echoes) => Ok(echoes),
            other => Err(self.line.unexpected(&other)),
        }
    }

    /// Returns the server's view of the control connection's TCP options.
    ///
    /// # Errors
    /// The session is over.
    pub fn options_there(&mut self) -> Result<OptionsThere, ProbeError> {
        match self.line.ask(Ask::Options)? {
            Answer::Options(options) => Ok(OptionsThere {
                in_force: options.in_force,
                mss_bytes: options.mss_bytes,
                offered: options.offered,
            }),
            other => Err(self.line.unexpected(&other)),
        }
    }

    /// Ends the session properly.
    pub fn close(self) {
        self.line.close();
    }
}

impl Flow {
    fn new(socket: UdpSocket, session: u64, clock: clock::Clock) -> io::Result<Flow> {
        flow::prepare(&socket)?;
        Ok(Flow {
            sender: Sender::new(&socket, session, clock)?,
            reader: Reader::new(session, clock),
            socket,
            session,
        })
    }
}

/// Reads until all packets have arrived, or `grace` after `over` was set.
fn read_trains(
    socket: &UdpSocket,
    reader: &mut Reader,
    over: &AtomicBool,
    grace: Duration,
) -> io::Result<Seen> {
    let mut over_since: Option<Instant> = None;
    loop {
        reader.read(socket, &mut |_| {})?;
        if over.load(Ordering::Relaxed) {
            let since = *over_since.get_or_insert_with(Instant::now);
            if reader.recorder.is_complete() || since.elapsed() > grace {
                return Ok(reader.recorder.take());
            }
        }
        poll::readable([socket.as_fd()], Some(WAKE))?;
    }
}

fn note(facts: &mut DirectionFacts, seen: &Seen) {
    let known = ["kernel", "user"].into_iter();
    let clock = known.into_iter().find(|word| *word == seen.clock);
    clock.unwrap_or("user").clone_into(&mut facts.receive_clock);
    facts.overflowed = seen.overflowed.or(facts.overflowed);
}

fn local(tried: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::Local {
        what: format!("cannot {tried}"),
        source: Some(source),
    }
}

fn no_flow() -> ProbeError {
    ProbeError::Local {
        what: "this session was opened without a UDP flow".to_owned(),
        source: None,
    }
}
