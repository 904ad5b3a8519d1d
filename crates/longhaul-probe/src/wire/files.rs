//! What is said of files in a session of asks, from version 4 on.
//!
//! The initiator asks, whichever end has the files: the responder lists what it has, or takes a
//! list; blocks go over data connections of their own.

use super::{Nonce, Packed};
use longhaul_model::report::v1::copy::End;
use serde::{Deserialize, Serialize};

/// The most entries of one message.
pub const MOST_ENTRIES: usize = 1000;
/// The most sums of blocks of one message: well within a frame as base64.
pub const MOST_SUMS: usize = 1000;

/// What the initiator wants of the responder's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesAsk {
    /// You have the source: list it.
    Source(SourceAsk),
    /// The entries from this one on.
    List { from: u64 },
    /// The target has these blocks already: `sums` as [`FilesAnswer::Held`] has them.
    Hold { file: u32, sums: Packed },
    /// The target has these files already.
    Skip { files: Vec<u32> },
    /// You have the target: it goes there.
    Target(TargetAsk),
    /// These are the next entries.
    Enter { entries: Vec<Entry> },
    /// Which blocks of this file are there, from this one on?
    Held { file: u32, from: u64 },
    /// Data connections will come.
    Open(OpenAsk),
    /// All is said: begin.
    Begin { dry: Option<Dry> },
    /// How far is it?
    Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceAsk {
    pub path: String,
    /// Past the page cache.
    pub direct: bool,
    /// Blocks must leave in their order: the target is a stream.
    pub in_order: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetAsk {
    pub path: String,
    /// Last part of the source's name, for a target that is a folder.
    pub name: Option<String>,
    /// The source is a folder.
    pub folder: bool,
    pub overwrite: bool,
    pub direct: bool,
    /// Nothing will be written under a name that stays.
    pub dry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenAsk {
    /// The initiator has the source.
    pub forward: bool,
    pub streams: u32,
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
}

/// What is left out of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dry {
    /// The network: each end reads or writes these bytes for itself.
    Disk { bytes: u64 },
    /// The disks: bytes of no file are sent.
    Network { bytes: u64 },
}

/// One file or folder of the source, in an order in which folders come before what is in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Below the source; empty: the source itself.
    pub path: String,
    pub folder: bool,
    /// Absent: not known before its end.
    pub size_bytes: Option<u64>,
    /// Permission bits.
    pub mode: u32,
    /// Since 1970.
    pub modified_ns: i64,
}

/// What the responder says of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesAnswer {
    /// Done.
    Done,
    Listed(Listed),
    Entries(Vec<Entry>),
    /// Of the entries just told.
    Entered(Entered),
    /// For each block its number (8 bytes, big-endian) and its sum (32 bytes); none: that was all.
    Held(Packed),
    Opened(Opened),
    Status(Box<Status>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub entries: u64,
    /// The source itself is a folder.
    pub folder: bool,
    /// Last part of its name.
    pub name: String,
    /// What is neither file nor folder, and stays.
    pub left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entered {
    /// Files that are there already.
    pub there: Vec<u32>,
    /// Files of which some blocks are there.
    pub begun: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    pub nonce: Nonce,
    /// 32 bytes, for the tags of blocks.
    pub key: Packed,
}

/// How far one end is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// All is done, or the end failed.
    pub over: bool,
    /// Why it failed.
    pub failed: Option<String>,
    /// The failure is of the peer, or of the network between.
    pub lost: bool,
    pub moved_bytes: u64,
    pub held_bytes: u64,
    pub hole_bytes: u64,
    /// The sum of the file, where there is one alone and it is done.
    pub blake3: Option<String>,
    pub end: End,
}
