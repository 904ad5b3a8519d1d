//! Latency by STAMP (RFC 8762), TWAMP Light (RFC 5357, appendix I) and TWAMP: numbered datagrams that a
//! reflector returns with its own times.
//!
//! - [`wire_time`]: timestamps and error estimates of the packets
//! - [`test_packet`]: the packets of both ends, with and without authentication
//! - [`packet_extension`]: type-length-value extensions (RFC 8972)
//! - [`reflector_state`]: the reflector's decisions, without I/O
//! - [`session_reflector`]: the reflector on sockets
//! - [`session_sender`]: the sender; [`control_session`]: asks a server of TWAMP for a session
//! - [`twamp_service`]: a server of TWAMP; [`control_server`]: its decisions for one connection, without
//!   I/O; [`session_table`]: the sessions that it has set up
//! - [`control_messages`], [`control_cipher`]: the messages of TWAMP-Control, and their encryption
//!
//! Timestamps are those of the kernel, where it provides them. Those of network cards are not used.

pub mod control_cipher;
pub mod control_messages;
pub mod control_server;
pub mod control_session;
pub mod packet_extension;
pub mod reflector_state;
pub mod session_reflector;
pub mod session_sender;
pub mod session_table;
mod source_rates;
pub mod test_packet;
pub mod twamp_service;
pub mod wire_time;

use longhaul_sys::clock_state::read_clock_state;
use std::time::{Duration, SystemTime};
use wire_time::{ErrorEstimate, TimestampFormat};

/// UDP port of STAMP (RFC 8762, section 4.1) and of TWAMP (RFC 8545).
pub const STAMP_PORT: u16 = 862;
/// TTL of all packets, from which the other end counts the routers.
const PACKET_TTL: u8 = 255;

/// Returns the wall clock in nanoseconds since 1970.
fn read_wall_clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64
}

/// Returns the error of this host's clock, as the kernel knows it.
fn read_clock_error() -> ErrorEstimate {
    let state = read_clock_state().ok();
    ErrorEstimate {
        synchronized: state.is_some_and(|state| state.synchronized),
        format: TimestampFormat::Ntp,
        error: state.map_or(Duration::from_secs(16), |state| state.max_error),
    }
}
