//! Errors of runs without a result: one variant for each decision that a caller can take.
//!
//! The text says what was tried, on what, and why it failed. [`ProbeError::hint`] suggests the next
//! step; [`ProbeError::exit_code`] is the program's exit code (design, section 7).

use crate::iperf3::client_run::ClientTestEnd as Iperf3Closed;
use crate::plan_limits::LimitError;
use crate::session::SessionState;
use crate::wire::ProtocolVersions;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Error of a run that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The plan contains something that no run can do.
    #[error(transparent)]
    Plan(#[from] LimitError),
    /// The name has no address (of the requested family).
    #[error("cannot resolve {host}")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    /// The TCP connection failed.
    #[error("cannot connect to {host} ({address})")]
    Connect {
        host: String,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed, usually because another program listens there.
    #[error("no TLS with {address}: {why}")]
    Tls { address: SocketAddr, why: String },
    /// The peer is an iperf3 server, which needs its own protocol.
    #[error("{address} is an iperf3 server, not longhaul")]
    Iperf3There { address: SocketAddr },
    /// An iperf3 server gave no result.
    #[error("the iperf3 server at {address} gave no result: {closed}")]
    Iperf3 {
        address: SocketAddr,
        closed: Iperf3Closed,
    },
    /// One of the two peers could not prove that it knows the token.
    #[error("{address}: {what}")]
    Token {
        address: SocketAddr,
        what: TokenFailure,
    },
    /// The two peers have no protocol version in common.
    #[error("{address} speaks longhaul protocol {theirs}, this program {ours}")]
    Version {
        address: SocketAddr,
        ours: ProtocolVersions,
        theirs: ProtocolVersions,
    },
    /// The server refuses the request.
    #[error("{address} refuses: {what}")]
    Refused { address: SocketAddr, what: String },
    /// The server's own host failed at this step.
    #[error("{address} failed while {}: {what}", step.describe())]
    PeerFailed {
        address: SocketAddr,
        step: SessionState,
        what: String,
    },
    /// The connection ended, or the peer violated the protocol, at this step.
    #[error("lost {address} while {}: {what}", step.describe())]
    PeerLost {
        address: SocketAddr,
        step: SessionState,
        what: String,
    },
    /// No answer arrived in time at this step.
    #[error("{address} did not answer in time while {}: {what}", step.describe())]
    Timeout {
        address: SocketAddr,
        step: SessionState,
        what: String,
    },
    /// This host failed: kernel, privilege, memory.
    #[error("{what}")]
    Local {
        what: String,
        #[source]
        source: Option<io::Error>,
    },
}

/// Reason why token authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFailure {
    /// The server requires a token and none was given.
    Missing,
    /// The server has a different token.
    Wrong,
    /// The server did not prove that it knows our token: it has none, or there is an interceptor.
    Unproven,
}

impl fmt::Display for TokenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenFailure::Missing => "the far end asks for a token",
            TokenFailure::Wrong => "the far end does not accept this token",
            TokenFailure::Unproven => "the far end did not prove that it knows the token",
        })
    }
}

impl ProbeError {
    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ProbeError::Resolve { .. } => {
                "check the name, or give an address; -4 and -6 restrict the family"
            }
            ProbeError::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => {
                    "nothing listens there; start the far end with `longhaul serve`"
                }
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                    "no answer at all: a firewall drops it, or the host is down; check the port"
                }
                _ => "check the route, `--bind` and the port",
            },
            ProbeError::Tls { .. } => {
                "something else answers on this port; check `--port`, and that it is `longhaul serve`"
            }
            ProbeError::Iperf3There { .. } => {
                "measure with it on its own wire: `longhaul test HOST --iperf3`, without a token"
            }
            ProbeError::Iperf3 { closed, .. } => return closed.hint(),
            ProbeError::Token { what, .. } => match what {
                TokenFailure::Missing => "give the token that `longhaul serve` printed: `--token`",
                TokenFailure::Wrong => "compare with the token that `longhaul serve` printed",
                TokenFailure::Unproven => {
                    "leave `--token` out to measure with a far end that proves nothing"
                }
            },
            ProbeError::Version { .. } => "install the same release at both ends",
            ProbeError::Refused { .. } => {
                "ask for less, or give the token that `longhaul serve` printed"
            }
            ProbeError::PeerLost { .. } => "look at the log of `longhaul serve` at the far end",
            ProbeError::Timeout { .. } => {
                "the far end or the path went silent; check that it still runs"
            }
            ProbeError::Plan(_) | ProbeError::Local { .. } | ProbeError::PeerFailed { .. } => {
                return None;
            }
        })
    }

    /// Returns the program's exit code: 2 usage, 3 no peer, 4 versions, 5 privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            ProbeError::Plan(_) => 2,
            ProbeError::Version { .. } => 4,
            ProbeError::Local { .. }
            | ProbeError::Iperf3 {
                closed: Iperf3Closed::Failed(_),
                ..
            } => 5,
            _ => 3,
        }
    }
}

/// Error that prevents the server from running.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address or port is in use, or the address does not belong to this host.
    #[error("cannot listen on {protocol} {address}")]
    Listen {
        protocol: &'static str,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The token given is empty.
    #[error("the token given is empty")]
    EmptyToken,
    /// The certificate could not be generated.
    #[error("cannot make a certificate: {why}")]
    Certificate { why: String },
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl ServeError {
    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Listen { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    Some("another program (iperf3?) has this port; stop it or choose `--port`")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("ports below 1024 and `--device` need privilege")
                }
                io::ErrorKind::AddrNotAvailable => Some("this host has no such address"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the program's exit code: 2 usage, 5 privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::EmptyToken => 2,
            _ => 5,
        }
    }
}
