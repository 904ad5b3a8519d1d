//! A session-reflector on its UDP port, with a socket for each address family.

use super::reflector_state::{ReflectorArrival, ReflectorState};
use super::session_table::SharedTwampSessions;
use super::test_packet::{PacketCodec, PacketKey};
use super::{PACKET_TTL, read_clock_error, read_wall_clock};
use crate::probe_error::ServeError;
use longhaul_sys::poll::wait_readable;
use longhaul_sys::probe_socket::{IpFamily, ProbeSocket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The size of the receive buffer: a longer packet is cut, and not answered.
const BUFFER_BYTES: usize = 1 << 16;
/// The maximum delay until a stop is noticed.
pub(super) const STOP_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The interval at which the error of the clock is read.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of packets that are read before the clocks are read again.
const MAX_PACKETS_PER_WAIT: usize = 64;

/// The options of a reflector.
#[derive(Debug, Clone)]
pub struct ReflectorOptions {
    /// Listen address; `None` for every address of this host, in both families.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// Listen on this interface only.
    pub device: Option<String>,
    /// Answer the senders of STAMP and TWAMP Light.
    pub stamp: Option<StampOptions>,
}

/// The options of a reflector of STAMP.
#[derive(Debug, Clone)]
pub struct StampOptions {
    /// Count the packets of each session, so that senders learn the loss of each direction.
    pub is_stateful: bool,
    /// Answer authenticated packets only.
    pub key: Option<PacketKey>,
}

/// A reflector that is listening.
#[derive(Debug)]
pub struct SessionReflector {
    sockets: Vec<ProbeSocket>,
    state: ReflectorState,
    twamp: SharedTwampSessions,
    epoch: Instant,
}

impl SessionReflector {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The port is in use, or needs a privilege.
    pub fn bind(options: ReflectorOptions) -> Result<SessionReflector, ServeError> {
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let is_any = options.address.is_none();
        let addresses = options.address.map_or(any.to_vec(), |address| vec![address]);
        let mut sockets = Vec::new();
        let mut port = options.port;
        for address in addresses {
            let address = SocketAddr::new(address, port);
            match open_socket(address, options.device.as_deref()) {
                // The kernel has no IPv6.
                Err(_) if is_any && address.is_ipv6() && !sockets.is_empty() && !has_ipv6() => {}
                Err(source) => {
                    return Err(ServeError::Listen { protocol: "UDP", address, source });
                }
                Ok(socket) => {
                    port = socket.local_address().map_or(port, |own| own.port());
                    sockets.push(socket);
                }
            }
        }
        let is_stateful = options.stamp.as_ref().is_some_and(|stamp| stamp.is_stateful);
        let codec = options.stamp.map(|stamp| PacketCodec::new(stamp.key));
        let twamp = Arc::default();
        let state = ReflectorState::new(codec, is_stateful, Arc::clone(&twamp));
        Ok(SessionReflector { sockets, state, twamp, epoch: Instant::now() })
    }

    /// Returns the sessions of TWAMP, whose times are since the epoch.
    pub(super) fn twamp_sessions(&self) -> (SharedTwampSessions, Instant) {
        (Arc::clone(&self.twamp), self.epoch)
    }

    /// Returns the listening addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_address().ok()).collect()
    }

    /// Answers until `stop` is set, and returns within a second of it.
    pub fn run(mut self, stop: &AtomicBool) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut packet = Vec::new();
        let mut clock_error = read_clock_error();
        let mut clock_read = self.epoch.elapsed();
        while !stop.load(Ordering::Relaxed) {
            let now = self.epoch.elapsed();
            if now.saturating_sub(clock_read) >= CLOCK_INTERVAL {
                (clock_error, clock_read) = (read_clock_error(), now);
            }
            wait_any(&self.sockets);
            for socket in &self.sockets {
                for _ in 0..MAX_PACKETS_PER_WAIT {
                    // An error is that of an earlier answer.
                    let Ok(Some(arrival)) = socket.receive(&mut buffer) else {
                        break;
                    };
                    let (Some(from), None) = (arrival.from, arrival.queued) else {
                        continue;
                    };
                    packet.clear();
                    packet.extend_from_slice(&buffer[..arrival.bytes]);
                    let came = ReflectorArrival {
                        from,
                        received_ns: arrival
                            .at
                            .map_or_else(read_wall_clock, |at| at.as_nanos() as u64),
                        ttl: arrival.ttl.unwrap_or(0),
                    };
                    let now = self.epoch.elapsed();
                    if self.state.answer(&mut packet, &came, now, clock_error, read_wall_clock) {
                        // What cannot be sent is lost, as on the path.
                        let _ = socket.answer(&packet, &arrival);
                    }
                }
            }
        }
    }
}

/// Waits until one of at most two sockets is readable, or for the interval of stops.
pub(super) fn wait_any(sockets: &[impl AsFd]) {
    let timeout = Some(STOP_POLL_INTERVAL);
    // An error only makes the loop read without success.
    let _ = match sockets {
        [first, second, ..] => wait_readable([first.as_fd(), second.as_fd()], timeout).map(drop),
        [first] => wait_readable([first.as_fd()], timeout).map(drop),
        [] => Ok(()),
    };
}

fn open_socket(address: SocketAddr, device: Option<&str>) -> io::Result<ProbeSocket> {
    let socket = ProbeSocket::udp_service(IpFamily::of_address(address.ip()), PACKET_TTL)?;
    if let Some(device) = device {
        socket.bind_device(device)?;
    }
    socket.bind(address)?;
    Ok(socket)
}

/// Returns whether this host has IPv6.
fn has_ipv6() -> bool {
    let loopback = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0);
    open_socket(loopback, None).is_ok()
}
