//! What the two ends say to each other: the messages, and nothing of when they may be said.
//!
//! docs/protocol.md describes this wire; the tables there are compared with this module by a
//! test. Times are microseconds on the speaker's own clock unless a field says otherwise.

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

/// A range of protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub least: u16,
    pub most: u16,
}

impl Versions {
    /// What this program speaks.
    pub const OURS: Versions = Versions { least: 1, most: 4 };
    /// The first version that has sessions of probes.
    pub const PROBES: u16 = 2;
    /// The first version in which the far end captures.
    pub const CAPTURES: u16 = 3;
    /// The first version that copies files.
    pub const FILES: u16 = 4;

    /// The newest version that both speak.
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

/// One frame on the control connection.
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
    /// The word that stands for this message in logs, errors and docs/protocol.md.
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

/// First frame of both ends. Its shape never changes, so that any two versions can part politely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub versions: Versions,
    /// Release of the program, for the error text only.
    pub longhaul: String,
}

/// The initiator's proof that it knows the token; absent: it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_proof: Option<String>,
}

/// The responder lets the initiator in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Its own proof; absent: it has no token, or the initiator showed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_proof: Option<String>,
    pub party: Party,
    /// Equal on both sides when both run under one kernel; see `secure::boot_proof`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_proof: Option<String>,
    /// Present: the initiator is a stranger and may ask no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<AnonymousLimits>,
}

/// What a stranger may ask; absent fields are unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnonymousLimits {
    pub seconds: u64,
    pub streams: u32,
    /// Runs of strangers at one time.
    pub concurrent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Default for AnonymousLimits {
    /// Enough for a measurement on a long path; too little to be a nuisance for long.
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

/// The initiator says what it wants to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Propose {
    pub plan: Plan,
    pub party: Party,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_proof: Option<String>,
}

/// The responder agrees and names the session for the data connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    pub nonce: Nonce,
}

/// One timing of the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    pub number: u32,
}

/// The answer, with the responder's clock at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    pub number: u32,
    pub at_us: u64,
}

/// The initiator's reading of the clocks; the responder gets its engine ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// Zero of the common time line, on the responder's clock.
    pub origin_us: u64,
    pub idle_rtt_us: u64,
    /// Both ends run under one kernel and nothing lies between them.
    pub same_host: bool,
    /// How long until the start, when a time was agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
}

/// A sign of life each second, with the speaker's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interval {
    pub elapsed_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// A piece of the responder's capture file, in order, before its other results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturePart {
    pub bytes: Packed,
}

/// What the responder saw of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Direction of the stream: the initiator sends on it.
    pub forward: bool,
    pub index: u32,
    pub end: StreamEnd,
}

/// What the responder says of itself, after the streams of that direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndResult {
    pub forward: bool,
    pub end: End,
    pub caveats: Vec<Caveat>,
}

/// Last frame: why the speaker hangs up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bye {
    /// All is said and done.
    Finished,
    /// No version in common; the speaker's range.
    Version(Versions),
    /// A token is needed and none was shown.
    TokenMissing,
    /// The token is another one.
    TokenWrong,
    /// The plan, or the moment, does not suit; why.
    Refused(String),
    /// What the other end said does not belong here.
    Violation(String),
    /// Nothing came in time.
    Timeout(String),
    /// The speaker's own host failed.
    Failed(String),
}
