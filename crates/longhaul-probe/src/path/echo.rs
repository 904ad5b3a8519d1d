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

mod connects;
mod courier;
mod heard;
mod moment;
mod series;

use super::PathError;
use super::error::spoken;
use connects::Connects;

use longhaul_model::report::v1::path::{Echo, Echoes, Protocol, RoundTrips};
use moment::Moment;
use series::{Came, Clock, Schedule, Series};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) use courier::{Courier, Way};
pub(super) use heard::Heard;

/// Interval at which waits check `stop`.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// TTL of echo probes.
const TTL: u8 = 64;
/// Number of source ports of TCP probes: no port is reused before its connection is forgotten.
const MOST_FLOWS: u16 = 32;

/// Parameters of a series of round trips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoAsked {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    /// Port of UDP and TCP probes; `None`: the protocol's default.
    pub port: Option<u16>,
    pub round_trips: RoundTrips,
}

/// Result of a finished series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ran {
    pub echoes: Echoes,
    /// None of the first probes was answered, so the rest was not sent.
    pub gave_up: bool,
    /// Sender of an unreachable error, with the report's name for the error.
    pub denied: Option<(IpAddr, &'static str)>,
    pub answered: u32,
}

/// Measures round trips. `each` receives every probe once, in sending order, when it is answered or
/// given up.
///
/// Takes at most the probes' intervals and one timeout, and ends within 100 ms when `stop` is set.
///
/// # Errors
/// No route, or the kernel does not permit such probes. Missing answers are no error.
pub fn echoes(
    asked: &EchoAsked,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Echo),
) -> Result<Echoes, PathError> {
    series_of(asked, None, stop, each).map(|ran| ran.echoes)
}

/// Like [`echoes`], but gives up if none of the first `give_up_after` probes is answered.
pub(super) fn series_of(
    asked: &EchoAsked,
    give_up_after: Option<u32>,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Echo),
) -> Result<Ran, PathError> {
    let trips = &asked.round_trips;
    let schedule = Schedule {
        probes: trips.probes,
        interval: Duration::from_micros(trips.interval_us),
        timeout: Duration::from_micros(trips.timeout_us),
        give_up_after,
    }
    .bounded();
    let carrier = Carrier::open(&way(asked, &schedule), &schedule)?;
    let mut running = Running {
        packet_bytes: carrier.packet_bytes(trips.packet_bytes),
        carrier,
        series: Series::new(schedule),
        epoch: Instant::now(),
        denied: None,
    };
    let failed = |source| {
        let what = format!("measure round trips by {} to", spoken(trips.protocol));
        PathError::of(what, asked.destination, source, None)
    };
    running.drive(stop, each).map_err(failed)?;
    Ok(Ran {
        gave_up: running.series.gave_up(),
        answered: running.series.answered(),
        denied: running.denied,
        echoes: running.series.echoes(trips.protocol, running.packet_bytes),
    })
}

fn way(asked: &EchoAsked, schedule: &Schedule) -> Way {
    let flows = schedule.timeout.as_micros() / schedule.interval.as_micros().max(1) + 1;
    Way {
        destination: asked.destination,
        source: asked.source,
        device: asked.device.clone(),
        protocol: asked.round_trips.protocol,
        port: asked.port,
        flows: u16::try_from(flows).unwrap_or(u16::MAX).min(MOST_FLOWS),
        uncut: false,
    }
}

/// Transport of the probes of one series.
enum Carrier {
    Packets(Box<Courier>),
    Connections(Connects),
}

impl Carrier {
    fn open(way: &Way, schedule: &Schedule) -> Result<Carrier, PathError> {
        match Courier::open(way) {
            Err(PathError::Privilege { .. }) if way.protocol == Protocol::Tcp => Ok(
                Carrier::Connections(Connects::new(way.clone(), schedule.timeout)),
            ),
            opened => opened.map(|courier| Carrier::Packets(Box::new(courier))),
        }
    }

    /// Returns the packet size. The kernel builds a connection's SYN, which is as long as a TCP
    /// probe.
    fn packet_bytes(&self, asked: u32) -> u32 {
        match self {
            Carrier::Packets(courier) => courier.packet_bytes(asked),
            Carrier::Connections(connects) => connects.packet_bytes(),
        }
    }

    fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        match self {
            Carrier::Packets(courier) => courier.send(number, packet_bytes),
            Carrier::Connections(connects) => connects.send(number),
        }
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        match self {
            Carrier::Packets(courier) => courier.wait(time),
            Carrier::Connections(connects) => {
                connects.wait(time);
                Ok(())
            }
        }
    }

    fn hear(&mut self) -> io::Result<Vec<Heard>> {
        match self {
            Carrier::Packets(courier) => courier.hear(),
            Carrier::Connections(connects) => Ok(connects.hear()),
        }
    }
}

/// A series in progress, with its sockets.
struct Running {
    carrier: Carrier,
    series: Series,
    packet_bytes: u32,
    epoch: Instant,
    denied: Option<(IpAddr, &'static str)>,
}

impl Running {
    fn drive(&mut self, stop: &AtomicBool, each: &mut dyn FnMut(&Echo)) -> io::Result<()> {
        loop {
            let now = self.epoch.elapsed();
            // Read first: answers that arrived while this host was stalled are not lost.
            for heard in self.carrier.hear()? {
                self.take(heard);
            }
            let over = self.series.is_over(now) || stop.load(Ordering::Relaxed);
            self.series.settled(now).iter().for_each(&mut *each);
            if over {
                return Ok(());
            }
            if self.series.due().is_some_and(|due| due <= now) {
                self.send()?;
            }
            let next = self.series.due().or_else(|| self.series.ends());
            let wait = next
                .unwrap_or_default()
                .saturating_sub(self.epoch.elapsed());
            self.carrier.wait(wait.min(LOOK))?;
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let number = self.series.next_number();
        self.series.sent(Moment::now(self.epoch));
        match self.carrier.send(number, self.packet_bytes) {
            // A failure of the first send is permanent; a later one is a probe lost locally.
            Err(error) if number == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn take(&mut self, heard: Heard) {
        let moment = Moment::now(self.epoch);
        match heard {
            Heard::Answer { number, stamp, ttl } => {
                let came = Came::Read { moment, stamp };
                self.series.answer(number, came, ttl);
            }
            Heard::Measured {
                number,
                rtt,
                by_kernel,
            } => {
                let clock = if by_kernel {
                    Clock::Kernel
                } else {
                    Clock::User
                };
                let came = Came::Measured { moment, rtt, clock };
                self.series.answer(number, came, None);
            }
            Heard::Left { number, stamp } => {
                self.series.left(number, stamp, &moment);
            }
            Heard::Denied { by, word } => {
                self.denied = self.denied.or(Some((by, word)));
            }
            Heard::Refused { by, .. } => {
                self.denied = self.denied.or(Some((by, "too_big")));
            }
            Heard::Stray => {
                self.series.discard();
            }
        }
    }
}

#[cfg(test)]
mod tests;
