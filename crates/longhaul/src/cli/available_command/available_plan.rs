//! Builds the plan of `longhaul available` from its options.

use crate::cli::args::AvailableArgs;
use longhaul_analysis::available_bandwidth::budget_of_mode;
use longhaul_model::report::v1::available::{AvailableMode, AvailablePlan, FallbackMethod};

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// The packet size if nothing better is known: Ethernet's.
pub const DEFAULT_PACKET_BYTES: u32 = 1500;
/// Limits of bulk TCP to a server that does not run longhaul.
const TCP_TIME_US: u64 = 3_000_000;
const TCP_BYTES: u64 = 500_000_000;

/// Builds the plan from the options.
pub fn plan_available(args: &AvailableArgs) -> AvailablePlan {
    let mode = match (args.light, args.careful) {
        (true, _) => AvailableMode::Light,
        (_, true) => AvailableMode::Careful,
        _ => AvailableMode::Quick,
    };
    let most = budget_of_mode(mode);
    let by_tcp = args.tcp.is_some();
    let most_bytes = if by_tcp { TCP_BYTES } else { most.most_bytes };
    AvailablePlan {
        mode,
        forward: !args.reverse,
        reverse: !args.forward && !by_tcp,
        packet_bytes: args.packet_bytes.unwrap_or(DEFAULT_PACKET_BYTES),
        most_bytes: args.bytes.unwrap_or(most_bytes) + shaper_search_bytes(args),
        most_time_us: if by_tcp { TCP_TIME_US } else { most.most_time_us },
        // Seeded by the kernel's random numbers. Every JSON reader holds 53 bits exactly.
        seed: RandomState::new().hash_one(0_u8) >> 11,
        dscp: args.dscp,
        uncooperative: args.tcp.map(|_| FallbackMethod::TcpBulk),
        shaper_time_us: args.shaper,
    }
}

/// Returns the extra budget of a search for a large token bucket.
fn shaper_search_bytes(args: &AvailableArgs) -> u64 {
    const BUCKET_BYTES: u64 = 200_000_000;
    match (args.shaper, args.bytes) {
        (Some(_), None) => BUCKET_BYTES,
        _ => 0,
    }
}
