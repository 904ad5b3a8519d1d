//! The words that all sentences on paths share.

use longhaul_model::units::format_duration;
use std::time::Duration;

/// Steps of the round trip below this are not worth a word.
pub const LEAST_STEP_NS: u64 = 100_000;

/// A delay as people read it; its sign is the sentence's to tell.
pub fn delay(ns: i64) -> String {
    let magnitude = ns.unsigned_abs();
    // Microseconds below 1 ms, tenths of a millisecond above: more is noise.
    let step = if magnitude < 1_000_000 {
        1_000
    } else {
        100_000
    };
    let rounded = (magnitude + step / 2) / step * step;
    format_duration(Duration::from_nanos(rounded))
}

/// `hop 4`, `hops 3-7`, `no hop`.
pub fn hops(range: Option<[u8; 2]>) -> String {
    match range {
        None => String::from("no hop"),
        Some([first, last]) if first == last => format!("hop {first}"),
        Some([first, last]) => format!("hops {first}-{last}"),
    }
}

/// `1 hop`, `17 hops`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
