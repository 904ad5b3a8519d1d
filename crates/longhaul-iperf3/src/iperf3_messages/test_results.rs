//! The result object that each end sends after a test.

use super::{whole, whole_if};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The results of one end. CPU use is in percent.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TestResults {
    pub cpu_util_total: f64,
    pub cpu_util_user: f64,
    pub cpu_util_system: f64,
    /// 1: it sends and knows its retransmits; 0: it sends and does not; -1: it receives.
    #[serde(deserialize_with = "whole")]
    pub sender_has_retransmits: i64,
    pub congestion_used: Option<String>,
    /// The server's output, if requested.
    pub server_output_text: Option<String>,
    pub streams: Vec<StreamResults>,
}

/// The results of one end for one stream.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamResults {
    #[serde(deserialize_with = "whole")]
    pub id: i64,
    /// Payload that this end sent or received.
    #[serde(deserialize_with = "whole")]
    pub bytes: i64,
    /// -1 if not known.
    #[serde(deserialize_with = "whole")]
    pub retransmits: i64,
    /// Seconds.
    pub jitter: f64,
    /// Datagrams lost.
    #[serde(deserialize_with = "whole")]
    pub errors: i64,
    /// Since 3.14, like `omitted_packets`: both or neither.
    #[serde(default, deserialize_with = "whole_if")]
    pub omitted_errors: Option<i64>,
    #[serde(deserialize_with = "whole")]
    pub packets: i64,
    #[serde(default, deserialize_with = "whole_if")]
    pub omitted_packets: Option<i64>,
    /// Seconds; since 3.2.
    pub start_time: Option<f64>,
    pub end_time: Option<f64>,
}

/// The reason why results are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultsFault {
    #[error("results of {count} streams, expected {expected}")]
    Streams { count: usize, expected: usize },
    #[error("no result of stream {id}")]
    Absent { id: i64 },
    #[error("a negative count of stream {id}")]
    Negative { id: i64 },
    #[error("a time or percentage that is not a finite number")]
    NotFinite,
    #[error("only one of omitted_errors and omitted_packets for stream {id}")]
    Unpaired { id: i64 },
}

impl TestResults {
    /// Returns the results of `streams` streams, ordered by index.
    ///
    /// # Errors
    /// See [`ResultsFault`]; ids are those of [`stream_id`](super::stream_id).
    pub fn by_index(&self, streams: usize) -> Result<Vec<&StreamResults>, ResultsFault> {
        if self.streams.len() != streams {
            let count = self.streams.len();
            return Err(ResultsFault::Streams { count, expected: streams });
        }
        if !(self.cpu_util_total.is_finite()
            && self.cpu_util_user.is_finite()
            && self.cpu_util_system.is_finite())
        {
            return Err(ResultsFault::NotFinite);
        }
        (0..streams)
            .map(|index| {
                let id = super::stream_id(index);
                let found = self.streams.iter().find(|stream| stream.id == id);
                found.ok_or(ResultsFault::Absent { id })?.checked()
            })
            .collect()
    }
}

impl StreamResults {
    fn checked(&self) -> Result<&StreamResults, ResultsFault> {
        let id = self.id;
        if self.omitted_errors.is_some() != self.omitted_packets.is_some() {
            return Err(ResultsFault::Unpaired { id });
        }
        // Losses may be negative, because late datagrams are subtracted.
        if self.bytes < 0 || self.packets < 0 {
            return Err(ResultsFault::Negative { id });
        }
        let times = [self.start_time, self.end_time, Some(self.jitter)];
        if times.iter().flatten().any(|time| !time.is_finite()) {
            return Err(ResultsFault::NotFinite);
        }
        Ok(self)
    }
}
