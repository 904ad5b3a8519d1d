//! The parameter object: a client's request as received.

use super::lenient_numbers::{flag, one, unset, whole_if};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The keys of 3.1 to 3.22 that are used here; all others are ignored.
///
/// Only types are checked; see [`RequestedTest::validate`](super::RequestedTest::validate). Written as iperf3 writes them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TestParameters {
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub tcp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub udp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub sctp: bool,
    /// Seconds that are not counted.
    #[serde(deserialize_with = "whole_if")]
    pub omit: Option<i64>,
    #[serde(deserialize_with = "whole_if")]
    pub server_affinity: Option<i64>,
    /// Seconds.
    #[serde(deserialize_with = "whole_if")]
    pub time: Option<i64>,
    /// Bytes of all streams.
    #[serde(deserialize_with = "whole_if")]
    pub num: Option<i64>,
    /// Blocks of all streams.
    #[serde(deserialize_with = "whole_if")]
    pub blockcount: Option<i64>,
    #[serde(rename = "MSS", deserialize_with = "whole_if")]
    pub mss: Option<i64>,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub nodelay: bool,
    #[serde(deserialize_with = "whole_if")]
    pub parallel: Option<i64>,
    /// The server sends.
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub reverse: bool,
    /// Both ends send; since 3.7.
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub bidirectional: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "unset")]
    pub mptcp: bool,
    /// Size of both buffers in bytes.
    #[serde(deserialize_with = "whole_if")]
    pub window: Option<i64>,
    /// Size of a block or datagram in bytes.
    #[serde(deserialize_with = "whole_if")]
    pub len: Option<i64>,
    /// bit/s of each stream, limited by the program.
    #[serde(deserialize_with = "whole_if")]
    pub bandwidth: Option<i64>,
    /// bit/s of each stream, limited by the kernel.
    #[serde(deserialize_with = "whole_if")]
    pub fqrate: Option<i64>,
    /// Microseconds.
    #[serde(deserialize_with = "whole_if")]
    pub pacing_timer: Option<i64>,
    /// Blocks sent at once under `bandwidth`.
    #[serde(deserialize_with = "whole_if")]
    pub burst: Option<i64>,
    #[serde(rename = "TOS", deserialize_with = "whole_if")]
    pub tos: Option<i64>,
    /// The requested congestion control.
    pub congestion: Option<String>,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub get_server_output: bool,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub udp_counters_64bit: bool,
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub zerocopy: bool,
    pub authtoken: Option<String>,
    /// The receiver discards data in its kernel; since 3.19.
    #[serde(deserialize_with = "flag", serialize_with = "one", skip_serializing_if = "unset")]
    pub skip_rx_copy: bool,
    pub client_version: Option<String>,
}
