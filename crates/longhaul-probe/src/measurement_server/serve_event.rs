//! The events that the server logs.

use crate::canonical_address;
use longhaul_model::units::Bytes;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// An event of the server. `Display` formats the log line; as JSON it is an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServeEvent {
    #[serde(skip)]
    Listening(SocketAddr),
    /// The token is short enough to be guessed offline.
    TokenGuessable,
    /// A client of another protocol was rejected, because the protocol is not served.
    ProtocolRefused {
        peer: SocketAddr,
        protocol: &'static str,
        /// The option that switched it off.
        #[serde(skip)]
        option: &'static str,
    },
    /// A connection of an unknown protocol, or one that was too slow.
    Dismissed { peer: SocketAddr, why: String },
    /// A data connection or datagram that belongs to no session.
    StreamRefused { peer: SocketAddr, why: &'static str },
    /// The plan was accepted.
    SessionOpened {
        peer: SocketAddr,
        /// The name that the peer gives for its host.
        host: String,
        anonymous: bool,
        /// Direction, transport and streams as text.
        what: String,
    },
    /// The run has ended at this end, and its results are being sent.
    ResultsReady {
        peer: SocketAddr,
        /// Payload that this end moved.
        bytes: u64,
        streams: u32,
        /// Size of the capture file that is sent as well.
        capture_bytes: Option<u64>,
    },
    /// A handler has begun a transfer within a session.
    #[serde(rename = "copying")]
    HandlerTransfer {
        peer: SocketAddr,
        /// The client's activity, such as `copies files`.
        #[serde(skip)]
        activity: &'static str,
        /// The payload flows to this host.
        receiving: bool,
    },
    SessionClosed {
        peer: SocketAddr,
        reason: String,
        #[serde(rename = "elapsed_us", serialize_with = "serialize_micros")]
        elapsed: Duration,
        /// Payload that this end moved.
        bytes: u64,
        /// The session had been opened.
        #[serde(skip)]
        opened: bool,
    },
    /// More events happened than are logged; their numbers by kind.
    EventsOmitted {
        #[serde(flatten)]
        counts: BTreeMap<&'static str, u64>,
    },
    /// The kernel refused an operation; the server continues.
    Trouble { tried: &'static str, why: String },
}

fn serialize_micros<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_micros() as u64)
}

impl ServeEvent {
    /// Returns whether an operator should look at the event.
    pub fn is_warning(&self) -> bool {
        use ServeEvent::{
            Dismissed, EventsOmitted, ProtocolRefused, StreamRefused, TokenGuessable, Trouble,
        };
        matches!(
            self,
            TokenGuessable
                | ProtocolRefused { .. }
                | Dismissed { .. }
                | StreamRefused { .. }
                | EventsOmitted { .. }
                | Trouble { .. }
        )
    }

    /// Returns whether anybody who reaches the port can cause the event.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_warning() || matches!(self, ServeEvent::SessionClosed { opened: false, .. })
    }

    /// Returns the name of the kind of event, which is that in JSON.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            ServeEvent::Listening(_) => "listening",
            ServeEvent::TokenGuessable => "token_guessable",
            ServeEvent::ProtocolRefused { .. } => "protocol_refused",
            ServeEvent::Dismissed { .. } => "dismissed",
            ServeEvent::StreamRefused { .. } => "stream_refused",
            ServeEvent::SessionOpened { .. } => "session_opened",
            ServeEvent::ResultsReady { .. } => "results_ready",
            ServeEvent::HandlerTransfer { .. } => "copying",
            ServeEvent::SessionClosed { .. } => "session_closed",
            ServeEvent::EventsOmitted { .. } => "events_omitted",
            ServeEvent::Trouble { .. } => "trouble",
        }
    }
}

impl fmt::Display for ServeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeEvent::Listening(address) => write!(f, "listening on {address}, TCP and UDP"),
            ServeEvent::TokenGuessable => f.write_str(
                "the token is short: an interceptor of a connection can guess it; \
                 omit it to have one generated",
            ),
            ServeEvent::ProtocolRefused { peer, protocol, option } => write!(
                f,
                "{}: refused: {protocol} clients are not served ({option})",
                canonical_address(*peer)
            ),
            ServeEvent::Dismissed { peer, why } => {
                write!(f, "{}: rejected: {why}", canonical_address(*peer))
            }
            ServeEvent::StreamRefused { peer, why } => {
                write!(f, "{}: data stream refused: {why}", canonical_address(*peer))
            }
            ServeEvent::SessionOpened { peer, host, anonymous, what } => {
                let whose = if *anonymous { "no token" } else { "authenticated" };
                write!(f, "{}: {host} ({whose}): {what}", canonical_address(*peer))
            }
            ServeEvent::ResultsReady { peer, bytes, streams, capture_bytes } => {
                let bytes = Bytes(*bytes);
                write!(
                    f,
                    "{}: transferred {bytes} in {streams} stream(s)",
                    canonical_address(*peer)
                )?;
                match capture_bytes {
                    Some(file) => write!(f, "; sends a capture of {}", Bytes(*file)),
                    None => Ok(()),
                }
            }
            ServeEvent::HandlerTransfer { peer, activity, receiving } => {
                let way = if *receiving { "to" } else { "from" };
                write!(f, "{}: {activity} {way} this host", canonical_address(*peer))
            }
            ServeEvent::SessionClosed { peer, reason, elapsed, bytes, opened: _ } => write!(
                f,
                "{}: {reason}; {} in {}",
                canonical_address(*peer),
                Bytes(*bytes),
                longhaul_model::units::format_duration(*elapsed)
            ),
            ServeEvent::EventsOmitted { counts } => {
                f.write_str("further events of the last second:")?;
                let parts = counts.iter().enumerate();
                parts.into_iter().try_for_each(|(place, (kind, count))| {
                    let comma = if place > 0 { "," } else { "" };
                    write!(f, "{comma} {count} {}", kind.replace('_', " "))
                })
            }
            ServeEvent::Trouble { tried, why } => write!(f, "cannot {tried}: {why}"),
        }
    }
}
