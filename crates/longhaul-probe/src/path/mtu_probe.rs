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
use super::round_trips::{EchoEvent, EchoSocket, EchoTransport, STOP_POLL_INTERVAL};
use super::{PathError, ProbeTarget};
use longhaul_model::report::v1::path::ProbeProtocol;
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

/// Searches the path MTU by ICMP or UDP (TCP probes have a fixed size); at most 40 s by ICMP and 90 s
/// by UDP, usually a second or two.
pub(super) fn search_path_mtu(
    asked: &ProbeTarget,
    stop: &AtomicBool,
) -> Result<(MtuSearchOutcome, MtuSearchState), PathError> {
    let failed = |source| {
        let what = format!("search for the path MTU with {} to", protocol_name(asked.protocol));
        PathError::from_io_error(what, asked.destination, source, None)
    };
    let mut courier = EchoSocket::open(asked, 1, true)?;
    let local_bytes = local_mtu(asked).map_err(failed)?;
    let mut search = MtuSearchState::new(search_limits(asked, local_bytes));
    let end = run_search(&mut search, &mut courier, stop).map_err(failed)?;
    Ok((end, search))
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

fn run_search(
    search: &mut MtuSearchState,
    courier: &mut EchoSocket,
    stop: &AtomicBool,
) -> io::Result<MtuSearchOutcome> {
    let epoch = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = epoch.elapsed();
        match search.step(now) {
            MtuSearchStep::Done(end) => return Ok(end),
            MtuSearchStep::Send { number, packet_bytes } => {
                match courier.send(number, packet_bytes) {
                    Err(error) if is_too_long(&error) => search.record_unsendable(number),
                    // A full send queue loses a packet like any other queue.
                    Err(error) if number == 0 => return Err(error),
                    _ => {}
                }
            }
            MtuSearchStep::Wait { until } => {
                courier.wait(until.saturating_sub(now).min(STOP_POLL_INTERVAL))?;
            }
        }
        for heard in courier.receive()? {
            match heard {
                EchoEvent::Answer { number, .. } | EchoEvent::Measured { number, .. } => {
                    search.record_answer(number, epoch.elapsed());
                }
                EchoEvent::TooBig { number, by, mtu_bytes } => {
                    let by = by.to_string();
                    search.record_refusal(number, TooBigReport { by, mtu_bytes });
                }
                EchoEvent::Transmitted { .. }
                | EchoEvent::Unreachable { .. }
                | EchoEvent::Unmatched => {}
            }
        }
    }
    Ok(MtuSearchOutcome::Exhausted)
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
        let (end, search) = search_path_mtu(&asked, &AtomicBool::new(true)).expect("sockets");
        assert_eq!((end, search.largest_passed()), (MtuSearchOutcome::Exhausted, None));
    }
}
