//! The messages between the two ends, without their order.
//!
//! docs/protocol.md describes this protocol; a test compares its tables with this module. Times are
//! microseconds of the sender's clock unless a field says otherwise.

mod block;
mod files;
mod frame;
mod packed;
mod preamble;
mod probing;

pub use block::{BLOCK_HEAD_BYTES, BlockHead, BlockKey, BlockKind};
pub use files::{
    Dry, Entered, Entry, FilesAnswer, FilesAsk, Listed, MOST_ENTRIES, MOST_SUMS, OpenAsk, Opened,
    SourceAsk, Status, TargetAsk,
};
pub use frame::{Bodies, Decoder, MOST_FRAME_BYTES, MOST_RESULT_BYTES, WireError, encode};
pub(crate) use frame::{frame_json, read_json};
pub use packed::{MOST_PACKED_BYTES, Packed};
pub use preamble::{
    DATA_STREAM, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, Nonce, PREAMBLE_BYTES, Preamble,
};
pub use probing::{
    Answer, Ask, Bounds, Collect, Options, Probe, Seen, Sent, Times, TraceBack, TrainSeen,
    TrainSent,
};

use longhaul_model::report::v1::observation::{End, StreamEnd};
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Party};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A range of protocol versions, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub least: u16,
    pub most: u16,
}

impl Versions {
    /// The versions that this program supports.
    pub const OURS: Versions = Versions { least: 1, most: 4 };
    /// The first version with probe sessions.
    pub const PROBES: u16 = 2;
    /// The first version with captures by the server.
    pub const CAPTURES: u16 = 3;
    /// The first version with file copies.
    pub const FILES: u16 = 4;

    /// Returns the newest version that both support.
    pub fn common(self, other: Versions) -> Option<u16> {
        let version = self.most.min(other.most);
        (version >= self.least.max(other.least)).then_some(version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.most)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

/// A frame on the control connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    Hello(Hello),
    Proof(Proof),
    Welcome(Welcome),
    Propose(Box<Propose>),
    Probe(Box<Probe>),
    Accept(Accept),
    Opened,
    Ping(Ping),
    Pong(Pong),
    Prepare(Prepare),
    Prepared,
    Go,
    Interval(Interval),
    Sent,
    Drained,
    Capture(CapturePart),
    Stream(Box<StreamResult>),
    End(Box<EndResult>),
    Ask(Ask),
    Answer(Box<Answer>),
    Bye(Bye),
}

impl Message {
    /// Returns the message's name in logs, errors and docs/protocol.md.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "hello",
            Message::Proof(_) => "proof",
            Message::Welcome(_) => "welcome",
            Message::Propose(_) => "propose",
            Message::Probe(_) => "probe",
            Message::Accept(_) => "accept",
            Message::Opened => "opened",
            Message::Ping(_) => "ping",
            Message::Pong(_) => "pong",
            Message::Prepare(_) => "prepare",
            Message::Prepared => "prepared",
            Message::Go => "go",
            Message::Interval(_) => "interval",
            Message::Sent => "sent",
            Message::Drained => "drained",
            Message::Capture(_) => "capture",
            Message::Stream(_) => "stream",
            Message::End(_) => "end",
            Message::Ask(_) => "ask",
            Message::Answer(_) => "answer",
            Message::Bye(_) => "bye",
        }
    }
}

/// First frame of both ends. Its format never changes, so that any two versions can report a
/// mismatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub versions: Versions,
    /// Release of the program, for the error text only.
    pub longhaul: String,
}

/// The client's proof that it knows the token; absent if it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_proof: Option<String>,
}

/// The server admits the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The server's own proof; absent if it has no token, or the client showed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_proof: Option<String>,
    pub party: Party,
    /// Equal at both ends if they run under one kernel; see `secure::boot_proof`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_proof: Option<String>,
    /// Limits of an anonymous client; absent with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<AnonymousLimits>,
}

/// Limits of an anonymous client; absent fields are unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnonymousLimits {
    pub seconds: u64,
    pub streams: u32,
    /// Maximum number of simultaneous anonymous runs.
    pub concurrent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Default for AnonymousLimits {
    /// Enough for a measurement of a long path, too little to be a long nuisance.
    fn default() -> Self {
        AnonymousLimits {
            seconds: 30,
            streams: 16,
            concurrent: 2,
            rate_bps: None,
            bytes: None,
        }
    }
}

/// The client proposes a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Propose {
    pub plan: Plan,
    pub party: Party,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_proof: Option<String>,
}

/// The server accepts and names the session for the data connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    pub nonce: Nonce,
}

/// A measurement of the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    pub number: u32,
}

/// Answer to a ping, with the server's clock at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    pub number: u32,
    pub at_us: u64,
}

/// The client's clock measurement; the server prepares its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// Zero of the common time line, on the server's clock.
    pub origin_us: u64,
    pub idle_rtt_us: u64,
    /// Both ends run under one kernel without a network in between.
    pub same_host: bool,
    /// Time until the agreed start, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
}

/// A heartbeat each second, with the sender's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interval {
    pub elapsed_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// A part of the server's capture file, in order, before its other results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturePart {
    pub bytes: Packed,
}

/// The server's result of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Direction of the stream: true if the client sends.
    pub forward: bool,
    pub index: u32,
    pub end: StreamEnd,
}

/// The server's result of one direction, after its streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndResult {
    pub forward: bool,
    pub end: End,
    pub caveats: Vec<Caveat>,
}

/// Last frame: the reason for closing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bye {
    /// The session is complete.
    Finished,
    /// No common version; contains the sender's range.
    Version(Versions),
    /// A token is required and none was shown.
    TokenMissing,
    /// The token is wrong.
    TokenWrong,
    /// The plan or the time is not acceptable, with the reason.
    Refused(String),
    /// The peer violated the protocol.
    Violation(String),
    /// Nothing arrived in time.
    Timeout(String),
    /// The sender's own host failed.
    Failed(String),
}
