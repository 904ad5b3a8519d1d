//! Why a path could not be looked at: what was tried, on what, why it failed, what to do.

use longhaul_model::report::v1::path::Protocol;
use std::io;
use std::net::IpAddr;

/// No result of this part of a path's measurement.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The kernel wants a right for this that the process does not have.
    #[error("cannot {what} {to}: that takes {right}")]
    Privilege {
        /// What was tried, up to the address: `trace the route by TCP to`.
        what: String,
        to: IpAddr,
        /// The right, in the kernel's words.
        right: &'static str,
        /// What works without it.
        instead: &'static str,
    },
    /// There is no route, no such address, or no such interface here.
    #[error("cannot {what} {to}: this host has no way there")]
    NoRoute {
        what: String,
        to: IpAddr,
        #[source]
        source: io::Error,
    },
    /// This host's kernel refused a step.
    #[error("cannot {what} {to}")]
    Socket {
        what: String,
        to: IpAddr,
        #[source]
        source: io::Error,
    },
    /// Asked for what cannot be.
    #[error("cannot {what} {to}: {why}")]
    Asked {
        what: String,
        to: IpAddr,
        why: String,
    },
}

/// The right to raw sockets.
pub(super) const RAW: &str = "root or CAP_NET_RAW";
/// The right to ping sockets.
pub(super) const PING: &str = "root, CAP_NET_RAW, or a group in net.ipv4.ping_group_range";

impl PathError {
    /// Sorts what a system call answered; `right` is what the call needs, if anything.
    pub(super) fn of(
        what: impl Into<String>,
        to: IpAddr,
        source: io::Error,
        right: Option<(&'static str, &'static str)>,
    ) -> PathError {
        let what = what.into();
        match (source.kind(), right) {
            (io::ErrorKind::PermissionDenied, Some((right, instead))) => PathError::Privilege {
                what,
                to,
                right,
                instead,
            },
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

    /// What to do next, where that can be said.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PathError::Privilege { instead, .. } => Some(instead),
            PathError::NoRoute { .. } => Some(
                "check the address family (-4, -6), `--bind`, `--device` and the routing table",
            ),
            PathError::Socket { .. } | PathError::Asked { .. } => None,
        }
    }

    /// Exit code of the program: 2 usage, 3 no peer, 5 privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            PathError::Asked { .. } => 2,
            PathError::NoRoute { .. } => 3,
            PathError::Privilege { .. } | PathError::Socket { .. } => 5,
        }
    }
}

/// A protocol as it stands in a sentence.
pub(super) const fn spoken(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Icmp => "ICMP",
        Protocol::Udp => "UDP",
        Protocol::Tcp => "TCP",
    }
}
