//! Recognises data that moves in answer to requests, a bounded number of bytes per round trip.
//!
//! A program that waits for answers, such as SFTP or HTTP range requests, has a bounded amount of
//! requested data outstanding, however wide the windows are. Its requests are segments with payload
//! in the other direction, and few bytes each. Some of its bytes are unacknowledged nearly all of the
//! time; if the programs themselves took the time, the connection would be idle meanwhile.
//!
//! Source: our experiments with SFTP and HTTP ranges; `tcpi_data_segs_in`, `tcpi_data_segs_out` (Linux
//! 4.6), `tcpi_busy_time` (4.10). Units: bytes, shares of time. Error: requests that share a segment
//! count as one, larger, request.
//! Programs over SSH keep about 2 MiB outstanding, the window of an SSH channel (OpenSSH's `channels.h`,
//! SFTP of OpenSSH and rclone). If less arrives per round trip, requests are outstanding that the sender
//! does not answer at once. A program that waits for each request of 32 KiB looks like a sender with a
//! small buffer.
//!
//! Wrong when: a program sends progress messages that nothing waits for; a program over SSH was told to
//! keep another number of requests outstanding.

use longhaul_model::report::v1::observation::{ObservedStream, StreamEnd, TcpReading};

/// The parameters of the recognition.
struct RequestTuning;

impl RequestTuning {
    /// Fewer requests are no pattern.
    const MIN_REQUESTS: u64 = 8;
    /// The payload of all requests is at most this share of the data.
    const MAX_PAYLOAD_RATIO: f64 = 0.2;
    /// Smaller units of data are a dialogue, not a transfer.
    const MIN_REQUEST_BYTES: u64 = 1024;
    const MAX_REQUEST_BYTES: u64 = 64 << 20;
    /// With data outstanding for less than this share of the time, a program takes the time.
    const MIN_BUSY_RATIO: f64 = 0.7;
    /// The same for outstanding requests, which the first bytes of the answer acknowledge.
    const MIN_REQUEST_BUSY_RATIO: f64 = 0.3;
    /// The minimum bytes per round trip of SSH: half of the window of a channel.
    const MIN_SSH_WINDOW_BYTES: u64 = 1 << 20;
}

/// The requests of one stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamRequests {
    pub request_bytes: u64,
    /// True: round trips, not programs, take a good part of the time.
    pub waits_for_network: bool,
}

/// Returns the requests that the data of a stream answers; `None` if there are none, or if the
/// kernel does not count them.
pub fn find_requests(stream: &ObservedStream) -> Option<StreamRequests> {
    let sends = !stream.sender.samples.is_empty();
    let near = if sends { &stream.sender } else { &stream.receiver };
    let data_bytes = stream.receiver.bytes;
    let grown = |of: fn(&TcpReading) -> Option<u64>| count_growth(near, of);
    let (count, payload_bytes) = if sends {
        (grown(|it| it.data_segments_in)?, grown(|it| it.bytes_received)?)
    } else {
        (grown(|it| it.data_segments_out)?, grown(|it| it.bytes_acked)?)
    };
    let request_bytes = data_bytes.checked_div(count)?;
    let busy_ratio = grown(|it| it.busy_us)? as f64 / near.duration_us.max(1) as f64;
    let is_pattern = count >= RequestTuning::MIN_REQUESTS
        && payload_bytes as f64 <= RequestTuning::MAX_PAYLOAD_RATIO * data_bytes as f64
        && (RequestTuning::MIN_REQUEST_BYTES..=RequestTuning::MAX_REQUEST_BYTES)
            .contains(&request_bytes);
    let least =
        if sends { RequestTuning::MIN_BUSY_RATIO } else { RequestTuning::MIN_REQUEST_BUSY_RATIO };
    let waits_for_network = busy_ratio >= least;
    is_pattern.then_some(StreamRequests { request_bytes, waits_for_network })
}

/// Returns true if requests over SSH can limit a transfer that moves so many bytes per round trip.
pub fn fits_ssh_requests(round_trip_bytes: u64) -> bool {
    round_trip_bytes >= RequestTuning::MIN_SSH_WINDOW_BYTES
}

/// Returns the growth of a counter between the first and the last reading.
pub fn count_growth(end: &StreamEnd, of: fn(&TcpReading) -> Option<u64>) -> Option<u64> {
    let mut readings = end.samples.iter().filter_map(|sample| of(sample.tcp.as_ref()?));
    let first = readings.next()?;
    Some(readings.next_back().unwrap_or(first).saturating_sub(first))
}
