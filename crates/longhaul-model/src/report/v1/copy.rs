//! Files copied from one host to another, and the time spent in each stage.
//!
//! Each end counts the work of its own threads: disk threads and socket threads. The times of a
//! [`CopyStage`] are sums over its threads, so one thread that is always busy adds one second per
//! second.

use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The requested copy.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyPlan {
    /// As typed, without the host; `-` is standard input or output.
    pub source: String,
    pub target: String,
    /// True: the initiator has the source.
    pub forward: bool,
    pub streams: u32,
    /// Requested send and receive buffers of both ends; absent: sized by the kernel.
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// Origin of the setting: `option`, `tune` (an earlier scan of this path), `default`.
    pub setting_from: String,
    /// Block size of the transfer.
    pub block_bytes: u64,
    /// Bypass the page cache at both ends.
    pub direct: bool,
    pub overwrite: bool,
}

/// The measured copy.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyObservation {
    pub files: u64,
    pub folders: u64,
    /// Size of all files together.
    pub bytes: u64,
    /// Payload that crossed the network in this run.
    pub sent_bytes: u64,
    /// Bytes in blocks that an earlier run had left at the target.
    pub held_bytes: u64,
    /// Files that the target already had, with the same length and time.
    pub skipped_files: u64,
    pub idle_rtt_us: Option<u64>,
    /// Time for the session, the listing and the check of an earlier run's blocks, until the first
    /// block was requested.
    pub setup_us: u64,
    /// Time from then until the last file had its final name.
    pub data_us: u64,
    /// BLAKE3 of the whole file, in hexadecimal; absent: more than one file.
    pub blake3: Option<String>,
    pub source: CopyEndCounts,
    pub target: CopyEndCounts,
    /// Bytes at the target over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<CopyPoint>,
    /// Changes of the number of connections and disk threads, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<CopyAdjustment>,
}

/// The number of connections and disk threads of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyConcurrency {
    pub streams: u32,
    /// Threads that read files at the source.
    pub readers: u32,
    /// Threads that write files at the target.
    pub writers: u32,
}

impl CopyConcurrency {
    /// Returns the number of one of the three.
    pub const fn count_mut(&mut self, workers: CopyWorkers) -> &mut u32 {
        match workers {
            CopyWorkers::Streams => &mut self.streams,
            CopyWorkers::Readers => &mut self.readers,
            CopyWorkers::Writers => &mut self.writers,
        }
    }
}

/// The workers of a copy whose number can change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyWorkers {
    Streams,
    Readers,
    Writers,
}

/// A change of the number of workers, and its effect.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyAdjustment {
    /// Time since the first block was requested.
    pub elapsed_us: u64,
    pub workers: CopyWorkers,
    pub workers_before: u32,
    pub workers_after: u32,
    /// The limiter before the change.
    pub limited_by: CopyLimiter,
    /// Median rate on the network before the change, and after it has settled; absent: the copy ended
    /// before that.
    pub before_bps: u64,
    pub after_bps: Option<u64>,
    /// False: the rate did not rise significantly, so that the change was undone.
    pub kept: Option<bool>,
}

/// Counters of one end of the copy.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyEndCounts {
    /// Running time of its threads.
    pub elapsed_us: u64,
    /// Bytes that passed the disk stage.
    pub disk_bytes: u64,
    /// Reading or writing.
    pub disk: CopyStage,
    /// Sending or receiving.
    pub network: CopyStage,
    /// Time for hashing blocks: in the disk threads at the source, in the socket threads at the
    /// target.
    pub hash_us: u64,
    /// Time for syncing to disk and renaming files.
    pub sync_us: u64,
    /// Time from the start of its threads to the end of the last connection; absent: unknown.
    pub network_end_us: Option<u64>,
    /// CPU time of the whole process during the copy.
    pub cpu_us: Option<u64>,
    /// TCP counters of all sockets of the source.
    pub tcp: Option<CopyTcpTimes>,
}

/// The work of one stage, summed over its threads.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyStage {
    /// The most at a time.
    pub threads: u32,
    /// Time in the calls themselves: reading, writing, sending, receiving.
    pub busy_us: u64,
    /// CPU time of these calls; the rest of `busy_us` was spent waiting for the device or the peer.
    pub cpu_us: u64,
    /// Time waiting for work.
    pub idle_us: u64,
    /// Time waiting for the next stage.
    pub blocked_us: u64,
    /// Time runnable without a core.
    pub core_wait_us: Option<u64>,
}

/// TCP_INFO of the sending sockets; times are sums over the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyTcpTimes {
    pub busy_us: u64,
    pub receive_window_limited_us: u64,
    pub send_buffer_limited_us: u64,
    pub retransmitted_segments: u64,
}

/// The progress of the copy at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyPoint {
    /// Time since the first block was requested.
    pub elapsed_us: u64,
    /// Bytes at the target by then, without those of earlier runs.
    pub bytes: u64,
}

/// The factor that limited the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyLimiter {
    SourceDisk,
    SourceCpu,
    Network,
    TargetDisk,
    TargetCpu,
    #[default]
    CannotTell,
}

impl CopyLimiter {
    /// Returns the word used in JSON.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// Conclusions about the copy.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CopyAnalysis {
    pub version: u32,
    pub limited_by: CopyLimiter,
    /// The numbers that support the verdict, one sentence each.
    pub evidence: Vec<String>,
    /// Absent: nothing was transferred, or the copy was too short.
    pub split: Option<CopyTimeSplit>,
    /// Bytes sent over the network in this run, divided by the time of the data phase.
    pub goodput_bps: Option<u64>,
    /// The rate after startup, which a longer copy would approach.
    pub asymptotic_bps: Option<u64>,
    /// Time of this run beyond its bytes at that rate: session, listing, ramp.
    pub startup_us: Option<u64>,
    /// Forecasts of `data_us` made during the copy, after 1 s and each time its time had doubled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<CopyForecast>,
}

/// A forecast of the time at which a copy ends, made while it ran. All times are since the first
/// block was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyForecast {
    /// The time at which it was made.
    pub elapsed_us: u64,
    /// The median.
    pub finish_us: u64,
    /// The 90 % interval.
    pub finish_low_us: u64,
    pub finish_high_us: u64,
}

/// Shares of the time in which each resource was the bottleneck; the sum is 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CopyTimeSplit {
    pub source_disk_ratio: f64,
    pub source_cpu_ratio: f64,
    pub network_ratio: f64,
    pub target_disk_ratio: f64,
    pub target_cpu_ratio: f64,
}

impl CopyTimeSplit {
    /// Returns the share of each resource.
    pub const fn shares(&self) -> [(CopyLimiter, f64); 5] {
        [
            (CopyLimiter::SourceDisk, self.source_disk_ratio),
            (CopyLimiter::SourceCpu, self.source_cpu_ratio),
            (CopyLimiter::Network, self.network_ratio),
            (CopyLimiter::TargetDisk, self.target_disk_ratio),
            (CopyLimiter::TargetCpu, self.target_cpu_ratio),
        ]
    }
}
