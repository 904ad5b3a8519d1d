//! Files copied from one host to another, and where the time went.
//!
//! Each end counts what its own threads did: those at the disk and those at the sockets. Times of
//! a [`Stage`] are sums over its threads, so that one thread that works all the time adds one
//! second for each second.

use serde::{Deserialize, Serialize};

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// As typed, without the host; `-` is standard input or output.
    pub source: String,
    pub target: String,
    /// The initiator has the source.
    pub forward: bool,
    pub streams: u32,
    /// Send and receive buffer asked at both ends; absent: the kernel's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Where the setting comes from: `option`, `tune` (an earlier scan of this path), `default`.
    pub setting_from: String,
    /// Files are sent in blocks of this length.
    pub block_bytes: u64,
    /// Past the page cache at both ends.
    pub direct: bool,
    pub overwrite: bool,
    /// `disk`: only the disks, nothing was sent; `network`: only the network, no file was touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry: Option<String>,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observation {
    pub files: u64,
    pub folders: u64,
    /// All files together.
    pub bytes: u64,
    /// Payload that crossed the network in this run.
    pub sent_bytes: u64,
    /// In blocks that an earlier run had left at the target.
    pub held_bytes: u64,
    /// In blocks of nothing but hole, which were named and not sent.
    pub hole_bytes: u64,
    /// Files that were at the target already, with the same length and time.
    pub skipped_files: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    /// Session, listing, and what an earlier run had left, until the first block was asked for.
    pub setup_us: u64,
    /// From then on until the last file had its name.
    pub data_us: u64,
    /// BLAKE3 of the whole file, in hexadecimal digits; absent: more than one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    pub source: End,
    pub target: End,
    /// Bytes that had reached the target, over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Point>,
}

/// One end of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct End {
    /// While its threads ran.
    pub elapsed_us: u64,
    /// Through the disk stage.
    pub disk_bytes: u64,
    /// Reading, or writing.
    pub disk: Stage,
    /// Sending, or receiving.
    pub network: Stage,
    /// Summing up blocks: in the threads of the disk at the source, of the sockets at the target.
    pub hash_us: u64,
    /// Telling the disk to keep what was written, and giving files their names.
    pub sync_us: u64,
    /// CPU of the whole process meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Of the source's sockets, all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
}

/// What the threads of one stage did; sums over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stage {
    pub threads: u32,
    /// In the call itself: reading, writing, sending, receiving.
    pub busy_us: u64,
    /// CPU of the calls; the rest of `busy_us` was waiting for the device or the peer.
    pub cpu_us: u64,
    /// Waiting for something to do.
    pub idle_us: u64,
    /// Waiting for the stage behind it.
    pub blocked_us: u64,
    /// Ready to run and without a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_wait_us: Option<u64>,
}

/// What the kernel says of the sending sockets; times are sums over the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tcp {
    pub busy_us: u64,
    pub receive_window_limited_us: u64,
    pub send_buffer_limited_us: u64,
    pub retransmitted_segments: u64,
}

/// A moment of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Since the first block was asked for.
    pub elapsed_us: u64,
    /// That are at the target by then, those of earlier runs left out.
    pub bytes: u64,
}

/// What held the copy where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    SourceDisk,
    SourceCpu,
    Network,
    TargetDisk,
    TargetCpu,
    #[default]
    CannotTell,
}

impl Limiter {
    /// The word used in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Limiter::SourceDisk => "source_disk",
            Limiter::SourceCpu => "source_cpu",
            Limiter::Network => "network",
            Limiter::TargetDisk => "target_disk",
            Limiter::TargetCpu => "target_cpu",
            Limiter::CannotTell => "cannot_tell",
        }
    }
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    pub limited_by: Limiter,
    /// The numbers behind it, a sentence each.
    pub evidence: Vec<String>,
    /// Absent: nothing was moved, or not long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Bytes that crossed the network in this run, over the time of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// The rate once the copy was under way: what a longer one would tend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asymptotic_bps: Option<u64>,
    /// What this run took beyond its bytes at that rate: session, listing, ramp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_us: Option<u64>,
    /// Of a dry run: each disk alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_disk_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_disk_bps: Option<u64>,
}

/// For which part of the time each was what the others waited for; together 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Split {
    pub source_disk_ratio: f64,
    pub source_cpu_ratio: f64,
    pub network_ratio: f64,
    pub target_disk_ratio: f64,
    pub target_cpu_ratio: f64,
}
