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

/// Returns the name of a method, or its word if it is unknown.
pub fn method_label(name: &str) -> String {
    match name {
        "empty_queue" => "empty queue".to_owned(),
        "rate_sweep" => "rate sweep".to_owned(),
        "tcp_share" => "share of one TCP connection".to_owned(),
        other => other.replace('_', " "),
    }
}

pub fn flag_label(flag: &str) -> String {
    match flag {
        "multi_hop" => "more than one hop is loaded".to_owned(),
        "unstable" => "the methods disagree: cross traffic changed during the run".to_owned(),
        "policed" => "a policer drops packets above a rate".to_owned(),
        "bursty" => "cross traffic is bursty".to_owned(),
        "time_slotted" => "time-slotted access link (Wi-Fi, mobile, PON)".to_owned(),
        "sender_limited" => "limited by the sender".to_owned(),
        "uncooperative" => "measured at one end only".to_owned(),
        "capacity_at_least" => "the capacity is a lower bound".to_owned(),
        other => other.replace('_', " "),
    }
}

pub fn clock_label(clock: &str) -> String {
    match clock {
        "hardware" => "interface".to_owned(),
        "user" => "program (no kernel timestamps)".to_owned(),
        other => other.to_owned(),
    }
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
