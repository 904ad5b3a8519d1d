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
//!
//! # Probe datagram
//!
//! The header of every probe datagram; incompressible padding follows it.
//!
//! ```text
//!  0      4       6     8          16      20      24        32              40           48
//! +------+-------+-----+----------+-------+-------+---------+---------------+------------+
//! | LHP1 | flags | zero| session  | train | index | sent_ns | there_recv_ns | there_sent |
//! +------+-------+-----+----------+-------+-------+---------+---------------+------------+
//! ```
//!
//! Integers are big-endian. Flags: 1 echo request, 2 echo reply, 0 part of a train. `session` is
//! the second half of the session's nonce. Times are nanoseconds of the clock of the host that took
//! them; `there_…` are the server's, zero in all datagrams but echo replies.

mod echo_run;
mod flow_reader;
mod probe_control;
mod probe_server;
mod reverse_survey;
mod train_join;
mod train_recorder;
mod train_sender;

pub use crate::wire::ProbeBounds;
pub(crate) use probe_server::ProbeServer;
pub(crate) use reverse_survey::ReverseSurveyor;

use crate::engine::RunClock;
use crate::path::clock_pair::ClockPair;
use crate::path::probe_reply::{read_array_at, read_u16_at, read_u32_at};
use crate::plan_limits::{MAX_PROBE_BYTES, MAX_PROBING_US, check_trains};
use crate::probe_error::ProbeError;
use crate::supervise::StopFlag;
use crate::throughput::TargetHost;
use crate::wire::{
    CollectTrains, ReceivedTrains, ReverseTraceRequest, SentTrain, SessionNonce, SessionReply,
    SessionRequest, SessionTcpOptions,
};
use flow_reader::FlowReader;
use longhaul_model::report::v1::available::{ProbeTrain, TrainPlan, TrainSchedule};
use longhaul_model::report::v1::path::{
    ObservedRoute, ProbeProtocol, RoundTripPlan, RoundTripSeries, TracePlan,
};
use longhaul_model::report::v1::{RunParty, load};
use longhaul_model::splitmix::SplitMix64;
use longhaul_sys::poll;
pub use probe_control::ProbeControl;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};
pub use train_join::join_trains;
pub use train_recorder::{DatagramArrival, TrainRecorder};
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
    /// Opens the session with one UDP flow; blocks for some round trips, each with a deadline. When
    /// the user sets `stop`, this and every request end with [`ProbeError::Interrupted`].
    ///
    /// # Errors
    /// Like [`crate::throughput::run`]; [`ProbeError::Version`] if the server supports only version
    /// 1 of the protocol.
    pub fn connect(target: &TargetHost, stop: &StopFlag) -> Result<ProbeClient, ProbeError> {
        let bounds = ProbeBounds {
            flows: 1,
            most_bytes: MAX_PROBE_BYTES,
            most_time_us: MAX_PROBING_US,
            dscp: None,
        };
        ProbeClient::open(target, bounds, stop)
    }

    /// Opens a session within `bounds`, or within the server's limits for anonymous clients; see
    /// [`ProbeClient::bounds`].
    ///
    /// # Errors
    /// Like [`ProbeClient::connect`].
    pub fn open(
        target: &TargetHost,
        bounds: ProbeBounds,
        stop: &StopFlag,
    ) -> Result<ProbeClient, ProbeError> {
        let mut control = ProbeControl::open(target, bounds, stop)?;
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

    /// Returns the target with the address of this session.
    pub fn target(&self) -> &TargetHost {
        self.control.target()
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
        let stop = StopFlag::clone(&self.control.stop);
        let mut looked = Instant::now();
        let mut sent = Vec::with_capacity(trains.len());
        for train in trains {
            let flow = self.flow.as_mut().ok_or_else(no_flow_error)?;
            sent.push(flow.sender.send(train, &stop));
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

impl RunClock {
    /// Returns the wall clock (since 1970) minus the monotonic clock, in nanoseconds.
    pub fn wall_offset_ns(self) -> i64 {
        ClockPair::now(self.0).offset_ns() as i64
    }
}

/// Converts a wall-clock time to the monotonic clock.
fn wall_to_monotonic_ns(wall_ns: u64, offset_ns: i64) -> u64 {
    let steady = i128::from(wall_ns) - i128::from(offset_ns);
    u64::try_from(steady.max(0)).unwrap_or(u64::MAX)
}

fn saturating_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Rate from which several packets are sent per call, because single calls are too slow.
const MICRO_BURSTS_FROM_BPS: u64 = 2_000_000_000;
/// Length from which a burst is meant for a fast path.
const MIN_LONG_BURST: u32 = 128;
/// Packets per call for fast trains.
const MICRO_BURST: u32 = 8;

/// Returns the number of packets per send call.
fn micro_burst_packets(train: &TrainPlan) -> u32 {
    let many = match train.schedule {
        TrainSchedule::BackToBack => train.packets >= MIN_LONG_BURST,
        TrainSchedule::RateBps(rate) => rate >= MICRO_BURSTS_FROM_BPS,
        TrainSchedule::Poisson { .. } => false,
    };
    if many { MICRO_BURST } else { 1 }
}

/// Iterates over the due times of the packets, in nanoseconds from the first.
struct PacketSchedule {
    schedule: TrainSchedule,
    packet_bits: u64,
    packets: u64,
    random: SplitMix64,
    at_ns: u64,
}

impl PacketSchedule {
    pub fn for_train(train: &TrainPlan) -> PacketSchedule {
        let random = match train.schedule {
            TrainSchedule::Poisson { seed, .. } => seed,
            _ => 0,
        };
        PacketSchedule {
            schedule: train.schedule,
            packet_bits: u64::from(train.packet_bytes) * 8,
            packets: 0,
            random: SplitMix64::new(random),
            at_ns: 0,
        }
    }

    /// Returns the next packet's due time.
    pub fn next_due_ns(&mut self) -> u64 {
        let at = match self.schedule {
            TrainSchedule::BackToBack => 0,
            // Computed from the count, so that rounding errors do not accumulate.
            TrainSchedule::RateBps(rate) => {
                let bits = u128::from(self.packet_bits) * u128::from(self.packets);
                let at = bits * 1_000_000_000 / u128::from(rate.max(1));
                u64::try_from(at).unwrap_or(u64::MAX)
            }
            TrainSchedule::Poisson { mean_gap_ns, .. } => {
                let gap =
                    if self.packets == 0 { 0.0 } else { mean_gap_ns as f64 * self.exponential() };
                self.at_ns = self.at_ns.saturating_add(gap as u64);
                self.at_ns
            }
        };
        self.packets += 1;
        at
    }

    /// Returns an exponential variate with mean 1, at most 20.
    fn exponential(&mut self) -> f64 {
        let uniform = ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-uniform.ln()).min(20.0)
    }
}

/// Length of the header, and minimum payload of a probe.
pub const HEADER_BYTES: usize = 48;
const MAGIC: [u8; 4] = *b"LHP1";

/// Type of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramKind {
    Train,
    EchoWanted,
    Echo,
}

impl DatagramKind {
    fn from_flags(flags: u16) -> Option<DatagramKind> {
        let kinds = [DatagramKind::Train, DatagramKind::EchoWanted, DatagramKind::Echo];
        kinds.get(usize::from(flags)).copied()
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeDatagramHeader {
    pub kind: DatagramKind,
    /// See [`session_number`].
    pub session: u64,
    /// Index of the train's plan; for echoes, the number of the series.
    pub train: u32,
    /// Index within the train or series, from 0.
    pub index: u32,
    pub sent_ns: u64,
    pub there_received_ns: u64,
    pub there_sent_ns: u64,
}

/// Returns the session's number in its datagrams, which excludes strays of earlier sessions.
pub(crate) fn session_number(nonce: SessionNonce) -> u64 {
    nonce.0.last_chunk::<8>().map_or(0, |half| u64::from_be_bytes(*half))
}

impl ProbeDatagramHeader {
    /// Writes the header to the start of `datagram`; does nothing if that is too short.
    pub fn write(self, datagram: &mut [u8]) {
        let Some(head) = datagram.first_chunk_mut::<HEADER_BYTES>() else {
            return;
        };
        head[0..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&(self.kind as u16).to_be_bytes());
        head[6..8].fill(0);
        head[8..16].copy_from_slice(&self.session.to_be_bytes());
        head[16..20].copy_from_slice(&self.train.to_be_bytes());
        head[20..24].copy_from_slice(&self.index.to_be_bytes());
        head[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        head[32..40].copy_from_slice(&self.there_received_ns.to_be_bytes());
        head[40..48].copy_from_slice(&self.there_sent_ns.to_be_bytes());
    }

    /// Parses a header; returns `None` for other datagrams.
    pub fn read(datagram: &[u8]) -> Option<ProbeDatagramHeader> {
        let u64_at = |at| read_array_at(datagram, at).map(u64::from_be_bytes);
        if !datagram.starts_with(&MAGIC) || read_u16_at(datagram, 6) != Some(0) {
            return None;
        }
        Some(ProbeDatagramHeader {
            kind: DatagramKind::from_flags(read_u16_at(datagram, 4)?)?,
            session: u64_at(8)?,
            train: read_u32_at(datagram, 16)?,
            index: read_u32_at(datagram, 20)?,
            sent_ns: u64_at(24)?,
            there_received_ns: u64_at(32)?,
            there_sent_ns: u64_at(40)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime};

    #[test]
    fn two_readings_of_an_undisturbed_clock_agree() {
        let clock = RunClock(Instant::now());
        let (first, second) = (clock.wall_offset_ns(), clock.wall_offset_ns());
        // A busy machine may preempt the thread between two readings, but not for a second.
        assert!((first - second).abs() < 1_000_000_000);
        let wall =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, saturating_nanos);
        let apart = clock.now_ns().abs_diff(wall_to_monotonic_ns(wall, second));
        assert!(apart < 1_000_000_000, "{apart} ns");
    }

    #[test]
    fn times_before_the_epoch_are_zero_and_nothing_overflows() {
        assert_eq!(wall_to_monotonic_ns(5, 10), 0);
        assert_eq!(wall_to_monotonic_ns(u64::MAX, i64::MIN), u64::MAX);
    }
}

#[cfg(test)]
mod packet_schedule_tests {
    use super::*;
    use longhaul_model::report::v1::available::TrainPurpose;

    fn train(schedule: TrainSchedule, packets: u32) -> TrainPlan {
        TrainPlan {
            index: 0,
            purpose: TrainPurpose::Sweep,
            packets,
            packet_bytes: 1500,
            schedule,
            pause_us: 0,
        }
    }

    fn times(schedule: TrainSchedule, packets: u32) -> Vec<u64> {
        let mut due = PacketSchedule::for_train(&train(schedule, packets));
        (0..packets).map(|_| due.next_due_ns()).collect()
    }

    #[test]
    fn a_rate_spaces_packets_evenly_without_adding_up_errors() {
        let times = times(TrainSchedule::RateBps(7_000_000), 2001);
        assert_eq!(times[0], 0);
        // 2000 packets of 12 000 bits at 7 Mbit/s.
        assert_eq!(times[2000], 3_428_571_428);
    }

    #[test]
    fn random_gaps_have_their_mean_and_their_spread_and_come_again_from_the_seed() {
        let schedule = |seed| TrainSchedule::Poisson { mean_gap_ns: 2_000_000, seed };
        let first = times(schedule(5), 4001);
        assert_eq!(first, times(schedule(5), 4001));
        assert_ne!(first, times(schedule(6), 4001));
        let mean = first[4000] as f64 / 4000.0;
        assert!((1.9e6..2.1e6).contains(&mean), "{mean}");
        let longer = first.windows(2).filter(|pair| pair[1] - pair[0] > 2_000_000);
        let share = longer.count() as f64 / 4000.0;
        // exp(-1)
        assert!((0.34..0.40).contains(&share), "{share}");
    }

    #[test]
    fn only_fast_trains_leave_in_micro_bursts() {
        let of = |schedule, packets| micro_burst_packets(&train(schedule, packets));
        assert_eq!(of(TrainSchedule::BackToBack, 17), 1);
        assert_eq!(of(TrainSchedule::BackToBack, 1000), 8);
        assert_eq!(of(TrainSchedule::RateBps(1_999_999_999), 1000), 1);
        assert_eq!(of(TrainSchedule::RateBps(5_000_000_000), 10), 8);
    }
}

#[cfg(test)]
mod probe_datagram_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let header = ProbeDatagramHeader {
            kind: DatagramKind::Echo,
            session: 0x0102_0304_0506_0708,
            train: 9,
            index: 10,
            sent_ns: 11,
            there_received_ns: 12,
            there_sent_ns: 13,
        };
        let mut bytes = [0xee; HEADER_BYTES];
        header.write(&mut bytes);
        let mut drawn = b"LHP1\0\x02\0\0\x01\x02\x03\x04\x05\x06\x07\x08".to_vec();
        drawn.extend([0, 0, 0, 9, 0, 0, 0, 10]);
        for time in [11, 12, 13] {
            drawn.extend([0, 0, 0, 0, 0, 0, 0, time]);
        }
        assert_eq!(bytes.as_slice(), drawn);
        assert_eq!(ProbeDatagramHeader::read(&bytes), Some(header));
        assert_eq!(ProbeDatagramHeader::read(&bytes[..47]), None);
        bytes[5] = 3;
        assert_eq!(ProbeDatagramHeader::read(&bytes), None, "both flags");
    }

    proptest! {
        #[test]
        fn a_head_reads_back_as_it_was_written(
            kind in prop::sample::select(vec![DatagramKind::Train, DatagramKind::EchoWanted, DatagramKind::Echo]),
            numbers: (u64, u32, u32),
            times: (u64, u64, u64),
            length in HEADER_BYTES..2000,
        ) {
            let header = ProbeDatagramHeader {
                kind,
                session: numbers.0,
                train: numbers.1,
                index: numbers.2,
                sent_ns: times.0,
                there_received_ns: times.1,
                there_sent_ns: times.2,
            };
            let mut datagram = vec![7; length];
            header.write(&mut datagram);
            prop_assert_eq!(ProbeDatagramHeader::read(&datagram), Some(header));
        }

        #[test]
        fn bytes_of_a_stranger_are_no_head(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(ProbeDatagramHeader::read(&bytes), None);
        }

        #[test]
        fn what_begins_like_ours_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let bytes = [MAGIC.as_slice(), &bytes].concat();
            if let Some(header) = ProbeDatagramHeader::read(&bytes) {
                let mut again = bytes.clone();
                header.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
