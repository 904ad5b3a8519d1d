//! Converts an iperf3 test to a plan for the engine.

use super::wire::{self, Limit, Test, Trouble};
use crate::limits::{LimitError, MOST_RATE_BPS};
use longhaul_model::report::v1::plan::{Affinity, Direction, Mode, Plan, Stop, Transport};

/// The minimum rate of the engine.
const LEAST_RATE_BPS: u64 = 1000;
/// The interval between samples, small enough to show a ramp.
const INTERVAL_US: u64 = 100_000;

/// Converts a test. iperf3's rates are per stream, those of a plan for all streams together.
///
/// Fields without a counterpart are ignored: `burst` (we send evenly), `repeating_payload` (ours
/// always repeats), `do_not_fragment`.
pub fn plan(test: &Test) -> Plan {
    let all = |each: u64| {
        each.saturating_mul(u64::from(test.streams))
            .min(MOST_RATE_BPS)
    };
    let rate = test.rate_bps.map(|each| all(each.max(LEAST_RATE_BPS)));
    let window = test.window_bytes.map(u64::from);
    let transport = match test.transport {
        wire::Transport::Tcp => Transport::Tcp,
        wire::Transport::Udp => Transport::Udp {
            rate_bps: rate.unwrap_or(MOST_RATE_BPS),
        },
    };
    Plan {
        direction: match test.direction {
            wire::Direction::Forward => Direction::Forward,
            wire::Direction::Reverse => Direction::Reverse,
            wire::Direction::Both => Direction::Both,
        },
        transport,
        streams: test.streams,
        stop: stop(test),
        warm_up_us: Some(u64::from(test.omit_seconds) * 1_000_000).filter(|us| *us > 0),
        send_buffer_bytes: window,
        receive_buffer_bytes: window,
        write_bytes: Some(u64::from(test.length_bytes)),
        read_bytes: Some(u64::from(test.length_bytes)),
        congestion_control: test.congestion.clone(),
        pacing_bps: test.fq_rate_bps.map(|each| each.max(LEAST_RATE_BPS)),
        write_rate_bps: rate.filter(|_| transport == Transport::Tcp),
        mss_bytes: test.mss_bytes.map(u32::from),
        // The lower two bits belong to the network (ECN).
        dscp: Some(test.tos >> 2).filter(|dscp| *dscp > 0),
        no_delay: test.no_delay,
        mode: if test.discards {
            Mode::Wire
        } else {
            Mode::Delivered
        },
        zero_copy: test.zero_copy && transport == Transport::Tcp,
        // Only one end is ours, so threads are not pinned; a reader may follow its packets.
        affinity: Affinity::Auto,
        interval_us: INTERVAL_US,
        ..Plan::default()
    }
}

/// Maps a violated limit for anonymous clients to an iperf3 error. iperf3 has none for bytes.
pub(crate) fn stranger_trouble(error: &LimitError) -> Trouble {
    match error.option {
        "streams" => Trouble::Streams,
        "rate" => Trouble::TotalRate,
        _ => Trouble::Duration,
    }
}

/// Returns the stop rule; a time limit includes the omitted time.
fn stop(test: &Test) -> Stop {
    match test.limit {
        Limit::Seconds(seconds) => {
            Stop::TimeUs((u64::from(seconds) + u64::from(test.omit_seconds)) * 1_000_000)
        }
        Limit::Bytes(bytes) => Stop::Bytes(bytes),
        Limit::Blocks(blocks) => Stop::Blocks(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::wire::Parameters;

    #[test]
    fn rates_are_added_up_and_what_is_omitted_is_warm_up() {
        let asked = Parameters {
            parallel: Some(4),
            time: Some(3),
            omit: Some(2),
            bandwidth: Some(1_000_000),
            tos: Some(184),
            ..Parameters::default()
        };
        let plan = plan(&Test::of(&asked).expect("in range"));
        assert_eq!(plan.write_rate_bps, Some(4_000_000));
        assert_eq!(plan.stop, Stop::TimeUs(5_000_000));
        assert_eq!(plan.warm_up_us, Some(2_000_000));
        assert_eq!(plan.dscp, Some(46));
    }
}
