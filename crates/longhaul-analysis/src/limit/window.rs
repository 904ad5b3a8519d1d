//! Which windows are worth asking for?
//!
//! Source: RFC 7323 section 2.3 (a window is below 2^30 bytes); below 64 KiB no scaling is needed, so
//! nothing is gained by asking for less. Units: bytes. Error: rounding up at most doubles.
//! Wrong when: a kernel counts its overhead within the buffer; what was granted tells.

/// The least that is advised or tried.
pub const LEAST: u64 = 1 << 16;
/// The most that TCP can advertise.
pub const MOST: u64 = 1 << 30;

/// The next power of two, within the two.
pub fn rounded(bytes: u64) -> u64 {
    bytes.clamp(LEAST, MOST).next_power_of_two()
}
