//! Errors of runs without a result: one variant for each decision that a caller can take.
//!
//! The text says what was tried, on what, and why it failed. [`ProbeError::hint`] suggests the next
//! step; [`ProbeError::exit_code`] is the program's exit code (design, section 7).

use crate::plan_limits::LimitError;
use crate::session::SessionState;
use crate::throughput::{AddressFailure, IpFamily, TargetHost};
use crate::wire::ProtocolVersions;
use longhaul_model::report::v1::observation::CountContradiction;
use std::borrow::Cow;
use std::error::Error;
use std::net::{Ipv6Addr, SocketAddr};
use std::{fmt, io};

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
    /// A link-local address without its interface.
    #[error("cannot connect to {address}: a link-local address needs an interface")]
    ScopeMissing {
        address: Ipv6Addr,
        /// This host's interfaces that have link-local addresses.
        interfaces: Vec<String>,
    },
    /// No TCP connection could be made.
    #[error("cannot connect to {host}{}", failures.describe_addresses())]
    Connect {
        host: String,
        #[source]
        failures: ConnectFailures,
    },
    /// The TLS handshake failed, usually because another program listens there.
    #[error("cannot establish TLS with {address}: {why}")]
    Tls { address: SocketAddr, why: String },
    /// The peer is an iperf3 server, which needs its own protocol.
    #[error("{address} is an iperf3 server, not longhaul")]
    Iperf3There { address: SocketAddr },
    /// One of the two peers could not prove that it knows the token.
    #[error("{address}: {what}")]
    Token { address: SocketAddr, what: TokenFailure },
    /// The two peers have no protocol version in common.
    #[error("{address} speaks longhaul protocol {theirs}, this program speaks {ours}")]
    Version { address: SocketAddr, ours: ProtocolVersions, theirs: ProtocolVersions },
    /// The server refuses the request.
    #[error("{address} refuses: {what}")]
    Refused { address: SocketAddr, what: String },
    /// The server's own host failed at this step.
    #[error("{address} failed while {}: {what}", step.describe())]
    PeerFailed { address: SocketAddr, step: SessionState, what: String },
    /// The connection ended, or the peer violated the protocol, at this step.
    #[error("lost {address} while {}: {what}", step.describe())]
    PeerLost { address: SocketAddr, step: SessionState, what: String },
    /// The counts of the server contradict those of this host.
    #[error("the counts of {address} contradict those of this host: {what}")]
    Contradiction { address: SocketAddr, what: CountContradiction },
    /// No answer arrived in time at this step.
    #[error("{address} did not answer in time while {}: {what}", step.describe())]
    Timeout { address: SocketAddr, step: SessionState, what: String },
    /// A run by the protocol of another program gave no result.
    #[error("{address}: {what}")]
    OtherProtocol {
        address: SocketAddr,
        what: String,
        advice: Option<&'static str>,
        /// The connection was lost, or no answer came: the same run may work later.
        is_lost: bool,
    },
    /// The user ended the run before anything was measured.
    #[error("interrupted while {}, before anything was measured", step.describe())]
    Interrupted { step: SessionState },
    /// This host failed: kernel, privilege, memory.
    #[error("{what}")]
    Local {
        what: String,
        #[source]
        source: Option<io::Error>,
    },
}

/// The addresses to which no connection could be made, at least one.
#[derive(Debug)]
pub struct ConnectFailures {
    pub list: Vec<AddressFailure>,
    /// The family of other addresses of the name, which the options exclude.
    pub excluded: Option<IpFamily>,
}

impl ConnectFailures {
    fn describe_addresses(&self) -> String {
        match self.list.as_slice() {
            [only] => format!(" ({})", only.address),
            all => format!(": none of its {} addresses gives a connection", all.len()),
        }
    }

    /// Returns the kind of error that says most about what to do.
    pub fn decisive_kind(&self) -> io::ErrorKind {
        use io::ErrorKind::{ConnectionRefused, PermissionDenied, TimedOut};
        let has = |kind: &io::ErrorKind| self.list.iter().any(|it| it.source.kind() == *kind);
        let first = self.list.first().map_or(io::ErrorKind::Other, |it| it.source.kind());
        [ConnectionRefused, PermissionDenied, TimedOut].into_iter().find(has).unwrap_or(first)
    }

    fn hint(&self) -> Cow<'static, str> {
        use io::ErrorKind::{
            ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied, TimedOut,
            WouldBlock,
        };
        let kind = self.decisive_kind();
        match (kind, self.excluded) {
            (ConnectionRefused, _) => {
                "start `longhaul serve` on that host: nothing listens on this port".into()
            }
            (PermissionDenied, _) => {
                let port = self.list.first().map_or(0, |it| it.address.port());
                format!(
                    "a firewall or router refuses it: allow TCP and UDP port {port} there, or use \
                     another `--port`"
                )
                .into()
            }
            (NetworkUnreachable | HostUnreachable, Some(other)) => {
                let (option, other, this) = match other {
                    IpFamily::V4 => ("-4", "IPv4", "IPv6"),
                    IpFamily::V6 => ("-6", "IPv6", "IPv4"),
                };
                format!(
                    "use `{option}`: the name also has an {other} address, and {this} has no route"
                )
                .into()
            }
            (TimedOut | WouldBlock, _) => {
                "check that the host is up and that no firewall drops packets to this port".into()
            }
            _ => "check the route, `--bind` and the port".into(),
        }
    }
}

impl fmt::Display for ConnectFailures {
    /// Names each address with its reason; a single one is named by the error itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.list.as_slice() {
            return only.source.fmt(f);
        }
        for (place, failure) in self.list.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", failure.address, failure.source)?;
        }
        Ok(())
    }
}

impl Error for ConnectFailures {}

/// Reason why token authentication failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFailure {
    /// The server requires a token and none was given.
    #[error("the server requires a token")]
    Missing,
    /// The server has a different token.
    #[error("the server rejects this token")]
    Wrong,
    /// The server did not prove that it knows our token: it has none, or there is an interceptor.
    #[error("the server did not prove that it knows the token")]
    Unproven,
}

impl ProbeError {
    /// Creates the error of a connection to one address.
    pub(crate) fn connect(
        target: &TargetHost,
        address: SocketAddr,
        source: io::Error,
    ) -> ProbeError {
        let list = vec![AddressFailure { address, source }];
        ProbeError::Connect {
            host: target.host.clone(),
            failures: ConnectFailures { list, excluded: None },
        }
    }

    /// Creates an error of this host, with its cause if there is one.
    pub fn local(what: impl Into<String>, source: impl Into<Option<io::Error>>) -> ProbeError {
        ProbeError::Local { what: what.into(), source: source.into() }
    }

    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let fixed = match self {
            ProbeError::Connect { failures, .. } => return Some(failures.hint()),
            ProbeError::ScopeMissing { address, interfaces } => {
                return Some(describe_scopes(*address, interfaces).into());
            }
            ProbeError::Resolve { .. } => {
                "check the name, or use an IP address; -4 and -6 restrict the address family"
            }
            ProbeError::Tls { .. } => {
                "check `--port`, and that `longhaul serve` listens there: something else answered"
            }
            ProbeError::Iperf3There { .. } => {
                "use its protocol: `longhaul test HOST --iperf3`, without `--token`"
            }
            ProbeError::OtherProtocol { advice, .. } => return advice.map(Cow::Borrowed),
            ProbeError::Token { what, .. } => match what {
                TokenFailure::Missing => {
                    "pass the token that `longhaul serve` printed: `--token TOKEN`"
                }
                TokenFailure::Wrong => "compare it with the token that `longhaul serve` printed",
                TokenFailure::Unproven => {
                    "omit `--token` to measure with a server whose identity is not verified"
                }
            },
            ProbeError::Version { .. } => "install the same release on both hosts",
            ProbeError::Refused { .. } => {
                "request less, or pass the token that `longhaul serve` printed: `--token TOKEN`"
            }
            ProbeError::Contradiction { .. } => {
                "do not trust results of this server; nothing was archived"
            }
            ProbeError::PeerLost { .. } => "check the log of `longhaul serve` on the server",
            ProbeError::Timeout { .. } => {
                "check that the server still runs: the server or the path went silent"
            }
            ProbeError::Plan(_)
            | ProbeError::Local { .. }
            | ProbeError::Interrupted { .. }
            | ProbeError::PeerFailed { .. } => return None,
        };
        Some(fixed.into())
    }

    /// Returns the program's exit code: 2 usage, 3 no peer, 4 versions, 5 privilege or kernel, 130
    /// interrupted.
    pub fn exit_code(&self) -> u8 {
        match self {
            ProbeError::Plan(_) | ProbeError::ScopeMissing { .. } => 2,
            ProbeError::Version { .. } => 4,
            ProbeError::Local { .. } => 5,
            ProbeError::Interrupted { .. } => 130,
            _ => 3,
        }
    }
}

/// Returns how to write the address with an interface of this host.
fn describe_scopes(address: Ipv6Addr, interfaces: &[String]) -> String {
    let example = interfaces.first().map_or("eth0", String::as_str);
    let known = match interfaces {
        [] => "no interface of this host has a link-local address".to_owned(),
        some => format!("interfaces with link-local addresses: {}", some.join(", ")),
    };
    format!("add the interface, such as `{address}%{example}`; {known}")
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
    #[error("the token is empty")]
    EmptyToken,
    /// The certificate could not be generated.
    #[error("cannot create a certificate: {why}")]
    Certificate { why: String },
    /// The kernel provides no event queue.
    #[error("cannot wait for connections")]
    EventQueue(#[source] io::Error),
}

impl ServeError {
    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Listen { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => Some(
                    "stop the program that uses this port (iperf3?), or use another: `--port PORT`",
                ),
                io::ErrorKind::PermissionDenied => {
                    Some("run as root: ports below 1024 and `--device` need privilege")
                }
                io::ErrorKind::AddrNotAvailable => {
                    Some("use an address of this host: `ip address` lists them")
                }
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

/// Returns the text of an error, followed by those of its causes.
pub(crate) fn describe_error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
