//! File messages within a session, from version 4 on.
//!
//! The client asks, whichever end has the files: the server lists its files or accepts a list.
//! Blocks are sent over separate data connections.

use super::{Base64Bytes, SessionNonce};
use longhaul_model::report::v1::copy::CopyEndCounts;
use serde::{Deserialize, Serialize};

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
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRequest {
    pub path: String,
    /// Bypass the page cache.
    pub direct: bool,
    /// Send blocks in order, because the target is a stream.
    pub in_order: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRequest {
    pub path: String,
    /// Last component of the source's path, for a target that is a folder.
    pub name: Option<String>,
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

/// A file or folder of the source; folders precede their content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path below the source; empty: the source itself.
    pub path: String,
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
    pub name: String,
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
