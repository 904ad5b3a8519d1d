//! Round-trip times to one address, by ICMP echo, UDP or TCP.
//!
//! | probes | answered by | without privileges |
//! | --- | --- | --- |
//! | ICMP | echo reply | where `net.ipv4.ping_group_range` allows it |
//! | UDP | port unreachable; the same datagram | yes |
//! | TCP | SYN-ACK, reset | yes, by connecting |
//!
//! Units: nanoseconds. Error: some microseconds with kernel timestamps; otherwise the wake-up
//! latencies of both kernels and this program. Wrong when: the destination delays its answers
//! (small hosts, and hosts that limit ICMP errors to one per second, do so for UDP); the interval
//! is shorter than such a limit, which then looks like loss.
//!
//! # Connect prober
//!
//! TCP round trips without privileges: each probe is a connection that is closed at once.
//!
//! If the port is open, the kernel has measured the handshake (TCP_INFO); if not, this program
//! times the reset. A probe whose SYN was retransmitted counts as lost.

mod echo_socket;
pub(crate) mod echo_state;

use super::clock_pair::ClockPair;
use super::path_error::protocol_name;
use super::{PathError, ProbeTarget};
use crate::path::tcp_options;
use echo_state::{AnswerTiming, EchoSchedule, EchoSeriesState, RttClock};
use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol, RoundTripPlan, RoundTripSeries};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::{TcpInfo, read_tcp_info};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

pub(super) use echo_socket::{EchoEvent, EchoSocket};

/// Interval at which waits check `stop`.
pub(super) const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// TTL of echo probes.
const TTL: u8 = 64;
/// Number of source ports of TCP probes: no port is reused before its connection is forgotten.
const MAX_FLOWS: u16 = 32;

/// Parameters of a series of round trips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EchoSeriesRequest {
    pub target: ProbeTarget,
    /// Number, interval, size and timeout; the protocol is that of the target.
    pub round_trips: RoundTripPlan,
    /// Ends the series early if none of this many first probes is answered in time.
    pub give_up_after: Option<u32>,
}

/// Result of a finished series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EchoSeriesResult {
    pub echoes: RoundTripSeries,
    /// Sender of an unreachable error, with the report's name for the error.
    pub unreachable: Option<(IpAddr, &'static str)>,
    pub answered: u32,
}

/// Measures round trips. `each` receives every probe once, in sending order, when it is answered or
/// given up.
///
/// Takes at most the probes' intervals and one timeout, and ends within 100 ms when `stop` is set.
///
/// # Errors
/// No route, or the kernel does not permit such probes. Missing answers are no error.
pub(crate) fn measure_round_trips(
    asked: &EchoSeriesRequest,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&ProbeEcho),
) -> Result<EchoSeriesResult, PathError> {
    let trips = &asked.round_trips;
    let schedule = EchoSchedule {
        probes: trips.probes,
        interval: Duration::from_micros(trips.interval_us),
        timeout: Duration::from_micros(trips.timeout_us),
        give_up_after: asked.give_up_after,
    }
    .clamped();
    let carrier = open_transport(&asked.target, &schedule)?;
    let mut running = RunningEchoSeries {
        packet_bytes: carrier.packet_bytes(trips.packet_bytes),
        carrier,
        series: EchoSeriesState::new(schedule),
        epoch: Instant::now(),
        unreachable: None,
    };
    let failed = |source| {
        let what = format!("measure round trips with {} to", protocol_name(asked.target.protocol));
        PathError::from_io_error(what, asked.target.destination, source, None)
    };
    running.run(stop, each).map_err(failed)?;
    Ok(EchoSeriesResult {
        answered: running.series.answered_probes(),
        unreachable: running.unreachable,
        echoes: running.series.echoes(asked.target.protocol, running.packet_bytes),
    })
}

/// Sends the probes of a series and receives the answers.
pub(super) trait EchoTransport {
    /// Returns the actual IP packet size for the requested one.
    fn packet_bytes(&self, asked: u32) -> u32;
    /// Sends the packet of this number, in the requested size if possible.
    fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()>;
    /// Waits for a message, at most this long.
    fn wait(&mut self, time: Duration) -> io::Result<()>;
    /// Returns the received messages.
    fn receive(&mut self) -> io::Result<Vec<EchoEvent>>;
}

fn open_transport(
    target: &ProbeTarget,
    schedule: &EchoSchedule,
) -> Result<Box<dyn EchoTransport>, PathError> {
    let outstanding = schedule.timeout.as_micros() / schedule.interval.as_micros().max(1) + 1;
    let ports = u16::try_from(outstanding).unwrap_or(u16::MAX).min(MAX_FLOWS);
    match EchoSocket::open(target, ports, false) {
        Err(PathError::Privilege { .. }) if target.protocol == ProbeProtocol::Tcp => {
            Ok(Box::new(ConnectProber::new(target.clone(), schedule.timeout)))
        }
        opened => Ok(Box::new(opened?)),
    }
}

/// A series in progress, with its sockets.
struct RunningEchoSeries {
    carrier: Box<dyn EchoTransport>,
    series: EchoSeriesState,
    packet_bytes: u32,
    epoch: Instant,
    unreachable: Option<(IpAddr, &'static str)>,
}

impl RunningEchoSeries {
    fn run(&mut self, stop: &AtomicBool, each: &mut dyn FnMut(&ProbeEcho)) -> io::Result<()> {
        loop {
            let now = self.epoch.elapsed();
            // Read first: answers that arrived while this host was stalled are not lost.
            for heard in self.carrier.receive()? {
                self.handle_event(heard);
            }
            let over = self.series.is_over(now) || stop.load(Ordering::Relaxed);
            self.series.take_settled(now).iter().for_each(&mut *each);
            if over {
                return Ok(());
            }
            if self.series.due().is_some_and(|due| due <= now) {
                self.send()?;
            }
            let next = self.series.due().or_else(|| self.series.answer_deadline());
            let wait = next.unwrap_or_default().saturating_sub(self.epoch.elapsed());
            self.carrier.wait(wait.min(STOP_POLL_INTERVAL))?;
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let number = self.series.next_number();
        self.series.record_sent(ClockPair::now(self.epoch));
        match self.carrier.send(number, self.packet_bytes) {
            // A failure of the first send is permanent; a later one is a probe lost locally.
            Err(error) if number == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_event(&mut self, heard: EchoEvent) {
        let moment = ClockPair::now(self.epoch);
        match heard {
            EchoEvent::Answer { number, stamp, ttl } => {
                let came = AnswerTiming::Read { moment, stamp };
                self.series.record_answer(number, came, ttl);
            }
            EchoEvent::Measured { number, rtt, by_kernel } => {
                let clock = if by_kernel { RttClock::Kernel } else { RttClock::User };
                let came = AnswerTiming::Measured { moment, rtt, clock };
                self.series.record_answer(number, came, None);
            }
            EchoEvent::Transmitted { number, stamp } => {
                self.series.record_transmit_time(number, stamp, &moment);
            }
            EchoEvent::Unreachable { by, word } => {
                self.unreachable = self.unreachable.or(Some((by, word)));
            }
            EchoEvent::TooBig { by, .. } => {
                self.unreachable = self.unreachable.or(Some((by, "too_big")));
            }
            EchoEvent::Unmatched => {
                self.series.discard();
            }
        }
    }
}

/// The maximum number of simultaneous connects; further probes are not sent.
const MAX_CONCURRENT: usize = 64;
/// Longest valid connect: a SYN is retransmitted after one second.
const MAX_CONNECT_TIME: Duration = Duration::from_millis(990);

/// Connects in progress.
#[derive(Debug)]
struct ConnectProber {
    target: ProbeTarget,
    to: SocketAddr,
    timeout: Duration,
    result_sender: Sender<Option<EchoEvent>>,
    results: Receiver<Option<EchoEvent>>,
    in_progress: usize,
    events: Vec<EchoEvent>,
}

impl ConnectProber {
    fn new(target: ProbeTarget, timeout: Duration) -> ConnectProber {
        let (tell, told) = mpsc::channel();
        ConnectProber {
            to: SocketAddr::new(target.destination, target.destination_port()),
            target,
            timeout: timeout.min(MAX_CONNECT_TIME),
            result_sender: tell,
            results: told,
            in_progress: 0,
            events: Vec::new(),
        }
    }

    fn record_result(&mut self, told: Option<EchoEvent>) {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.events.extend(told);
    }
}

impl EchoTransport for ConnectProber {
    /// Returns the size of a SYN with Linux's options: the kernel builds it.
    fn packet_bytes(&self, _asked: u32) -> u32 {
        if self.to.is_ipv4() { 60 } else { 80 }
    }

    fn send(&mut self, number: u32, _packet_bytes: u32) -> io::Result<()> {
        if self.in_progress >= MAX_CONCURRENT {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (target, to, timeout, tell) =
            (self.target.clone(), self.to, self.timeout, self.result_sender.clone());
        let connect = move || {
            // The receiver is gone if the series is over.
            let _ = tell.send(connect_once(&target, to, timeout, number));
        };
        thread::Builder::new().name("connect".to_owned()).stack_size(128 << 10).spawn(connect)?;
        self.in_progress += 1;
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        if let Ok(told) = self.results.recv_timeout(time) {
            self.record_result(told);
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<EchoEvent>> {
        while let Ok(told) = self.results.try_recv() {
            self.record_result(told);
        }
        Ok(std::mem::take(&mut self.events))
    }
}

/// Measures one round trip; returns `None` on failure.
fn connect_once(
    target: &ProbeTarget,
    to: SocketAddr,
    timeout: Duration,
    number: u32,
) -> Option<EchoEvent> {
    let socket = tcp_options::open_tcp(to, target.source, target.device.as_deref()).ok()?;
    let before = Instant::now();
    let connected = socket.connect(timeout);
    let took = before.elapsed();
    match connected {
        Ok(stream) => {
            let info = read_tcp_info(&stream).ok();
            // An abort spares the server the state of an empty connection.
            let _ = sockopt::set_abort_on_close(&stream);
            let known = info.filter(|info| info.rtt() > Duration::ZERO && info.rtt() <= took);
            if known.as_ref().is_some_and(|info| info.reading.retransmitted_segments > 0) {
                return None;
            }
            Some(EchoEvent::Measured {
                number,
                rtt: known.as_ref().map_or(took, TcpInfo::rtt),
                by_kernel: known.is_some(),
            })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Some(EchoEvent::Measured { number, rtt: took, by_kernel: false })
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
