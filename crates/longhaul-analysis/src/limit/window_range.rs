//! Bounds and rounds the windows that are worth requesting.
//!
//! Source: RFC 7323 section 2.3 (a window is below 2^30 bytes); below 64 KiB no scaling is needed,
//! so a smaller request gains nothing. Units: bytes. Error: rounding up at most doubles.
//! Wrong when: a kernel counts its overhead within the buffer; the granted size shows it.

/// The minimum window that is advised or tried.
pub const MIN_WINDOW: u64 = 1 << 16;
/// The maximum window that TCP can advertise.
pub const MAX_WINDOW: u64 = 1 << 30;

/// Returns the next power of two within both limits.
pub fn round_window(bytes: u64) -> u64 {
    bytes.clamp(MIN_WINDOW, MAX_WINDOW).next_power_of_two()
}
