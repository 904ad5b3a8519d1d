//! The path MTU, by packets that must not be fragmented.
//!
//! Sends ICMP echoes of growing size, or UDP datagrams to a closed port, with the don't-fragment
//! bit. Only packets that arrive count; a router's "too big" is a hint that is verified.
//!
//! Units: bytes of whole IP packets. Error: none, if the search completes. Wrong when: ICMP echo
//! replies are as long as the requests, so that a narrower return path looks like one on the
//! forward path; the destination answers small echoes only.

mod mtu_search_state;

use super::path_error::protocol_name;
use super::round_trips::{EchoEvent, EchoSocket, STOP_POLL_INTERVAL};
use super::{PathError, ProbeTarget};
use longhaul_model::report::v1::path::{MtuSearch, ProbeProtocol};
use longhaul_sys::host::{kernel_route, network_interface};
use longhaul_sys::probe_socket::is_too_long;
use mtu_search_state::{MtuSearchLimits, MtuSearchState, MtuSearchStep, TooBigReport};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) use mtu_search_state::MtuSearchOutcome;

/// Timeout of an answer while the round trip is unknown.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between echoes, and duration limit of a search by echoes.
const ECHO_GAP: Duration = Duration::from_millis(40);
const MAX_ECHO_TIME: Duration = Duration::from_secs(40);
/// Interval between datagrams: hosts send one ICMP error per second and address.
const DATAGRAM_GAP: Duration = Duration::from_millis(1050);
const MAX_DATAGRAM_TIME: Duration = Duration::from_secs(90);
/// The maximum size of an IP packet, even if a loopback interface claims more.
const MAX_PACKET_BYTES: u32 = 65_535;

/// Result of a finished search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MtuSearchResult {
    pub search: MtuSearch,
    pub end: MtuSearchOutcome,
    /// The largest size that arrived, and the smallest above it that did not.
    pub bounds: (Option<u32>, Option<u32>),
}

/// Searches the path MTU by ICMP or UDP (TCP probes have a fixed size); at most 40 s by ICMP and 90 s
/// by UDP, usually a second or two.
pub(super) fn search_path_mtu(
    asked: &ProbeTarget,
    stop: &AtomicBool,
) -> Result<MtuSearchResult, PathError> {
    let failed = |source| {
        let what = format!("search for the path MTU with {} to", protocol_name(asked.protocol));
        PathError::from_io_error(what, asked.destination, source, None)
    };
    let courier = EchoSocket::open(asked, 1, true)?;
    let local_bytes = local_mtu(asked).map_err(failed)?;
    let mut running = RunningMtuSearch {
        search: MtuSearchState::new(search_limits(asked, local_bytes)),
        courier,
        epoch: Instant::now(),
    };
    let end = running.run(stop).map_err(failed)?;
    Ok(MtuSearchResult {
        bounds: (running.search.largest_passed(), running.search.smallest_failed()),
        search: running.search.result(),
        end,
    })
}

fn search_limits(asked: &ProbeTarget, local_bytes: u32) -> MtuSearchLimits {
    let (gap, max_time) = match asked.protocol {
        ProbeProtocol::Icmp => (ECHO_GAP, MAX_ECHO_TIME),
        ProbeProtocol::Udp | ProbeProtocol::Tcp => (DATAGRAM_GAP, MAX_DATAGRAM_TIME),
    };
    let is_ipv6 = asked.destination.is_ipv6();
    MtuSearchLimits { is_ipv6, local_bytes, gap, timeout: TIMEOUT, max_time }
}

/// Returns the MTU of the outgoing interface.
fn local_mtu(asked: &ProbeTarget) -> io::Result<u32> {
    let device = match &asked.device {
        Some(device) => Some(device.clone()),
        None => kernel_route::query_route(asked.destination)?.interface,
    };
    let mtu = device.as_deref().and_then(network_interface::mtu_bytes);
    mtu.map(|mtu| mtu.min(MAX_PACKET_BYTES)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A search in progress, with its sockets.
struct RunningMtuSearch {
    search: MtuSearchState,
    courier: EchoSocket,
    epoch: Instant,
}

impl RunningMtuSearch {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<MtuSearchOutcome> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(MtuSearchOutcome::Exhausted);
            }
            let now = self.epoch.elapsed();
            match self.search.step(now) {
                MtuSearchStep::Done(end) => return Ok(end),
                MtuSearchStep::Send { number, packet_bytes } => self.send(number, packet_bytes)?,
                MtuSearchStep::Wait { until } => {
                    self.courier.wait(until.saturating_sub(now).min(STOP_POLL_INTERVAL))?;
                }
            }
            for heard in self.courier.receive()? {
                self.handle_event(heard);
            }
        }
    }

    fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        match self.courier.send(number, packet_bytes) {
            Err(error) if is_too_long(&error) => {
                self.search.record_unsendable(number);
                Ok(())
            }
            // A full send queue loses a packet like any other queue.
            Err(error) if number == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_event(&mut self, heard: EchoEvent) {
        match heard {
            EchoEvent::Answer { number, .. } | EchoEvent::Measured { number, .. } => {
                self.search.record_answer(number, self.epoch.elapsed());
            }
            EchoEvent::TooBig { number, by, mtu_bytes } => {
                let by = by.to_string();
                self.search.record_refusal(number, TooBigReport { by, mtu_bytes });
            }
            EchoEvent::Transmitted { .. }
            | EchoEvent::Unreachable { .. }
            | EchoEvent::Unmatched => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_whole_packets_of_its_own_mtu() {
        for address in ["127.0.0.1", "::1"] {
            let asked = ProbeTarget {
                destination: address.parse().expect("an address"),
                source: None,
                device: None,
                protocol: ProbeProtocol::Udp,
                port: None,
                source_id: None,
            };
            let local = local_mtu(&asked).expect("an interface");
            assert!((1500..=MAX_PACKET_BYTES).contains(&local), "{local}");
        }
    }

    #[test]
    fn a_stopped_search_ends_at_once() {
        let asked = ProbeTarget {
            destination: "127.0.0.1".parse().expect("an address"),
            source: None,
            device: None,
            protocol: ProbeProtocol::Udp,
            port: None,
            source_id: None,
        };
        let ran = search_path_mtu(&asked, &AtomicBool::new(true)).expect("sockets");
        assert_eq!((ran.end, ran.bounds), (MtuSearchOutcome::Exhausted, (None, None)));
    }
}
