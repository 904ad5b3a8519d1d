//! The path MTU, by packets that must not be fragmented.
//!
//! Sends ICMP echoes of growing size, or UDP datagrams to a closed port, with the don't-fragment
//! bit. Only packets that arrive count; a router's "too big" is a hint that is verified.
//!
//! Units: bytes of whole IP packets. Error: none, if the search completes. Wrong when: ICMP echo
//! replies are as long as the requests, so that a narrower return path looks like one on the
//! forward path; the destination answers small echoes only.

mod search;

use super::PathError;
use super::echo::{Courier, Heard, LOOK, Way};
use super::error::spoken;
use longhaul_model::report::v1::path::{MtuSearch, Protocol};
use longhaul_sys::host::{interface, route};
use longhaul_sys::probe_socket::is_too_long;
use search::{Limits, Refusal, Search, Step};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) use search::End;

/// Timeout of an answer while the round trip is unknown.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between echoes, and duration limit of a search by echoes.
const ECHO_GAP: Duration = Duration::from_millis(40);
const ECHO_MOST: Duration = Duration::from_secs(40);
/// Interval between datagrams: hosts send one ICMP error per second and address.
const DATAGRAM_GAP: Duration = Duration::from_millis(1050);
const DATAGRAM_MOST: Duration = Duration::from_secs(90);
/// The maximum size of an IP packet, even if a loopback interface claims more.
const LONGEST: u32 = 65_535;

/// Target and source of an MTU search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MtuAsked {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    /// ICMP or UDP. TCP is replaced by UDP, because TCP probes have a fixed size.
    pub protocol: Protocol,
    pub port: Option<u16>,
}

/// Result of a finished search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub search: MtuSearch,
    pub end: End,
    /// The largest size that arrived, and the smallest above it that did not.
    pub bounds: (Option<u32>, Option<u32>),
}

/// Searches the path MTU; at most 40 s by ICMP and 90 s by UDP, usually a second or two.
pub(super) fn search(asked: &MtuAsked, stop: &AtomicBool) -> Result<Ran, PathError> {
    let protocol = match asked.protocol {
        Protocol::Icmp => Protocol::Icmp,
        Protocol::Udp | Protocol::Tcp => Protocol::Udp,
    };
    let failed = |source| {
        let what = format!("look for the path MTU by {} to", spoken(protocol));
        PathError::of(what, asked.destination, source, None)
    };
    let courier = Courier::open(&Way {
        destination: asked.destination,
        source: asked.source,
        device: asked.device.clone(),
        protocol,
        port: asked.port.filter(|_| asked.protocol == Protocol::Udp),
        flows: 1,
        uncut: true,
    })?;
    let local_bytes = local_mtu(asked).map_err(failed)?;
    let mut running = Running {
        search: Search::new(limits(protocol, asked.destination.is_ipv6(), local_bytes)),
        courier,
        epoch: Instant::now(),
    };
    let end = running.drive(stop).map_err(failed)?;
    Ok(Ran {
        bounds: (running.search.low(), running.search.high()),
        search: running.search.result(),
        end,
    })
}

fn limits(protocol: Protocol, six: bool, local_bytes: u32) -> Limits {
    let (gap, most_time, timeout) = match protocol {
        Protocol::Icmp => (ECHO_GAP, ECHO_MOST, TIMEOUT),
        Protocol::Udp | Protocol::Tcp => (DATAGRAM_GAP, DATAGRAM_MOST, TIMEOUT),
    };
    Limits {
        six,
        local_bytes,
        gap,
        timeout,
        most_time,
    }
}

/// Returns the MTU of the outgoing interface.
fn local_mtu(asked: &MtuAsked) -> io::Result<u32> {
    let device = match &asked.device {
        Some(device) => Some(device.clone()),
        None => route::towards(asked.destination)?.interface,
    };
    let mtu = device.as_deref().and_then(interface::mtu_bytes);
    mtu.map(|mtu| mtu.min(LONGEST))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A search in progress, with its sockets.
struct Running {
    search: Search,
    courier: Courier,
    epoch: Instant,
}

impl Running {
    fn drive(&mut self, stop: &AtomicBool) -> io::Result<End> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(End::Exhausted);
            }
            let now = self.epoch.elapsed();
            match self.search.step(now) {
                Step::Done(end) => return Ok(end),
                Step::Send {
                    number,
                    packet_bytes,
                } => self.send(number, packet_bytes)?,
                Step::Wait { until } => {
                    self.courier.wait(until.saturating_sub(now).min(LOOK))?;
                }
            }
            for heard in self.courier.hear()? {
                self.take(heard);
            }
        }
    }

    fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        match self.courier.send(number, packet_bytes) {
            Err(error) if is_too_long(&error) => {
                self.search.unsendable(number);
                Ok(())
            }
            // A full send queue loses a packet like any other queue.
            Err(error) if number == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Answer { number, .. } | Heard::Measured { number, .. } => {
                self.search.arrived(number, self.epoch.elapsed());
            }
            Heard::Refused {
                number,
                by,
                mtu_bytes,
            } => {
                let by = by.to_string();
                self.search.refused(number, Refusal { by, mtu_bytes });
            }
            Heard::Left { .. } | Heard::Denied { .. } | Heard::Stray => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_whole_packets_of_its_own_mtu() {
        for address in ["127.0.0.1", "::1"] {
            let asked = MtuAsked {
                destination: address.parse().expect("an address"),
                source: None,
                device: None,
                protocol: Protocol::Udp,
                port: None,
            };
            let local = local_mtu(&asked).expect("an interface");
            assert!((1500..=LONGEST).contains(&local), "{local}");
        }
    }

    #[test]
    fn a_stopped_search_ends_at_once() {
        let asked = MtuAsked {
            destination: "127.0.0.1".parse().expect("an address"),
            source: None,
            device: None,
            protocol: Protocol::Udp,
            port: None,
        };
        let ran = search(&asked, &AtomicBool::new(true)).expect("sockets");
        assert_eq!((ran.end, ran.bounds), (End::Exhausted, (None, None)));
    }
}
