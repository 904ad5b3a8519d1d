//! Round-trip time to a server, from empty TCP connections.

use super::{TargetHost, control_connect};
use crate::probe_error::ProbeError;
use std::time::{Duration, Instant};

/// Number of connects; the minimum counts, because the first includes neighbour discovery and cold
/// caches.
const CONNECTIONS: u32 = 3;

/// Returns the minimum duration of a TCP connect to the server: one round trip.
///
/// Blocks for at most three times the target's connect timeout.
///
/// # Errors
/// The name has no address, or the server does not answer.
pub fn measure_connect_rtt(target: &TargetHost) -> Result<Duration, ProbeError> {
    let address = control_connect::resolve_target(target)?;
    let mut least = Duration::MAX;
    for _ in 0..CONNECTIONS {
        let socket = control_connect::create_socket(target, address)?;
        let before = Instant::now();
        let _stream = control_connect::connect_socket(socket, target, address)?;
        least = least.min(before.elapsed());
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn target(port: u16) -> TargetHost {
        TargetHost { port, connect_timeout: Duration::from_secs(2), ..TargetHost::new("127.0.0.1") }
    }

    #[test]
    fn a_listener_is_timed_and_nothing_is_sent_to_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let time = measure_connect_rtt(&target(port)).expect("a round trip");
        assert!(time > Duration::ZERO && time < Duration::from_secs(2));
        for _ in 0..CONNECTIONS {
            let (mut peer, _) = listener.accept().expect("a connection");
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut peer, &mut bytes).expect("its end");
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_port_where_nothing_listens_says_so() {
        // Bound by another protocol's socket and not listening: refused at once.
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let error = measure_connect_rtt(&target(port)).expect_err("nothing listens");
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("nothing listens")));
    }
}
