//! Text for verdicts, methods and flags.

use crate::number_format::count_of;
use longhaul_model::report::v1::available::{AvailableEstimate, EstimateVerdict};

pub fn describe_verdict(estimate: &AvailableEstimate) -> &'static str {
    match estimate.verdict {
        EstimateVerdict::Estimated => "estimated",
        EstimateVerdict::CapacityOnly => "capacity only: no estimate of available bandwidth",
        EstimateVerdict::SenderLimited => "lower bound: the sender could not overrun the path",
        EstimateVerdict::BeyondResolution => {
            "no estimate: the path is too fast for the clocks of these hosts"
        }
        EstimateVerdict::Disturbed => "no estimate: too many packets lost or trains unusable",
        EstimateVerdict::NoAnswer => "no estimate: nothing arrived",
    }
}

/// Returns the text before the capacity.
pub fn capacity_prefix(verdict: EstimateVerdict) -> &'static str {
    match verdict {
        EstimateVerdict::SenderLimited | EstimateVerdict::BeyondResolution => "≥ ",
        _ => "",
    }
}

/// Describes a method, a flag or a clock in a few words; an unknown word stands for itself.
pub fn describe_word(word: &str) -> String {
    let text = match word {
        "tcp_share" => "share of one TCP connection",
        "multi_hop" => "more than one hop is loaded",
        "unstable" => "the methods disagree: cross traffic changed during the run",
        "policed" => "a policer drops packets above a rate",
        "bursty" => "cross traffic is bursty",
        "time_slotted" => "time-slotted access link (Wi-Fi, mobile, PON)",
        "sender_limited" => "limited by the sender",
        "uncooperative" => "measured at one end only",
        "capacity_at_least" => "the capacity is a lower bound",
        "hardware" => "interface",
        "user" => "program (no kernel timestamps)",
        other => return other.replace('_', " "),
    };
    text.to_owned()
}

/// Formats the size of a probe budget, with decimal prefixes like rates.
pub fn format_probe_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => count_of(bytes, "byte"),
        10_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..10_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}
