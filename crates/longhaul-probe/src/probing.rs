//! Probes a path with few, well-timed datagrams, in a session with a longhaul server.
//!
//! [`ProbeClient::connect`] opens a control session and one UDP flow. The flow carries *trains*
//! (datagrams that belong together, see [`TrainPlan`]) in either direction, and *echoes*, which the
//! server reflects at once with its receive and send times. The server also traces the reverse
//! route, and reports its view of the control connection.
//!
//! Rates count IP packets, including layer 3 headers. Times of trains are nanoseconds of the
//! sender's and of the receiver's own monotonic clocks: their offset is unknown, and their rates
//! differ by some parts per million. Receive times come from the kernel.

mod echo_run;
mod flow_reader;
mod packet_schedule;
mod probe_clock;
mod probe_control;
mod probe_datagram;
mod probe_server;
mod reverse_survey;
mod train_join;
mod train_recorder;
mod train_sender;

pub use crate::wire::ProbeBounds;
pub use probe_datagram::{DatagramKind, HEADER_BYTES, ProbeDatagramHeader};
pub(crate) use probe_server::ProbeServer;
pub(crate) use reverse_survey::ReverseSurveyor;

use crate::engine::RunClock;
use crate::plan_limits::{MAX_PROBE_BYTES, MAX_PROBING_US, check_trains};
use crate::probe_error::ProbeError;
use crate::throughput::TargetHost;
use crate::wire::{
    CollectTrains, ReceivedTrains, ReverseTraceRequest, SentTrain, SessionReply, SessionRequest,
    SessionTcpOptions,
};
use flow_reader::FlowReader;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::available::{ProbeTrain, TrainPlan};
use longhaul_model::report::v1::load;
use longhaul_model::report::v1::path::{
    ObservedRoute, ProbeProtocol, RoundTripPlan, RoundTripSeries, TracePlan,
};
use longhaul_sys::poll;
pub use probe_control::ProbeControl;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use train_sender::TrainSender;

/// Time for outstanding datagrams, plus a part of the round trip, after the server has reported
/// that all were sent.
const ARRIVAL_GRACE: Duration = Duration::from_millis(60);
/// Interval at which the control connection is serviced while trains are sent.
const SERVICE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum duration of one wait of the receiving thread.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// A series of echoes with constant spacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoSeriesPlan {
    /// Interval between two echoes.
    pub interval: Duration,
    /// Size of each packet, including the IP header.
    pub packet_bytes: u32,
    pub max_time: Duration,
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

/// An open session with a server, and one UDP flow to it.
///
/// The server closes the session after 15 seconds without a message: use it, or close it.
pub struct ProbeClient {
    control: ProbeControl,
    flow: Option<SessionFlow>,
    forward: DirectionFacts,
    reverse: DirectionFacts,
    loopback: bool,
    series: u32,
}

/// The local end of the UDP flow.
struct SessionFlow {
    socket: UdpSocket,
    sender: TrainSender,
    reader: FlowReader,
    session: u64,
}

impl ProbeClient {
    /// Opens the session with one UDP flow; blocks for some round trips, each with a deadline.
    ///
    /// # Errors
    /// Like [`crate::throughput::run`]; [`ProbeError::Version`] if the server supports only version
    /// 1 of the protocol.
    pub fn connect(target: &TargetHost) -> Result<ProbeClient, ProbeError> {
        let bounds = ProbeBounds {
            flows: 1,
            most_bytes: MAX_PROBE_BYTES,
            most_time_us: MAX_PROBING_US,
            dscp: None,
        };
        ProbeClient::open(target, bounds)
    }

    /// Opens a session within `bounds`, or within the server's limits for anonymous clients; see
    /// [`ProbeClient::bounds`].
    ///
    /// # Errors
    /// Like [`ProbeClient::connect`].
    pub fn open(target: &TargetHost, bounds: ProbeBounds) -> Result<ProbeClient, ProbeError> {
        let mut control = ProbeControl::open(target, bounds)?;
        let clock = RunClock(control.epoch);
        let flow =
            control.take_flow().map(|(socket, session)| SessionFlow::new(socket, session, clock));
        let flow = flow.transpose().map_err(local_error("open the probe flow"))?;
        let (local, peer) = (control.local, control.address().ip());
        let interface_bps = local.and_then(|local| reverse_survey::interface_bps(local, peer));
        Ok(ProbeClient {
            control,
            flow,
            forward: DirectionFacts { interface_bps, ..DirectionFacts::default() },
            reverse: DirectionFacts::default(),
            // A host reaches all of its own addresses over loopback.
            loopback: peer.is_loopback() || local == Some(peer),
            series: 0,
        })
    }

    /// Returns the client and the server.
    pub fn parties(&self) -> (&RunParty, &RunParty) {
        (&self.control.initiator, &self.control.responder)
    }

    /// Returns the minimum round trip of the control connection before any other traffic.
    pub fn idle_rtt(&self) -> Option<Duration> {
        self.control.idle_rtt()
    }

    /// Returns whether both ends run under one kernel without a network in between.
    pub fn same_host(&self) -> bool {
        self.control.same_host()
    }

    /// Returns whether there is no link between the ends: packets never leave this host.
    pub fn loopback(&self) -> bool {
        self.loopback
    }

    /// Returns the limits of the session.
    pub fn bounds(&self) -> Option<&ProbeBounds> {
        self.control.bounds()
    }

    /// Returns the properties of trains sent by the client (forward) or by the server.
    pub fn direction_facts(&self, forward: bool) -> &DirectionFacts {
        if forward { &self.forward } else { &self.reverse }
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
    pub fn send_trains(&mut self, trains: &[TrainPlan]) -> Result<Vec<ProbeTrain>, ProbeError> {
        check_trains(trains)?;
        match self.control.request(SessionRequest::Arm(trains.to_vec()))? {
            SessionReply::Armed => {}
            other => return Err(self.control.unexpected_answer(&other)),
        }
        let sent = self.transmit_trains(trains)?;
        let wait = ARRIVAL_GRACE + self.idle_rtt().unwrap_or_default() / 4;
        let wait_us = wait.as_micros() as u64;
        let seen = match self.control.request(SessionRequest::Collect(CollectTrains { wait_us }))? {
            SessionReply::Seen(seen) => seen,
            other => return Err(self.control.unexpected_answer(&other)),
        };
        update_facts(&mut self.forward, &seen);
        Ok(train_join::join_trains(trains, &sent, &seen))
    }

    fn transmit_trains(&mut self, trains: &[TrainPlan]) -> Result<Vec<SentTrain>, ProbeError> {
        let never = AtomicBool::new(false);
        let mut looked = Instant::now();
        let mut sent = Vec::with_capacity(trains.len());
        for train in trains {
            let flow = self.flow.as_mut().ok_or_else(no_flow_error)?;
            sent.push(flow.sender.send(train, &never));
            if looked.elapsed() > SERVICE_INTERVAL {
                self.control.service()?;
                looked = Instant::now();
            }
        }
        Ok(sent)
    }

    /// Requests trains from the server, and records their receive times.
    ///
    /// # Errors
    /// Like [`ProbeClient::send_trains`].
    pub fn receive_trains(&mut self, trains: &[TrainPlan]) -> Result<Vec<ProbeTrain>, ProbeError> {
        check_trains(trains)?;
        let grace = ARRIVAL_GRACE + self.idle_rtt().unwrap_or_default() / 4;
        let Some(SessionFlow { socket, reader, .. }) = &mut self.flow else {
            return Err(no_flow_error());
        };
        let line = &mut self.control;
        let offset = reader.clock.wall_offset_ns();
        reader.recorder.arm(trains, offset);
        let over = AtomicBool::new(false);
        let (answer, seen) = thread::scope(|scope| {
            let reading = thread::Builder::new()
                .name("probes".to_owned())
                .spawn_scoped(scope, || read_trains(socket, reader, &over, grace))
                .map_err(local_error("start a thread"))?;
            let answer = line.request(SessionRequest::Send(trains.to_vec()));
            over.store(true, Ordering::Relaxed);
            let seen = reading
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
                .map_err(local_error("receive probes"))?;
            Ok::<_, ProbeError>((answer?, seen))
        })?;
        let sent = match answer {
            SessionReply::Sent(sent) => sent,
            other => return Err(self.control.unexpected_answer(&other)),
        };
        self.reverse.interface_bps = sent.interface_bps.or(self.reverse.interface_bps);
        update_facts(&mut self.reverse, &seen);
        Ok(train_join::join_trains(trains, &sent.trains, &seen))
    }

    /// Sends echoes until `stop` or the end of the series, and keeps the session alive meanwhile.
    /// `each` receives every echo once, when it is answered or given up as lost: nearly, but not
    /// exactly, in sending order. Times count from the start of the series.
    ///
    /// # Errors
    /// The session is over.
    pub fn run_echoes(
        &mut self,
        series: &EchoSeriesPlan,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&load::LoadProbe),
    ) -> Result<RoundTripSeries, ProbeError> {
        self.series = self.series.wrapping_add(1);
        let flow = self.flow.as_mut().ok_or_else(no_flow_error)?;
        echo_run::run_echoes(flow, &mut self.control, self.series, series, stop, each)
    }

    /// Makes the server trace the route to this host's address, the only permitted destination.
    ///
    /// # Errors
    /// The session is over, or the server cannot trace, with its reason.
    pub fn trace_reverse(
        &mut self,
        protocol: ProbeProtocol,
        port: Option<u16>,
        trace: &TracePlan,
    ) -> Result<ObservedRoute, ProbeError> {
        let back = ReverseTraceRequest { protocol, port, trace: trace.clone() };
        match self.control.request(SessionRequest::Trace(back))? {
            SessionReply::Route(route) => Ok(*route),
            other => Err(self.control.unexpected_answer(&other)),
        }
    }

    /// Makes the server measure round trips to this host's address.
    ///
    /// # Errors
    /// The session is over, or the server cannot measure, with its reason.
    pub fn measure_reverse_round_trips(
        &mut self,
        asked: &RoundTripPlan,
    ) -> Result<RoundTripSeries, ProbeError> {
        match self.control.request(SessionRequest::Echoes(asked.clone()))? {
            SessionReply::Echoes(echoes) => Ok(echoes),
            other => Err(self.control.unexpected_answer(&other)),
        }
    }

    /// Returns the server's view of the control connection's TCP options.
    ///
    /// # Errors
    /// The session is over.
    pub fn read_server_tcp_options(&mut self) -> Result<SessionTcpOptions, ProbeError> {
        match self.control.request(SessionRequest::Options)? {
            SessionReply::Options(options) => Ok(options),
            other => Err(self.control.unexpected_answer(&other)),
        }
    }

    /// Ends the session properly.
    pub fn close(self) {
        self.control.close();
    }
}

impl SessionFlow {
    fn new(socket: UdpSocket, session: u64, clock: RunClock) -> io::Result<SessionFlow> {
        flow_reader::configure_socket(&socket)?;
        Ok(SessionFlow {
            sender: TrainSender::new(&socket, session, clock)?,
            reader: FlowReader::new(session, clock),
            socket,
            session,
        })
    }
}

/// Reads until all packets have arrived, or `grace` after `over` was set.
fn read_trains(
    socket: &UdpSocket,
    reader: &mut FlowReader,
    over: &AtomicBool,
    grace: Duration,
) -> io::Result<ReceivedTrains> {
    let mut over_since: Option<Instant> = None;
    loop {
        reader.read(socket, &mut |_| {})?;
        if over.load(Ordering::Relaxed) {
            let since = *over_since.get_or_insert_with(Instant::now);
            if reader.recorder.is_complete() || since.elapsed() > grace {
                return Ok(reader.recorder.take_received());
            }
        }
        poll::wait_readable([socket.as_fd()], Some(MAX_WAIT))?;
    }
}

fn update_facts(facts: &mut DirectionFacts, seen: &ReceivedTrains) {
    let known = ["kernel", "user"].into_iter();
    let clock = known.into_iter().find(|word| *word == seen.clock);
    clock.unwrap_or("user").clone_into(&mut facts.receive_clock);
    facts.overflowed = seen.overflowed.or(facts.overflowed);
}

fn local_error(tried: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::local(format!("cannot {tried}"), source)
}

fn no_flow_error() -> ProbeError {
    ProbeError::local("this session was opened without a UDP flow", None)
}
