//! The verdict in one line for the terminal, and formatting shared by all sentences. Reads only the
//! analysis, so that archived reports can be formatted again.

use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::units::Rate;

/// Formats the verdict: `Limited by the receive window: 64 KiB receive window / 160 ms RTT,
/// about 3.28 Mbit/s. Next limit: …`
pub fn format_verdict(analysis: &ThroughputAnalysis) -> String {
    let limiter = analysis.limited_by;
    let own = analysis.bounds.iter().find(|b| b.limiter == limiter);
    let proof = own.map_or_else(String::new, |bound| {
        format!(": {}, about {}", bound.why, Rate::bits_per_second(bound.rate_bps))
    });
    let next = analysis.next_limit.as_ref().map_or_else(
        || String::from(" The next limit has not been measured."),
        |bound| {
            let rate = Rate::bits_per_second(bound.rate_bps);
            format!(" Next limit: {} ({}, {rate}).", name_limiter(bound.limiter), bound.why)
        },
    );
    let told = match limiter {
        Limiter::Unknown => {
            return String::from(
                "The limiter of this run could not be determined from its counters.",
            );
        }
        Limiter::PathCapacity => String::new(),
        _ => next,
    };
    format!("Limited by {}{proof}.{told}", name_limiter(limiter))
}

/// Returns the name of a limiter within a sentence.
pub const fn name_limiter(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::ReceiveWindow => "the receive window",
        Limiter::SendBuffer => "the send buffer",
        Limiter::Application => "the application",
        Limiter::CpuSender => "the sender's CPU",
        Limiter::CpuReceiver => "the receiver's CPU",
        Limiter::Loss => "packet loss",
        Limiter::PathCapacity => "the capacity of the path",
        Limiter::Shaper => "a shaper on the path",
        Limiter::Policer => "a policer on the path",
        Limiter::Pacing => "pacing",
        Limiter::Ramp => "slow start: the run ended before the rate was steady",
        Limiter::Unknown => "an unknown limit",
    }
}

/// Returns the limiter in at most two words, for a column.
pub const fn limiter_label(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::ReceiveWindow => "receive window",
        Limiter::SendBuffer => "send buffer",
        Limiter::Application => "application",
        Limiter::CpuSender => "sender's CPU",
        Limiter::CpuReceiver => "receiver's CPU",
        Limiter::Loss => "loss",
        Limiter::PathCapacity => "path capacity",
        Limiter::Shaper => "shaper",
        Limiter::Policer => "policer",
        Limiter::Pacing => "pacing",
        Limiter::Ramp => "ramp",
        Limiter::Unknown => "unknown",
    }
}

pub fn to_rate(bps: u64) -> Rate {
    Rate::bits_per_second(bps)
}

/// Formats a ratio in whole per cent.
pub fn format_whole_percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}
