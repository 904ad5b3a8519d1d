//! What the service tells its log.

use longhaul_model::units::Bytes;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Something worth a line in the log. `Display` gives the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServeEvent {
    Listening(SocketAddr),
    /// The token is short enough to be guessed off line.
    TokenGuessable,
    /// An iperf3 peer, which this service was told not to answer.
    Iperf3Refused(SocketAddr),
    /// A connection that is none of ours, or too slow to say so.
    Dismissed {
        peer: SocketAddr,
        why: String,
    },
    /// A data connection or datagram that belongs to no session.
    StreamRefused {
        peer: SocketAddr,
        why: &'static str,
    },
    /// The plan was accepted.
    SessionOpened {
        peer: SocketAddr,
        /// What the peer calls its host.
        host: String,
        anonymous: bool,
        /// Direction, transport and streams, in words.
        what: String,
    },
    /// The run is over at this end, and its results are on their way.
    ResultsReady {
        peer: SocketAddr,
        /// Payload that this end moved.
        bytes: u64,
        streams: u32,
        /// Bytes of the capture file that goes with them.
        capture_bytes: Option<u64>,
    },
    /// The peer copies files.
    Copying {
        peer: SocketAddr,
        /// They come here.
        receiving: bool,
    },
    SessionClosed {
        peer: SocketAddr,
        reason: String,
        elapsed: Duration,
        /// Payload that this end moved.
        bytes: u64,
    },
    /// The kernel refused something; the service goes on.
    Trouble {
        tried: &'static str,
        why: String,
    },
}

impl fmt::Display for ServeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeEvent::Listening(address) => write!(f, "listening on {address}, TCP and UDP"),
            ServeEvent::TokenGuessable => f.write_str(
                "the token is short: whoever intercepts a connection can guess it; \
                 leave it out to have one made",
            ),
            ServeEvent::Iperf3Refused(peer) => write!(
                f,
                "{}: turned away: iperf3 is not answered here (--no-iperf3)",
                Peer(peer)
            ),
            ServeEvent::Dismissed { peer, why } => write!(f, "{}: dismissed: {why}", Peer(peer)),
            ServeEvent::StreamRefused { peer, why } => {
                write!(f, "{}: data stream refused: {why}", Peer(peer))
            }
            ServeEvent::SessionOpened {
                peer,
                host,
                anonymous,
                what,
            } => {
                let whose = if *anonymous {
                    "a stranger"
                } else {
                    "with the token"
                };
                write!(f, "{}: {host}, {whose}: {what}", Peer(peer))
            }
            ServeEvent::ResultsReady {
                peer,
                bytes,
                streams,
                capture_bytes,
            } => {
                let bytes = Bytes(*bytes);
                write!(f, "{}: counted {bytes} in {streams} stream(s)", Peer(peer))?;
                match capture_bytes {
                    Some(file) => write!(f, "; a capture of {} goes with that", Bytes(*file)),
                    None => Ok(()),
                }
            }
            ServeEvent::Copying { peer, receiving } => {
                let way = if *receiving { "to" } else { "from" };
                write!(f, "{}: copies files {way} here", Peer(peer))
            }
            ServeEvent::SessionClosed {
                peer,
                reason,
                elapsed,
                bytes,
            } => write!(
                f,
                "{}: {reason}; {} in {}",
                Peer(peer),
                Bytes(*bytes),
                longhaul_model::units::format_duration(*elapsed)
            ),
            ServeEvent::Trouble { tried, why } => write!(f, "cannot {tried}: {why}"),
        }
    }
}

/// IPv4 peers of an IPv6 listener are shown as what they are.
struct Peer<'a>(&'a SocketAddr);

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip: IpAddr = self.0.ip().to_canonical();
        SocketAddr::new(ip, self.0.port()).fmt(f)
    }
}
