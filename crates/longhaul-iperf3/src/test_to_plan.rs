//! Converts an iperf3 test to a plan for the engine.

use super::iperf3_messages::{self, Iperf3Error, RequestedTest, TestLimit};
use longhaul_model::report::v1::plan::{
    CoreAffinity, ReceiveMode, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_probe::plan_limits::{LimitError, MAX_RATE_BPS};

/// The minimum rate of the engine.
const MIN_RATE_BPS: u64 = 1000;
/// The interval between samples, small enough to show a ramp.
const INTERVAL_US: u64 = 100_000;

/// Converts a test. iperf3's rates are per stream, those of a plan for all streams together.
pub fn convert_test(test: &RequestedTest) -> ThroughputPlan {
    let all = |each: u64| each.saturating_mul(u64::from(test.streams)).min(MAX_RATE_BPS);
    let rate = test.rate_bps.map(|each| all(each.max(MIN_RATE_BPS)));
    let window = test.window_bytes.map(u64::from);
    let transport = match test.transport {
        iperf3_messages::TestTransport::Tcp => RunTransport::Tcp,
        iperf3_messages::TestTransport::Udp => {
            RunTransport::Udp { rate_bps: rate.unwrap_or(MAX_RATE_BPS) }
        }
    };
    ThroughputPlan {
        direction: match test.direction {
            iperf3_messages::TestDirection::Forward => RunDirection::Forward,
            iperf3_messages::TestDirection::Reverse => RunDirection::Reverse,
            iperf3_messages::TestDirection::Both => RunDirection::Both,
        },
        transport,
        streams: test.streams,
        stop: convert_stop(test),
        warm_up_us: Some(u64::from(test.omit_seconds) * 1_000_000).filter(|us| *us > 0),
        send_buffer_bytes: window,
        receive_buffer_bytes: window,
        write_bytes: Some(u64::from(test.length_bytes)),
        read_bytes: Some(u64::from(test.length_bytes)),
        congestion_control: test.congestion.clone(),
        pacing_bps: test.fq_rate_bps.map(|each| each.max(MIN_RATE_BPS)),
        write_rate_bps: rate.filter(|_| transport == RunTransport::Tcp),
        mss_bytes: test.mss_bytes.map(u32::from),
        // The lower two bits belong to the network (ECN).
        dscp: Some(test.tos >> 2).filter(|dscp| *dscp > 0),
        no_delay: test.no_delay,
        mode: if test.discards { ReceiveMode::Wire } else { ReceiveMode::Delivered },
        zero_copy: test.zero_copy && transport == RunTransport::Tcp,
        // Only one end is ours, so threads are not pinned; a reader may follow its packets.
        affinity: CoreAffinity::Auto,
        interval_us: INTERVAL_US,
        ..ThroughputPlan::default()
    }
}

/// Maps a violated limit for anonymous clients to an iperf3 error. iperf3 has none for bytes.
pub(crate) fn map_anonymous_limit(error: &LimitError) -> Iperf3Error {
    match error.option {
        "streams" => Iperf3Error::Streams,
        "rate" => Iperf3Error::TotalRate,
        _ => Iperf3Error::Duration,
    }
}

/// Returns the stop rule; a time limit includes the omitted time.
fn convert_stop(test: &RequestedTest) -> StopCondition {
    match test.limit {
        TestLimit::Seconds(seconds) => {
            StopCondition::TimeUs((u64::from(seconds) + u64::from(test.omit_seconds)) * 1_000_000)
        }
        TestLimit::Bytes(bytes) => StopCondition::Bytes(bytes),
        TestLimit::Blocks(blocks) => StopCondition::Blocks(blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3_messages::TestParameters;

    #[test]
    fn rates_are_added_up_and_what_is_omitted_is_warm_up() {
        let asked = TestParameters {
            parallel: Some(4),
            time: Some(3),
            omit: Some(2),
            bandwidth: Some(1_000_000),
            tos: Some(184),
            ..TestParameters::default()
        };
        let plan = convert_test(&RequestedTest::validate(&asked).expect("in range"));
        assert_eq!(plan.write_rate_bps, Some(4_000_000));
        assert_eq!(plan.stop, StopCondition::TimeUs(5_000_000));
        assert_eq!(plan.warm_up_us, Some(2_000_000));
        assert_eq!(plan.dscp, Some(46));
    }
}
