//! A client's request, checked against the ranges of 3.22 and converted to a plan.

use super::{CounterWidth, Iperf3Error, TestParameters};
use longhaul_model::report::v1::plan::{
    CoreAffinity, ReceiveMode, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_probe::plan_limits::MAX_RATE_BPS;

/// The maximum number of parallel streams in one direction.
pub const MAX_STREAMS: i64 = 128;
const MAX_SECONDS: i64 = 86_400;
const MAX_OMIT_SECONDS: i64 = 600;
const MAX_BLOCK_BYTES: i64 = 1 << 20;
const DATAGRAM_BYTES: std::ops::RangeInclusive<i64> = 16..=65_507;
const MAX_WINDOW_BYTES: i64 = 512 << 20;
const MAX_MSS_BYTES: i64 = 32_767;
const MAX_BURST: i64 = 1000;
/// The kernel's limit for names of congestion controls: 15 letters and a zero.
const MAX_NAME_LETTERS: usize = 15;
const DEFAULT_BLOCK_BYTES: i64 = 128 << 10;
const DEFAULT_DATAGRAM_BYTES: i64 = 1460;
const DEFAULT_SECONDS: i64 = 10;
/// The minimum rate of the engine.
const MIN_RATE_BPS: u64 = 1000;
/// The interval between samples, small enough to show a ramp.
const INTERVAL_US: u64 = 100_000;

/// A valid test.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedTest {
    /// The test as a plan for the engine. iperf3's rates are per stream, those of a plan for all
    /// streams together. A time limit includes the omitted time, which is the warm-up.
    pub plan: ThroughputPlan,
    pub counters: CounterWidth,
    pub server_output: bool,
}

impl RequestedTest {
    /// # Errors
    /// The iperf3 error for the first value that is out of range.
    pub fn validate(asked: &TestParameters) -> Result<RequestedTest, Iperf3Error> {
        let udp = parse_udp(asked)?;
        // The engine sends evenly, but a burst out of range is refused as in iperf3.
        check_range(asked.burst, 0..=MAX_BURST, Iperf3Error::Burst)?;
        let direction = parse_direction(asked)?;
        let streams =
            check_range(asked.parallel, 1..=MAX_STREAMS, Iperf3Error::Streams)?.unwrap_or(1) as u32;
        let omit = check_range(asked.omit, 0..=MAX_OMIT_SECONDS, Iperf3Error::Omit)?.unwrap_or(0);
        let stop = parse_stop(asked, omit)?;
        let block_bytes = Some(parse_length(asked, udp)?);
        let window = check_positive(asked.window, MAX_WINDOW_BYTES, Iperf3Error::Window)?
            .map(|bytes| bytes as u64);
        let mss = check_positive(asked.mss, MAX_MSS_BYTES, Iperf3Error::Mss)?;
        let tos = check_range(asked.tos, 0..=255, Iperf3Error::Tos)?.unwrap_or(0) as u8;
        let congestion_control = parse_congestion(asked)?;
        let rate = parse_rate(asked.bandwidth, Iperf3Error::TotalRate)?
            .map(|each| each.saturating_mul(u64::from(streams)).min(MAX_RATE_BPS));
        let plan = ThroughputPlan {
            direction,
            transport: if udp {
                RunTransport::Udp { rate_bps: rate.unwrap_or(MAX_RATE_BPS) }
            } else {
                RunTransport::Tcp
            },
            streams,
            stop,
            warm_up_us: (omit > 0).then(|| to_micros(omit)),
            send_buffer_bytes: window,
            receive_buffer_bytes: window,
            write_bytes: block_bytes,
            read_bytes: block_bytes,
            congestion_control,
            pacing_bps: parse_rate(asked.fqrate, Iperf3Error::Pacing)?,
            write_rate_bps: rate.filter(|_| !udp),
            mss_bytes: mss.map(|bytes| bytes as u32),
            // The lower two bits belong to the network (ECN).
            dscp: Some(tos >> 2).filter(|dscp| *dscp > 0),
            dont_fragment: asked.dont_fragment && udp,
            no_delay: asked.nodelay,
            mode: if asked.skip_rx_copy { ReceiveMode::Wire } else { ReceiveMode::Delivered },
            zero_copy: asked.zerocopy && !udp,
            // Only one end is ours, so threads are not pinned; a reader may follow its packets.
            affinity: CoreAffinity::Auto,
            interval_us: INTERVAL_US,
            ..ThroughputPlan::default()
        };
        let counters =
            if asked.udp_counters_64bit { CounterWidth::Bits64 } else { CounterWidth::Bits32 };
        Ok(RequestedTest { plan, counters, server_output: asked.get_server_output })
    }

    /// Returns whether the test sends datagrams.
    pub fn is_udp(&self) -> bool {
        self.plan.transport != RunTransport::Tcp
    }

    /// Returns the number of streams in both directions.
    pub fn all_streams(&self) -> usize {
        let ways = if self.plan.direction == RunDirection::Both { 2 } else { 1 };
        ways * self.plan.streams as usize
    }

    /// Returns the place of the first stream on which the server sends. In bidirectional tests,
    /// the client first opens the streams on which it sends.
    pub fn first_sending(&self) -> usize {
        match self.plan.direction {
            RunDirection::Reverse => 0,
            RunDirection::Forward | RunDirection::Both => self.plan.streams as usize,
        }
    }
}

fn to_micros(seconds: i64) -> u64 {
    seconds as u64 * 1_000_000
}

fn check_range(
    value: Option<i64>,
    range: std::ops::RangeInclusive<i64>,
    trouble: Iperf3Error,
) -> Result<Option<i64>, Iperf3Error> {
    match value {
        Some(value) if !range.contains(&value) => Err(trouble),
        fine => Ok(fine),
    }
}

/// Checks a value of which iperf3 sends zero if nothing was requested.
fn check_positive(
    value: Option<i64>,
    most: i64,
    trouble: Iperf3Error,
) -> Result<Option<i64>, Iperf3Error> {
    Ok(check_range(value, 0..=most, trouble)?.filter(|&value| value > 0))
}

fn parse_udp(asked: &TestParameters) -> Result<bool, Iperf3Error> {
    match (asked.sctp || asked.mptcp, asked.tcp, asked.udp) {
        (true, ..) => Err(Iperf3Error::Unimplemented),
        (_, true, true) => Err(Iperf3Error::Parameters),
        (_, _, udp) => Ok(udp),
    }
}

fn parse_direction(asked: &TestParameters) -> Result<RunDirection, Iperf3Error> {
    match (asked.reverse, asked.bidirectional) {
        (true, true) => Err(Iperf3Error::ReverseAndBidirectional),
        (true, false) => Ok(RunDirection::Reverse),
        (false, true) => Ok(RunDirection::Both),
        (false, false) => Ok(RunDirection::Forward),
    }
}

fn parse_stop(asked: &TestParameters, omit: i64) -> Result<StopCondition, Iperf3Error> {
    let count = |value| check_positive(value, i64::MAX, Iperf3Error::EndConditions);
    let seconds = check_positive(asked.time, MAX_SECONDS, Iperf3Error::Duration)?;
    match (count(asked.num)?, count(asked.blockcount)?, seconds) {
        (Some(bytes), None, None) => Ok(StopCondition::Bytes(bytes as u64)),
        (None, Some(blocks), None) => Ok(StopCondition::Blocks(blocks as u64)),
        (None, None, seconds) => {
            Ok(StopCondition::TimeUs(to_micros(seconds.unwrap_or(DEFAULT_SECONDS) + omit)))
        }
        _ => Err(Iperf3Error::EndConditions),
    }
}

/// Returns the size of a block or datagram.
fn parse_length(asked: &TestParameters, udp: bool) -> Result<u64, Iperf3Error> {
    let bytes = if udp {
        check_range(asked.len, DATAGRAM_BYTES, Iperf3Error::DatagramSize)?
            .unwrap_or(DEFAULT_DATAGRAM_BYTES)
    } else {
        check_positive(asked.len, MAX_BLOCK_BYTES, Iperf3Error::BlockSize)?
            .unwrap_or(DEFAULT_BLOCK_BYTES)
    };
    Ok(bytes as u64)
}

fn parse_rate(value: Option<i64>, trouble: Iperf3Error) -> Result<Option<u64>, Iperf3Error> {
    Ok(check_positive(value, i64::MAX, trouble)?.map(|rate| (rate as u64).max(MIN_RATE_BPS)))
}

/// Passes only valid names to the kernel.
fn parse_congestion(asked: &TestParameters) -> Result<Option<String>, Iperf3Error> {
    let Some(name) = &asked.congestion else {
        return Ok(None);
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fine = (1..=MAX_NAME_LETTERS).contains(&name.len()) && name.bytes().all(letter);
    fine.then(|| Some(name.clone())).ok_or(Iperf3Error::Congestion)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let plan = RequestedTest::validate(&asked).expect("in range").plan;
        assert_eq!(plan.write_rate_bps, Some(4_000_000));
        assert_eq!(plan.stop, StopCondition::TimeUs(5_000_000));
        assert_eq!(plan.warm_up_us, Some(2_000_000));
        assert_eq!(plan.dscp, Some(46));
    }
}
