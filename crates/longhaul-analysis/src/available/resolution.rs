//! Above which capacity can these hosts not tell?
//!
//! A burst must be long beside the receiver's batches and stamps, and has at most so many packets.
//!
//! Source: docs/methods/available-bandwidth.md. Units: seconds, bit/s of IP. Error: that of the
//! batching seen. Wrong when: the batching changes with the load.

/// Packets of a train, at most.
pub const MOST_PACKETS: u32 = 2500;
/// A train lasts this many times between batches.
pub const TRAIN_BATCHES: f64 = 20.0;
/// And at least this long: stamps are not better than some microseconds.
const LEAST_SPAN_S: f64 = 400e-6;

/// A burst shorter than this is all noise.
pub fn least_span_s(batching_s: f64) -> f64 {
    (TRAIN_BATCHES * batching_s).max(LEAST_SPAN_S)
}

/// The capacity at which the longest burst is just long enough.
pub fn most_bps(batching_s: f64, packet_bytes: u32, most_bytes: u64) -> f64 {
    let packets = u64::from(MOST_PACKETS).min(most_bytes / 12 / u64::from(packet_bytes.max(1)));
    packets as f64 * f64::from(packet_bytes) * 8.0 / least_span_s(batching_s)
}
