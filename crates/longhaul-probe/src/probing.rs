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

/// Datagrams under way have this long, and a part of the round trip, when the far end has said
/// that all were sent.
const GRACE: Duration = Duration::from_millis(60);
/// The control connection is looked after so often while trains leave.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// How long one wait of the receiving thread may take.
const WAKE: Duration = Duration::from_millis(10);

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
///
/// The far end hangs up on an initiator that it has not heard of for 15 seconds: use it, or close
/// it.
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

/// The flow at this end.
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
    /// As [`crate::throughput::run`]; [`ProbeError::Version`] where the far end only speaks
    /// version 1 of the protocol.
    pub fn connect(target: &Target) -> Result<Prober, ProbeError> {
        let bounds = Bounds {
            flows: 1,
            most_bytes: MOST_PROBE_BYTES,
            most_time_us: LONGEST_PROBING_US,
            dscp: None,
        };
        Prober::open(target, bounds)
    }

    /// Opens a session within `bounds`, or within what the far end lets strangers do; see
    /// [`Prober::bounds`].
    ///
    /// # Errors
    /// As [`Prober::connect`].
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
            // A host reaches every address of its own over loopback.
            loopback: peer.is_loopback() || opened.local == Some(peer),
            series: 0,
            epoch,
        })
    }

    /// This end and the far one.
    pub fn parties(&self) -> (&Party, &Party) {
        (&self.initiator, &self.responder)
    }

    /// Least round trip of the control connection, before anything else was sent.
    pub fn idle_rtt(&self) -> Option<Duration> {
        self.line.idle_rtt()
    }

    /// Both ends run under one kernel and nothing lies between them.
    pub fn same_host(&self) -> bool {
        self.line.same_host()
    }

    /// No link lies between the ends: what is sent to the far one never leaves this host.
    pub fn loopback(&self) -> bool {
        self.loopback
    }

    /// What the session may cost.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.line.bounds()
    }

    /// Of what this end sends (forward), or the far one.
    pub fn facts(&self, forward: bool) -> &DirectionFacts {
        if forward {
            &self.forward
        } else {
            &self.reverse
        }
    }

    /// MTU of the path to the far end, as far as this kernel knows it.
    pub fn path_mtu_bytes(&self) -> Option<u32> {
        let socket = &self.flow.as_ref()?.socket;
        let peer = socket.peer_addr().ok()?;
        longhaul_sys::sockopt::path_mtu_bytes(socket, peer).ok()
    }

    /// Sends trains to the far end, one after another, and fetches their receive times.
    ///
    /// # Errors
    /// The session is over, or the far end refuses; a train that went wrong is `spoilt`.
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

    /// Has the far end send trains, and takes their receive times here.
    ///
    /// # Errors
    /// As for [`Prober::send_trains`].
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
    /// `each` gets every echo once, when it is answered or given up as lost: nearly, not quite, in
    /// the order of sending. Times count from the begin of the series.
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

    /// Has the far end trace the route to this host's address, and only there.
    ///
    /// # Errors
    /// The session is over, or the far end cannot trace: why.
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

    /// Has the far end measure round trips to this host's address.
    ///
    /// # Errors
    /// The session is over, or the far end cannot: why.
    pub fn echoes_back(&mut self, asked: &RoundTrips) -> Result<Echoes, ProbeError> {
        match self.line.ask(Ask::Echoes(asked.clone()))? {
            Answer::Echoes(echoes) => Ok(echoes),
            other => Err(self.line.unexpected(&other)),
        }
    }

    /// What the far end sees of the control connection's TCP options.
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

    /// Ends the session well.
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

/// Reads until all has come, or `over` is a grace ago.
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
