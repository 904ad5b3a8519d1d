//! The messages between the two ends, without their order.
//!
//! docs/protocol.md describes this protocol; a test compares its tables with this module. Times are
//! microseconds of the sender's clock unless a field says otherwise.
//!
//! # Stream preamble
//!
//! The 24 bytes at the start of a data connection, and in the datagrams that open a UDP flow.
//!
//! ```text
//!  0      4                                   20      22         23        24
//! +------+-----------------------------------+-------+----------+---------+
//! | magic| session nonce (16)                | index | direction| zero    |
//! +------+-----------------------------------+-------+----------+---------+
//! ```
//!
//! Magic: `LHD1` on a TCP data connection, `LHU1` in the client's first datagram, `LHU2` in the
//! server's answer. Index is big-endian. Direction: 0 the client sends, 1 the server sends.
//!
//! # Control frame
//!
//! Frames on the control connection: four bytes of length, big-endian, then that many bytes of
//! JSON.
//!
//! The decoder accepts bytes in pieces of any size. It holds at most one frame, and memory grows
//! only with bytes that really arrived: a length alone allocates nothing.
//!
//! # File messages
//!
//! File messages within a session, from version 4 on.
//!
//! The client asks, whichever end has the files: the server lists its files or accepts a list.
//! Blocks are sent over separate data connections.

mod probe_messages;

pub use probe_messages::{
    CollectTrains, FlowWatchRequest, PacketTimes, ProbeBounds, ProbeProposal, ReceivedTrain,
    ReceivedTrains, ReverseTraceRequest, SentTrain, SentTrains, SessionReply, SessionRequest,
    SessionTcpOptions,
};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_model::foreign_text::{ExactText, ForeignDeserializer};
use longhaul_model::report::v1::copy::CopyEndCounts;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::serde_name::name_variant;
use serde::de::DeserializeOwned;
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
    pub const OURS: ProtocolVersions = ProtocolVersions { least: 4, most: 5 };
    /// The first version in which a running copy can be resized.
    pub const RESIZE: u16 = 5;

    /// Returns the newest version that both ranges contain; `None` if there is none.
    pub fn newest_common(self, other: ProtocolVersions) -> Option<u16> {
        self.overlaps(other).then(|| self.most.min(other.most))
    }

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
    /// The client ends the run early: both senders stop now.
    Stop,
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
        AnonymousLimits { seconds: 30, streams: 16, concurrent: 4, rate_bps: None, bytes: None }
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

/// The maximum number of bytes in a message: as base64 they fit well into a result's frame.
pub const MAX_BASE64_BYTES: usize = 1 << 20;

/// Arbitrary bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "ExactText")]
pub struct Base64Bytes(pub Vec<u8>);

impl From<Base64Bytes> for String {
    fn from(packed: Base64Bytes) -> String {
        STANDARD.encode(packed.0)
    }
}

impl TryFrom<ExactText> for Base64Bytes {
    type Error = &'static str;

    fn try_from(text: ExactText) -> Result<Self, Self::Error> {
        let bytes = STANDARD.decode(text.as_received()).map_err(|_| "expected base64")?;
        if bytes.len() > MAX_BASE64_BYTES {
            return Err("more than 1 MiB in one message");
        }
        Ok(Base64Bytes(bytes))
    }
}

/// Magic of a TCP data connection.
pub const DATA_STREAM: [u8; 4] = *b"LHD1";
/// Magic of the datagram with which the client opens a UDP flow.
pub const DATAGRAM_HELLO: [u8; 4] = *b"LHU1";
/// Magic of the server's answer to it, through the connected socket.
pub const DATAGRAM_ACKNOWLEDGED: [u8; 4] = *b"LHU2";
/// Length of a preamble.
pub const PREAMBLE_BYTES: usize = 24;

/// The unguessable name of a session, which authorizes data streams to join it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SessionNonce(pub [u8; 16]);

impl fmt::Debug for SessionNonce {
    /// Prints a quarter of the secret, enough to distinguish sessions in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({}…)", crate::secure::encode_hex(&self.0[..4]))
    }
}

impl From<SessionNonce> for String {
    fn from(nonce: SessionNonce) -> String {
        crate::secure::encode_hex(&nonce.0)
    }
}

impl TryFrom<String> for SessionNonce {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = crate::secure::decode_hex(&text).ok_or("a nonce is hexadecimal")?;
        let bytes = bytes.try_into().map_err(|_| "a nonce has 16 bytes")?;
        Ok(SessionNonce(bytes))
    }
}

/// Session and stream of a connection or datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamPreamble {
    pub nonce: SessionNonce,
    pub index: u16,
    /// True if the client sends on it.
    pub forward: bool,
}

impl StreamPreamble {
    pub fn encode(&self, magic: [u8; 4]) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..4].copy_from_slice(&magic);
        bytes[4..20].copy_from_slice(&self.nonce.0);
        bytes[20..22].copy_from_slice(&self.index.to_be_bytes());
        bytes[22] = u8::from(!self.forward);
        bytes
    }

    /// Decodes a preamble; `None` for another magic or length, or an unknown value.
    pub fn decode(bytes: &[u8], magic: [u8; 4]) -> Option<StreamPreamble> {
        let bytes: &[u8; PREAMBLE_BYTES] = bytes.try_into().ok()?;
        let (front, rest) = bytes.split_first_chunk::<4>()?;
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let &[high, low, direction, zero] = rest else {
            return None;
        };
        let fine = *front == magic && direction <= 1 && zero == 0;
        fine.then_some(StreamPreamble {
            nonce: SessionNonce(*nonce),
            index: u16::from_be_bytes([high, low]),
            forward: direction == 0,
        })
    }
}

/// The maximum body size of a frame that is not a result.
pub const MAX_FRAME_BYTES: usize = 64 << 10;
/// The maximum body size of a result frame (`stream`, `end`).
pub const MAX_RESULT_BYTES: usize = 4 << 20;

const LENGTH_BYTES: usize = 4;
const FIRST_ROOM_BYTES: usize = 512;

/// Error of an invalid frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The announced length exceeds the limit.
    #[error("a frame of {length} bytes; at most {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    /// The body is not a known message in JSON.
    #[error("not a message of this protocol: {why}")]
    Malformed { why: String },
}

/// Encodes a message as a frame; fails if it exceeds `limit` (a result must then be thinned).
///
/// iperf3 uses the same framing.
pub fn encode_frame(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message).map_err(|error| malformed_error(&error))?;
    let length = frame.len() - LENGTH_BYTES;
    if length > limit {
        return Err(WireError::TooLong { length, limit });
    }
    // Cannot fail: every limit in use is far below 4 GiB.
    let prefix = u32::try_from(length).map_err(|_| WireError::TooLong { length, limit })?;
    frame[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(frame)
}

/// Parses the JSON of a peer; its texts are sanitized and cut.
pub fn parse_json_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    let mut source = serde_json::Deserializer::from_slice(body);
    let message = T::deserialize(ForeignDeserializer(&mut source));
    let message = message.and_then(|message| source.end().map(|()| message));
    message.map_err(|error| malformed_error(&error))
}

fn malformed_error(error: &serde_json::Error) -> WireError {
    // The text may quote the peer.
    WireError::Malformed { why: sanitize_line(&error.to_string(), 200) }
}

/// Splits bytes into the bodies of frames, incrementally.
#[derive(Debug)]
pub struct FrameSplitter {
    limit: usize,
    /// Length and body of the current frame.
    held: Vec<u8>,
}

impl FrameSplitter {
    /// Creates a splitter that rejects bodies over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        FrameSplitter { limit, held: Vec::new() }
    }

    /// Changes the limit, starting with the next frame.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the memory allocated for the current frame.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Consumes exactly what the next body needs from `bytes`. Returns `None` if all was consumed
    /// and more is needed. After an error the framing is lost: close the connection.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        self.take(bytes, LENGTH_BYTES);
        let Some(prefix) = self.held.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > self.limit {
            let limit = self.limit;
            return Err(WireError::TooLong { length, limit });
        }
        self.take(bytes, LENGTH_BYTES + length);
        if self.held.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        // Release the memory of a large result with its body.
        let mut body = std::mem::take(&mut self.held);
        body.drain(..LENGTH_BYTES);
        Ok(Some(body))
    }

    /// Consumes the part of `bytes` that the next message needs; otherwise as [`FrameSplitter::next`].
    pub fn next_message(&mut self, bytes: &mut &[u8]) -> Result<Option<ControlMessage>, WireError> {
        self.next(bytes)?.map(|body| parse_json_body(&body)).transpose()
    }

    /// Moves bytes until `wanted` are held.
    fn take(&mut self, bytes: &mut &[u8], wanted: usize) {
        let missing = wanted.saturating_sub(self.held.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        if self.held.len() + missing > self.held.capacity() {
            // Double, but never beyond the frame itself, so that the limit bounds the memory.
            let room = self.held.len().max(missing).max(FIRST_ROOM_BYTES);
            self.held.reserve_exact(room.min(wanted - self.held.len()));
        }
        self.held.extend_from_slice(taken);
        *bytes = rest;
    }
}

/// The maximum number of entries in a message.
pub const MAX_ENTRIES: usize = 1000;
/// The maximum number of block hashes in a message: well within a frame as base64.
pub const MAX_SUMS: usize = 1000;

/// A file request of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesRequest {
    /// Be the source, and list it.
    Source(SourceRequest),
    /// Send the entries starting at this one.
    List { from: u64 },
    /// The target already has these blocks; `sums` is encoded as in [`FilesReply::Held`].
    Hold { file: u32, sums: Base64Bytes },
    /// The target already has these files.
    Skip { files: Vec<u32> },
    /// Be the target, at this path.
    Target(TargetRequest),
    /// The next entries of the source.
    Enter { entries: Vec<FileEntry> },
    /// List the existing blocks of this file, starting at this one.
    Held { file: u32, from: u64 },
    /// Expect data connections.
    Open(OpenStreamsRequest),
    /// Start the copy.
    Begin {},
    /// Report the status.
    Status,
    /// Change the number of threads of the running copy; from version 5 on.
    Resize(ResizeRequest),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRequest {
    pub path: ExactText,
    /// Bypass the page cache.
    pub direct: bool,
    /// Send blocks in order, because the target is a stream.
    pub in_order: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRequest {
    pub path: ExactText,
    /// Last component of the source's path, for a target that is a folder.
    pub name: Option<ExactText>,
    /// The source is a folder.
    pub folder: bool,
    pub overwrite: bool,
    pub direct: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenStreamsRequest {
    /// The client has the source.
    pub forward: bool,
    pub streams: u32,
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
}

/// The threads of a running copy from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    /// All data connections that the client has opened so far, including closed ones.
    pub opened_streams: u32,
    /// The connections on which the source continues to send.
    pub streams: u32,
    /// The threads that read or write files at the server.
    pub disk_threads: u32,
}

/// A file or folder of the source; folders precede their content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path below the source; empty: the source itself.
    pub path: ExactText,
    pub folder: bool,
    /// Size; absent if unknown until the end.
    pub size_bytes: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
}

/// The server's answer to a file request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesReply {
    Done,
    Listed(SourceListing),
    Entries(Vec<FileEntry>),
    /// The result for the entries just sent.
    Entered(ExistingEntries),
    /// For each block its number (8 bytes, big-endian) and its hash (32 bytes); empty: no more.
    Held(Base64Bytes),
    Opened(OpenStreamsReply),
    Status(Box<CopyEndStatus>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceListing {
    pub entries: u64,
    /// The source itself is a folder.
    pub folder: bool,
    /// Last component of its path.
    pub name: ExactText,
    /// Number of items that are neither file nor folder, and are not copied.
    pub left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExistingEntries {
    /// Files that exist already.
    pub there: Vec<u32>,
    /// Files of which some blocks exist.
    pub begun: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenStreamsReply {
    pub nonce: SessionNonce,
    /// The 32-byte key of the blocks' tags.
    pub key: Base64Bytes,
}

/// Status of one end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyEndStatus {
    /// The end is done or has failed.
    pub over: bool,
    /// Reason of the failure.
    pub failed: Option<String>,
    /// The peer or the network failed.
    pub lost: bool,
    pub moved_bytes: u64,
    pub held_bytes: u64,
    /// Hash of a single file, once it is done.
    pub blake3: Option<String>,
    pub end: CopyEndCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let preamble =
            StreamPreamble { nonce: SessionNonce([0xab; 16]), index: 0x0102, forward: false };
        let bytes = preamble.encode(DATA_STREAM);
        let mut drawn = b"LHD1".to_vec();
        drawn.extend([0xab; 16]);
        drawn.extend([1, 2, 1, 0]);
        assert_eq!(bytes.as_slice(), drawn);
        assert_eq!(StreamPreamble::decode(&bytes, DATA_STREAM), Some(preamble));
        assert_eq!(StreamPreamble::decode(&bytes, DATAGRAM_HELLO), None);
        assert_eq!(StreamPreamble::decode(&bytes[..23], DATA_STREAM), None);
    }

    #[test]
    fn unknown_directions_and_reserved_bytes_are_refused() {
        let preamble = StreamPreamble { nonce: SessionNonce([0; 16]), index: 0, forward: true };
        for place in [22, 23] {
            let mut bytes = preamble.encode(DATA_STREAM);
            bytes[place] = 2;
            assert_eq!(StreamPreamble::decode(&bytes, DATA_STREAM), None);
        }
    }
}
