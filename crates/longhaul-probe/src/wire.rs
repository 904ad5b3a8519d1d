//! The messages between the two ends, without their order.
//!
//! docs/protocol.md describes this protocol; a test compares its tables with this module. Times are
//! microseconds of the sender's clock unless a field says otherwise.

mod base64_bytes;
mod control_frame;
mod file_messages;
mod probe_messages;
mod stream_preamble;

pub use base64_bytes::{Base64Bytes, MAX_BASE64_BYTES};
pub use control_frame::{
    FrameSplitter, MAX_FRAME_BYTES, MAX_RESULT_BYTES, WireError, encode_frame, parse_json_body,
};
pub use file_messages::{
    CopyEndStatus, ExistingEntries, FileEntry, FilesReply, FilesRequest, MAX_ENTRIES, MAX_SUMS,
    OpenStreamsReply, OpenStreamsRequest, SourceListing, SourceRequest, TargetRequest,
};
pub use probe_messages::{
    CollectTrains, PacketTimes, ProbeBounds, ProbeProposal, ReceivedTrain, ReceivedTrains,
    ReverseTraceRequest, SentTrain, SentTrains, SessionReply, SessionRequest, SessionTcpOptions,
};
pub use stream_preamble::{
    DATA_STREAM, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, SessionNonce,
    StreamPreamble,
};

use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_model::serde_name::name_variant;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::fmt;

/// A range of protocol versions, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolVersions {
    pub least: u16,
    pub most: u16,
}

impl ProtocolVersions {
    /// The versions that this program supports.
    pub const OURS: ProtocolVersions = ProtocolVersions { least: 4, most: 4 };

    /// Returns whether there is a version that both support.
    pub fn overlaps(self, other: ProtocolVersions) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

impl fmt::Display for ProtocolVersions {
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
pub enum ControlMessage {
    Hello(HelloMessage),
    Proof(TokenProof),
    Welcome(WelcomeMessage),
    Propose(Box<RunProposal>),
    Probe(Box<ProbeProposal>),
    /// The server accepts and names the session for the data connections.
    Accept {
        nonce: SessionNonce,
    },
    Opened,
    /// A measurement of the round trip.
    Ping {
        number: u32,
    },
    /// Answer to a ping, with the server's clock at that moment.
    Pong {
        number: u32,
        at_us: u64,
    },
    Prepare(PrepareMessage),
    Prepared,
    Go,
    Interval(IntervalCounters),
    Sent,
    Drained,
    /// A part of the server's capture file, in order, before its other results.
    Capture {
        bytes: Base64Bytes,
    },
    Stream(Box<StreamResult>),
    End(Box<DirectionResult>),
    Ask(SessionRequest),
    Answer(Box<SessionReply>),
    Bye(ByeReason),
}

impl ControlMessage {
    /// Returns the message's name in logs, errors and docs/protocol.md.
    pub fn name(&self) -> &'static str {
        name_variant(self)
    }
}

/// First frame of both ends. Its format never changes, so that any two versions can report a
/// mismatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloMessage {
    pub versions: ProtocolVersions,
    /// Release of the program, for the error text only.
    pub longhaul: String,
}

/// The client's proof that it knows the token; absent if it has none.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenProof {
    pub token_proof: Option<String>,
}

/// The server admits the client.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomeMessage {
    /// The server's own proof; absent if it has no token, or the client showed none.
    pub token_proof: Option<String>,
    pub party: RunParty,
    /// Equal at both ends if they run under one kernel; see `secure::boot_proof`.
    pub boot_proof: Option<String>,
    /// Limits of an anonymous client; absent with a token.
    pub limits: Option<AnonymousLimits>,
}

/// Limits of an anonymous client; absent fields are unlimited.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnonymousLimits {
    pub seconds: u64,
    pub streams: u32,
    /// Maximum number of simultaneous anonymous runs.
    pub concurrent: u32,
    pub rate_bps: Option<u64>,
    pub bytes: Option<u64>,
}

impl Default for AnonymousLimits {
    /// Enough for a measurement of a long path, too little to be a long nuisance.
    fn default() -> Self {
        AnonymousLimits { seconds: 30, streams: 16, concurrent: 2, rate_bps: None, bytes: None }
    }
}

/// The client proposes a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunProposal {
    pub plan: ThroughputPlan,
    pub party: RunParty,
    pub boot_proof: Option<String>,
}

/// The client's clock measurement; the server prepares its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareMessage {
    /// Zero of the common time line, on the server's clock.
    pub origin_us: u64,
    pub idle_rtt_us: u64,
    /// Both ends run under one kernel without a network in between.
    pub same_host: bool,
}

/// A heartbeat each second, with the sender's counters.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IntervalCounters {
    pub elapsed_us: u64,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
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
pub struct DirectionResult {
    pub forward: bool,
    pub end: EndObservation,
    pub caveats: Vec<ReportCaveat>,
}

/// Last frame: the reason for closing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByeReason {
    /// The session is complete.
    Finished,
    /// No common version; contains the sender's range.
    Version(ProtocolVersions),
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
