//! Reads the kernel's counters of the data connections of a copy.

use longhaul_model::report::v1::observation::{StreamEnd, StreamSample};
use longhaul_sys::{sockopt, tcp_info};
use std::net::{SocketAddr, TcpStream};

/// A data connection whose counters are read, also after its thread has closed it.
pub(super) struct ConnectionCounters {
    socket: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
}

impl ConnectionCounters {
    /// Opens the counters of a connection; `None` if it has ended.
    pub fn of(stream: &TcpStream) -> Option<ConnectionCounters> {
        let (local, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        Some(ConnectionCounters { socket: stream.try_clone().ok()?, local, peer })
    }

    /// Reads the counters. The bytes are those that the peer has acknowledged or sent.
    pub fn read(&self) -> StreamEnd {
        let tcp = tcp_info::read_tcp_info(&self.socket).ok().map(|info| info.reading);
        let moved = tcp.as_ref().map(|tcp| tcp.bytes_acked.max(tcp.bytes_received));
        StreamEnd {
            local: Some(self.local.to_string()),
            peer: Some(self.peer.to_string()),
            bytes: moved.flatten().unwrap_or(0),
            congestion_control: sockopt::congestion_control(&self.socket).ok(),
            samples: vec![StreamSample { tcp, ..StreamSample::default() }],
            ..StreamEnd::default()
        }
    }
}
