//! Errors of path measurements: what was tried, on what, why it failed, and what to do.

use longhaul_model::report::v1::path::ProbeProtocol;
use std::io;
use std::net::IpAddr;

/// Reason why one part of a path measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The kernel requires a privilege that the process does not have.
    #[error("cannot {what} {to}: this requires {right}")]
    Privilege {
        /// The attempted action, up to the address: `trace the route by TCP to`.
        what: String,
        to: IpAddr,
        /// The privilege, in the kernel's terms.
        right: &'static str,
        /// An alternative that works without it.
        instead: &'static str,
    },
    /// This host has no route, no such address, or no such interface.
    #[error("cannot {what} {to}: this host has no route to it")]
    NoRoute {
        what: String,
        to: IpAddr,
        #[source]
        source: io::Error,
    },
    /// This host's kernel rejected a call.
    #[error("cannot {what} {to}")]
    Socket {
        what: String,
        to: IpAddr,
        #[source]
        source: io::Error,
    },
}

/// The privilege for raw sockets.
pub(super) const RAW_PRIVILEGE: &str = "root or CAP_NET_RAW";
/// The privilege for ping sockets.
pub(super) const PING_PRIVILEGE: &str =
    "root, CAP_NET_RAW, or a group in net.ipv4.ping_group_range";

impl PathError {
    /// Classifies the error of a system call; `right` is the privilege that the call needs, if any,
    /// with an alternative.
    pub(super) fn from_io_error(
        what: impl Into<String>,
        to: IpAddr,
        source: io::Error,
        right: Option<(&'static str, &'static str)>,
    ) -> PathError {
        let what = what.into();
        match (source.kind(), right) {
            (io::ErrorKind::PermissionDenied, Some((right, instead))) => {
                PathError::Privilege { what, to, right, instead }
            }
            (
                io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::NotFound,
                _,
            ) => PathError::NoRoute { what, to, source },
            _ => PathError::Socket { what, to, source },
        }
    }

    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PathError::Privilege { instead, .. } => Some(instead),
            PathError::NoRoute { .. } => Some(
                "check the address family (-4, -6), `--bind`, `--device` and the routing table",
            ),
            PathError::Socket { .. } => None,
        }
    }

    /// Returns the program's exit code: 3 no peer, 5 privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            PathError::NoRoute { .. } => 3,
            PathError::Privilege { .. } | PathError::Socket { .. } => 5,
        }
    }
}

/// Returns the name of a protocol for use in a sentence.
pub(super) const fn protocol_name(protocol: ProbeProtocol) -> &'static str {
    match protocol {
        ProbeProtocol::Icmp => "ICMP",
        ProbeProtocol::Udp => "UDP",
        ProbeProtocol::Tcp => "TCP",
    }
}
