//! Formatting shared by all sentences about paths.

use longhaul_model::report::v1::path::ChangedHops;
use longhaul_model::units::format_duration;
use std::time::Duration;

/// The minimum step of the RTT that is reported.
pub const MIN_STEP_NS: u64 = 100_000;

/// Formats the magnitude of a delay; the sentence expresses its sign.
pub fn format_delay(ns: i64) -> String {
    let magnitude = ns.unsigned_abs();
    // Microseconds below 1 ms, tenths of a millisecond above: more digits are noise.
    let step = if magnitude < 1_000_000 { 1_000 } else { 100_000 };
    let rounded = (magnitude + step / 2) / step * step;
    format_duration(Duration::from_nanos(rounded))
}

/// Formats a range of hops: `hop 4`, `hops 3-7`, `no hop`.
pub fn format_hops(range: Option<[u8; 2]>) -> String {
    match range {
        None => String::from("no hop"),
        Some([first, last]) if first == last => format!("hop {first}"),
        Some([first, last]) => format!("hops {first}-{last}"),
    }
}

/// Formats a changed range of a route, whose `here` is the newer route: `hops 3-11 replaced by hops
/// 3-7`.
pub fn format_hop_change(range: &ChangedHops) -> String {
    let (old, new) = (format_hops(range.other), format_hops(range.here));
    match (range.other, range.here) {
        (None, _) => format!("{new} added"),
        (Some(_), None) => format!("{old} removed"),
        (Some(_), Some(_)) => format!("{old} replaced by {new}"),
    }
}
