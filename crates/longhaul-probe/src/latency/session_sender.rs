//! A session-sender: sends the packets of a plan at even intervals, and records the answers.
//!
//! A packet is matched by its number, its session and its timestamp, whose 64 bits an outsider
//! would have to guess.

use super::control_cipher::TwampKey;
use super::control_messages::TwampSessionRequest;
use super::control_session::TwampControlConnection;
use super::test_packet::{PacketCodec, PacketKey, TestReply, TestRequest};
use super::wire_time::{decode_time, encode_ntp_time};
use super::{PACKET_TTL, STAMP_PORT, read_clock_error};
use crate::path::clock_pair::{ClockPair, stamp_to_monotonic};
use crate::probe_error::ProbeError;
use crate::secure::random_bytes;
use crate::supervise::StopFlag;
use crate::throughput::{TargetHost, choose_path_address, connect_target};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::latency::{
    LatencyAnswer, LatencyObservation, LatencyPacket, LatencyPlan, LatencyProtocol, WallClockState,
};
use longhaul_sys::poll::wait_readable;
use longhaul_sys::probe_socket::{ErrorQueueEntry, IpFamily, ProbeArrival, ProbeSocket};
use longhaul_sys::sockopt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// The maximum number of packets of a run; all of them are in the report.
pub const MAX_PACKETS: u32 = 100_000;
/// The maximum number of answers that are kept of a packet.
const MAX_ANSWERS: usize = 8;
/// Packets after which a session ends that only ICMP errors answer.
const PACKETS_UNTIL_REFUSED: usize = 5;
/// Interval at which waits check the stop flag.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A step of the wall clock is greater than what reading two clocks one after the other makes.
const MIN_CLOCK_STEP: Duration = Duration::from_micros(100);

/// The key of a session.
#[derive(Debug, Clone)]
pub enum SessionKey {
    Stamp(PacketKey),
    /// To be agreed on with a server of TWAMP.
    Twamp(TwampKey),
}

impl SessionKey {
    fn into_twamp(self) -> Option<TwampKey> {
        if let SessionKey::Twamp(key) = self { Some(key) } else { None }
    }
}

/// The result of a session.
#[derive(Debug, Clone)]
pub struct LatencyOutcome {
    pub observation: LatencyObservation,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub started_at: SystemTime,
    pub duration: Duration,
    /// UDP port of the reflector, which a server of TWAMP chooses.
    pub port: u16,
    /// The host that reported by ICMP that the reflector cannot be reached.
    pub unreachable_by: Option<IpAddr>,
}

/// The progress of a session.
#[derive(Debug, Clone, Copy)]
pub struct LatencyProgress {
    pub sent: u32,
    pub answered: u32,
    /// Of the latest answer, with the time in the reflector.
    pub rtt: Option<Duration>,
}

/// Sends the packets of `plan` to the reflector at `target`, and waits for the answers.
///
/// Asks a server of TWAMP for a session first if the plan has a port of it. Blocks for the intervals of
/// all packets and one timeout. Ends within 100 ms of `stop`, and then the outcome has the packets so
/// far.
///
/// # Errors
/// The name has no address, a server of TWAMP starts no session, or this host cannot send. Missing
/// answers are no error.
pub fn run(
    target: &TargetHost,
    plan: &LatencyPlan,
    key: Option<SessionKey>,
    stop: &StopFlag,
    watch: &mut dyn FnMut(&LatencyProgress),
) -> Result<LatencyOutcome, ProbeError> {
    let started_at = SystemTime::now();
    let control = plan.control_port.map(|port| {
        connect_target(&TargetHost { port, ..target.clone() })
            .map(|it| TwampControlConnection::new(it.stream, it.address))
    });
    let control = control.transpose()?;
    let chosen = match &control {
        Some(control) => control.address(),
        None => choose_path_address(target)?.address,
    };
    let mut address = match chosen.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, plan.port),
        // With its scope.
        IpAddr::V6(_) => chosen,
    };
    address.set_port(plan.port);
    let failed =
        move |source| ProbeError::local(format!("cannot send packets to {address}"), source);
    let socket = open_socket(address, target, plan).map_err(failed)?;
    let (mut codec, mut started) = (PacketCodec::new(None), None);
    match (control, key) {
        (Some(control), key) => {
            let sender_port = socket.local_address().map_err(failed)?.port();
            let request = build_session_request(plan, address, sender_port);
            let key = key.and_then(SessionKey::into_twamp);
            let session = control.start_session(request, key, target.connect_timeout)?;
            codec = PacketCodec::for_session(session.test_key());
            address.set_port(session.reflector_port());
            socket.connect(address).map_err(failed)?;
            started = Some(session);
        }
        (None, Some(SessionKey::Stamp(key))) => codec = PacketCodec::new(Some(key)),
        (None, _) => {}
    }
    let epoch = Instant::now();
    let mut sender = SessionSender {
        plan,
        socket,
        epoch,
        session: SenderSession::new(codec, ClockPair::now(epoch), plan),
        buffer: vec![0; 1 << 16],
        next_due: Duration::ZERO,
        unreachable_by: None,
    };
    sender.run(stop, watch).map_err(failed)?;
    if let Some(session) = started {
        session.stop();
    }
    let local = sender.socket.local_address().ok().map(|own| own.ip().to_canonical().to_string());
    let end = ClockPair::now(epoch);
    let port = address.port();
    Ok(LatencyOutcome {
        port,
        unreachable_by: sender.unreachable_by,
        observation: LatencyObservation {
            address: address.ip().to_string(),
            ..sender.session.finish(&end)
        },
        initiator: RunParty { address: local, ..crate::local_party_info() },
        responder: RunParty {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            port: (port != STAMP_PORT).then_some(port),
            ..RunParty::default()
        },
        started_at,
        duration: epoch.elapsed(),
    })
}

fn build_session_request(
    plan: &LatencyPlan,
    address: SocketAddr,
    sender_port: u16,
) -> TwampSessionRequest {
    TwampSessionRequest {
        is_ipv6: address.is_ipv6(),
        sender_port,
        reflector_port: plan.port,
        payload_bytes: plan.payload_bytes,
        timeout: Duration::from_micros(plan.timeout_us),
        dscp: plan.dscp,
    }
}

fn open_socket(
    address: SocketAddr,
    target: &TargetHost,
    plan: &LatencyPlan,
) -> io::Result<ProbeSocket> {
    let socket = ProbeSocket::udp(IpFamily::of_address(address.ip()))?;
    if let Some(device) = &target.bind.device {
        socket.bind_device(device)?;
    }
    if let Some(own) = target.bind.address {
        socket.bind(SocketAddr::new(own, 0))?;
    }
    socket.set_ttl(PACKET_TTL)?;
    if let Some(dscp) = plan.dscp {
        sockopt::set_dscp(&socket, dscp, address)?;
    }
    socket.connect(address)?;
    // Without them, the time before the send counts.
    let _ = socket.enable_transmit_timestamps();
    Ok(socket)
}

/// A session in progress, with its socket.
struct SessionSender<'a> {
    plan: &'a LatencyPlan,
    socket: ProbeSocket,
    epoch: Instant,
    session: SenderSession,
    buffer: Vec<u8>,
    /// When the next packet is due.
    next_due: Duration,
    unreachable_by: Option<IpAddr>,
}

impl SessionSender<'_> {
    fn run(&mut self, stop: &StopFlag, watch: &mut dyn FnMut(&LatencyProgress)) -> io::Result<()> {
        let interval = Duration::from_micros(self.plan.interval_us);
        let timeout = Duration::from_micros(self.plan.timeout_us);
        let count = self.plan.packets.min(MAX_PACKETS) as usize;
        loop {
            // Read first: answers that came while this host was stalled are not lost.
            if self.receive()? {
                watch(&self.session.progress());
            }
            let now = self.epoch.elapsed();
            let all_sent = self.session.packets.len() >= count;
            let silent = all_sent && now.saturating_sub(self.session.last_sent()) >= timeout;
            let refused = self.unreachable_by.is_some()
                && self.session.answered == 0
                && self.session.packets.len() >= PACKETS_UNTIL_REFUSED.min(count);
            let complete = all_sent && self.session.answered as usize == count;
            if silent || refused || complete || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if !all_sent && now >= self.next_due {
                self.send()?;
                // After a stall, the missed packets do not follow in a burst.
                self.next_due = (self.next_due + interval).max(now + interval / 2);
            }
            let wait = if self.session.packets.len() < count {
                self.next_due.saturating_sub(self.epoch.elapsed())
            } else {
                timeout
            };
            wait_readable([self.socket.as_fd()], Some(wait.min(STOP_POLL_INTERVAL)))?;
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let packet = self.session.next_packet(ClockPair::now(self.epoch), self.plan);
        match self.socket.send(packet, None, None) {
            Ok(()) => self.session.record_accepted(),
            // A failure of the first send is permanent; a later one is a packet lost at this host.
            Err(error) if self.session.packets.len() == 1 => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Reads all messages; returns whether there was an answer.
    fn receive(&mut self) -> io::Result<bool> {
        let mut has_answer = false;
        while let Some(arrival) = self.socket.receive(&mut self.buffer)? {
            let moment = ClockPair::now(self.epoch);
            match arrival.queued {
                None => {
                    let packet = &self.buffer[..arrival.bytes];
                    has_answer |= self.session.record_answer(packet, &arrival, &moment);
                }
                Some(ErrorQueueEntry::Sent { number }) => {
                    self.session.record_transmit_time(number, arrival.at, &moment);
                }
                Some(ErrorQueueEntry::Icmp(icmp)) => {
                    self.unreachable_by = self.unreachable_by.or(icmp.reported_by);
                }
                Some(ErrorQueueEntry::Other) => {}
            }
        }
        Ok(has_answer)
    }
}

/// A packet that was sent.
#[derive(Debug)]
struct SessionPacket {
    /// As on the wire.
    timestamp: u64,
    /// Just before it was sent.
    moment: ClockPair,
    record: LatencyPacket,
}

/// A session without its socket.
#[derive(Debug)]
struct SenderSession {
    codec: PacketCodec,
    identifier: u16,
    begin: ClockPair,
    packets: Vec<SessionPacket>,
    /// Numbers of packets in the order in which the kernel accepted them.
    accepted: Vec<usize>,
    buffer: Vec<u8>,
    answered: u32,
    last_rtt: Option<Duration>,
    transmit_times: u32,
    receive_times: u32,
    observation: LatencyObservation,
}

impl SenderSession {
    fn new(codec: PacketCodec, begin: ClockPair, plan: &LatencyPlan) -> SenderSession {
        let random = || random_bytes::<2>().map_or(1, u16::from_ne_bytes).max(1);
        let is_stamp = plan.protocol == LatencyProtocol::Stamp;
        SenderSession {
            codec,
            identifier: if is_stamp { random() } else { 0 },
            begin,
            packets: Vec::new(),
            accepted: Vec::new(),
            buffer: vec![0; plan.payload_bytes as usize],
            answered: 0,
            last_rtt: None,
            transmit_times: 0,
            receive_times: 0,
            observation: LatencyObservation::default(),
        }
    }

    fn progress(&self) -> LatencyProgress {
        let sent = self.packets.len() as u32;
        LatencyProgress { sent, answered: self.answered, rtt: self.last_rtt }
    }

    fn last_sent(&self) -> Duration {
        self.packets.last().map_or(Duration::ZERO, |packet| packet.moment.monotonic)
    }

    /// Builds the next packet, which is sent at once.
    fn next_packet(&mut self, moment: ClockPair, plan: &LatencyPlan) -> &[u8] {
        let timestamp = encode_ntp_time(moment.wall.as_nanos() as u64);
        let request = TestRequest {
            sequence: self.packets.len() as u32,
            timestamp,
            error: read_clock_error().encode(),
            session: self.identifier,
        };
        self.codec.encode_request(&request, plan.protocol, &mut self.buffer);
        let sent_ns = moment.monotonic.as_nanos() as u64;
        let record = LatencyPacket { sent_ns, answers: Vec::new() };
        self.packets.push(SessionPacket { timestamp, moment, record });
        &self.buffer
    }

    fn record_accepted(&mut self) {
        self.accepted.push(self.packets.len() - 1);
    }

    fn record_transmit_time(&mut self, number: u32, stamp: Option<Duration>, moment: &ClockPair) {
        let packet = self.accepted.get(number as usize).and_then(|at| self.packets.get_mut(*at));
        let (Some(packet), Some(stamp)) = (packet, stamp) else {
            return;
        };
        if let Some(sent) = stamp_to_monotonic(stamp, &packet.moment, moment) {
            packet.record.sent_ns = sent.as_nanos() as u64;
            self.transmit_times += 1;
        }
    }

    /// Records an answer; returns whether it is the first one of a packet.
    fn record_answer(&mut self, bytes: &[u8], arrival: &ProbeArrival, moment: &ClockPair) -> bool {
        let reply = self.codec.decode_reply(bytes);
        let Some((reply, packet)) = reply.and_then(|reply| {
            let packet = self.packets.get_mut(reply.request.sequence as usize)?;
            let is_own = packet.timestamp == reply.request.timestamp
                && [self.identifier, 0].contains(&reply.request.session)
                && packet.record.answers.len() < MAX_ANSWERS;
            is_own.then_some((reply, packet))
        }) else {
            self.observation.discarded += 1;
            return false;
        };
        let stamp = arrival.at.and_then(|at| stamp_to_monotonic(at, &packet.moment, moment));
        self.receive_times += u32::from(stamp.is_some());
        let received = stamp.unwrap_or(moment.monotonic);
        packet.record.answers.push(build_answer(&reply, received, &self.begin));
        if packet.record.answers.len() > 1 {
            return false;
        }
        self.last_rtt = Some(received.saturating_sub(packet.moment.monotonic));
        if self.answered == 0 {
            self.observation.forward_ttl = Some(reply.request_ttl);
            self.observation.reverse_ttl = arrival.ttl;
        }
        self.answered += 1;
        self.observation.far_clock = Some(WallClockState {
            synchronized: reply.error.synchronized,
            error_ns: u64::try_from(reply.error.error.as_nanos()).unwrap_or(u64::MAX),
        });
        true
    }

    fn finish(self, end: &ClockPair) -> LatencyObservation {
        let step = end.offset_ns() - self.begin.offset_ns();
        let noise = MIN_CLOCK_STEP + self.begin.uncertainty + end.uncertainty;
        let near = read_clock_error();
        let answers: usize = self.packets.iter().map(|it| it.record.answers.len()).sum();
        let has_all = |times: u32, of: usize| times as usize >= of && of > 0;
        let timestamps = match (
            has_all(self.transmit_times, self.answered as usize),
            has_all(self.receive_times, answers),
        ) {
            (true, true) => "kernel",
            (false, true) => "kernel_receive",
            _ => "user",
        };
        LatencyObservation {
            timestamps: timestamps.to_owned(),
            near_clock: WallClockState {
                synchronized: near.synchronized,
                error_ns: near.error.as_nanos() as u64,
            },
            clock_step_ns: (step.unsigned_abs() > noise.as_nanos()).then_some(step as i64),
            packets: self.packets.into_iter().map(|packet| packet.record).collect(),
            ..self.observation
        }
    }
}

/// Returns the times of an answer. Those of the reflector are relative to the wall clock of this
/// host at the start.
fn build_answer(reply: &TestReply, received: Duration, begin: &ClockPair) -> LatencyAnswer {
    let far = |raw| {
        let since = i128::from(decode_time(raw, reply.error.format)) - begin.offset_ns();
        i64::try_from(since).unwrap_or(if since < 0 { i64::MIN } else { i64::MAX })
    };
    LatencyAnswer {
        sequence_number: reply.sequence,
        far_received_ns: far(reply.received),
        far_sent_ns: far(reply.timestamp),
        received_ns: received.as_nanos() as u64,
    }
}
